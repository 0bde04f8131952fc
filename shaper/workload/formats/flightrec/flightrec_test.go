// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec/dumptest"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank/perranktest"
)

// calls are the calls of each rank as text, without computations.
func calls(t *testing.T, w *workload.Workload) (out []string) {
	t.Helper()
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	lists, err := perranktest.Split(w)
	if err != nil {
		t.Fatal(err)
	}
	var one func(o workload.Op) string
	one = func(o workload.Op) string {
		switch o.Kind {
		case workload.Calc:
			return ""
		case workload.Group:
			var parts []string
			for _, inner := range o.Ops {
				parts = append(parts, one(inner))
			}
			return "(" + strings.Join(parts, " ") + ")"
		case workload.Coll:
			return fmt.Sprintf("%s:%s*%d/%d", o.Comm, o.Func, o.Count, o.Root)
		}
		return fmt.Sprintf("%s:%s*%d@%d", o.Comm, o.Kind, o.Count, o.Peer)
	}
	for _, list := range lists {
		var parts []string
		for _, o := range list {
			if text := one(o); text != "" {
				parts = append(parts, text)
			}
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

var ones = [][]int{{8}}

func TestRead(t *testing.T) {
	world := []string{"0", "[0, 1]"}
	for name, test := range map[string]struct {
		files []input.File
		want  []string
		note  string
	}{
		"collectives": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "all_reduce", 1, 0, ones, ones).Call("0",
				"_all_gather_base", 2, 0, ones, [][]int{{2, 8}}).
				Call("0", "_reduce_scatter_base", 3, 0, [][]int{{16}}, ones).Call("0", "all_to_all", 4, 0, ones,
				ones).Call("0", "all_reduce_barrier", 5, 0, [][]int{{1}}, [][]int{{1}}),
				dumptest.New(1, world...).Call("0", "all_reduce", 1, 0, ones, ones).Call("0", "_all_gather_base", 2, 0,
					ones, [][]int{{2, 8}}).
					Call("0", "_reduce_scatter_base", 3, 0, [][]int{{16}}, ones).Call("0", "all_to_all", 4, 0, ones,
					ones).Call("0", "all_reduce_barrier", 5, 0, [][]int{{1}}, [][]int{{1}})),
			slices.Repeat([]string{
				"0:AllReduce*8/0 0:AllGather*8/0 0:ReduceScatter*8/0 0:AllToAll*4/0 0:AllReduce*1/0"}, 2), "",
		},
		// As ProcessGroupNCCL records them: the root has the list, others have an undefined tensor. Its scatter has
		// input and output exchanged.
		"roots": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "gather", 1, 0, ones, [][]int{{0}}).Call("0", "scatter",
				2, 0, ones, [][]int{{0}}),
				dumptest.New(1, world...).Call("0", "gather", 1, 0, ones, [][]int{{8}, {8}}).Call("0", "scatter", 2, 0,
					ones, [][]int{{8}, {8}})),
			slices.Repeat([]string{"0:Gather*8/1 0:Scatter*8/1"}, 2), "",
		},
		"uneven all-to-all": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "all_to_all", 1, 0, [][]int{{10}}, [][]int{{6}}),
				dumptest.New(1, world...).Call("0", "all_to_all", 1, 0, [][]int{{6}}, [][]int{{10}})),
			slices.Repeat([]string{"0:AllToAll*4/0"}, 2),
			"2 calls: an all-to-all or all-gather with parts that differ; the mean stands for them",
		},
		"coalesced": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "allreduce_coalesced", 1, 0, [][]int{{8}, {4}},
				[][]int{{8}, {4}}).
				Call("0", "_all_gather_base", 2, 0, ones, [][]int{{16}}).Call("0", "_all_gather_base", 2, 0,
				[][]int{{3}}, [][]int{{6}}).Call("0", "ALLGATHER_coalesced", 2, 0, nil, nil),
				dumptest.New(1, world...).Call("0", "allreduce_coalesced", 1, 0, [][]int{{8}, {4}}, [][]int{{8}, {4}}).
					Call("0", "_all_gather_base", 2, 0, ones, [][]int{{16}}).Call("0", "_all_gather_base", 2, 0,
					[][]int{{3}}, [][]int{{6}}).Call("0", "ALLGATHER_coalesced", 2, 0, nil, nil)),
			slices.Repeat([]string{"(0:AllReduce*8/0 0:AllReduce*4/0) (0:AllGather*8/0 0:AllGather*3/0)"}, 2), "",
		},
		"hidden": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "coalesced", 1, 0, nil, nil).Call("0", "all_reduce", 2,
				0, ones, ones),
				dumptest.New(1, world...).Call("0", "coalesced", 1, 0, nil, nil).Call("0", "all_reduce", 2, 0, ones,
					ones)),
			slices.Repeat([]string{"0:AllReduce*8/0"}, 2), "2 coalesced groups: left out",
		},
		// Rank 1 has overwritten its first two calls.
		"begins late": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "all_reduce", 1, 0, ones, ones).Call("0", "broadcast", 2,
				0, ones, ones).Call("0", "reduce", 3, 0, ones, ones),
				dumptest.New(1, world...).Overwritten(2).Call("0", "reduce", 3, 0, ones, ones)),
			slices.Repeat([]string{"0:Reduce*8/0"}, 2),
			"2 calls: left out, because another rank's recorder had overwritten it",
		},
		"not called": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "all_reduce", 1, 0, ones, ones).Call("0", "broadcast", 2,
				0, ones, ones).Running(),
				dumptest.New(1, world...).Call("0", "all_reduce", 1, 0, ones, ones)),
			slices.Repeat([]string{"0:AllReduce*8/0"}, 2),
			"broadcast #2 of group 0 (desc0): left out, not called by rank 1",
		},
		"not completed": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "all_reduce", 1, 0, ones, ones).Set("state", "started"),
				dumptest.New(1, world...).Call("0", "all_reduce", 1, 0, ones, ones)),
			slices.Repeat([]string{"0:AllReduce*8/0"}, 2), "all_reduce #1 of group 0 (desc0): not completed on rank 0",
		},
		"single messages": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "send 0->1", 0, 1, ones, ones).Call("0", "recv 0<-1", 0,
				2, ones, ones),
				dumptest.New(1, world...).Call("0", "recv 1<-0", 0, 1, ones, ones).Call("0", "send 1->0", 0, 2, ones,
					ones).Call("0", "send 1->0", 0, 3, ones, ones)),
			[]string{"0 0:1:send*8@1 0 0:1:recv*8@1", "0 0:1:recv*8@0 0 0:1:send*8@0"},
			"sends and receives of which no dump has the other half: 1, left out",
		},
		// A pipeline of 3 ranks with batches, which are counted as collectives too: rank 1 has two, the others one.
		"batches": {
			dumptest.Files(dumptest.New(0, "0", "[0, 1, 2]").Call("0", "send 0->1", 1, 1, ones, ones).Call("0",
				"coalesced", 1, 1, nil, nil).Set("is_p2p", true).Call("0", "all_reduce", 2, 1, ones, ones),
				dumptest.New(1, "0", "[0, 1, 2]").Call("0", "recv 1<-0", 1, 1, ones, ones).Call("0", "coalesced", 1, 1,
					nil, nil).Set("is_p2p", true).
					Call("0", "send 1->2", 2, 2, ones, ones).Call("0", "coalesced", 2, 2, nil, nil).Set("is_p2p",
					true).Call("0", "all_reduce", 3, 2, ones, ones),
				dumptest.New(2, "0", "[0, 1, 2]").Call("0", "recv 2<-1", 1, 1, ones, ones).Call("0", "coalesced", 1, 1,
					nil, nil).Set("is_p2p", true).Call("0", "all_reduce", 2, 1, ones, ones)),
			[]string{"0 0:1:send*8@1 0:AllReduce*8/0", "0 0:1:recv*8@0 0 1:2:send*8@1 0:AllReduce*8/0",
				"0 1:2:recv*8@0 0:AllReduce*8/0"}, "",
		},
		"batch of two": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "send 0->1", 0, 1, ones, ones).Call("0", "recv 0<-1", 0,
				1, ones, ones).Call("0", "coalesced", 0, 1, nil, nil).Set("is_p2p", true),
				dumptest.New(1, world...).Call("0", "send 1->0", 0, 1, ones, ones).Call("0", "recv 1<-0", 0, 1, ones,
					ones).Call("0", "coalesced", 0, 1, nil, nil).Set("is_p2p", true)),
			[]string{"(0:send*8@1 0:recv*8@1)", "(0:send*8@0 0:recv*8@0)"}, "",
		},
		"groups of one name": {
			dumptest.Files(dumptest.New(0, "tp", "[0, 2]").Call("tp", "all_reduce", 1, 0, ones, ones),
				dumptest.New(1, "tp", "[1, 3]").Call("tp", "all_reduce", 1, 0, ones, ones),
				dumptest.New(2, "tp", "[0, 2]").Call("tp", "all_reduce", 1, 0, ones, ones),
				dumptest.New(3, "tp", "[1, 3]").Call("tp", "all_reduce", 1, 0, ones, ones)),
			slices.Repeat([]string{"tp:AllReduce*8/0"}, 4), "",
		},
		"not understood": {
			dumptest.Files(dumptest.New(0, world...).Call("0", "all_reduce", 1, 0, ones, ones).Call("0", "fly", 2, 0,
				ones, ones).Call("0", "all_to_all", 3, 0, nil, nil).Call("0", "all_reduce", 4, 0, ones, ones).Set(
				"state", "lost"),
				dumptest.New(1, world...).Call("0", "all_reduce", 1, 0, ones, ones).Call("0", "fly", 2, 0, ones,
					ones).Call("0", "all_to_all", 3, 0, nil, nil)),
			slices.Repeat([]string{"0:AllReduce*8/0"}, 2),
			`2 calls: left out, not understood, such as "fly": no such collective is known`,
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
		notes := strings.Join(w.Head.Source.Notes, "\n")
		if test.note == "" && notes != "" || !strings.Contains(notes, test.note) {
			t.Errorf("%s: notes %q, want %q", name, notes, test.note)
		}
	}
}

