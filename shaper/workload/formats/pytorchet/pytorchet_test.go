// SPDX-License-Identifier: Apache-2.0

package pytorchet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// et is an execution trace of nodes in the order of the file.
func et(name string, nodes ...map[string]any) input.File {
	data, err := json.Marshal(map[string]any{"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": nodes, "finish_ts": 3})
	if err != nil {
		panic(err)
	}
	return input.Bytes(name, data)
}

// old is a node of schema 1.0.1.
func old(id int, name string, inputs []any, types []string, outputs ...any) map[string]any {
	return map[string]any{"name": name, "id": id, "rf_id": id - 1, "inputs": inputs, "input_types": types,
		"outputs": outputs}
}

// named is a node of schema 1.1.0, with attributes.
func named(id int, name string, attrs map[string]any) map[string]any {
	list := []any{map[string]any{"name": "rf_id", "type": "uint64", "value": id + 100}}
	for k, v := range attrs {
		list = append(list, map[string]any{"name": k, "value": v})
	}
	return map[string]any{"name": name, "id": id, "ctrl_deps": 1, "attrs": list,
		"inputs": map[string]any{"values": []any{}, "shapes": []any{}, "types": []string{}}}
}

func tensor(elements int) []any { return []any{7, 8, 0, elements, 4, "cuda:0"} }

