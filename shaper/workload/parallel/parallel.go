// SPDX-License-Identifier: Apache-2.0

// Package parallel makes workloads of jobs from their sizes: training with data, sharded, tensor, pipeline and expert
// parallelism, as PyTorch, DeepSpeed and Megatron-LM do it, local SGD, and inference.
package parallel

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
)

// The streams of the workloads.
const (
	computeStream = "compute"
	ncclStream    = "nccl"
)

// Compute says for how long a rank computes in a step. Either Step or FLOPS is set.
type Compute struct {
	// Step is the time of the rank that computes longest.
	Step time.Duration
	// FLOPS is the rate of a GPU in floating point operations per second, and MFU the share of it that the job reaches.
	FLOPS, MFU float64
}

func (c *Compute) validate() error {
	switch {
	case c.Step < 0 || c.FLOPS < 0:
		return errors.New("the computation must not be negative")
	case c.Step > 0 && c.FLOPS > 0:
		return errors.New("give the time of the computation or the rate of the GPU, not both")
	case c.Step == 0 && c.FLOPS == 0:
		return errors.New("say how long a step computes: its time, as 250ms, or the rate of the GPU, as 312TFLOPS")
	case c.FLOPS > 0 && !(c.MFU > 0 && c.MFU <= 1):
		return fmt.Errorf("the share of the GPU's rate is %g: must be above 0, and 1 at most", c.MFU)
	}
	return nil
}

// Training is data parallel training.
type Training struct {
	Network *layers.Network
	Ranks   int
	Steps   int
	Batch   int // samples of a rank in a step
	Compute Compute
	Type    string // of the gradients, and of the parameters if these are sent
}

// check refuses training of which no job can be made.
func (t *Training) check() error {
	if err := checkJob(t.Ranks, t.Steps, t.Compute, t.Type); err != nil {
		return err
	}
	if t.Batch < 1 {
		return fmt.Errorf("batch %d: must be at least 1", t.Batch)
	}
	return nil
}

// clock returns how many samples a rank computes in a step, a token of a sequence being one, their multiplications in
// a forward pass of all blocks, and the clock of these.
func (t *Training) clock() (samples, multiplications float64, c clock) {
	samples = float64(t.Batch) * float64(max(t.Network.Tokens, 1))
	for i := range t.Network.Blocks {
		multiplications += float64(t.Network.Blocks[i].Work()) * samples
	}
	return samples, multiplications, t.Compute.clock(multiplications)
}

// clock converts multiplications to time.
type clock struct {
	perMultiplication float64 // ns
	note              string
}

// clock returns the clock by which the rank that computes longest takes Step, if that is given. All is the
// multiplications of its step.
//
// A multiplication is one of a forward pass, with its addition. A forward pass has 2 floating point operations for
// each, a backward pass 4: for a transformer this is the rule 6 * parameters * tokens (Kaplan et al. 2020,
// arXiv:2001.08361).
func (c *Compute) clock(all float64) clock {
	if c.Step > 0 {
		return clock{
			float64(c.Step.Nanoseconds()) / all / 3,
			fmt.Sprintf("computation: %v for each step, a third of it forward", c.Step),
		}
	}
	return clock{
		2e9 / (c.FLOPS * c.MFU),
		fmt.Sprintf(
			"computation: 6 floating point operations for each multiplication of a forward pass, at %g of %g TFLOPS",
			c.MFU, c.FLOPS/1e12),
	}
}

func (c clock) forward(multiplications float64) int64 {
	return int64(multiplications*c.perMultiplication + 0.5)
}
func (c clock) backward(multiplications float64) int64 { return c.forward(2 * multiplications) }

// job makes the operations of a workload.
type job struct {
	w  *workload.Workload
	id int
	// ranks are the ranks of the operations that are added; nil for all.
	ranks workload.Ranks
	// tooLarge is the first call that is larger than a workload may have.
	tooLarge error
}

