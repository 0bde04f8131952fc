// SPDX-License-Identifier: Apache-2.0

package desync

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec/dumptest"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

var ones = [][]int{{8}}

// text is a report in short: a line for each call, message and last call.
func text(r *Report) string {
	var lines []string
	for _, c := range r.Calls {
		line := fmt.Sprintf("%s #%d %s called %s", c.Function, c.Sequence, c.Name, c.Begun)
		for _, part := range []struct {
			name, ranks string
		}{{"missing", c.Missing.String()}, {"waiting", c.Waiting.String()}, {"timed out", c.TimedOut.String()},
			{"unknown", c.Unknown.String()}, {"no dump", c.NoDump.String()}} {
			if part.ranks != "" {
				line += " " + part.name + " " + part.ranks
			}
		}
		for _, d := range c.Differs {
			line += fmt.Sprintf(" rank %d %s: %s not %s", d.Rank, d.What, d.Has, d.OthersHas)
		}
		if c.Later > 0 {
			line += fmt.Sprintf(" later %d", c.Later)
		}
		lines = append(lines, line)
	}
	for _, m := range r.Messages {
		line := fmt.Sprintf("%d->%d #%d %s", m.From, m.To, m.Sequence, m.Problem)
		if m.Has != "" {
			line += ": " + m.Tensors + ", " + m.Has
		}
		if m.Later > 0 {
			line += fmt.Sprintf(" later %d", m.Later)
		}
		lines = append(lines, line)
	}
	for _, l := range r.Last {
		lines = append(lines, fmt.Sprintf("last of %d: %s #%d %s", l.Rank, l.Function, l.Sequence, l.State))
	}
	for _, s := range r.Shared {
		for _, l := range s.Last {
			lines = append(lines, fmt.Sprintf("%s without %s: last of %s: %s #%d %s", s.Name, s.NoDump, l.Ranks,
				l.Function, l.Sequence, l.State))
		}
	}
	return strings.Join(lines, "\n")
}

