// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

var oneForAll = input.Options{OneForAll: true}

func read(t *testing.T, o input.Options, fakes ...*fake) *workload.Workload {
	t.Helper()
	var files []input.File
	for _, f := range fakes {
		files = append(files, f.file(t))
	}
	w, err := Read(files, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	return w
}

// ddp is a rank of a job: in each of two steps two all-reduces, a wait for both, and an optimizer.
func ddp(rank, world int, clock, late float64) *fake {
	f := &fake{rank: rank, world: world, clock: clock}
	for s := range 2 {
		t0 := 1000 + 10000*float64(s)
		f.step(5+s, t0, t0+9900)
		f.coll("allreduce", 1000, t0+2950+late, t0+3000+late, t0+4000, nil)
		f.coll("allreduce", 2000, t0+5950, t0+6000, t0+7000, nil)
		f.wait(t0+6100, t0+7010)
	}
	return f
}

// A trace that does not say what its calls moved is no trace of a job without communication.
func TestCallsWithoutSizes(t *testing.T) {
	f := &fake{rank: 0, world: 2}
	f.step(1, 1000, 9000)
	for i := range 3 {
		at := 2000 + 1000*float64(i)
		f.add("cpu_op", "record_param_comms", 1, at, 20, map[string]any{"External id": 10 * i})
		f.add("user_annotation", "nccl:all_reduce", 1, at+5, 10, map[string]any{"External id": 10*i + 1})
		f.add("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 40, at+50, 100,
			map[string]any{"correlation": 500 + i, "stream": 40, "External id": 900 + i})
	}
	_, err := Read([]input.File{f.file(t)}, oneForAll, nil)
	if err == nil || !strings.Contains(err.Error(), "has 6 calls of NCCL and says of none what it moved") {
		t.Errorf("%v", err)
	}
	f.coll("allreduce", 1000, 6000, 6100, 6200, nil)
	w := read(t, oneForAll, f)
	if notes := strings.Join(w.Head.Source.Notes, "\n"); !strings.Contains(notes,
		"3 calls: left out, the trace does not say what it moved") {
		t.Errorf("%s", notes)
	}
}

// Calls whose collective is not known are counted, and a job of which no call is understood is refused.
func TestUnknownCollectives(t *testing.T) {
	for _, name := range []string{"allreduze", "coalesced", "wait"} {
		f := &fake{world: 2}
		f.step(1, 1000, 9000)
		for i := range 2 {
			at := 2000 + 1000*float64(i)
			f.add("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 40, at, 100,
				map[string]any{"correlation": 500 + i, "stream": 40,
					"Collective name": name, "dtype": "Float", "In msg nelems": 10, "Out msg nelems": 10,
					"Group size": 2})
		}
		_, err := Read([]input.File{f.file(t)}, oneForAll, nil)
		if want := `has 2 calls of NCCL and none is understood, such as "` + name + `"`; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		f.coll("allreduce", 1000, 6000, 6100, 6200, nil)
		w := read(t, oneForAll, f)
		if want := `2 calls: left out, such as "` + name +
			`": no such collective is known`; !slices.Contains(w.Head.Source.Notes, want) {
			t.Errorf("notes %q, want %q", w.Head.Source.Notes, want)
		}
	}
}

// What a trace does not say of the size follows from what it says, or the call is left out with a note.
func TestSizesOfOneSide(t *testing.T) {
	for _, test := range []struct {
		name  string
		args  map[string]any
		count int64 // 0: left out
		note  string
	}{
		{"allreduce", map[string]any{"In msg nelems": nil, "Out msg nelems": 1000}, 1000, ""},
		{"broadcast", map[string]any{"In msg nelems": -1, "Out msg nelems": 1000}, 1000, ""},
		{"_allgather_base", map[string]any{"In msg nelems": nil, "Out msg nelems": 1000}, 500, ""},
		{"_allgather_base", map[string]any{"In msg nelems": nil, "Out msg nelems": 999}, 0,
			"1 call: left out, the trace does not say what it moved"},
		{"_reduce_scatter_base", map[string]any{"In msg nelems": 1000, "Out msg nelems": "x"}, 500, ""},
		{"gather", map[string]any{"In msg nelems": nil, "Out msg nelems": 1000}, 0,
			"1 call: left out, the trace does not say what it moved"},
		{"all_to_all", map[string]any{"In msg nelems": nil, "Out msg nelems": 1000}, 0,
			"1 call: left out, the trace does not say what it moved"},
		{"allreduce", map[string]any{"In msg nelems": nil, "Out msg nelems": -5}, 0,
			"1 call: left out, the trace does not say what it moved"},
		{"allreduce", map[string]any{"In msg nelems": 0, "Out msg nelems": 0}, 0,
			"1 call: left out, with no element to move"},
	} {
		f := &fake{world: 2}
		f.step(1, 0, 9000)
		f.coll("allreduce", 7, 900, 1000, 1100, nil)
		f.coll(test.name, 0, 1900, 2000, 2100, test.args)
		w := read(t, oneForAll, f)
		var counts []int64
		for _, o := range w.Ops {
			if o.Kind == workload.Coll {
				counts = append(counts, o.Count)
			}
		}
		want := []int64{7}
		if test.count > 0 {
			want = append(want, test.count)
		}
		if notes := strings.Join(w.Head.Source.Notes, ";"); !slices.Equal(counts, want) || notes != test.note {
			t.Errorf("%s %v: counts %v, notes %q", test.name, test.args, counts, notes)
		}
	}
}

// The starts of the recording come out again when the network costs nothing.
func TestStartsAreReproduced(t *testing.T) {
	w := read(t, oneForAll, ddp(0, 2, 0, 0))
	for rank, starts := range play(t, w, 0) {
		for i, want := range []float64{3000, 6000, 3000, 6000} {
			if math.Abs(starts[i]-want) > want/100 {
				t.Errorf("rank %d: collective %d starts %.0f us after the step, want %.0f", rank, i, starts[i], want)
			}
		}
	}
	// 2000 us after the second all-reduce the step ends, however long that one takes: the optimizer waits for it.
	slow := play(t, w, 3000)[0]
	if slow[2] != 3000 {
		t.Errorf("on a slow network: %v", slow)
	}
	calc := w.Ops[slices.IndexFunc(w.Ops, func(o workload.Op) bool { return o.Kind == workload.Step })-1]
	if calc.Kind != workload.Calc || len(calc.After) != 2 || calc.Nanos != 3_000_000 {
		t.Errorf("the last computation of the step is %+v, want 3 ms after both all-reduces", calc)
	}
}

func TestTwoRanksOnTwoClocks(t *testing.T) {
	// Rank 1 is ready 500 us later for each first all-reduce, and its clock is 7 s ahead.
	w := read(t, input.Options{}, ddp(0, 2, 0, 0), ddp(1, 2, 7e6, 500))
	starts := play(t, w, 0)
	if starts[0][0] != 3000 || starts[1][0] != 3500 {
		t.Errorf("first starts: %v", starts)
	}
	if first := w.Ops[0]; first.Name != "starts later" || first.Nanos != 0 || first.Ranks != nil {
		t.Errorf("the steps start together, and the first operation is %+v", first)
	}
	if !slices.ContainsFunc(w.Head.Source.Notes, func(s string) bool {
		return strings.HasPrefix(s, "collectives took 3.500 ms per rank, of which 0.500 ms were waiting")
	}) {
		t.Errorf("notes: %q", w.Head.Source.Notes)
	}
}

// Kernels of a busy stream follow each other after up to 21 us on AMD's GPUs, after less than 3 on others.
func TestGapOfABusyStream(t *testing.T) {
	for gpu, want := range map[string]string{"AMD Instinct MI300X": "1 collective: ready between",
		"NVIDIA H100 80GB HBM3": ""} {
		f := &fake{world: 2, gpu: gpu}
		f.step(1, 0, 10000)
		f.coll("allreduce", 100, 900, 1000, 4000, nil)
		f.coll("allreduce", 200, 1900, 4018, 5000, nil)
		notes := strings.Join(read(t, oneForAll, f).Head.Source.Notes, ";")
		if strings.Contains(notes, "ready between") != (want != "") {
			t.Errorf("%s: notes %q, want %q", gpu, notes, want)
		}
	}
}

// A collective whose stream was busy until it started was ready at some time since the call.
func TestReadinessIsAnInterval(t *testing.T) {
	f := &fake{world: 2}
	f.step(1, 0, 10000)
	f.coll("allreduce", 100, 900, 1000, 4000, nil)
	f.coll("allreduce", 200, 1900, 4001, 5000, nil)
	w := read(t, oneForAll, f)
	i := slices.IndexFunc(w.Ops, func(o workload.Op) bool { return o.MaxNanos > 0 })
	if i < 0 || w.Ops[i].Nanos != 0 || w.Ops[i].MaxNanos != 2_101_000 {
		t.Fatalf("no interval of 2.101 ms: %+v", w.Ops)
	}
	if got := play(t, w, 0)[0]; got[1] != 1900 {
		t.Errorf("the second call is ready at %v, want 1900", got[1])
	}
	if !strings.Contains(strings.Join(w.Head.Source.Notes, ";"), "1 collective: ready between") {
		t.Errorf("notes: %q", w.Head.Source.Notes)
	}
}

// The groups of the other ranks are like those of the one that was recorded.
func TestGroupsOfOneRank(t *testing.T) {
	f := &fake{rank: 2, world: 8, groups: []map[string]any{
		{"pg_name": "1", "pg_desc": "tp", "pg_size": 2, "ranks": []int{2, 3}},
		{"pg_name": "2", "pg_desc": "dp", "pg_size": 4, "ranks": []int{0, 2, 4, 6}},
	}}
	f.step(1, 0, 10000)
	f.coll("_allgather_base", 100, 900, 1000, 1100,
		map[string]any{"Process Group Name": "1", "Process Group Description": "tp", "Group size": 2})
	f.coll("_reduce_scatter_base", 400, 1900, 2000, 2100,
		map[string]any{"Process Group Name": "2", "Process Group Description": "dp",
			"Group size": 4, "Out msg nelems": 100})
	w := read(t, oneForAll, f)
	var got []string
	for _, c := range w.Head.Comms {
		got = append(got, c.Name+" "+c.Ranks.String())
	}
	want := "tp.1 0-1,tp.1 2-3,tp.1 4-5,tp.1 6-7,dp.2 0-6:2,dp.2 1-7:2"
	if strings.Join(got, ",") != want {
		t.Errorf("communicators: %s\nwant:          %s", strings.Join(got, ","), want)
	}
	if o := w.Ops[3]; o.Func != workload.ReduceScatter || o.Count != 100 || o.Comm != "dp.2" {
		t.Errorf("%+v", o)
	}
}

// Before 2024 the sizes are only in annotations, and kernels have the number of their launch as external id.
func TestOldTrace(t *testing.T) {
	f := &fake{world: 4}
	f.step(1, 0, 10000)
	f.add("cpu_op", "record_param_comms", 1, 900, 50, map[string]any{"External id": 7, "Input Dims": []any{[]int{}},
		"Input type": []string{"TensorList"}})
	f.add("user_annotation", "nccl:all_to_all", 1, 910, 30,
		map[string]any{"External id": 8, "Input Dims": []any{[]int{8, 6}}, "Input type": []string{"long int"}})
	f.add("cuda_runtime", "cudaLaunchKernel", 1, 920, 2, map[string]any{"External id": 7000, "correlation": 7000})
	f.add("kernel", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", 20, 1000, 10,
		map[string]any{"External id": 7000, "correlation": 7000, "stream": 20})
	f.add("cpu_op", "record_param_comms", 1, 2000, 5, map[string]any{"External id": 9, "Input Dims": []any{[]int{}},
		"Input type": []string{"Scalar"}})
	w := read(t, oneForAll, f)
	if o := w.Ops[1]; o.Func != workload.AllToAll || o.Count != 12 || o.Type != "int64" || o.Comm != workload.World {
		t.Errorf("%+v", o)
	}
	if calc := w.Ops[0]; calc.Nanos != 1_000_000 {
		t.Errorf("the first computation is %+v, want 1 ms, until the kernel", calc)
	}
	if last := w.Ops[len(w.Ops)-2]; !slices.Equal(last.After, []int{2}) {
		t.Errorf("the computation after the wait: %+v", last)
	}
}

// What newer traces say about waits is used: the wait is for the first call only.
func TestExactWait(t *testing.T) {
	f := &fake{world: 2}
	f.step(1, 0, 10000)
	f.coll("allreduce", 100, 900, 1000, 1100, nil)
	f.coll("allreduce", 200, 1900, 2000, 2100, nil)
	f.wait(3000, 3010)
	corr := 100 * f.ids
	f.add("cuda_sync", "Stream Wait Event", 7, 3000, 1,
		map[string]any{"correlation": corr, "stream": 7, "wait_on_stream": 40,
			"wait_on_cuda_event_record_corr_id": 105})
	w := read(t, oneForAll, f)
	last := w.Ops[len(w.Ops)-2]
	if !slices.Equal(last.After, []int{2}) {
		t.Errorf("the computation after the wait waits for %v, want the first call, 2", last.After)
	}
	if missing := strings.Join(w.Head.Source.Missing, "\n"); strings.Contains(missing, "which calls a wait is for") {
		t.Errorf("the trace says it, and this is said to be missing: %s", missing)
	}
}

// A kernel that starts while a call is running has not waited for it.
func TestKernelRefutesWait(t *testing.T) {
	f := &fake{world: 2}
	f.step(1, 0, 10000)
	f.coll("allreduce", 100, 900, 1000, 1100, nil)
	f.coll("allreduce", 200, 1900, 2000, 5000, nil)
	f.wait(2500, 2600)
	w := read(t, oneForAll, f)
	last := w.Ops[len(w.Ops)-2]
	if !slices.Equal(last.After, []int{2}) || last.Nanos != 7_500_000 {
		t.Errorf("the computation after the wait is %+v, want 7.5 ms after the first call, 2", last)
	}
}

func TestUnequalAllToAll(t *testing.T) {
	rank := func(r int, in, out string, nIn, nOut int) *fake {
		f := &fake{rank: r, world: 2}
		f.step(1, 0, 10000)
		f.coll("all_to_allv", float64(nIn), 900, 1000, 1100,
			map[string]any{"In split size": in, "Out split size": out, "Out msg nelems": nOut})
		return f
	}
	w := read(t, input.Options{}, rank(0, "[1, 3]", "[1, 2]", 40, 30), rank(1, "[2, 4]", "[3, 4]", 60, 70))
	var groups []workload.Op
	for _, o := range w.Ops {
		if o.Kind == workload.Group {
			groups = append(groups, o)
		}
	}
	if len(groups) != 2 || len(groups[0].Ops) != 4 || groups[0].Ops[1].Count != 30 || groups[1].Ops[2].Count != 30 {
		t.Errorf("%+v", groups)
	}
}

// If a rank does not say the parts of an all-to-all, all its ranks have the mean, so that their calls match: the four
// parts are 100 elements together.
func TestMeanAllToAll(t *testing.T) {
	rank := func(r int, in, out string, nIn, nOut int) *fake {
		f := &fake{rank: r, world: 2}
		f.step(1, 0, 10000)
		f.coll("all_to_allv", float64(nIn), 900, 1000, 1100,
			map[string]any{"In split size": in, "Out split size": out, "Out msg nelems": nOut})
		return f
	}
	w := read(t, input.Options{}, rank(0, "[1, 3]", "[1, 2]", 40, 30), rank(1, "", "", 60, 70))
	var counts []int64
	for _, o := range w.Ops {
		if o.Func == workload.AllToAll {
			counts = append(counts, o.Count)
		}
	}
	if !slices.Equal(counts, []int64{25}) ||
		!slices.Contains(w.Head.Source.Notes,
			"2 all-to-alls: the parts differ or are not recorded; the mean was taken") {
		t.Errorf("%v %q", counts, w.Head.Source.Notes)
	}
}

// Ranks whose windows differ have their common steps.
func TestCommonSteps(t *testing.T) {
	a, b := ddp(0, 2, 0, 0), ddp(1, 2, 0, 0)
	for i := range b.events {
		if name := b.events[i]["name"].(string); strings.HasPrefix(name, "ProfilerStep#5") {
			b.events[i]["name"] = "ProfilerStep#7" // b has 6 and 7
		}
	}
	w := read(t, input.Options{}, a, b)
	steps := 0
	for _, o := range w.Ops {
		if o.Kind == workload.Step {
			steps++
		}
	}
	if steps != 1 {
		t.Errorf("%d steps, want the common one", steps)
	}
}

func TestRefused(t *testing.T) {
	whole, _ := json.Marshal(map[string]any{"traceEvents": ddp(0, 2, 0, 0).events})
	send := &fake{world: 2}
	send.step(1, 0, 1000)
	send.coll("send", 10, 100, 110, 120, map[string]any{"Dst Rank": 1})
	send.coll("send", 10, 200, 210, 220, map[string]any{"Dst Rank": 1})
	for name, test := range map[string]struct {
		files []input.File
		o     input.Options
		want  string
	}{
		"cut":         {[]input.File{input.Bytes("x", whole[:len(whole)/2])}, oneForAll, "x: byte "},
		"cut says so": {[]input.File{input.Bytes("x", whole[:len(whole)/2])}, oneForAll, "it was cut"},
		"no trace":    {[]input.File{input.Bytes("x", []byte(`{"a":[1,2,{"b":3}]}`))}, oneForAll, "no traceEvents"},
		"nothing in it": {[]input.File{input.Bytes("x", []byte(`{"traceEvents":[]}`))}, oneForAll,
			"neither a step nor a call"},
		"no ranks": {
			[]input.File{input.Bytes("x", []byte(strings.ReplaceAll(string(whole), `"Group size":2,`, "")))}, oneForAll,
			"add --ranks N"},
		"missing rank": {[]input.File{ddp(0, 3, 0, 0).file(t), ddp(2, 3, 0, 0).file(t)}, oneForAll,
			"no trace is of 1"},
		"not for all":    {[]input.File{ddp(0, 2, 0, 0).file(t)}, input.Options{}, "no trace is of 1"},
		"one rank twice": {[]input.File{ddp(0, 2, 0, 0).file(t), ddp(0, 2, 0, 0).file(t)}, oneForAll, "both of rank 0"},
		"sends":          {[]input.File{send.file(t)}, oneForAll, "give the traces of all ranks"},
		"unknown group": {
			[]input.File{
				input.Bytes("x", []byte(strings.ReplaceAll(string(whole), `"Group size":2`, `"Group size":3`)))},
			input.Options{OneForAll: true, Ranks: 6}, "does not say which ranks are in process group"},
	} {
		if _, err := Read(test.files, test.o, nil); err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// Fields of another type, and times that are no numbers, cost an event, not the trace.
func TestDamagedEvents(t *testing.T) {
	f := ddp(0, 2, 0, 0)
	f.events = append(f.events, map[string]any{"ph": "X", "cat": 5, "name": []int{1}, "ts": 3},
		map[string]any{"ph": "X", "name": "x", "ts": "soon"})
	w := read(t, oneForAll, f)
	if !slices.Contains(w.Head.Source.Notes, "2 events: not understood") {
		t.Errorf("notes: %q", w.Head.Source.Notes)
	}
}

func TestMicros(t *testing.T) {
	for text, want := range map[string]micros{
		"5": 5000, "4458676524648.797": 4458676524648797, "1.7121954955e15": 1712195495500000000, `"12.5"`: 12500,
		"0.1234567": 123,
		"-1.5":      -1500, "null": noTime, `"x"`: noTime, "1e300": noTime,
	} {
		var m micros
		if err := m.UnmarshalJSON([]byte(text)); err != nil || m != want {
			t.Errorf("%s: %d, %v, want %d", text, m, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	before2024 := &fake{world: 2}
	before2024.old(1000, "_allgather_base_", []any{d(20), d(10), d()}, []string{"float", "float", ""},
		"nccl:_all_gather_base", []any{d(10)}, 20)
	before2024.old(2000, "", nil, nil, "nccl:all_to_all", []any{d(40)}, 20)
	for _, seed := range []*fake{ddp(0, 2, 0, 0), {world: 2}, before2024} {
		data, _ := json.Marshal(map[string]any{"traceEvents": seed.events,
			"distributedInfo": map[string]any{"rank": 0, "world_size": 2}})
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Read([]input.File{input.Bytes("x", data)}, input.Options{OneForAll: true, Ranks: 2}, nil)
		if err != nil {
			return
		}
		if w.Head.Ranks > 1<<12 {
			return // large, and valid or not as small ones
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Errorf("not valid: %v", err)
		}
	})
}