// The time between two calls of the host is a computation.
func TestGaps(t *testing.T) {
	m := dumptest.New(0, "0", "[0, 1]").Call("0", "all_reduce", 1, 0, ones, ones).Call("0", "all_reduce", 2, 0, ones,
		ones)
	w, err := Read(dumptest.Files(m), input.Options{OneForAll: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Ops) != 3 || w.Ops[1].Kind != workload.Calc || w.Ops[1].Nanos != 1_000_000 ||
		w.Ops[2].After[0] != w.Ops[1].ID {
		t.Errorf("%+v", w.Ops)
	}
	if !strings.Contains(w.Head.Source.Missing[0], "what other ranks do: all 2 are taken to do what rank 0 did") ||
		w.Head.Source.Hardware != "NCCL 2.27.5" {
		t.Errorf("%+v", w.Head.Source)
	}
}

// A clock that jumps makes no computation, and the next call counts from the new time. It is told.
func TestClockJumps(t *testing.T) {
	const now, ms = 1_700_000_000_000_000_000, 1_000_000
	for name, test := range map[string]struct {
		times []int64
		calcs []int64
		jumps int
	}{
		"none":         {[]int64{now, now + ms, now + 3*ms}, []int64{ms, 2 * ms}, 0},
		"to the end":   {[]int64{now, math.MaxInt64, now, now + ms}, []int64{ms}, 2},
		"of 2^63":      {[]int64{1, math.MinInt64, now, now + ms}, []int64{ms}, 1},
		"from 1970":    {[]int64{1, now, now + ms}, []int64{ms}, 1},
		"out of order": {[]int64{now + ms, now, now + 3*ms}, []int64{2 * ms}, 0},
		"two years":    {[]int64{now, now + workload.MaxNanos}, []int64{workload.MaxNanos}, 0},
	} {
		d := dumptest.New(0, "0", "[0, 1]")
		for i, at := range test.times {
			d.Call("0", "all_reduce", i+1, 0, ones, ones).Set("time_created_ns", at)
		}
		w, err := Read(dumptest.Files(d), input.Options{OneForAll: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var calcs []int64
		for _, o := range w.Ops {
			if o.Kind == workload.Calc {
				calcs = append(calcs, o.Nanos)
			}
		}
		want := fmt.Sprintf("more than two years from the call before: %d,", test.jumps)
		notes := strings.Join(w.Head.Source.Notes, "\n")
		if !slices.Equal(calcs, test.calcs) || strings.Contains(notes, want) != (test.jumps > 0) {
			t.Errorf("%s: computations %v, want %v; notes %q", name, calcs, test.calcs, notes)
		}
	}
}

// The dumps of a job of PyTorch 2.15 in which rank 2 does not make the last call: the rest becomes a workload.
func TestRealDumps(t *testing.T) {
	const step, tp = "0:AllReduce*1024/0 1:AllGather*16/0 0:Broadcast*64/0",
		"0:AllReduce*1024/0 2:AllGather*16/0 0:Broadcast*64/0"
	want := []string{step + " " + step, step + " " + step, tp + " " + tp, tp + " " + tp}
	for pattern, guess := range map[string]string{"testdata/hang/*": "",
		"testdata/gloo/*": "the ranks of group 1 (tp): those that called it are taken, 0-1"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) != 4 {
			t.Fatal(names, err)
		}
		w, err := Read(input.Paths(names), input.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := calls(t, w); !slices.Equal(got, want) {
			t.Errorf("%s: %s", pattern, strings.Join(got, "\n"))
		}
		if notes := w.Head.Source.Notes; len(notes) != 1 ||
			notes[0] != "all_reduce #5 of group 0 (default_pg): left out, not called by rank 2" {
			t.Errorf("%s: %q", pattern, notes)
		}
		if missing := strings.Join(w.Head.Source.Missing, "\n"); !strings.Contains(missing, guess) {
			t.Errorf("%s: %s", pattern, missing)
		}
	}
}

// Dumps say in which line of the program a call was made.
func TestPlaces(t *testing.T) {
	j, err := ReadJob([]input.File{input.Path("testdata/hang/nccl_trace_rank_1")})
	if err != nil {
		t.Fatal(err)
	}
	d := j.Dumps[0]
	if e := d.At(d.Len() - 1); e.Where == nil || *e.Where != "train.py:26 in missing" || d.Rank != 1 || j.World != 4 ||
		d.Version != "2.10" {
		t.Errorf("%v, rank %d of %d, version %s", e.Where, d.Rank, j.World, d.Version)
	}
}

// The files of PyTorch are no place; those of a program in a folder torch are.
func TestPlaceOfProgram(t *testing.T) {
	for name, want := range map[string]bool{
		"/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py": false,
		"/usr/lib/python3/dist-packages/torch/_compile.py":                             false,
		"/src/pytorch/torch/nn/parallel/distributed.py":                                false,
		"/home/a/torch/train.py":                                                       true, "/job/train.py": true,
		"/job/loop.cpp": false,
	} {
		if got := newReader(nil).place([]codeLine{{"step", name, 7}}); (got != nil) != want ||
			want && *got != "train.py:7 in step" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRefused(t *testing.T) {
	world := []string{"0", "[0, 1]"}
	call := func(m *dumptest.Dump) *dumptest.Dump { return m.Call("0", "all_reduce", 1, 0, ones, ones) }
	real, err := os.ReadFile("testdata/hang/nccl_trace_rank_0")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		files []input.File
		want  string
	}{
		"a rank is missing": {dumptest.Files(call(dumptest.New(0, "0", "[0, 1, 2]")),
			call(dumptest.New(1, "0", "[0, 1, 2]"))), "no dump is of 2: give the dumps of all ranks"},
		"twice": {dumptest.Files(call(dumptest.New(1, world...)), call(dumptest.New(1, world...))),
			"are both of rank 1"},
		"no rank": {[]input.File{input.Bytes("a", []byte(`{"entries":[]}`)),
			input.Bytes("b", []byte(`{"entries":[]}`))}, "a does not say of which rank it is"},
		"another rank": {dumptest.Files(call(dumptest.New(3, world...)), call(dumptest.New(1, world...))),
			"nccl_trace_rank_3: it is of rank 3 by its name, and calls group 0 (desc0), of ranks 0-1"},
		"another sender": {dumptest.Files(dumptest.New(0, world...).Call("0", "send 1->0", 0, 1, ones, ones)),
			"it is of rank 0 by its name, and has send 1->0"},
		"empty": {dumptest.Files(dumptest.New(0, world...)), "the flight recorder was empty"},
		"messages of one": {dumptest.Files(dumptest.New(0, world...).Call("0", "send 0->1", 0, 1, ones, ones)),
			"give the dumps of all ranks"},
		"foreign": {[]input.File{input.Bytes("0", []byte(`{"version":"2.10"}`))},
			"no dump of a flight recorder"},
		"cut": {[]input.File{input.Bytes("0", real[:1500])},
			"0: byte 1500: the file ends in the middle: it was cut"},
		"cut JSON": {[]input.File{input.Bytes("0", []byte(`{"entries":[{"profiling_name":"nccl:all_r`))},
			"it was cut"},
		"foreign pickle": {[]input.File{input.Bytes("0", []byte("\x80\x02cos\nsystem\nU\x04trueq\x00\x85R."))},
			"builds an object of Python (GLOBAL)"},
		"unknown group": {dumptest.Files(call(dumptest.New(0))), "does not say which ranks group 0 (desc0) has"},
		"nothing known": {dumptest.Files(dumptest.New(0, world...).Call("0", "fly", 1, 0, ones, ones),
			dumptest.New(1, world...).Call("0", "fly", 1, 0, ones, ones)),
			`no call of a process group is understood, such as "fly"`},
	} {
		_, err := Read(test.files, input.Options{OneForAll: true})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Before version 2 a dump has one sequence number, and no name of the group.
func TestVersion1(t *testing.T) {
	dump := func(rank int) input.File {
		return input.Bytes(fmt.Sprintf("trace_%d", rank), []byte(`{"version":"1.4","pg_config":{"0":[0,1]},"entries":[
			{"record_id":0,"pg_id":0,"seq_id":1,"op_id":1,"profiling_name":"nccl:all_reduce","time_created_ns":5,"input_sizes":[[3,4]],"output_sizes":[[3,4]],"state":"completed","retired":true}]}`))
	}
	w, err := Read([]input.File{dump(0), dump(1)}, input.Options{Type: "bfloat16"})
	if err != nil {
		t.Fatal(err)
	}
	if got := calls(t, w); got[0] != "0:AllReduce*12/0" || w.Ops[0].Type != "bfloat16" ||
		!strings.Contains(fmt.Sprint(w.Head.Source.Missing), "the type of the elements of 2 calls: bfloat16 is taken") {
		t.Errorf("%q, %+v, %q", got, w.Ops, w.Head.Source.Missing)
	}
}

func TestRankOfName(t *testing.T) {
	for name, want := range map[string]int{
		"/tmp/nccl_trace_rank_3": 3, "12": 12, "fr_rank0.json.gz": 0, "rank7_step100.pkl": 7, "trace-4.pickle": 4,
		"fr.json": -1, "standard input": -1,
		"nccl_trace_rank_99999999": -1,
	} {
		if got := rankOfName(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"testdata/hang/*", "testdata/pipeline/*", "testdata/gloo/*"} {
		names, _ := filepath.Glob(pattern)
		a, err := os.ReadFile(names[0])
		if err != nil {
			f.Fatal(err)
		}
		b, err := os.ReadFile(names[1])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a, b)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, in := range [][]input.File{{input.Bytes("0", a), input.Bytes("1", b)}, {input.Bytes("0", a)}} {
			w, err := Read(in, input.Options{OneForAll: true, Ranks: 4})
			if err != nil || w.Head.Ranks > 1<<12 {
				continue
			}
			if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
				t.Fatalf("not valid: %v", err)
			}
		}
	})
}
