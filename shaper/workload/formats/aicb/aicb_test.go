// SPDX-License-Identifier: Apache-2.0

package aicb

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

const columns = "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\n"

// call is a line: kind, group, size of the group, bytes, what is additional, and the time.
func call(kind, group, size, bytes, additional, elapsed string) string {
	return "CommType." + kind + "," + group + "," + size + "," + bytes + ",s,None,None," + additional + "," + elapsed +
		",None,None,1\n"
}

func read(text string, o input.Options) (*workload.Workload, error) {
	return Read(input.Bytes("x.csv", []byte(text)), o)
}

// The log of a run has times of calls too: then they are in ms, as those of computations.
func TestLog(t *testing.T) {
	w, err := read(columns+call("computation", "CommGroup.all", "None", "((2 3) (3 4))", "", "1.5")+
		call("all_gather", "CommGroup.dp_group", "4", "1024", "", "0.12")+
		call("reduce_scatter", "CommGroup.tp_group", "2", "64", "", "0.1")+
		call("all_to_all", "CommGroup.ep_group", "2", "30", "", "0.1")+
		call("barrier", "CommGroup.all", "8", "0", "", "0.1")+
		call("epoch_end", "None", "None", "0", "", "9"), input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	coll := func(f workload.Func, comm string, count int64) workload.Op {
		return workload.Op{Kind: workload.Coll, Name: "s", Comm: comm, Func: f, Count: count, Type: "bfloat16"}
	}
	want := []workload.Op{
		{Kind: workload.Calc, Name: "s", Nanos: 1_500_000},
		coll(workload.AllGather, "dp", 128),
		coll(workload.ReduceScatter, "tp", 16),
		coll(workload.AllToAll, "ep", 8), // rounded up
		coll(workload.AllReduce, "world", 1),
		{Kind: workload.Step},
	}
	if d := cmp.Diff(want, w.Ops); d != "" {
		t.Error(d)
	}
	var comms []string
	for _, c := range w.Head.Comms {
		comms = append(comms, c.Name+" "+c.Ranks.String())
	}
	if got := strings.Join(comms,
		"; "); got != "tp 0-1; tp 2-3; tp 4-5; tp 6-7; dp 0-6:2; dp 1-7:2; ep 0,2; ep 1,3; ep 4,6; ep 5,7; world 0-7" {
		t.Error(got)
	}
	if !slices.Contains(w.Head.Source.Missing,
		"what the host did between the lines: the times of calls, which contain waiting, were not used") {
		t.Error(w.Head.Source)
	}
}

// A root that the file does not say is told.
func TestRoots(t *testing.T) {
	w, err := read(columns+call("broadcast", "CommGroup.all", "8", "64", "", "0.1"), input.Options{})
	if want := "the root of 1 call: rank 0 of the group is taken"; err != nil ||
		!slices.Contains(w.Head.Source.Missing, want) {
		t.Errorf("%v %+v, want %q", err, w, want)
	}
}

// The parts of a file are the stages of a pipeline. A stage at an end has no neighbor there. What only one of the first
// and last stages calls is left out.
func TestStages(t *testing.T) {
	embedding := call("all_reduce", "CommGroup.embedding_group", "2", "8", "", "None")
	all := call("all_reduce", "CommGroup.pp_group", "3", "8", "", "None")
	first := call("isend", "CommGroup.pp_group", "1", "64", "send_next", "None")
	last := call("irecv", "CommGroup.pp_group", "1", "64", "recv_prev", "None")
	text := "[ pp_stage0: [rank0, rank1] ]\n" + columns + all + last + first + "[ pp_stage1: [rank2, rank3] ]\n" +
		columns + all + last + first +
		"[ pp_stage2: [rank4, rank5] ]\n" + columns + all + last + first + embedding
	w, err := read(text, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range w.Ops {
		got = append(got, strings.Join([]string{o.Ranks.String(), string(o.Kind), o.Comm, string(rune('0' + o.Peer))},
			" "))
	}
	if want := "0-1 coll pp 0; 0-1 send pp 1; 2-3 coll pp 0; 2-3 recv pp 0; 2-3 send pp 2; 4-5 coll pp 0; 4-5 recv pp 1"; strings.Join(got, "; ") != want {
		t.Errorf("%s, want %s", strings.Join(got, "; "), want)
	}
	notes := strings.Join(w.Head.Source.Notes, "; ")
	if !strings.Contains(notes, "2 messages: left out, before the first") ||
		!strings.Contains(notes, "1 call of the first and the last pipeline stage: left out") {
		t.Error(notes)
	}
	w, err = read(strings.Replace(text, first, first+embedding, 1), input.Options{})
	if err != nil || len(w.Ops) != 9 || w.Head.Comms[2].Name != "embedding" || w.Head.Comms[2].Ranks.String() != "0,4" {
		t.Errorf("%v %+v", err, w)
	}
}

// A file that was cut between two lines is taken, and its notes say what it shows.
func TestCut(t *testing.T) {
	data, err := os.ReadFile("../testdata/aicb.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	const atEnd = "the last line is no epoch_end, with which an epoch ends: the file may be cut"
	for _, test := range []struct {
		lines int
		want  []string
	}{
		{4, []string{"the file shows 1 pipeline stage of 2 ranks: it was cut if the job had more"}},
		{6, []string{"the file shows 1 pipeline stage of 2 ranks: it was cut if the job had more", atEnd}},
		{17, []string{"the file shows 2 pipeline stages of 2 ranks each: it was cut if the job had more", atEnd}},
		{len(lines), []string{"the file shows 2 pipeline stages of 2 ranks each: it was cut if the job had more"}},
	} {
		w, err := read(strings.Join(lines[:test.lines], ""), input.Options{})
		if err != nil {
			t.Errorf("%d lines: %v", test.lines, err)
			continue
		}
		got := slices.DeleteFunc(w.Head.Source.Notes, func(n string) bool { return !strings.Contains(n, "cut") })
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%d lines: %s", test.lines, d)
		}
	}
}

// What a file does not say must be given: the number of ranks, and the size of expert parallel groups.
func TestOptions(t *testing.T) {
	older := "comm_type,comm_group,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\nCommType.reduce,CommGroup.dp_group,64,s,5,None,,None,None,None,1\n"
	w, err := read(older, input.Options{Ranks: 8, Type: "float32"})
	if err != nil || len(w.Ops) != 1 || w.Ops[0].Count != 16 || w.Ops[0].Root != 5 || w.Head.Ranks != 8 {
		t.Errorf("%v %+v", err, w)
	}
	all := strings.NewReplacer("reduce,CommGroup.dp_group", "all_reduce,CommGroup.all", "msg_size",
		"comm_group_size,msg_size", ",64", ",4,64").Replace(older)
	for ranks, want := range map[int]string{0: "<nil>", 4: "<nil>",
		8: "x.csv:1: the file says 4 ranks, --ranks 8: leave it out"} {
		if _, err := read(all, input.Options{Ranks: ranks}); fmt.Sprint(err) != want {
			t.Errorf("--ranks %d: %v, want %s", ranks, err, want)
		}
	}
	experts := "[rank0 ~ rank7]\n" + columns + call("all_to_all", "CommGroup.ep_group", "None", "64", "", "None")
	if w, err = read(experts, input.Options{Experts: 4}); err != nil || len(w.Head.Comms) != 2 ||
		w.Head.Comms[1].Ranks.String() != "4-7" {
		t.Errorf("%v %+v", err, w)
	}
	alone := columns + call("all_reduce", "CommGroup.dp_group", "2", "64", "", "None") +
		call("all_reduce", "CommGroup.pp_group", "1", "64", "", "None")
	if w, err = read(alone, input.Options{}); err != nil || len(w.Ops) != 1 ||
		!slices.Contains(w.Head.Source.Notes, "1 call: left out, in a group of one rank") {
		t.Errorf("%v %+v", err, w)
	}
	untimed := columns + call("computation", "CommGroup.all", "None", "((2 3) (3 4))", "", "None") +
		call("all_reduce", "CommGroup.all", "2", "4", "", "None")
	if w, err = read(untimed, input.Options{}); err != nil || len(w.Ops) != 1 ||
		!slices.Contains(w.Head.Source.Missing, "the time of 1 computation: left out") {
		t.Errorf("%v %+v", err, w)
	}
}

func TestRefused(t *testing.T) {
	good := call("all_reduce", "CommGroup.tp_group", "2", "64", "", "None")
	for text, want := range map[string]string{
		columns:                   "x.csv:2: no line of a call",
		good:                      "x.csv:1: no line of names of columns",
		"[rank0 to rank7]\n":      "x.csv:1: a line like [rank0 ~ rank7]",
		"[rank0 ~ rank9999999]\n": "is no rank",
		strings.Repeat("[rank0 ~ rank1048575]\n",
			2): "x.csv:2: 2097152 ranks",
		columns +
			"CommType.all_reduce,x\n": "x.csv:2: 2 columns, and the line of names has 12",
		columns +
			strings.Replace(good, "64", "(1 2)", 1): `msg_size "(1 2)"`,
		columns +
			strings.Replace(good, "64", "-1", 1): `msg_size "-1"`,
		columns + strings.Replace(good, "tp_group,2", "tp_group,0",
			1): "comm_group_size",
		columns + strings.Replace(good, "None,1\n", "None,7\n",
			1): `count "7"`,
		columns + strings.Replace(good, "s,None", "s,x",
			1): `dst "x"`,
		columns + call("all_reduce", "CommGroup.tp_group", "2", "64", "",
			"NaN"): "_elapsed_time",
		columns + strings.Replace(good, "CommGroup.tp_group", "cp_group",
			1): `x.csv:2: comm_group "cp_group" is not known`,
		columns + call("computation", "CommGroup.all", "None", "x", "", "1e14") +
			call("all_reduce", "CommGroup.all", "2", "4", "", "0"): "x.csv:2: a computation of 1e+20 ns",
		columns + good: "x.csv:1: the file does not say how many ranks there are: add --ranks N",
		"[rank0 ~ rank7]\n" + columns + call("scan", "CommGroup.all", "8", "64", "",
			"None"): `x.csv:3: comm_type "scan" is not known`,
		"[rank0 ~ rank7]\n" + columns + call("all_to_all", "CommGroup.ep_group", "None", "64", "",
			"None"): "x.csv:3: no line says how many ranks an ep_group has: add --experts N",
		"[rank0 ~ rank7]\n" + columns + good + call("all_reduce", "CommGroup.dp_group", "8", "64", "",
			"None"): "x.csv:4: dp_group has 8 ranks here, and 4 of 8 GPUs with tensor parallel 2",
		"[rank0 ~ rank6]\n" + columns + good: "x.csv:1: 7 GPUs do not divide",
		"[rank0 ~ rank7]\n" + columns + call("isend", "CommGroup.pp_group", "1", "64", "send_next",
			"None"): "x.csv:3: isend to another pipeline stage, and the file has one stage",
		"[rank0 ~ rank7]\n" + columns + call("isend", "CommGroup.pp_group", "1", "64", "",
			"None"): `x.csv:3: isend with ""`,
		"[ pp_stage0: [rank0, rank1] ]\n" + columns + good + "[ pp_stage1: [rank2] ]\n" + columns +
			good: "stage 1 of the pipeline has the ranks 2",
		"[ pp_stage0: [rank0, rank1] ]\n" + columns + good + "[ pp_stage1: [rank4, rank5] ]\n" + columns +
			good: "stage 1 of the pipeline has the ranks 4-5",
	} {
		if _, err := read(text, input.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	good := call("all_reduce", "CommGroup.tp_group", "2", "64", "", "1.5")
	f.Add(columns + good)
	f.Add("[ pp_stage0: [rank0] ]\n" + columns + good + "[ pp_stage1: [rank1] ]\n" + columns +
		call("irecv", "CommGroup.pp_group", "1", "64", "recv_prev", "None"))
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read(text, input.Options{Ranks: 4})
		if err != nil || w.Head.Ranks > 1<<12 {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}

// A column that is not known is named.
func TestUnknownColumn(t *testing.T) {
	w, err := read(strings.Replace(columns, "busbw", "priority", 1)+call("all_reduce", "CommGroup.all", "2", "64", "",
		"0.1"), input.Options{})
	if err != nil || !slices.Contains(w.Head.Source.Notes, `the column "priority" was not used`) {
		t.Errorf("%v, %+v", err, w)
	}
	if w, err = read(columns+call("all_reduce", "CommGroup.all", "2", "64", "", "0.1"), input.Options{}); err != nil ||
		len(w.Head.Source.Notes) != 1 {
		t.Errorf("%v, %+v", err, w)
	}
}
