// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// old adds a call as PyTorch up to 2.2 records it: the operator of c10d (none if op is ""), record_param_comms without
// anything, the annotation (none if it is ""), and the kernel on a stream.
func (f *fake) old(at float64, op string, opDims []any, opTypes []string, annotation string, dims []any, stream int) {
	f.ids++
	corr := 10000 + f.ids
	if op != "" {
		f.add("cpu_op", "c10d::"+op, 1, at, 90,
			map[string]any{"Input Dims": opDims, "Input type": opTypes, "Concrete Inputs": []string{"", "", "1", "0"}})
	}
	if annotation != "" {
		f.add("cpu_op", "record_param_comms", 1, at+5, 80,
			map[string]any{"Input Dims": []any{[]int{}}, "Input type": []string{""}})
		f.add("user_annotation", annotation, 1, at+10, 70,
			map[string]any{"Input Dims": dims, "Input type": slices.Repeat([]string{"float"}, len(dims))})
	}
	f.add("cuda_runtime", "cudaLaunchKernel", 1, at+20, 2, map[string]any{"correlation": corr})
	f.add("kernel", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", stream, at+200, 100,
		map[string]any{"correlation": corr, "stream": stream})
}

func d(n ...int) []int { return n }

// What an annotation has is one tensor of the call, by ProcessGroupNCCL; c10d's operator around it has both.
func TestSizesOfOldTraces(t *testing.T) {
	tensors, lists := []string{"float", "float", ""}, []string{"TensorList", "TensorList", ""}
	for _, test := range []struct {
		op         string
		opDims     []any
		annotation string
		dims       []any
		f          workload.Func
		count      int64 // 0: left out
		note       string
	}{
		{"_reduce_scatter_base_", []any{d(1024), d(4096), d()}, "nccl:_reduce_scatter_base", []any{d(4096)},
			workload.ReduceScatter, 1024, ""},
		{"", nil, "nccl:_reduce_scatter_base", []any{d(4096)}, workload.ReduceScatter, 1024, ""},
		{"reduce_scatter_", []any{d(), d(), d()}, "nccl:reduce_scatter", []any{d(4, 1024)}, workload.ReduceScatter,
			1024, ""},
		{"", nil, "nccl:_reduce_scatter_base", []any{d(4095)}, workload.ReduceScatter, 0,
			"1 call: left out, the trace does not say what it moved"},
		{"reduce_scatter_tensor_coalesced_", []any{d(), d(), d()}, "nccl:reduce_scatter_tensor_coalesced",
			[]any{d(4096), d(400)}, workload.ReduceScatter, 1124, ""},
		{"_allgather_base_", []any{d(4096), d(1024), d()}, "nccl:_all_gather_base", []any{d(1024)}, workload.AllGather,
			1024, ""},
		{"", nil, "nccl:all_gather", []any{d(1024)}, workload.AllGather, 1024, ""},
		{"", nil, "nccl:all_gather_into_tensor_coalesced", []any{d(1024), d(8)}, workload.AllGather, 1032, ""},
		{"allreduce_", []any{d(), d(), d()}, "nccl:all_reduce", []any{d(10, 10)}, workload.AllReduce, 100, ""},
		// a tensor without dimensions
		{"allreduce_", []any{d(), d(), d()}, "nccl:all_reduce", []any{d()}, workload.AllReduce, 1, ""},
		{"", nil, "nccl:broadcast", []any{d(7)}, workload.Broadcast, 7, ""},
		{"", nil, "nccl:_reduce_oop", []any{d(7)}, workload.Reduce, 7, ""},
		{"", nil, "nccl:gather", []any{d(7)}, workload.Gather, 7, ""},
		{"scatter_", []any{d(), d(), d()}, "nccl:scatter", []any{d(7)}, workload.Scatter, 7, ""},
		{"", nil, "nccl:all_to_all", []any{d(40)}, workload.AllToAll, 10,
			"1 all-to-all: the parts differ or are not recorded; the mean was taken"},
		{"alltoall_base_", []any{d(80), d(40), d()}, "nccl:all_to_all", []any{d(40)}, workload.AllToAll, 20,
			"1 all-to-all: the parts differ"},
		// Of a list, the annotation has the first tensor, and the operator all of them, or nothing.
		{"alltoall_", []any{[]any{d(1), d(2), d(3), d(6)}, []any{d(1), d(1), d(1), d(1)}, d()}, "nccl:all_to_all",
			[]any{d(1)}, workload.AllToAll, 3, "1 all-to-all: the parts differ"},
		{"alltoall_", []any{d(), d(), d()}, "nccl:all_to_all", []any{d(1)}, workload.AllToAll, 0,
			"1 call: left out, the trace does not say what it moved"},
		{"alltoall_", []any{[]any{d(1), d(2), d(3), d(6)}, []any{d(1), d(1), d(1), d(1)}, d()}, "", nil,
			workload.AllToAll, 0, "1 call: left out, such as alltoall_ of type"},
		{"alltoall_", []any{d(), d(), d()}, "", nil, workload.AllToAll, 0,
			"1 call: left out, the trace does not say what it moved"},
		{"alltoall_base_", []any{d(80), d(80), d()}, "", nil, workload.AllToAll, 20, "1 all-to-all: the parts differ"},
	} {
		f := &fake{world: 4}
		f.step(1, 0, 9000)
		f.coll("allreduce", 5, 900, 1000, 1100, nil)
		types := tensors
		if !strings.Contains(test.op, "base") {
			types = lists
		}
		f.old(2000, test.op, test.opDims, types, test.annotation, test.dims, 20)
		w := read(t, oneForAll, f)
		var got string
		for _, o := range w.Ops {
			if o.Kind == workload.Coll && o.Count != 5 {
				got += fmt.Sprintf("%s %d ", o.Func, o.Count)
			}
		}
		want := ""
		if test.count > 0 {
			want = fmt.Sprintf("%s %d ", test.f, test.count)
		}
		notes := strings.Join(w.Head.Source.Notes, "\n")
		if got != want || !strings.Contains(notes, test.note) {
			t.Errorf("%s in %q: %s, want %s; notes: %s", test.annotation, test.op, got, want, notes)
		}
		if test.count > 0 && !strings.Contains(notes, "1 call: the trace has no In msg nelems") {
			t.Errorf("%s: it is not said where the sizes are from: %s", test.annotation, notes)
		}
	}
}

