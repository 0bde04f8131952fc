// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// A loop of training that waits for nothing: the host has called all 3 steps of 1 ms before the GPU, which takes 10 ms
// for each, has done the second one. In each step two kernels of 4 ms, each with an all-reduce of its own size after
// it.
func TestHostAhead(t *testing.T) {
	f := &fake{world: 2}
	for s := range 3 {
		host, gpu := 1000+1000*float64(s), 3000+10000*float64(s)
		f.step(7+s, host, host+990)
		for k := range 2 {
			f.ids++
			f.add("cuda_runtime", "cudaLaunchKernel", 1, host+100+300*float64(k), 2,
				map[string]any{"correlation": 100*f.ids + 50})
			f.add("kernel", "gemm", 7, gpu+5000*float64(k), 4000,
				map[string]any{"correlation": 100*f.ids + 50, "stream": 7})
			f.coll("allreduce", 1000*float64(s+1), host+150+300*float64(k), gpu+4000+5000*float64(k),
				gpu+4500+5000*float64(k), nil)
		}
	}
	w := read(t, oneForAll, f)
	var got []string
	var compute int64 // us of the step
	for _, o := range w.Ops {
		switch o.Kind {
		case workload.Calc:
			compute += o.Nanos / 1000
		case workload.Coll:
			got = append(got, fmt.Sprint(o.Count))
		case workload.Step:
			got = append(got, fmt.Sprintf("step %d", compute))
			compute = 0
		}
	}
	if want := strings.Fields("1000 1000 step_10000 2000 2000 step_10000 3000 3000 step_9500"); strings.ReplaceAll(
		strings.Join(got, " "), "step ", "step_") != strings.Join(want, " ") {
		t.Errorf("%q, want %q", got, want)
	}
	if note := "1 rank: the host was ahead of the GPU: a step is from its first kernel to the first kernel of the next step"; !slices.Contains(w.Head.Source.Notes, note) || len(w.Head.Source.Notes) > 1 {
		t.Errorf("notes %q, want %q", w.Head.Source.Notes, note)
	}
}

// A host that waits in each step is not ahead: the steps are its own.
func TestHostNotAhead(t *testing.T) {
	w := read(t, oneForAll, ddp(0, 2, 0, 0))
	if strings.Contains(strings.Join(w.Head.Source.Notes, "\n"), "ahead of the GPU") {
		t.Errorf("notes %q", w.Head.Source.Notes)
	}
}
