// SPDX-License-Identifier: Apache-2.0

package simai

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

func read(text string, ranks int) (*workload.Workload, error) {
	return Read(input.Bytes("x.txt", []byte(text)), input.Options{Ranks: ranks})
}

const two = `HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 8 checkpoints: 0 checkpoint_initiates: 0
2
attention	-1	100	ALLGATHER	64	200	REDUCESCATTER	64	300	NONE	0	5
moe	-1	10	ALLTOALL_EP	64	20	NONE	0	30	REDUCESCATTER_DP_EP	128	5
`

func TestRead(t *testing.T) {
	w, err := read(two, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	calc := func(id int, name string, ns int64, after ...int) workload.Op {
		return workload.Op{ID: id, Kind: workload.Calc, Name: name, Stream: "compute", Nanos: ns, After: after}
	}
	coll := func(id int, name, stream, comm string, f workload.Func, count int64, after int) workload.Op {
		return workload.Op{ID: id, Kind: workload.Coll, Name: name, Stream: stream, Comm: comm, Func: f, Count: count,
			Type: "float32", After: []int{after}}
	}
	want := []workload.Op{
		calc(1, "attention", 100),
		coll(2, "attention", "nccl0", "tp", workload.AllGather, 8, 1),
		calc(3, "moe", 10, 2),
		coll(4, "moe", "nccl0", "ep", workload.AllToAll, 8, 3),
		calc(5, "moe input gradients", 20, 4),
		calc(6, "moe weight gradients", 30),
		coll(7, "moe weight gradients", "nccl1", "dp_ep", workload.ReduceScatter, 16, 6),
		calc(8, "attention input gradients", 200),
		coll(9, "attention input gradients", "nccl0", "tp", workload.ReduceScatter, 8, 8),
		calc(10, "attention weight gradients", 300, 9),
		calc(11, "update", 10, 7),
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
		","); got != "tp 0-1,tp 2-3,tp 4-5,tp 6-7,ep 0,2,ep 1,3,ep 4,6,ep 5,7,dp_ep 0,4,dp_ep 1,5,dp_ep 2,6,dp_ep 3,7" {
		t.Errorf("communicators: %s", got)
	}
}

// With checkpoints, the layers since the last one are computed again before the gradients of a layer that initiates it.
func TestCheckpoints(t *testing.T) {
	w, err := read(
		"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 checkpoints: 1 1 checkpoint_initiates: 1 2\n3\n"+
			"a -1 1 NONE 0 1 NONE 0 1 NONE 0 0\nb -1 2 NONE 0 2 NONE 0 2 NONE 0 0\nc -1 3 NONE 0 3 NONE 0 3 NONE 0 0\n",
		4)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range w.Ops {
		if o.Kind == workload.Calc && !strings.Contains(o.Name, "weight") {
			names = append(names, strings.TrimSuffix(o.Name, " input gradients"))
		}
	}
	if got := strings.Join(names, ""); got != "abcbcba" {
		t.Errorf("layers: %s, want abc, b again, cba", got)
	}
}

func TestMicroAndData(t *testing.T) {
	w, err := read("MICRO\n1\nm -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 4096 1\n", 4)
	if err != nil || len(w.Ops) != 2 || w.Ops[0].Comm != workload.World || w.Ops[0].Count != 1024 {
		t.Fatalf("%v %+v", err, w)
	}
	if !slices.Contains(w.Head.Source.Missing, "no computation between the calls is known") {
		t.Errorf("missing: %q", w.Head.Source.Missing)
	}
	w, err = read("DATA\n2\nm -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 4096 7\n", 4)
	if err != nil ||
		!slices.Contains(w.Head.Source.Notes, "2 layers are announced and 1 are there: the file may be cut") {
		t.Fatalf("%v %+v", err, w)
	}
}

// Communications that are not played are counted.
func TestLeftOut(t *testing.T) {
	w, err := read("DATA\n1\nm -1 5 ALLREDUCE 0 5 NONE 8 5 ALLREDUCE 4096 7\n", 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 call: left out, of no bytes", "1 size: left out, the communication is NONE"} {
		if !slices.Contains(w.Head.Source.Notes, want) {
			t.Errorf("notes %q, want %q", w.Head.Source.Notes, want)
		}
	}
}

func TestRefused(t *testing.T) {
	layer := "\n1\nm -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 4096 1\n"
	for text, want := range map[string]string{
		"":                          "the first line must begin",
		"HYBRID_JUMP" + layer:       "x.txt:1: \"HYBRID_JUMP",
		"HYBRID_CUSTOMIZED" + layer: "x.txt:3: \"\": a layer of HYBRID_CUSTOMIZED has its parallelism in column 13",
		"HYBRID_CUSTOMIZED\n1\nm -1 1 NONE 0 1 NONE 0 1 NONE 0 1 HYBRID_TRANSFORMER\n": "a layer of HYBRID_CUSTOMIZED has its parallelism",
		"HYBRID_TRANSFORMER pp_comm: x" +
			layer: "pp_comm: x: a number is expected",
		"HYBRID_TRANSFORMER all_gpus: -4" + layer: "a number from 1 to",
		"MICRO":                 "x.txt:2: the file ends after the first line",
		"MICRO\nx":              "x.txt:2: \"x\": the number of layers",
		"MICRO\n-1":             "the number of layers",
		"MICRO\n2\nm -1 1 NONE": "x.txt:3: 4 columns",
		"MICRO\n1\n":            "none is there: the file was cut",
		"MICRO\n1\nm -1 1 NONE 0 1 NONE 0 1 ALLREDUCE x 1": "x.txt:3: column 11",
		"MICRO\n1\nm -1 1 NONE 0 1 NONE 0 1 JUMP 8 1":      `layer m: "JUMP"`,
		"HYBRID_TRANSFORMER" +
			layer: "write \"HYBRID_TRANSFORMER model_parallel_NPU_group: N\" into the first line",
		"HYBRID_TRANSFORMER model_parallel_NPU_group: 3" + layer: "do not divide",
		"HYBRID_TRANSFORMER model_parallel_NPU_group: 0" + layer: "a number from 1 to",
		"HYBRID_TRANSFORMER model_parallel_NPU_group:" + layer:   "has no value",
		"HYBRID_TRANSFORMER all_gpus: 99999999" + layer:          "a number from 1 to",
		"HYBRID_TRANSFORMER checkpoints: 3 1" + layer:            "has no value",
	} {
		if _, err := read(text, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := read("MICRO"+layer, 0); err == nil || !strings.Contains(err.Error(), "add --ranks N") {
		t.Errorf("without ranks: %v", err)
	}
}

// calls are the calls of a workload with their sizes as nccl-tests counts them.
func calls(t *testing.T, w *workload.Workload) string {
	t.Helper()
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for _, c := range w.Head.Comms {
		sizes[c.Name] = len(c.Ranks)
	}
	var out []string
	for _, o := range w.Ops {
		if o.Kind == workload.Coll {
			out = append(out, fmt.Sprintf("%s %s %d", o.Func, o.Comm, o.Bytes(sizes[o.Comm])))
		}
	}
	return strings.Join(out, ", ")
}

// A size of ASTRA-sim is what a rank puts in; one of SimAI and AICB is the larger of input and output.
func TestSizes(t *testing.T) {
	rows := "\n3\na -1 1 ALLGATHER 64 1 NONE 0 1 NONE 0 1\nb -1 1 REDUCESCATTER 64 1 NONE 0 1 NONE 0 1\nc -1 1 ALLTOALL 64 1 NONE 0 1 NONE 0 1\n"
	older := strings.Replace(rows, "a -1", "grad_norm -1", 1)
	for _, test := range []struct{ text, want, note string }{
		{"MODEL" + rows, "AllGather world 256, ReduceScatter world 64, AllToAll world 64",
			"sizes are as ASTRA-sim writes them: of an AllGather what a rank puts in"},
		{"HYBRID_TRANSFORMER model_parallel_NPU_group: 2" + rows,
			"AllGather tp 128, ReduceScatter tp 64, AllToAll tp 64", "ASTRA-sim"},
		{"HYBRID_TRANSFORMER model_parallel_NPU_group: 2 all_gpus: 4" + rows,
			"AllGather tp 64, ReduceScatter tp 64, AllToAll tp 64",
			"sizes are as SimAI and AICB write them (all_gpus: in the first line): of an AllGather what comes out"},
		{"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 0 checkpoint_initiates: 0" + older,
			"AllGather tp 64, ReduceScatter tp 64, AllToAll tp 64", "(a layer grad_norm)"},
		{"MICRO\n1\nmicro_test -1 1 NONE 0 1 NONE 0 1 ALLGATHER 64 1\n", "AllGather world 64", "(a layer micro_test)"},
		{"MICRO\n1\nconv1 -1 1 NONE 0 1 NONE 0 1 ALLGATHER 64 1\n", "AllGather world 256", "ASTRA-sim"},
	} {
		w, err := read(test.text, 4)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		if got := calls(t, w); got != test.want || !strings.Contains(strings.Join(w.Head.Source.Notes, "\n"),
			test.note) {
			t.Errorf("%q: %s, want %s; notes %q, want %q", test.text, got, test.want, w.Head.Source.Notes, test.note)
		}
	}
}

// What the parallelisms of ASTRA-sim issue, by its Workload.cc: each layer has all three communications here.
func TestPolicies(t *testing.T) {
	layers := func(ends ...string) string {
		text := fmt.Sprintf("\n%d\n", len(ends))
		for i, end := range ends {
			text += fmt.Sprintf("l%d -1 1 ALLTOALL %d 1 ALLREDUCE %d 1 REDUCESCATTER %d 1 %s\n", i, 16*(i+1), 32*(i+1),
				48*(i+1), end)
		}
		return text
	}
	two := layers("", "")
	for _, test := range []struct{ text, want, left string }{
		{"DATA" + two, "ReduceScatter world 96, ReduceScatter world 48", "4 calls: left out, DATA does not"},
		{"MICRO" + two, "ReduceScatter world 48, ReduceScatter world 96", "4 calls: left out, MICRO does not"},
		{"MODEL" + two, "AllToAll world 16, AllToAll world 32, AllReduce world 64",
			"3 calls: left out, MODEL does not"},
		{"HYBRID_DATA_MODEL" + two,
			"AllToAll world 16, AllToAll world 32, AllReduce world 64, ReduceScatter world 96, ReduceScatter world 48",
			"1 call: left out"},
		{"HYBRID_MODEL_DATA" + two,
			"AllToAll world 16, AllToAll world 32, AllReduce world 64, ReduceScatter world 96, ReduceScatter world 48",
			"1 call: left out"},
		{"DISTRIBUTED_INFERENCE" + two, "AllToAll world 16, AllToAll world 32", "4 calls: left out"},
		{"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 mode: 1" + two, "AllToAll tp 16, AllToAll tp 32",
			"4 calls: left out"},
		{"HYBRID_DLRM 1" + layers("", "", ""),
			"AllToAll world 16, ReduceScatter world 144, AllReduce world 32, ReduceScatter world 96, ReduceScatter world 48", "4 calls: left out"},
		{"HYBRID_DLRM_ENHANCED DLRM_LAST_BOTTOM_LAYER: 1" + layers("", "", ""),
			"AllToAll world 16, ReduceScatter world 144, AllReduce world 32, ReduceScatter world 96, ReduceScatter world 48", "4 calls: left out"},
		{"HYBRID_CUSTOMIZED" + layers("MODEL", "DATA", "HYBRID_DATA_MODEL"),
			"AllToAll world 16, AllToAll world 48, AllReduce world 96, ReduceScatter world 144, ReduceScatter world 96",
			"4 calls: left out"},
	} {
		w, err := read(test.text, 4)
		if err != nil {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		if got := calls(t, w); got != test.want || !strings.Contains(strings.Join(w.Head.Source.Notes, "\n"),
			test.left) {
			t.Errorf("%q: %s, want %s; notes %q", test.text, got, test.want, w.Head.Source.Notes)
		}
	}
}

// ASTRA-sim computes weight gradients while input gradients are reduced; SimAI waits.
func TestOverlap(t *testing.T) {
	rows := "\n2\na -1 1 NONE 0 2 NONE 0 3 NONE 0 0\nb -1 4 NONE 0 5 ALLREDUCE 64 6 NONE 0 0\n"
	for head, want := range map[string]string{"": "a:[] b:[] b in:[] b w:[] a in:[4] a w:[]",
		" all_gpus: 4": "a:[] b:[] b in:[] b w:[4] a in:[] a w:[]"} {
		w, err := read("HYBRID_TRANSFORMER model_parallel_NPU_group: 4"+head+rows, 4)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range w.Ops {
			if o.Kind == workload.Calc {
				name := strings.NewReplacer(" input gradients", " in", " weight gradients", " w").Replace(o.Name)
				got = append(got, fmt.Sprintf("%s:%v", name, o.After))
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q: %s, want %s", head, text, want)
		}
	}
}

// Numbers as AICB's Python writes them, and keys with no value, unknown ones and more columns.
func TestForms(t *testing.T) {
	layer := "\n1.0\nm -1 1.5 NONE 0 1 NONE 0 1 ALLREDUCE 4096.0 1 7 x\n"
	for _, test := range []struct{ head, missing, note string }{
		{"pp: 2 pp_comm: 25165824.0", "without the 25165824 bytes", "1 line: more columns"},
		{"pp: 2 pp_comm 50331648", "without the 50331648 bytes", ""},
		{"pp: 2 pp_comm:", "without the bytes, which the file does not say,", ""},
		{"pp: 2 pp_comm: None", "without the bytes, which the file does not say,", ""},
		{"pp: 2", "without the bytes, which the file does not say,", ""},
		{"pp: 2.0 expert_parallel_npu_group: 2 frame: Megatron", "", "frame in the first line: not understood"},
		{"new: pp: 2 vpp: 48", "every stage of 2", "new in the first line: not understood"},
	} {
		w, err := read("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 all_gpus: 16 "+test.head+layer, 0)
		if err != nil {
			t.Errorf("%s: %v", test.head, err)
			continue
		}
		s := w.Head.Source
		if !strings.Contains(strings.Join(s.Missing, "\n"), test.missing) ||
			!strings.Contains(strings.Join(s.Notes, "\n"), test.note) {
			t.Errorf("%s: missing %q, notes %q", test.head, s.Missing, s.Notes)
		}
		if got := calls(t, w); got != "AllReduce dp 4096" {
			t.Errorf("%s: %s", test.head, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(two)
	f.Add("HYBRID_DLRM 1\n2\na -1 1 ALLTOALL 16 1 ALLTOALL 16 1 NONE 0 1\nb -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 16 1\n")
	f.Add("HYBRID_CUSTOMIZED\n1\na -1 1 ALLGATHER 16 1 NONE 0 1 NONE 0 1 MODEL\n")
	f.Add("MICRO\n1\nm -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 4096 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read(text, 4)
		if err != nil || w.Head.Ranks > 1<<12 {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}