func TestOf(t *testing.T) {
	const world = "[0, 1, 2]"
	// begun is the dump of a rank that has completed one all_reduce.
	begun := func(rank int) *dumptest.Dump {
		return dumptest.New(rank, "0", world).Call("0", "all_reduce", 1, 0, ones, ones)
	}
	running := func(rank int, name string, size int) *dumptest.Dump {
		return begun(rank).Call("0", name, 2, 0, [][]int{{size}}, [][]int{{size}}).Running()
	}
	pair := []string{"0", "[0, 1]"}
	for name, test := range map[string]struct {
		dumps []*dumptest.Dump
		want  string
	}{
		"nothing": {[]*dumptest.Dump{begun(0), begun(1), begun(2)}, ""},
		"missing": {[]*dumptest.Dump{running(0, "all_reduce", 8), begun(1), running(2, "all_reduce", 8)},
			"all_reduce #2 0 called 0,2 missing 1 waiting 0,2\nlast of 1: all_reduce #1 completed"},
		"no call": {[]*dumptest.Dump{running(0, "all_reduce", 8), dumptest.New(1, "0", world),
			running(2, "all_reduce", 8)},
			"all_reduce #1 0 called 0,2 missing 1 later 1\nlast of 1:  #0 "},
		"all wait": {[]*dumptest.Dump{running(0, "all_reduce", 8), running(1, "all_reduce", 8),
			running(2, "all_reduce", 8).Set("state", "completed")},
			"all_reduce #2 0 called 0-2 waiting 0-1"},
		"timed out": {[]*dumptest.Dump{running(0, "all_reduce", 8).Set("retired", true), running(1, "all_reduce", 8),
			running(2, "all_reduce", 8)},
			"all_reduce #2 0 called 0-2 waiting 1-2 timed out 0"},
		"elements": {[]*dumptest.Dump{running(0, "all_reduce", 9), running(1, "all_reduce", 8),
			running(2, "all_reduce", 8)},
			"all_reduce #2 0 called 0-2 waiting 0-2 rank 0 elements: 9 not 8"},
		"function": {[]*dumptest.Dump{running(0, "all_reduce", 8), running(1, "broadcast", 8),
			running(2, "all_reduce", 8)},
			"all_reduce #2 0 called 0-2 waiting 0-2 rank 1 function: broadcast not all_reduce"},
		"type": {[]*dumptest.Dump{running(0, "all_reduce", 8), running(1, "all_reduce", 8),
			running(2, "all_reduce", 8).Set("input_dtypes", []string{"Half"})},
			"all_reduce #2 0 called 0-2 waiting 0-2 rank 2 type: Half not Float"},
		// NCCL does not see shapes.
		"shape": {[]*dumptest.Dump{begun(0).Set("input_sizes", [][]int{{2, 4}}), begun(1), begun(2)}, ""},
		"all-to-all": {[]*dumptest.Dump{running(0, "all_to_all", 8).Set("input_sizes", [][]int{{9}}),
			running(1, "all_to_all", 8), running(2, "all_to_all", 8)},
			"all_to_all #2 0 called 0-2 waiting 0-2 rank -1 elements of all ranks: 25 go in not 24 come out"},
		"even all-to-all": {[]*dumptest.Dump{begun(0).Call("0", "all_to_all", 2, 0, [][]int{{6}}, [][]int{{10}}),
			begun(1).Call("0", "all_to_all", 2, 0, [][]int{{10}}, [][]int{{6}}), begun(2).Call("0", "all_to_all", 2, 0,
				ones, ones)}, ""},
		"gather": {[]*dumptest.Dump{begun(0).Call("0", "gather", 2, 0, ones, [][]int{{8}, {8}, {8}}),
			begun(1).Call("0", "gather", 2, 0, ones, [][]int{{0}}),
			begun(2).Call("0", "gather", 2, 0, ones, nil)}, ""},
		"no dump": {[]*dumptest.Dump{running(0, "all_reduce", 8), running(2, "all_reduce", 8)},
			"all_reduce #2 0 called 0,2 waiting 0,2 no dump 1\n0 without 1: last of 0,2: all_reduce #2 not ended"},
		// All that the ranks with a dump show has ended.
		"no dump, nothing wrong": {[]*dumptest.Dump{begun(0), begun(2)},
			"0 without 1: last of 0,2: all_reduce #1 ended"},
		"no dump, one without a call": {[]*dumptest.Dump{begun(0), dumptest.New(2, "0", world)},
			"all_reduce #1 0 called 0 missing 2 no dump 1\nlast of 2:  #0 \n0 without 1: last of 0: all_reduce #1 ended\n0 without 1: last of 2:  #0 "},
		"no dump of a rank of another group": {
			[]*dumptest.Dump{dumptest.New(0, "0", world, "1", "[0, 2]").Call("1", "all_reduce", 1, 0, ones, ones),
				dumptest.New(2, "0", world, "1", "[0, 2]").Call("1", "all_reduce", 1, 0, ones, ones)}, ""},
		"overwritten": {[]*dumptest.Dump{running(0, "all_reduce", 8), running(1, "all_reduce", 8),
			dumptest.New(2, "0", world, "1", "[2]").Overwritten(5).Call("1", "barrier", 9, 0, nil, nil)},
			"all_reduce #2 0 called 0-1 waiting 0-1 unknown 2"},
		// The recorder of rank 1 begins with the call that hangs: it has made those before.
		"begins late": {
			[]*dumptest.Dump{running(0, "all_reduce", 8),
				dumptest.New(1, "0", world).Overwritten(1).Call("0", "all_reduce", 2, 0, ones, ones).Running(),
				begun(2)},
			"all_reduce #2 0 called 0-1 missing 2 waiting 0-1\nlast of 2: all_reduce #1 completed"},
		"coalesced": {[]*dumptest.Dump{
			dumptest.New(0, pair...).Call("0", "all_reduce", 1, 0, ones, ones).Set("state", "scheduled").Set("retired",
				false).Call("0", "all_reduce", 1, 0, ones, ones).Set("state", "scheduled").Call("0", "coalesced", 1, 0,
				nil, nil),
			dumptest.New(1, pair...).Call("0", "all_reduce", 1, 0, ones, ones).Set("state", "scheduled").Call("0",
				"coalesced", 1, 0, nil, nil).Running()},
			"all_reduce and 1 more at once #1 0 called 0-1 waiting 1 rank 1 number of calls: 1 not 2"},
		"no send": {[]*dumptest.Dump{dumptest.New(0, pair...).Call("0", "all_reduce", 1, 0, ones, ones),
			dumptest.New(1, pair...).Call("0", "all_reduce", 1, 0, ones, ones).Call("0", "recv 1<-0", 1, 1, ones,
				ones).Running()},
			"0->1 #1 the sender has not called\nlast of 0: all_reduce #1 completed"},
		"no receive": {
			[]*dumptest.Dump{dumptest.New(0, pair...).Call("0", "send 0->1", 0, 1, ones, ones).Call("0", "send 0->1", 0,
				2, ones, ones).Running().Call("0", "send 0->1", 0, 3, ones, ones).Running(),
				dumptest.New(1, pair...).Call("0", "recv 1<-0", 0, 1, ones, ones)},
			"0->1 #2 the receiver has not called later 1\nlast of 1: recv 1<-0 #1 completed"},
		"message differs": {
			[]*dumptest.Dump{dumptest.New(0, pair...).Call("0", "send 0->1", 0, 1, ones, ones).Running(),
				dumptest.New(1, pair...).Call("0", "recv 1<-0", 0, 1, [][]int{{9}}, [][]int{{9}}).Running()},
			"0->1 #1 the receiver expects something else: Float [8], Float [9]"},
		"message runs": {[]*dumptest.Dump{dumptest.New(0, pair...).Call("0", "send 0->1", 0, 1, ones, ones).Running(),
			dumptest.New(1, pair...).Call("0", "recv 1<-0", 0, 1, ones, ones).Running()},
			"0->1 #1 both have called, it has not ended"},
		"message without a dump": {
			[]*dumptest.Dump{dumptest.New(0, pair...).Call("0", "send 0->1", 0, 1, ones, ones).Call("0", "send 0->1", 0,
				2, ones, ones).Running()},
			"0->1 #2 no dump of the other rank\n0 without 1: last of 0: send 0->1 #2 not ended"},
		// The recorder of rank 0 has overwritten its first two sends: what has ended is not compared.
		"messages begin late": {
			[]*dumptest.Dump{dumptest.New(0, pair...).Overwritten(2).Call("0", "send 0->1", 0, 3, ones, ones),
				dumptest.New(1, pair...).Call("0", "recv 1<-0", 0, 1, ones, ones).Call("0", "recv 1<-0", 0, 2, ones,
					ones).Call("0", "recv 1<-0", 0, 3, ones, ones)}, ""},
	} {
		j, err := flightrec.ReadJob(dumptest.Files(test.dumps...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := strings.ReplaceAll(test.want, "completed", "ended")
		if got := text(Of(j)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Dumps of PyTorch 2.15: the rank that is missing is named, as by PyTorch's own analyser.
func TestRealDumps(t *testing.T) {
	const data = "../../shaper/workload/formats/flightrec/testdata"
	for _, test := range []struct{ pattern, want string }{
		{"hang/*", "all_reduce #5 0 called 0-1,3 missing 2\nlast of 2: broadcast #4 its end is not recorded"},
		{"gloo/*", "all_reduce #5 0 called 0-1,3 missing 2 waiting 1,3\nlast of 2: broadcast #4 ended"},
		{"pipeline/*", "1->2 #2 the sender has not called\nlast of 1: recv 1<-0 #1 its end is not recorded"},
	} {
		names, err := filepath.Glob(filepath.Join(data, test.pattern))
		if err != nil || len(names) != 4 {
			t.Fatal(names, err)
		}
		j, err := flightrec.ReadJob(input.Paths(names))
		if err != nil {
			t.Fatal(err)
		}
		if got := text(Of(j)); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.pattern, got, test.want)
		}
	}
}

// Dumps of PyTorch 2.2 list no groups and do not say to whom a rank sends.
func TestPlainList(t *testing.T) {
	files := []input.File{
		dumptest.New(0).Call("", "all_reduce", 1, 0, ones, ones).Call("", "send", 2, 0, ones, nil).Call("",
			"all_reduce", 3, 0, ones, ones).PlainFile(),
		dumptest.New(1).Call("", "all_reduce", 1, 0, ones, ones).PlainFile(),
	}
	j, err := flightrec.ReadJob(files)
	if err != nil {
		t.Fatal(err)
	}
	r := Of(j)
	if got, want := text(r), "all_reduce #2 0 called 0 missing 1\nlast of 1: all_reduce #1 ended"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if want := "rank 0: 1 sends and receives do not say the other rank: they are not compared"; !slices.Contains(
		r.Notes, want) {
		t.Errorf("%q, want %q", r.Notes, want)
	}
}