// The group of a call follows from its sizes, or from those of others on the stream, or all ranks are taken; notes say
// which.
func TestGroupsOfOldTraces(t *testing.T) {
	f := &fake{rank: 3, world: 8}
	f.step(1, 0, 9000)
	types := []string{"float", "float", ""}
	f.old(1000, "_allgather_base_", []any{d(20), d(10), d()}, types, "nccl:_all_gather_base", []any{d(10)}, 20)
	f.old(2000, "", nil, nil, "nccl:_reduce_scatter_base", []any{d(40)}, 20) // of two, by the stream
	f.old(3000, "_allgather_base_", []any{d(80), d(10), d()}, types, "nccl:_all_gather_base", []any{d(10)}, 30)
	f.old(4000, "", nil, nil, "nccl:all_reduce", []any{d(40)}, 40)
	w := read(t, oneForAll, f)
	var got []string
	for _, o := range w.Ops {
		if o.Kind == workload.Coll {
			got = append(got, fmt.Sprintf("%s %d %s", o.Func, o.Count, o.Comm))
		}
	}
	if text := strings.Join(got,
		","); text != "AllGather 10 group of 2,ReduceScatter 20 group of 2,AllGather 10 world,AllReduce 40 world" {
		t.Errorf("%s", text)
	}
	if c := w.Head.Comms[1]; c.Name != "group of 2" || c.Ranks.String() != "2-3" {
		t.Errorf("the second communicator is %s of %s, want that of ranks 2 and 3", c.Name, c.Ranks)
	}
	said := strings.Join(append(w.Head.Source.Missing, w.Head.Source.Notes...), "\n")
	for _, want := range []string{
		"the process group of 1 call: all 8 ranks are taken",
		"which ranks are in the process groups of 2, a number that follows from what goes in and comes out: ranks in a row are taken (2 calls)",
		"1 call: the process group is not recorded; it has the size of other calls on the same stream",
		"4 calls: the trace has no In msg nelems",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
}

// Messages of old traces have their peer from c10d's operator.
func TestPeersOfOldTraces(t *testing.T) {
	var files []*fake
	for rank, name := range []string{"send", "recv"} {
		f := &fake{rank: rank, world: 2}
		f.step(1, 0, 9000)
		op := map[string]string{"send": "send", "recv": "recv_"}[name]
		f.old(1000, op, []any{d(), d(), d(), d()}, []string{"TensorList", "", "Scalar", "Scalar"}, "nccl:"+name,
			[]any{d(10)}, 20)
		for _, e := range f.events {
			if a := e["args"].(map[string]any); a["Concrete Inputs"] != nil {
				a["Concrete Inputs"] = []string{"", "", fmt.Sprint(1 - rank), "0"}
			}
		}
		files = append(files, f)
	}
	w := read(t, input.Options{}, files...)
	var got []string
	for _, o := range w.Ops {
		if o.Kind == workload.Send || o.Kind == workload.Recv {
			got = append(got, fmt.Sprintf("%s %d %d of %s", o.Kind, o.Count, o.Peer, o.Ranks))
		}
	}
	if text := strings.Join(got, ","); text != "send 10 1 of 0,recv 10 0 of 1" {
		t.Errorf("%s", text)
	}
}

// Lists that PyTorch cuts after 30 are completed where that follows, and it is said where it does not.
func TestCutLists(t *testing.T) {
	f := &fake{rank: 4, world: 128}
	f.step(1, 0, 9000)
	cut := "[" + strings.Repeat("3, ", 30) + "...]"
	var ranks []string
	for i := range 30 {
		ranks = append(ranks, fmt.Sprint(4*i))
	}
	group := map[string]any{"Group size": 32, "Process Group Name": "7", "Process Group Description": "ep",
		"Process Group Ranks": "[" + strings.Join(ranks, ", ") + ", ...]", "In split size": cut, "Out split size": cut}
	f.coll("all_to_allv", 3*32*10, 900, 1000, 1100, group)
	f.coll("all_to_allv", 3*32*10+1, 1900, 2000, 2100, group)
	// not equal, by the rows
	rows := map[string]any{"Input Dims": []any{d(192, 5), d()}, "Input type": []string{"float", "Scalar"}}
	for k, v := range group {
		rows[k] = v
	}
	f.coll("all_to_allv", 192*5, 2900, 3000, 3100, rows)
	w := read(t, oneForAll, f)
	if c := w.Head.Comms[0]; c.Ranks.String() != "0-124:4" || len(w.Head.Comms) != 4 {
		t.Errorf("%d communicators, the first of %s", len(w.Head.Comms), c.Ranks)
	}
	notes := strings.Join(w.Head.Source.Notes, "\n")
	for _, want := range []string{
		"2 all-to-alls: the parts differ or are not recorded; the mean was taken",
		"1 all-to-all: the list of parts is cut; the parts that are shown are equal, and so are taken all",
		"1 process group: the list of its ranks is cut; ranks are taken at the distance of those that are shown",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("not said: %s\n%s", want, notes)
		}
	}
}