func newJob(name string, ranks int, notes ...string) *job {
	return &job{w: &workload.Workload{Head: workload.Head{
		Format: workload.Format, Name: name, Ranks: ranks,
		Source: workload.Source{Kind: "make", Notes: notes,
			Missing: []string{"the time of the optimizer: it is a part of the computation"}},
	}}}
}

// add adds an operation, and returns its id.
func (j *job) add(o workload.Op, after ...int) int {
	o.Ranks, o.After = j.ranks, after
	for part := range o.Parts() {
		size, err := workload.TypeSize(part.Type)
		if err == nil && (part.Count < 0 || part.Count > workload.MaxMessage/size) && j.tooLarge == nil {
			j.tooLarge = fmt.Errorf("a call of %d elements of %s: a workload has calls of at most %d bytes", part.Count,
				part.Type, int64(workload.MaxMessage))
		}
	}
	if o.Kind.HasStream() {
		j.id++
		o.ID = j.id
	}
	j.w.Ops = append(j.w.Ops, o)
	return o.ID
}

// done returns the workload, or an error if a call is too large.
func (j *job) done() (*workload.Workload, error) {
	if j.tooLarge != nil {
		return nil, j.tooLarge
	}
	return j.w, nil
}

func (j *job) calc(name string, ns int64, after ...int) int {
	return j.add(workload.Op{Kind: workload.Calc, Name: name, Stream: computeStream, Nanos: ns}, after...)
}

// endStep ends a step when the operations of after have ended.
func (j *job) endStep(after ...int) {
	j.calc("optimizer", 0, after...)
	j.add(workload.Op{Kind: workload.Step})
}

// commList are communicators.
type commList []workload.Comm

// add adds a communicator of n ranks, each stride after the one before; none for a single rank.
func (l *commList) add(name string, first, stride, n int) {
	if n < 2 {
		return
	}
	c := workload.Comm{Name: name}
	for i := range n {
		c.Ranks = append(c.Ranks, first+i*stride)
	}
	*l = append(*l, c)
}

// divide is a / b, rounded up.
func divide(a, b int64) int64 { return (a + b - 1) / b }

// checkSteps refuses numbers of ranks and steps that make no job.
func checkSteps(ranks, steps int) error {
	if ranks < 1 || ranks > workload.MaxRanks {
		return fmt.Errorf("%d ranks: must be 1 to %d", ranks, workload.MaxRanks)
	}
	if steps < 1 || steps > 1_000_000 {
		return fmt.Errorf("%d steps: must be 1 to 1000000", steps)
	}
	return nil
}

// checkJob refuses numbers of ranks and steps, a computation and a type of which no job can be made.
func checkJob(ranks, steps int, c Compute, typ string) error {
	_, err := workload.TypeSize(typ)
	return cmp.Or(checkSteps(ranks, steps), c.validate(), err)
}

// checkSize refuses a size that no job has.
func checkSize[N int | int64](name string, n N) error {
	if n < 1 || n > 1<<24 {
		return fmt.Errorf("%s %d: must be 1 to %d", name, n, 1<<24)
	}
	return nil
}

// checkShare refuses a number that cannot be shared equally.
func checkShare(what string, n int64, by string, shares int64) error {
	if n%shares != 0 {
		return fmt.Errorf("%s %d: must be a multiple of %s, %d", what, n, by, shares)
	}
	return nil
}

// checkProduct refuses sizes whose product is no size of a call, so that later products do not overflow.
func checkProduct(what string, sizes ...int64) error {
	product := 1.0
	for _, n := range sizes {
		product *= float64(n)
	}
	if product > workload.MaxMessage {
		return fmt.Errorf("%s have %.3g elements: must be at most %d", what, product, int64(workload.MaxMessage))
	}
	return nil
}

// checkOps refuses a job that has more operations than a workload may have.
func checkOps(perStep, steps int) error {
	if perStep > workload.MaxOps/steps {
		return fmt.Errorf("the workload would have %d operations for each of %d steps: more than %d together", perStep,
			steps, workload.MaxOps)
	}
	return nil
}
