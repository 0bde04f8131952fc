// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// FSDP is fully sharded data parallel training, as with PyTorch's FullyShardedDataParallel. Each block of the network
// is a unit: its parameters are gathered before its forward and its backward pass, and its gradients are reduced and
// scattered after the latter.
type FSDP struct{ Training }

// gatheredUnits is how many units are gathered at most, the one that computes included: PyTorch's limit_all_gathers.
const gatheredUnits = 2

// Workload makes the workload.
func (f *FSDP) Workload() (*workload.Workload, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if err := checkOps(5*len(f.Network.Blocks)+2, f.Steps); err != nil {
		return nil, err
	}
	samples, _, c := f.clock()
	j := newJob(fmt.Sprintf("fsdp %s, %d ranks, batch %d", f.Network.Name, f.Ranks, f.Batch), f.Ranks,
		f.Network.Note(), c.note,
		fmt.Sprintf(
			"%d units, the parameters of at most %d of them gathered; the last one stays gathered between its passes",
			len(f.Network.Blocks), gatheredUnits))
	for range f.Steps {
		f.step(j, c, samples)
	}
	return j.done()
}

// step adds a step. The passes are a list of units: all forward, and all backward from the last one.
func (f *FSDP) step(j *job, c clock, samples float64) {
	n := len(f.Network.Blocks)
	var computed, reduced []int
	if j.id > 0 {
		computed = []int{j.id} // the optimizer of the step before: it writes the parameters
	}
	before := len(computed)
	for pass := range 2 * n {
		unit, backward := pass, pass >= n
		if backward {
			unit = 2*n - 1 - pass
		}
		b := &f.Network.Blocks[unit]
		shard := divide(b.Elements(), int64(f.Ranks))
		coll := func(stream string, fn workload.Func, after ...int) int {
			return j.add(workload.Op{Kind: workload.Coll, Name: b.Name, Stream: stream, Func: fn, Count: shard,
				Type: f.Type}, after...)
		}
		var gathered []int
		if pass != n { // the last unit's parameters are there already
			var after []int
			if k := len(computed) - gatheredUnits; k >= 0 {
				after = []int{computed[k]}
			} else if before > 0 {
				after = computed[:1]
			}
			gathered = []int{coll("gather", workload.AllGather, after...)}
		}
		name, ns := "forward "+b.Name, c.forward(float64(b.Work())*samples)
		if backward {
			name, ns = "backward "+b.Name, c.backward(float64(b.Work())*samples)
		}
		computed = append(computed, j.calc(name, ns, gathered...))
		if backward {
			reduced = append(reduced, coll("reduce", workload.ReduceScatter, computed[len(computed)-1]))
		}
	}
	j.endStep(reduced...)
}