// A trace that PyTorch wrote in 2023. Its reduce-scatters and all-gathers are of 8 of the 16 ranks: c10d's operators
// have 65536x384 and 8192x384 elements, and 65536x64 and 8192x64.
func TestTraceOf2023(t *testing.T) {
	w, err := Read([]input.File{input.Path(filepath.Join("testdata", "torch-2023-05.json.gz"))}, oneForAll, nil)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, o := range w.Ops {
		if o.Func == workload.ReduceScatter || o.Func == workload.AllGather {
			counts[fmt.Sprintf("%s %d %s", o.Func, o.Count, o.Comm)]++
		}
	}
	if counts["ReduceScatter 3145728 group of 8"] != 2 || counts["ReduceScatter 524288 group of 8"] != 2 ||
		counts["AllGather 3145728 group of 8"] != 2 || counts["AllGather 524288 group of 8"] != 2 || len(counts) != 4 {
		t.Errorf("%v", counts)
	}
	// The host is ahead of the GPU: what it calls in a step runs in the next one. Each step has the same 15 calls.
	calls := []int{0}
	for _, o := range w.Ops {
		switch o.Kind {
		case workload.Coll:
			calls[len(calls)-1]++
		case workload.Step:
			calls = append(calls, 0)
		}
	}
	if !slices.Equal(calls, []int{15, 15, 0}) {
		t.Errorf("calls of the steps: %v, want 15 each", calls)
	}
	said := strings.Join(append(w.Head.Source.Missing, w.Head.Source.Notes...), "\n")
	if !strings.Contains(said, "which ranks are in the process groups of 8") ||
		!strings.Contains(said, "the process group of 22 calls: all 16 ranks are taken") {
		t.Errorf("%s", said)
	}
}

// A barrier makes an all-reduce, and PyTorch 2.1 to 2.2 has a record of both: it is one call.
func TestBarrier(t *testing.T) {
	f := &fake{world: 2}
	f.step(1, 0, 9000)
	f.add("cpu_op", "record_param_comms", 1, 890, 60, map[string]any{"External id": 900, "Collective name": "barrier",
		"dtype":         "Byte",
		"In msg nelems": 0, "Out msg nelems": 0, "Group size": 2})
	f.coll("allreduce", 1, 900, 1000, 1100, map[string]any{"dtype": "Byte"})
	w := read(t, oneForAll, f)
	var got []string
	for _, o := range w.Ops {
		if o.Kind == workload.Coll {
			got = append(got, fmt.Sprintf("%s %d %s", o.Func, o.Count, o.Type))
		}
	}
	if text := strings.Join(got, ","); text != "AllReduce 1 uint8" || len(w.Head.Source.Notes) > 0 {
		t.Errorf("%s, notes %q", text, w.Head.Source.Notes)
	}
}

// Calls of other backends do not vanish without a word.
func TestOtherBackends(t *testing.T) {
	f := &fake{world: 2}
	f.step(1, 0, 9000)
	f.coll("allreduce", 5, 900, 1000, 1100, nil)
	f.add("user_annotation", "gloo:all_reduce", 2, 2000, 50,
		map[string]any{"Input Dims": []any{d(7)}, "Input type": []string{"float"}})
	f.add("cpu_op", "c10d::broadcast_", 2, 3000, 50,
		map[string]any{"Input Dims": []any{d()}, "Input type": []string{"TensorList"}})
	notes := strings.Join(read(t, oneForAll, f).Head.Source.Notes, "\n")
	for _, want := range []string{"1 call: left out, of another backend than NCCL, such as gloo:all_reduce",
		"1 operator: no call of NCCL was recorded in it, such as c10d::broadcast_"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes: %s\nwant %s", notes, want)
		}
	}
}