func coll(id int, name string, in, out int) map[string]any {
	return named(id, "record_param_comms",
		map[string]any{"collective_name": name, "dtype": "Float", "in_msg_nelems": in, "out_msg_nelems": out,
			"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "global_rank_start": 0, "global_rank_stride": 1})
}

func ops(t *testing.T, w *workload.Workload, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range w.Ops {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %d %s", o.Kind, o.Func, o.Comm, o.Count, o.Type)))
	}
	return strings.Join(out, ",")
}

func TestAttributes(t *testing.T) {
	f := et("x.json",
		coll(9, "reduce_scatter_tensor_coalesced", 64, 32), // the file is not in the order of the calls
		named(2, "ProfilerStep#1", nil),
		named(8, "ProfilerStep#2", nil),
		coll(3, "allreduce", 10, 10),
		named(5, "record_param_comms", map[string]any{"collective_name": "wait", "pg_size": 1}),
	)
	w, err := Read([]input.File{f}, nil, input.Options{OneForAll: true})
	if got := ops(t, w,
		err); got != "coll AllReduce default_pg 10 float32,step   0,coll ReduceScatter default_pg 32 float32,step   0" {
		t.Errorf("%s", got)
	}
}

// Calls that are not played are counted; a wait is no call.
func TestLeftOut(t *testing.T) {
	negative := coll(4, "allreduce", -1, -1)
	w, err := Read([]input.File{et("x.json",
		coll(3, "allreduce", 10, 10), negative, coll(5, "allreduze", 10, 10), coll(6, "allreduce", 0, 0),
		coll(7, "wait", 0, 0), coll(8, "coalesced", 0, 0),
		old(9, "record_param_comms", []any{[]any{7, 8}, 147, 0, 0, "allreduce", []any{}, []any{}},
			[]string{"Tensor(float)"}),
		old(10, "record_param_comms", []any{[]any{}, 147, 0, 0, "broadcast", []any{}, []any{}},
			[]string{"Tensor(float)"}, tensor(-3)),
	)}, nil, input.Options{OneForAll: true})
	if got := ops(t, w, err); got != "coll AllReduce default_pg 10 float32,step   0" {
		t.Errorf("%s", got)
	}
	want := []string{"2 calls: left out, with no element to move",
		"2 calls: left out, the trace does not say what it moved",
		`1 call: left out, such as "allreduze": no such collective is known`}
	if d := cmp.Diff(want, w.Head.Source.Notes); d != "" {
		t.Error(d)
	}
}

// The group of a call of schema 1.0.1 follows from its tensors, or all ranks are taken.
func TestGroupsBySizes(t *testing.T) {
	w, err := Read([]input.File{et("x.json",
		old(2, "record_param_comms", []any{tensor(8), 147, 0, 0, "_reduce_scatter_base", []any{}, []any{}},
			[]string{"Tensor(float)"}, tensor(4)),
		old(3, "record_param_comms", []any{tensor(8), 147, 0, 0, "_allgather_base", []any{}, []any{}},
			[]string{"Tensor(float)"}, tensor(32)),
		old(4, "record_param_comms", []any{tensor(8), 147, 0, 0, "allreduce", []any{}, []any{}},
			[]string{"Tensor(float)"}, tensor(8)),
	)}, nil, input.Options{OneForAll: true, Ranks: 4})
	if got := ops(t, w,
		err); got != "coll ReduceScatter group of 2 4 float32,coll AllGather world 8 float32,coll AllReduce world 8 float32,step   0" {
		t.Errorf("%s", got)
	}
	said := strings.Join(w.Head.Source.Missing, "\n")
	for _, want := range []string{"the process group of 1 call: all 4 ranks are taken",
		"of which the size alone is known: ranks in a row are taken (1 call)"} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
}

// A call of schema 1.0.2 ends with the size of its group.
func TestSizeAlone(t *testing.T) {
	call := func(id, size int) map[string]any {
		return map[string]any{"name": "record_param_comms", "id": id,
			"inputs": map[string]any{"values": []any{tensor(8), 3, 94594108284448, 0, "allreduce", []any{},
				[]any{}, size}, "types": []string{"Tensor(float)"}},
			"outputs": map[string]any{"values": []any{tensor(8)}}}
	}
	w, err := Read([]input.File{et("x.json", call(2, 4), call(3, 2), call(4, 1))}, nil, input.Options{OneForAll: true})
	if got := ops(t, w, err); got != "coll AllReduce world 8 float32,coll AllReduce group of 2 8 float32,step   0" ||
		w.Head.Ranks != 4 {
		t.Errorf("%s, %d ranks", got, w.Head.Ranks)
	}
	if said := strings.Join(w.Head.Source.Missing, "\n"); !strings.Contains(said,
		"of which the size alone is known: ranks in a row are taken (1 call)") ||
		strings.Contains(said, "the process group of") {
		t.Error(said)
	}
	if _, err := Read([]input.File{et("x.json", call(2, 4), call(3, -2))}, nil,
		input.Options{OneForAll: true}); err != nil {
		t.Error(err)
	}
}

// The all-reduce that a barrier makes is not a second call.
func TestBarrier(t *testing.T) {
	inner := coll(4, "allreduce", 1, 1)
	inner["ctrl_deps"] = 3
	w, err := Read([]input.File{et("x.json", coll(3, "barrier", 0, 0), inner, coll(5, "barrier", 0, 0))}, nil,
		input.Options{OneForAll: true})
	if got := ops(t, w,
		err); got != "coll AllReduce default_pg 1 float32,coll AllReduce default_pg 1 float32,step   0" {
		t.Errorf("%s", got)
	}
}

// Nothing that may be a call vanishes without a word.
func TestNotUnderstood(t *testing.T) {
	operator := named(9, "c10d::alltoall_", nil)
	around := named(1, "c10d::allreduce_", nil)
	wrong := named(10, "add", nil)
	wrong["rf_id"] = "x"
	groups := named(11, "## process_group:init ##", nil)
	w, err := Read([]input.File{et("x.json", around, coll(3, "allreduce", 10, 10), operator,
		named(12, "record_param_comms", nil), wrong, groups)}, nil,
		input.Options{OneForAll: true})
	if got := ops(t, w, err); got != "coll AllReduce default_pg 10 float32,step   0" {
		t.Errorf("%s", got)
	}
	want := []string{"1 operator: no call was recorded in it, such as c10d::alltoall_",
		"1 call: left out, the trace does not name it",
		"1 node: a field is of another type than expected", "1 list: of process groups, not understood"}
	if d := cmp.Diff(want, w.Head.Source.Notes); d != "" {
		t.Error(d)
	}
}

func TestInputs(t *testing.T) {
	for name, nodes := range map[string][]map[string]any{
		"1.0.1": {
			old(2, "record_param_comms", []any{tensor(8), 147, 94594108284448, 0, "all_to_allv", []any{4, 4},
				[]any{4, 4}}, []string{"Tensor(long int)"}, tensor(8)),
			old(3, "record_param_comms", []any{147, 0, 0, "wait", []any{}, []any{}}, []string{"Int"}),
			old(4, "record_param_comms", []any{[]any{tensor(3), tensor(2)}, 148, 0, 0, "allreduce", []any{}, []any{}},
				[]string{"GenericList[Tensor(float)]"}),
		},
		"1.0.3": {
			{"name": "record_param_comms", "id": 2,
				"inputs": map[string]any{"values": []any{tensor(8), 33, []any{"0", ""}, 0, "all_to_allv", []any{4, 4},
					[]any{4, 4}, 0, 1, 2},
					"types": []string{"Tensor(long)"}}, "outputs": map[string]any{"values": []any{tensor(8)}}},
			{"name": "record_param_comms", "id": 4,
				"inputs": map[string]any{"values": []any{[]any{tensor(5)}, 33, []any{"0", ""}, 0, "allreduce", []any{},
					[]any{}, 0, 1, 2},
					"types": []string{"GenericList[Tensor(float)]"}}},
		},
	} {
		w, err := Read([]input.File{et("x.json", nodes...)}, nil, input.Options{OneForAll: true})
		comm := map[string]string{"1.0.1": "world", "1.0.3": "0"}[name]
		if got, want := ops(t, w, err),
			strings.ReplaceAll("coll AllToAll C 4 int64,coll AllReduce C 5 float32,step   0", "C", comm); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// profile is a trace of the profiler with an all-to-all of which it does not say the parts.
func profile(rank int) input.File {
	event := func(cat, name string, start, dur int, args string) string {
		return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"tid":1,"ts":%d,"dur":%d,"args":{%s}}`, cat, name, start, dur,
			args)
	}
	return input.Bytes(fmt.Sprintf("k%d.json", rank),
		fmt.Appendf(nil, `{"distributedInfo":{"rank":%d,"world_size":2},"traceEvents":[%s]}`, rank,
			strings.Join([]string{
				event("user_annotation", "ProfilerStep#1", 0, 1000, ""),
				event("cpu_op", "record_param_comms", 100, 50, `"External id":5`),
				event("user_annotation", "nccl:all_to_all", 110, 30,
					`"External id":6,"Input Dims":[[8]],"Input type":["float"]`),
				event("cuda_runtime", "cudaLaunchKernel", 120, 3, `"correlation":70`),
				event("kernel", "ncclKernel_SendRecv", 200, 50, `"correlation":70,"stream":20`),
				event("cpu_op", "record_param_comms", 300, 5, `"External id":7`),
			}, ",")))
}

// The profiler has the times, the execution trace the parts.
func TestJoin(t *testing.T) {
	trace := func(rank int, in, out []any, n int) input.File {
		return et(fmt.Sprintf("eg_%d.json", rank),
			old(2, "record_param_comms", []any{tensor(8), 147, 0, 0, "all_to_allv", in, out}, []string{"Tensor(float)"},
				tensor(n)),
			old(3, "record_param_comms", []any{147, 0, 0, "wait", []any{}, []any{}}, []string{"Int"}))
	}
	w, err := Read([]input.File{trace(1, []any{2, 6}, []any{3, 6}, 9), trace(0, []any{5, 3}, []any{5, 2}, 7)},
		[]input.File{profile(0), profile(1)}, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(w.Ops, func(o workload.Op) bool { return o.Kind == workload.Group })
	want := []workload.Op{
		{Kind: workload.Send, Comm: "world", Type: "float32", Count: 5}, {Kind: workload.Send, Comm: "world",
			Type: "float32", Count: 3, Peer: 1},
		{Kind: workload.Recv, Comm: "world", Type: "float32", Count: 5}, {Kind: workload.Recv, Comm: "world",
			Type: "float32", Count: 2, Peer: 1},
	}
	if i < 0 || cmp.Diff(want, w.Ops[i].Ops) != "" {
		t.Fatalf("%+v", w.Ops)
	}
	if calc := w.Ops[1]; calc.Kind != workload.Calc || calc.Nanos != 200_000 {
		t.Errorf("the computation before: %+v", calc)
	}
	short := et("eg_0.json", old(2, "record_param_comms", []any{tensor(8), 1, 0, 0, "allreduce", []any{}, []any{}},
		[]string{"Tensor(float)"}))
	if _, err := Read([]input.File{short}, []input.File{profile(0)}, input.Options{OneForAll: true}); err == nil ||
		!strings.Contains(err.Error(), "not of the same run") {
		t.Errorf("another run: %v", err)
	}
}

func TestGroups(t *testing.T) {
	list := `[{"pg_name":"1","pg_desc":"tp","ranks":[0,1],"group_size":2},{"pg_name":"2","pg_desc":"dp","ranks":[],"group_size":4}]`
	init := named(2, "## process_group:init ##", nil)
	init["inputs"] = map[string]any{"values": []any{list}, "types": []string{"String"}}
	tp := named(3, "record_param_comms", map[string]any{"collective_name": "allreduce", "dtype": "Half",
		"in_msg_nelems": 4, "pg_name": "1", "pg_desc": "tp", "pg_size": 2})
	w, err := Read([]input.File{et("x.json", init, tp)}, nil, input.Options{OneForAll: true, Ranks: 4})
	if err != nil || len(w.Head.Comms) != 2 || w.Head.Comms[1].Ranks.String() != "2-3" {
		t.Errorf("%v %+v", err, w)
	}
}

// The default group has all ranks.
func TestOtherRanks(t *testing.T) {
	call := named(2, "record_param_comms", map[string]any{"collective_name": "allreduce", "dtype": "Half",
		"in_msg_nelems": 4, "pg_name": "0", "pg_desc": "default_pg", "pg_size": 4})
	for ranks, want := range map[int]string{0: "<nil>", 4: "<nil>", 8: "x.json says 4 ranks, --ranks 8: leave it out"} {
		if _, err := Read([]input.File{et("x.json", call)}, nil,
			input.Options{OneForAll: true, Ranks: ranks}); fmt.Sprint(err) != want {
			t.Errorf("--ranks %d: %v, want %s", ranks, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	whole := et("x.json", coll(3, "allreduce", 10, 10))
	r, _ := whole.Open()
	text := make([]byte, 1000)
	n, _ := r.Read(text)
	one := input.Options{OneForAll: true}
	for name, test := range map[string]struct {
		f    input.File
		o    input.Options
		want string
	}{
		"cut":      {input.Bytes("x", text[:n/2]), one, "it was cut"},
		"no trace": {input.Bytes("x", []byte(`{"a":1}`)), one, "no nodes"},
		"no calls": {et("x.json", named(2, "add", nil)), one, "no call of a process group"},
		"no ranks": {
			et("x.json", old(2, "record_param_comms", []any{tensor(8), 1, 0, 0, "allreduce", []any{}, []any{}},
				[]string{"Tensor(float)"})), one, "add --ranks N"},
		"not all": {whole, input.Options{}, "the job had 2 ranks, given: 1 file"},
		"sends":   {et("x.json", coll(3, "send", 10, 10)), one, "give the traces of all ranks"},
	} {
		if _, err := Read([]input.File{test.f}, nil, test.o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, file := range []input.File{
		et("x", coll(3, "allreduce", 10, 10), named(2, "ProfilerStep#1", nil)),
		et("x", old(2, "record_param_comms", []any{tensor(8), 147, 0, 0, "all_to_allv", []any{4, 4}, []any{4, 4}},
			[]string{"Tensor(long int)"}, tensor(8))),
	} {
		r, err := file.Open()
		if err != nil {
			f.Fatal(err)
		}
		text := make([]byte, 2000)
		n, _ := r.Read(text)
		f.Add(text[:n])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Read([]input.File{input.Bytes("x", data)}, nil, input.Options{OneForAll: true})
		if err != nil || w.Head.Ranks > 1<<12 {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}
