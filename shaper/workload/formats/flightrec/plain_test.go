// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec/dumptest"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// plain are the files of dumps as PyTorch 2.2 writes them.
func plain(dumps ...*dumptest.Dump) (out []input.File) {
	for _, d := range dumps {
		out = append(out, d.PlainFile())
	}
	return out
}

func TestPlainList(t *testing.T) {
	step := func(rank int) *dumptest.Dump {
		return dumptest.New(rank).Call("", "all_reduce", 1, 0, ones, ones).Call("", "_all_gather_base", 2, 0, ones,
			[][]int{{16}})
	}
	tensor := func(rank int) *dumptest.Dump {
		return dumptest.New(rank).Call("", "all_reduce", 1, 0, ones, ones).Call("", "_reduce_scatter_base", 1, 0,
			[][]int{{16}}, ones).Set("pg_id", 1)
	}
	for name, test := range map[string]struct {
		files []input.File
		want  []string
		says  []string // in what the source does not say and in the notes
	}{
		"two ranks": {
			plain(step(0), step(1)), slices.Repeat([]string{"0:AllReduce*8/0 0:AllGather*8/0"}, 2),
			[]string{"the ranks of group 0 (default_pg): all ranks of the job are taken",
				"the type of the elements of 4 calls: float32 is taken"},
		},
		// Ranks 0-1 and 2-3 have a group each, which is number 1 on all of them. What goes in and comes out says that
		// two ranks are in it.
		"groups of one number": {
			plain(tensor(0), tensor(1), tensor(2), tensor(3)),
			slices.Repeat([]string{"0:AllReduce*8/0 1:ReduceScatter*8/0"}, 4),
			[]string{"the ranks of a group 1: its calls are of 2 ranks; ranks in a row are taken, 0-1",
				"the ranks of a group 1: its calls are of 2 ranks; ranks in a row are taken, 2-3"},
		},
		"a group of unknown size": {
			plain(step(0).Call("", "all_reduce", 1, 0, ones, ones).Set("pg_id", 1),
				step(1).Call("", "all_reduce", 1, 0, ones, ones).Set("pg_id", 1)),
			slices.Repeat([]string{"0:AllReduce*8/0 0:AllGather*8/0 1:AllReduce*8/0"}, 2),
			[]string{
				"the ranks of group 1: those that called it are taken, 0-1; these may be several groups, because each rank of PyTorch 2.2 numbers its own groups"},
		},
		// One number counts all calls of a group: rank 0 has sent twice before its second collective, rank 1 has
		// received once.
		"messages": {
			plain(dumptest.New(0).Call("", "all_reduce", 1, 0, ones, ones).Call("", "send", 2, 0, ones, nil).Call("",
				"send", 3, 0, ones, nil).Call("", "all_reduce", 4, 0, ones, ones),
				dumptest.New(1).Call("", "all_reduce", 1, 0, ones, ones).Call("", "recv", 2, 0, ones, nil).Call("",
					"all_reduce", 3, 0, ones, ones)),
			slices.Repeat([]string{"0:AllReduce*8/0 0:AllReduce*8/0"}, 2),
			[]string{"sends and receives of which the dump does not say the other rank: 3, left out"},
		},
		"begins late": {
			plain(dumptest.New(0).Call("", "all_reduce", 4, 0, ones, ones).Call("", "_all_gather_base", 5, 0, ones,
				[][]int{{16}}), dumptest.New(1).Call("", "_all_gather_base", 5, 0, ones, [][]int{{16}})),
			slices.Repeat([]string{"0:AllGather*8/0"}, 2),
			[]string{"rank 0: the recorder had overwritten at least its first 3 calls",
				"1 call: left out, because another rank's recorder had overwritten it"},
		},
		"hangs": {
			plain(step(0).Call("", "all_reduce", 3, 0, ones, ones).Running(), step(1)),
			slices.Repeat([]string{"0:AllReduce*8/0 0:AllGather*8/0"}, 2),
			[]string{"all_reduce #3 of group 0 (default_pg): left out, not called by rank 1"},
		},
	} {
		w, err := Read(test.files, input.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := calls(t, w); !slices.Equal(got, test.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
		said := append(w.Head.Source.Missing, w.Head.Source.Notes...)
		for _, want := range test.says {
			if !slices.Contains(said, want) {
				t.Errorf("%s: %q, want %q", name, said, want)
			}
		}
	}
}

// Times are in microseconds there.
func TestPlainTimes(t *testing.T) {
	w, err := Read(plain(dumptest.New(0).Call("", "all_reduce", 1, 0, ones, ones).Call("", "all_reduce", 2, 0, ones,
		ones)), input.Options{OneForAll: true, Ranks: 4})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Ops) != 3 || w.Ops[1].Nanos != 1_000_000 || w.Head.Ranks != 4 {
		t.Errorf("%d ranks: %+v", w.Head.Ranks, w.Ops)
	}
}

func TestPlainRefused(t *testing.T) {
	for name, test := range map[string]struct {
		file input.File
		want string
	}{
		"empty":      {dumptest.New(0).PlainFile(), "the flight recorder was empty"},
		"other list": {input.Bytes("0", []byte("\x80\x02](K\x01K\x02e.")), "no dump of a flight recorder"},
		"no ranks": {dumptest.New(0).Call("", "all_reduce", 1, 0, ones, ones).PlainFile(),
			"does not say which ranks group 0 (default_pg) has: give the dumps of all ranks, or add --ranks N"},
		"time too far": {dumptest.New(0).Call("", "all_reduce", 1, 0, ones, ones).Set("time_created_ns",
			int64(-1000)).PlainFile(), "no call"},
	} {
		_, err := Read([]input.File{test.file}, input.Options{OneForAll: true})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
