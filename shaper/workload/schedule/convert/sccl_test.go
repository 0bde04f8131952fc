// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/make/maketest"
)

// algorithm writes transfers as SCCL does.
func algorithm(t *mk.Transfers) string {
	var chunks, steps []any
	for _, in := range t.Inputs {
		for _, a := range in {
			chunks = append(chunks, map[string]int{"addr": a})
		}
	}
	for _, st := range t.Steps {
		var sends [][]int
		for _, s := range st {
			sends = append(sends, []int{s.Address, s.Src, s.Dst})
		}
		steps = append(steps, map[string]any{"sends": sends})
	}
	buffers := func(of [][]int) map[int][]int {
		out := map[int][]int{}
		for r, addresses := range of {
			out[r] = addresses
		}
		return out
	}
	n := len(t.Inputs)
	text, _ := json.Marshal(map[string]any{
		"msccl_type": "algorithm", "input_map": buffers(t.Inputs), "output_map": buffers(t.Outputs), "steps": steps,
		"collective": map[string]any{"name": fmt.Sprintf("%s(n=%d),chunks=2", t.Coll, n), "nodes": n,
			"runtime_name": "custom", "chunks": chunks},
	})
	return string(text)
}

// Every algorithm that is right becomes a schedule that is.
func TestRandomAlgorithms(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, coll := range maketest.Collectives() {
		for range 30 {
			n := 2 + rng.IntN(4)
			text := algorithm(maketest.Transfers(coll, n, 1+rng.IntN(3), rng))
			s, err := read(text, mk.Options{})
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if s.Coll != coll || len(s.GPUs) != n {
				t.Errorf("%s of %d is %s of %d", coll, n, s.Coll, len(s.GPUs))
			}
			if r, err := check.Check(s); err != nil || !r.Good() {
				t.Fatalf("%v %+v: %s", err, r, text)
			}
			switch coll {
			case schedule.AllToAll, schedule.Gather, schedule.Scatter, schedule.Custom:
				if s.InPlace {
					t.Errorf("%s in place", coll)
				}
			default:
				if !s.InPlace {
					t.Errorf("%s is not right in place", coll)
				}
			}
		}
	}
}
