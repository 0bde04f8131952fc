// SPDX-License-Identifier: Apache-2.0

package simai

import (
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
		return workload.Op{ID: id, Kind: workload.Coll, Name: name, Stream: stream, Comm: comm, Func: f, Count: count, Type: "float32", After: []int{after}}
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
	if got := strings.Join(comms, ","); got != "tp 0-1,tp 2-3,tp 4-5,tp 6-7,ep 0,2,ep 1,3,ep 4,6,ep 5,7,dp_ep 0,4,dp_ep 1,5,dp_ep 2,6,dp_ep 3,7" {
		t.Errorf("communicators: %s", got)
	}
}

// With checkpoints, the layers since the last one are computed again before the gradients of a layer that initiates it.
func TestCheckpoints(t *testing.T) {
	w, err := read("HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 checkpoints: 1 1 checkpoint_initiates: 1 2\n3\n"+
		"a -1 1 NONE 0 1 NONE 0 1 NONE 0 0\nb -1 2 NONE 0 2 NONE 0 2 NONE 0 0\nc -1 3 NONE 0 3 NONE 0 3 NONE 0 0\n", 4)
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
	if err != nil || !slices.Contains(w.Head.Source.Notes, "2 layers are announced and 1 are there: the file may be cut") {
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
		"": "the first line must begin",
		"HYBRID_DLRM DLRM_LAST_BOTTOM_LAYER: 3" + layer: "x.txt:1: \"HYBRID_DLRM",
		"MICRO":                 "x.txt:2: the file ends after the first line",
		"MICRO\nx":              "x.txt:2: \"x\": the number of layers",
		"MICRO\n-1":             "the number of layers",
		"MICRO\n2\nm -1 1 NONE": "x.txt:3: 4 columns",
		"MICRO\n1\n":            "none is there: the file was cut",
		"MICRO\n1\nm -1 1 NONE 0 1 NONE 0 1 ALLREDUCE x 1":       "x.txt:3: column 11",
		"MICRO\n1\nm -1 1 NONE 0 1 NONE 0 1 JUMP 8 1":            `layer m: "JUMP"`,
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

func FuzzRead(f *testing.F) {
	f.Add(two)
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
