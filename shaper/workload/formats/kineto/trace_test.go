// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank/perranktest"
)

// fake is a trace that a test makes. Times are in us.
type fake struct {
	rank, world int
	clock       float64 // how far the clock is ahead
	events      []map[string]any
	ids         int
	groups      []map[string]any
	gpu         string // "" is GPU X
}

func (f *fake) add(cat, name string, tid any, start, dur float64, args map[string]any) {
	f.events = append(f.events, map[string]any{"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid,
		"ts": start + f.clock, "dur": dur, "args": args})
}

// step adds a ProfilerStep.
func (f *fake) step(number int, start, end float64) {
	f.add("user_annotation", fmt.Sprintf("ProfilerStep#%d", number), 1, start, end-start, map[string]any{})
	f.add("gpu_user_annotation", fmt.Sprintf("ProfilerStep#%d", number), 7, start-50, end-start, map[string]any{})
}

// coll adds a call of a group at called, whose kernel runs from start to end.
func (f *fake) coll(name string, count, called, start, end float64, more map[string]any) {
	f.ids++
	corr := 100 * f.ids
	args := map[string]any{"External id": f.ids, "Collective name": name, "dtype": "Float", "In msg nelems": count,
		"Out msg nelems": count, "Group size": f.world, "Process Group Name": "0",
		"Process Group Description": "default_pg"}
	for k, v := range more {
		args[k] = v
	}
	f.add("cpu_op", "record_param_comms", 1, called, 10, args)
	f.add("cuda_runtime", "cudaStreamWaitEvent", 1, called+2, 1, map[string]any{"correlation": corr})
	f.add("cuda_runtime", "cudaLaunchKernelExC", 1, called+5, 2, map[string]any{"correlation": corr + 1})
	f.add("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 40, start, end-start,
		map[string]any{"correlation": corr + 1, "stream": 40, "External id": f.ids})
}

// wait adds a wait of the computation for NCCL, and the next kernel.
func (f *fake) wait(at, next float64) {
	f.ids++
	f.add("cuda_runtime", "cudaStreamWaitEvent", 1, at, 1, map[string]any{"correlation": 100 * f.ids})
	f.add("kernel", "gemm", 7, next, 5, map[string]any{"correlation": 100*f.ids + 1, "stream": 7})
}

func (f *fake) file(t testing.TB) input.File {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"schemaVersion":    1,
		"deviceProperties": []any{map[string]any{"id": 0, "name": cmp.Or(f.gpu, "GPU X")}},
		"distributedInfo": map[string]any{"backend": "nccl", "rank": f.rank, "world_size": f.world,
			"pg_config": f.groups},
		"traceEvents": f.events,
		"extra":       []any{map[string]any{"a": []any{1, 2}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return input.Bytes(fmt.Sprintf("rank%d.json", f.rank), data)
}

// play returns when each collective of each rank starts, in us since the rank's last step. A collective starts when
// all its ranks are ready, and takes cost us.
func play(t *testing.T, w *workload.Workload, cost float64) [][]float64 {
	t.Helper()
	lists, err := perranktest.Split(w)
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	type state struct {
		at      int
		ends    map[int]float64
		streams map[string]float64
		calls   map[string]int
		step    float64
		latest  float64
	}
	ranks := make([]*state, len(lists))
	for i := range ranks {
		ranks[i] = &state{ends: map[int]float64{}, streams: map[string]float64{}, calls: map[string]int{}}
	}
	arrived := map[string][]float64{} // by call of a communicator
	starts := make([][]float64, len(lists))
	for progress := true; progress; {
		progress = false
		for r, s := range ranks {
			for s.at < len(lists[r]) {
				o := &lists[r][s.at]
				begin := s.streams[o.Stream]
				for _, id := range o.After {
					begin = max(begin, s.ends[id])
				}
				end := begin + float64(o.Nanos)/1000
				switch o.Kind {
				case workload.Step:
					s.step, end = s.latest, 0
				case workload.Coll:
					c, _ := ix.CommOf(o.Comm, r)
					key := fmt.Sprint(c.Ranks, o.Comm, s.calls[o.Comm])
					mine := fmt.Sprint(key, " of ", r)
					if arrived[mine] == nil {
						arrived[mine] = []float64{begin}
						arrived[key] = append(arrived[key], begin)
						progress = true
					}
					if len(arrived[key]) < len(c.Ranks) {
						goto next
					}
					starts[r] = append(starts[r], begin-s.step)
					for _, b := range arrived[key] {
						begin = max(begin, b)
					}
					end = begin + cost
					s.calls[o.Comm]++
				}
				s.latest = max(s.latest, end)
				if o.Kind != workload.Step {
					s.streams[o.Stream], s.ends[o.ID] = end, end
				}
				s.at++
				progress = true
			}
		next:
		}
	}
	for r, s := range ranks {
		if s.at < len(lists[r]) {
			t.Fatalf("rank %d waits for ever at operation %d", r, s.at)
		}
	}
	return starts
}
