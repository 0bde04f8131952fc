// SPDX-License-Identifier: Apache-2.0

package mscclpp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

// portOps are the operations that are read, in plans of which all channels are ports: a put and the signal behind it
// are a message, which the receiver stores where it waits for the signal.
var portOps = []string{"copy", "flush", "nop", "put", "pws", "pwsf", "signal", "wait"}

// onlyPorts says whether all channels are ports and all operations in portOps.
func (p *plan) onlyPorts() bool {
	for o := range p.operations() {
		if !slices.Contains(portOps, o.Name) {
			return false
		}
	}
	return !slices.ContainsFunc(p.GPUs, func(g gpu) bool {
		return slices.ContainsFunc(g.Channels, func(c channelList) bool { return c.Type != portChannel })
	})
}

// announced is what the signals of a channel announce: the destinations of the puts before each.
type announced struct {
	puts    []span // not yet announced
	signals [][]span
	waits   int
}

// portReader makes a schedule of a plan.
type portReader struct {
	s *schedule.Schedule
	// sent is by sender, receiver, and number among the channels from one to the other.
	sent   map[[3]int]*announced
	blocks []map[use]int // of each GPU
	// owners are the thread blocks that send on, or wait for, a channel: by GPU, peer, number, and kind of the step.
	owners map[[4]int]int
}

// use is the use of a channel by a thread block of the plan, for which the schedule has a block of its own.
type use struct{ block, peer, number int }

// errNoOrder says that the puts of a plan are no messages in order: several thread blocks use one channel, or divide a
// chunk.
var errNoOrder = errors.New("the puts of a channel have no order")

// readPorts reads a plan of which all channels are ports.
func (p *plan) readPorts() (*schedule.Schedule, error) {
	if len(p.GPUs) > msccl.MaxGPUs {
		return nil, fmt.Errorf("%d GPUs: must be at most %d", len(p.GPUs), msccl.MaxGPUs)
	}
	s := &schedule.Schedule{Name: p.Name, Proto: schedule.Simple, InPlace: p.InPlace, OutOfPlace: !p.InPlace,
		MinBytes: messageSize(p.Min), MaxBytes: messageSize(p.Max)}
	p.setCollective(s)
	for i := range p.GPUs {
		g := &p.GPUs[i]
		if err := g.check(i); err != nil {
			return nil, err
		}
		s.GPUs = append(s.GPUs, schedule.GPU{Chunks: [schedule.Buffers]int{g.Input, g.Output, g.Scratch}})
		s.LoopChunks = max(s.LoopChunks, g.Input, g.Output)
	}
	ops, err := p.portOperations()
	if err != nil {
		return nil, err
	}
	r := &portReader{s: s, sent: map[[3]int]*announced{}, owners: map[[4]int]int{}}
	for gpu := range ops { // first what is put: a wait must know it
		for _, o := range slices.Concat(ops[gpu]...) {
			r.announce(gpu, &o)
		}
	}
	for gpu := range ops {
		r.blocks = append(r.blocks, map[use]int{})
		for b := range ops[gpu] {
			before := at{block: schedule.None}
			for i := range ops[gpu][b] {
				if err := r.op(gpu, b, &ops[gpu][b][i], &before); err != nil {
					return nil, fmt.Errorf("%s: %w", ops[gpu][b][i].from, err)
				}
			}
		}
	}
	_, err = s.Shape()
	return s, err
}

// portOperations are the operations by GPU and thread block.
func (p *plan) portOperations() ([][][]operation, error) {
	r, err := newReader(p, 0)
	if err == nil && r.parts > 1 {
		err = errNoOrder
	}
	if err != nil {
		return nil, err
	}
	out := make([][][]operation, len(p.GPUs))
	for i := range p.GPUs {
		for b := range p.GPUs[i].Blocks {
			ops, err := r.operations(i, b)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], ops)
		}
	}
	return out, nil
}

func (r *portReader) on(src, dst, number int) *announced {
	key := [3]int{src, dst, number}
	if r.sent[key] == nil {
		r.sent[key] = &announced{}
	}
	return r.sent[key]
}

// announce notes the puts and signals of an operation.
func (r *portReader) announce(gpu int, o *operation) {
	for n, c := range o.channels {
		a := r.on(gpu, c.peer, c.number)
		if o.puts() {
			a.puts = append(a.puts, o.dst[n])
		}
		if o.signals() {
			a.signals, a.puts = append(a.signals, a.puts), nil
		}
	}
}

// op adds the steps of an operation.
func (r *portReader) op(gpu, b int, o *operation, before *at) error {
	if o.name == "copy" {
		return r.step(gpu, b, channel{peer: schedule.None}, schedule.Step{Kind: schedule.CopyStep, Src: o.src[0].ref,
			Dst: o.dst[0].ref, Count: o.dst[0].n}, before)
	}
	if o.puts() && len(o.channels) == 0 {
		return errors.New("names no channel")
	}
	for i, c := range o.channels {
		var err error
		if o.puts() {
			from := o.source(i)
			err = r.step(gpu, b, c, schedule.Step{Kind: schedule.SendStep, Src: from.ref, Dst: from.ref, Count: from.n},
				before)
		} else if o.name == "wait" {
			err = r.wait(gpu, b, c, before)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wait stores what the next signal of a channel announces. A signal without puts says only that its sender is ready,
// which a receiver that stores itself need not be told.
func (r *portReader) wait(gpu, b int, c channel, before *at) error {
	a := r.on(c.peer, gpu, c.number)
	if a.waits >= len(a.signals) {
		return fmt.Errorf("it waits for signal %d of GPU %d, which sends %d", a.waits, c.peer, len(a.signals))
	}
	for _, x := range a.signals[a.waits] {
		if err := r.step(gpu, b, c, schedule.Step{Kind: schedule.RecvStep, Src: x.ref, Dst: x.ref, Count: x.n},
			before); err != nil {
			return err
		}
	}
	a.waits++
	return nil
}

// step adds a step of a thread block of the plan. A thread block has a block for each of its channels, and their steps
// wait for each other in the order of the plan: before is the last one.
func (r *portReader) step(gpu, b int, c channel, st schedule.Step, before *at) error {
	if c.peer >= 0 {
		end := [4]int{gpu, c.peer, c.number, int(st.Kind)}
		if owner, ok := r.owners[end]; ok && owner != b {
			return errNoOrder
		}
		r.owners[end] = b
	}
	g := &r.s.GPUs[gpu]
	key := use{b, c.peer, c.number}
	to, ok := r.blocks[gpu][key]
	if !ok {
		to = len(g.Blocks)
		r.blocks[gpu][key] = to
		g.Blocks = append(g.Blocks, schedule.Block{Send: c.peer, Recv: c.peer, Channel: c.number})
		r.s.Channels = max(r.s.Channels, c.number+1)
	}
	st.DepBlock, st.DepStep = schedule.None, schedule.None
	if before.block >= 0 && before.block != to {
		g.Blocks[before.block].Steps[before.step].HasDep = true
		st.DepBlock, st.DepStep = before.block, before.step
	}
	*before = at{to, len(g.Blocks[to].Steps)}
	g.Blocks[to].Steps = append(g.Blocks[to].Steps, st)
	return nil
}
