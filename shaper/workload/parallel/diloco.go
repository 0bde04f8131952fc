// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// DiLoCo is local SGD: each worker trains alone for InnerSteps steps, then the workers average by how much their
// parameters have changed (Douillard et al. 2023, arXiv:2311.08105). With Fragments above 1 it is Streaming DiLoCo
// (Douillard et al. 2025, arXiv:2501.18512): each part of the network has its own turn. With InnerSteps 1 it is data
// parallel training.
type DiLoCo struct {
	// Training has the ranks of all workers, how often all parameters are exchanged (Steps), the batch and the
	// computation of an inner step, and the type of the gradients within a worker.
	Training
	// PerWorker is the ranks of a worker. If it has several, it reduces its gradients in each inner step, and each of
	// its ranks exchanges its share of the parameters with the ranks at its place in the other workers.
	PerWorker, InnerSteps int
	// Fragments are the parts of the network, of whole blocks. Their turns are InnerSteps / Fragments steps apart.
	Fragments int
	// Delay is for how many inner steps a worker goes on before it needs the result of an exchange. 0: it waits.
	Delay int
	// OuterBits are the bits of an element of the exchange: 32, 16, 8 or 4.
	OuterBits int
}

// outerTypes are the types that stand for the elements of an exchange.
var outerTypes = map[int]string{32: "float32", 16: "bfloat16", 8: "uint8", 4: "uint8"}

func (d *DiLoCo) validate() error {
	if err := d.check(); err != nil {
		return err
	}
	switch {
	case d.PerWorker < 1 || d.Ranks%d.PerWorker != 0:
		return fmt.Errorf("%d ranks: must be a multiple of the ranks of a worker, %d", d.Ranks, d.PerWorker)
	case d.InnerSteps < 1 || d.InnerSteps > 1_000_000:
		return fmt.Errorf("%d inner steps: must be 1 to 1000000", d.InnerSteps)
	case d.Fragments < 1 || d.Fragments > len(d.Network.Blocks):
		return fmt.Errorf("%d fragments: must be 1 to the number of blocks, %d", d.Fragments, len(d.Network.Blocks))
	case d.InnerSteps%d.Fragments != 0:
		return fmt.Errorf("%d inner steps: must be a multiple of the fragments, %d", d.InnerSteps, d.Fragments)
	case d.Delay < 0 || d.Delay >= d.InnerSteps && d.Delay > 0:
		return fmt.Errorf("delay of %d inner steps: must be 0 to %d, less than the inner steps", d.Delay,
			d.InnerSteps-1)
	case outerTypes[d.OuterBits] == "":
		return fmt.Errorf("%d bits of an element of the exchange: must be 32, 16, 8 or 4", d.OuterBits)
	}
	perRound := int64(d.InnerSteps)*5 + int64(d.Fragments)
	return checkOps(int(min(perRound, workload.MaxOps)), d.Steps)
}

// fragment is the elements of a part of the network: every Fragments-th block, as Streaming DiLoCo distributes them.
func (d *DiLoCo) fragment(i int) (sum int64) {
	for b := i; b < len(d.Network.Blocks); b += d.Fragments {
		sum += d.Network.Blocks[b].Elements()
	}
	return sum
}

// count is the elements of outerTypes that stand for a fragment's share of a rank.
func (d *DiLoCo) count(i int) int64 {
	share := divide(d.fragment(i), int64(d.PerWorker))
	if d.OuterBits == 4 {
		return divide(share, 2)
	}
	return share
}

// Workload makes the workload. Its steps are the inner steps.
func (d *DiLoCo) Workload() (*workload.Workload, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	_, work, c := d.clock()
	j := newJob(fmt.Sprintf("diloco %s, %d workers, %s", d.Network.Name, d.Ranks/d.PerWorker,
		units.Count(d.InnerSteps, "inner step")), d.Ranks,
		d.Network.Note(), c.note)
	j.w.Head.Source.Notes = append(j.w.Head.Source.Notes, d.notes()...)
	var list commList
	for first := 0; first < d.Ranks; first += d.PerWorker {
		list.add("worker", first, 1, d.PerWorker)
	}
	for first := range d.PerWorker {
		list.add("outer", first, d.PerWorker, d.Ranks/d.PerWorker)
	}
	j.w.Head.Comms = list
	run := dilocoRun{DiLoCo: d, job: j, due: map[int][]int{}}
	for step := range d.Steps * d.InnerSteps {
		run.step(step, c, work)
	}
	return j.done()
}

func (d *DiLoCo) notes() []string {
	exchange := fmt.Sprintf("exchange: an all-reduce of the changes of all parameters after every %s, %d bits each",
		units.Count(d.InnerSteps, "inner step"), d.OuterBits)
	if d.Fragments > 1 {
		exchange = fmt.Sprintf(
			"exchange: all-reduces of the changes of the parameters, %d bits each, in %d fragments of interleaved "+
				"blocks, one after every %s",
			d.OuterBits, d.Fragments, units.Count(d.InnerSteps/d.Fragments, "inner step"))
	}
	if d.Delay > 0 {
		exchange += fmt.Sprintf(", whose result is needed %s later", units.Count(d.Delay, "inner step"))
	}
	notes := []string{exchange}
	if d.Delay > 0 && d.Ranks > d.PerWorker {
		notes = append(notes,
			fmt.Sprintf(
				"end: no inner step comes after step %d, so nothing hides its exchange, and the job ends with it; in "+
					"a longer job the next %s would",
				d.Steps*d.InnerSteps, units.Count(d.Delay, "inner step")))
	}
	if d.OuterBits < 16 {
		notes = append(notes,
			"quantised: the all-reduce has the bytes of the quantised elements, as uint8; how they are added is not "+
				"said, nor the time of it")
	}
	if d.PerWorker > 1 {
		notes = append(notes,
			fmt.Sprintf(
				"worker: %d ranks, which reduce their gradients after each backward pass; each exchanges its share",
				d.PerWorker))
	}
	return append(notes, "a step is an inner step")
}

// dilocoRun adds the steps.
type dilocoRun struct {
	*DiLoCo
	job *job
	due map[int][]int // exchanges by the step that needs their result
}

func (r *dilocoRun) step(step int, c clock, work float64) {
	r.job.calc("forward", c.forward(work), r.due[step]...)
	delete(r.due, step)
	done := r.job.calc("backward", c.backward(work))
	if r.PerWorker > 1 {
		done = r.job.add(workload.Op{Kind: workload.Coll, Stream: ncclStream, Comm: "worker", Func: workload.AllReduce,
			Count: r.Network.Elements(), Type: r.Type}, done)
	}
	done = r.job.calc("optimizer", 0, done)
	every := r.InnerSteps / r.Fragments
	var waits []int
	if (step+1)%every == 0 && r.Ranks > r.PerWorker {
		i := (step + 1) / every % r.Fragments
		o := workload.Op{Kind: workload.Coll, Name: fmt.Sprintf("fragment %d", i), Stream: "outer", Comm: "outer",
			Func: workload.AllReduce, Count: r.count(i), Type: outerTypes[r.OuterBits]}
		if r.Fragments == 1 {
			o.Name = "pseudo-gradients"
		}
		id := r.job.add(o, done)
		if r.Delay == 0 {
			waits = []int{id}
		} else {
			r.due[step+1+r.Delay] = append(r.due[step+1+r.Delay], id)
		}
	}
	if len(waits) > 0 {
		r.job.calc("outer optimizer", 0, waits...)
	}
	r.job.add(workload.Op{Kind: workload.Step})
}
