// SPDX-License-Identifier: Apache-2.0

package mscclpp

import (
	"cmp"
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
	for _, g := range p.GPUs {
		for _, c := range g.Channels {
			if cmp.Or(c.Type, c.OlderType) != portChannel {
				return false
			}
		}
		for _, b := range g.Blocks {
			for _, op := range b.Ops {
				if !slices.Contains(portOps, op.Name) {
					return false
				}
			}
		}
	}
	return true
}

// announced is what the signals of a channel announce: the puts before each.
type announced struct {
	puts    []put // not yet announced
	signals [][]put
	waits   int
}

type put struct {
	dst   schedule.Ref
	count int
}

// portReader makes a schedule of a plan.
type portReader struct {
	p *plan
	s *schedule.Schedule
	// sent is by sender, receiver, and number among the channels from one to the other.
	sent   map[[3]int]*announced
	blocks []map[use]int // of each GPU
	// owners are the thread blocks that send on, or wait for, a channel: by GPU, peer, number, and kind of the step.
	owners map[[4]int]int
}

// use is the use of a channel by a thread block of the plan, for which the schedule has a block of its own.
type use struct{ block, peer, number int }

// last is the step behind which the next operation of a thread block comes.
type last struct{ block, step int }

// ReadMessages reads an execution plan. If all channels are ports, and each has one thread block that sends and one
// that waits, it becomes messages that the receiver stores; other plans are read as by Read.
func ReadMessages(data []byte) (*schedule.Schedule, error) {
	p, err := parse(data)
	if err != nil {
		return nil, err
	}
	if !p.onlyPorts() {
		return p.read()
	}
	s, err := readPorts(p)
	if errors.Is(err, errShared) {
		return p.read()
	}
	return s, err
}

// errShared says that the messages of a channel have no order.
var errShared = errors.New("one channel for several thread blocks")

func readPorts(p *plan) (*schedule.Schedule, error) {
	r := &portReader{p: p, s: &schedule.Schedule{Name: p.Name, Proto: schedule.Simple, InPlace: p.InPlace,
		OutOfPlace: !p.InPlace}, sent: map[[3]int]*announced{}, owners: map[[4]int]int{}}
	s := r.s
	if len(p.GPUs) > msccl.MaxGPUs {
		return nil, fmt.Errorf("%d GPUs: must be at most %d", len(p.GPUs), msccl.MaxGPUs)
	}
	p.setCollective(s)
	s.MinBytes, s.MaxBytes = messageSize(p.Min), messageSize(p.Max)
	s.GPUs, r.blocks = make([]schedule.GPU, len(p.GPUs)), make([]map[use]int, len(p.GPUs))
	for i := range p.GPUs {
		g := &p.GPUs[i]
		if err := g.check(i); err != nil {
			return nil, err
		}
		s.GPUs[i].Chunks = [schedule.Buffers]int{g.Input, g.Output, g.Scratch}
		s.LoopChunks = max(s.LoopChunks, g.Input, g.Output)
		r.blocks[i] = map[use]int{}
	}
	// The puts first: a wait must know what was put.
	for _, sends := range []bool{true, false} {
		for i := range p.GPUs {
			if err := r.gpu(i, sends); err != nil {
				return nil, fmt.Errorf("GPU %d: %w", i, err)
			}
		}
	}
	_, err := s.Shape()
	return s, err
}

// gpu goes through the operations of a GPU. In the first pass it only notes puts and signals.
func (r *portReader) gpu(gpu int, note bool) error {
	g := &r.p.GPUs[gpu]
	for b := range g.Blocks {
		before := last{schedule.None, 0}
		for i := range g.Blocks[b].Ops {
			op := &g.Blocks[b].Ops[i]
			if err := r.op(gpu, b, op, note, &before); err != nil {
				return fmt.Errorf("thread block %d, operation %d (%s): %w", b, i, op.Name, err)
			}
		}
	}
	return nil
}

func (r *portReader) op(gpu, b int, op *op, note bool, before *last) error {
	switch op.Name {
	case "nop", "flush":
		return nil
	case "copy":
		if note {
			return nil
		}
		return r.copy(gpu, b, op, before)
	}
	if len(op.Channels) == 0 {
		return errors.New("names no channel")
	}
	for n := range op.Channels {
		to, number, err := r.channel(gpu, b, op, n)
		if err != nil {
			return err
		}
		puts := op.Name != "signal" && op.Name != "wait"
		if puts {
			if err := r.put(gpu, b, op, n, to, number, note, before); err != nil {
				return err
			}
		}
		if a := r.on(gpu, to, number); note && op.Name != "put" && op.Name != "wait" {
			a.signals, a.puts = append(a.signals, a.puts), nil
		}
		if op.Name == "wait" && !note {
			if err := r.wait(gpu, b, to, number, before); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *portReader) on(src, dst, number int) *announced {
	key := [3]int{src, dst, number}
	if r.sent[key] == nil {
		r.sent[key] = &announced{}
	}
	return r.sent[key]
}

// channel is the peer of channel n of an operation, and the channel's number among those between the two.
func (r *portReader) channel(gpu, b int, op *op, n int) (peer, number int, err error) {
	g := &r.p.GPUs[gpu]
	id, ok := pick(g.Blocks[b].Channels, op.Channels[n])
	if op.Channel != portChannel || !ok {
		return 0, 0, fmt.Errorf("channel %d of type %q is not one of its thread block", op.Channels[n], op.Channel)
	}
	var all []int
	for _, c := range g.Channels {
		all = append(all, c.Connected...)
	}
	if id < 0 || id >= len(all) {
		return 0, 0, fmt.Errorf("channel %d: the GPU has %d", id, len(all))
	}
	peer = all[id]
	if peer < 0 || peer >= len(r.p.GPUs) || peer == gpu {
		return 0, 0, fmt.Errorf("channel %d is connected to GPU %d: must be another of the %d", id, peer, len(r.p.GPUs))
	}
	for _, other := range all[:id] {
		if other == peer {
			number++
		}
	}
	return peer, number, nil
}

func pick(channels []channelList, n int) (id int, ok bool) {
	var all []int
	for _, c := range channels {
		all = append(all, c.IDs...)
	}
	if n < 0 || n >= len(all) {
		return 0, false
	}
	return all[n], true
}

// put sends the source of an operation on its channel n.
func (r *portReader) put(gpu, b int, op *op, n, to, number int, note bool, before *last) error {
	if len(op.Src) != len(op.Dst) && len(op.Src) != 1 || len(op.Dst) != len(op.Channels) {
		return errors.New("must have a source and a destination for each channel")
	}
	src, dst := op.Src[min(n, len(op.Src)-1)], op.Dst[n]
	if src.Size != dst.Size {
		return fmt.Errorf("%d chunks to %d", src.Size, dst.Size)
	}
	from, err := refOf(src.Type, src.Index, src.Size)
	if err != nil {
		return err
	}
	target, err := r.remote(gpu, b, dst, to)
	if err != nil {
		return err
	}
	if note {
		a := r.on(gpu, to, number)
		a.puts = append(a.puts, put{target, src.Size})
		return nil
	}
	return r.step(gpu, b, to, number, schedule.Step{Kind: schedule.SendStep, Src: from, Dst: from, Count: src.Size},
		before)
}

// remote is the chunk of a GPU that a put writes.
func (r *portReader) remote(gpu, b int, c chunk, to int) (schedule.Ref, error) {
	var ids []int
	for _, x := range r.p.GPUs[gpu].Blocks[b].Refs {
		if x.Type == portChannel {
			ids = append(ids, x.IDs...)
		}
	}
	buffers, n := r.p.GPUs[gpu].Remote, 0
	if c.Buffer != nil {
		n = *c.Buffer
	}
	if n < 0 || n >= len(ids) || ids[n] < 0 || ids[n] >= len(buffers) {
		return schedule.Ref{}, fmt.Errorf("remote buffer %d does not exist", n)
	}
	x := buffers[ids[n]]
	if x.Rank != to {
		return schedule.Ref{}, fmt.Errorf("remote buffer %d is of GPU %d, the channel goes to %d", n, x.Rank, to)
	}
	return refOf(x.Type, c.Index, c.Size)
}

// refOf is a chunk of which size follow.
func refOf(buffer string, index, size int) (schedule.Ref, error) {
	i := slices.Index([]string{"i", "o", "s"}, buffer)
	if i < 0 || index < 0 || index > msccl.MaxChunks || size < 1 || size > msccl.MaxChunks {
		return schedule.Ref{}, fmt.Errorf("%d chunks from %d of buffer %q: must be at least one of i, o or s", size,
			index, buffer)
	}
	return schedule.Ref{Buffer: schedule.Buffer(i), Offset: index}, nil
}

// wait stores what the next signal from a GPU announces. A signal without puts says only that its sender is ready,
// which a receiver that stores itself need not be told.
func (r *portReader) wait(gpu, b, from, number int, before *last) error {
	a := r.on(from, gpu, number)
	if a.waits >= len(a.signals) {
		return fmt.Errorf("it waits for signal %d of GPU %d, which sends %d", a.waits, from, len(a.signals))
	}
	for _, x := range a.signals[a.waits] {
		if err := r.step(gpu, b, from, number, schedule.Step{Kind: schedule.RecvStep, Src: x.dst, Dst: x.dst,
			Count: x.count}, before); err != nil {
			return err
		}
	}
	a.waits++
	return nil
}

func (r *portReader) copy(gpu, b int, op *op, before *last) error {
	if len(op.Src) != 1 || len(op.Dst) != 1 || op.Src[0].Size != op.Dst[0].Size {
		return errors.New("must have a source and a destination of one size")
	}
	from, err := refOf(op.Src[0].Type, op.Src[0].Index, op.Src[0].Size)
	if err != nil {
		return err
	}
	to, err := refOf(op.Dst[0].Type, op.Dst[0].Index, op.Dst[0].Size)
	if err == nil {
		err = r.step(gpu, b, schedule.None, 0,
			schedule.Step{Kind: schedule.CopyStep, Src: from, Dst: to, Count: op.Src[0].Size}, before)
	}
	return err
}

// step adds a step of a thread block of the plan. A thread block has a block for each of its channels, and their steps
// wait for each other in the order of the plan.
func (r *portReader) step(gpu, b, peer, number int, st schedule.Step, before *last) error {
	if peer >= 0 {
		end := [4]int{gpu, peer, number, int(st.Kind)}
		if owner, ok := r.owners[end]; ok && owner != b {
			return fmt.Errorf("thread block %d uses the channel to GPU %d too: %w", owner, peer, errShared)
		}
		r.owners[end] = b
	}
	g := &r.s.GPUs[gpu]
	key := use{b, peer, number}
	at, ok := r.blocks[gpu][key]
	if !ok {
		at = len(g.Blocks)
		r.blocks[gpu][key] = at
		g.Blocks = append(g.Blocks, schedule.Block{Send: peer, Recv: peer, Channel: number})
		r.s.Channels = max(r.s.Channels, number+1)
	}
	st.DepBlock, st.DepStep = schedule.None, schedule.None
	if before.block >= 0 && before.block != at {
		g.Blocks[before.block].Steps[before.step].HasDep = true
		st.DepBlock, st.DepStep = before.block, before.step
	}
	*before = last{at, len(g.Blocks[at].Steps)}
	g.Blocks[at].Steps = append(g.Blocks[at].Steps, st)
	return nil
}
