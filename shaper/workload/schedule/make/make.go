// SPDX-License-Identifier: Apache-2.0

// Package make makes schedules: rings, all pairs, and trees of any shape, for all-gather, reduce-scatter and
// all-reduce.
//
// A chunk has a root, the rank whose share it belongs to, and an index below K. An all-gather sends it from its root to
// all, a reduce-scatter adds it up towards its root, and an all-reduce does one after the other. K is the number of
// chunks per root, each of which takes a ring or tree of its own.
package make

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Limits of Options.
const (
	MaxGPUs = 256
	MaxK    = 256
)

// Options say what to make.
type Options struct {
	Coll  schedule.Collective // one of Collectives
	GPUs  int                 // 2 to MaxGPUs
	K     int                 // 1 to MaxK
	Grain int64               // largest payload of a message in bytes; 0: that of NCCL's default buffers
	Proto schedule.Protocol   // "": Simple
	// OutOfPlace makes an all-gather for calls out of place, which copies the rank's own share. The others are for both
	// places.
	OutOfPlace bool
}

// Collectives are those that schedules are made for.
var Collectives = []schedule.Collective{schedule.AllGather, schedule.ReduceScatter, schedule.AllReduce}

func (o *Options) check() error {
	if !slices.Contains(Collectives, o.Coll) {
		return fmt.Errorf("%s: schedules are made for %s", o.Coll, strings.Join(schedule.Names(Collectives), ", "))
	}
	if o.GPUs < 2 || o.GPUs > MaxGPUs {
		return fmt.Errorf("%d GPUs: must be 2 to %d", o.GPUs, MaxGPUs)
	}
	if o.K < 1 || o.K > MaxK {
		return fmt.Errorf("k %d: must be 1 to %d", o.K, MaxK)
	}
	if o.Grain < 0 || o.Grain > 0 && (o.Grain < 256 || o.Grain > 1<<30) {
		return fmt.Errorf("grain %d: must be 256 bytes to 1 GiB", o.Grain)
	}
	return nil
}

// builder collects the blocks of a schedule.
type builder struct {
	s     *schedule.Schedule
	o     *Options
	share int // chunks of a root
}

func newBuilder(name string, o *Options, share int) (*builder, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &schedule.Schedule{
		Name: fmt.Sprintf("%s_%s_k%d", o.Coll, name, o.K), Coll: o.Coll, Proto: cmp.Or(o.Proto, schedule.Simple),
		LoopChunks: o.GPUs * share,
		Grain:      o.Grain,
		InPlace:    true, OutOfPlace: true, GPUs: make([]schedule.GPU, o.GPUs),
	}
	if o.Coll == schedule.AllGather {
		s.InPlace, s.OutOfPlace = !o.OutOfPlace, o.OutOfPlace
	}
	b := &builder{s: s, o: o, share: share}
	sh, err := s.Shape()
	if err != nil {
		return nil, err
	}
	for i := range s.GPUs {
		s.GPUs[i].Chunks = [schedule.Buffers]int{sh.In, sh.Out, 0}
	}
	return b, nil
}

// chunk is chunk index of a root, in a buffer that holds all.
func (b *builder) chunk(root, index int) int { return root*b.share + index }

// input is where a rank has its input of a chunk.
func (b *builder) input(rank, root, index int) schedule.Ref {
	if b.s.Coll != schedule.AllGather {
		return schedule.Ref{Buffer: schedule.Input, Offset: b.chunk(root, index)}
	}
	if b.o.OutOfPlace {
		return schedule.Ref{Buffer: schedule.Input, Offset: index}
	}
	return b.output(rank, root, index)
}

// output is where a rank wants a chunk. In a reduce-scatter only the root does.
func (b *builder) output(_, root, index int) schedule.Ref {
	if b.s.Coll == schedule.ReduceScatter {
		return schedule.Ref{Buffer: schedule.Output, Offset: index}
	}
	return schedule.Ref{Buffer: schedule.Output, Offset: b.chunk(root, index)}
}

// add adds a block and returns its number.
func (b *builder) add(gpu, send, recv, channel int, steps ...schedule.Step) int {
	g := &b.s.GPUs[gpu]
	g.Blocks = append(g.Blocks, schedule.Block{Send: send, Recv: recv, Channel: channel, Steps: steps})
	b.s.Channels = max(b.s.Channels, channel+1)
	return len(g.Blocks) - 1
}

// step is a step of one chunk that waits for nobody.
func step(kind schedule.Kind, src, dst schedule.Ref) schedule.Step {
	return schedule.Step{Kind: kind, Src: src, Dst: dst, Count: 1, DepBlock: schedule.None, DepStep: schedule.None}
}

// after makes a step wait for a step of another block of its GPU. No block: it waits for nobody.
func (b *builder) after(gpu int, s schedule.Step, block, number int) schedule.Step {
	if block >= 0 {
		s.DepBlock, s.DepStep = block, number
		b.s.GPUs[gpu].Blocks[block].Steps[number].HasDep = true
	}
	return s
}

// copyOwn copies the ranks' own shares, which an all-gather out of place needs.
func (b *builder) copyOwn() {
	if b.s.Coll != schedule.AllGather || !b.o.OutOfPlace {
		return
	}
	for gpu := range b.s.GPUs {
		s := step(schedule.CopyStep, b.input(gpu, gpu, 0), b.output(gpu, gpu, 0))
		s.Count = b.share
		b.add(gpu, schedule.None, schedule.None, 0, s)
	}
}

// Ring makes K rings in the order of the ranks, on a channel each.
func Ring(o Options) (*schedule.Schedule, error) {
	b, err := newBuilder("ring", &o, o.K)
	if err != nil {
		return nil, err
	}
	n := o.GPUs
	for gpu := range n {
		for i := range o.K {
			b.add(gpu, (gpu+1)%n, (gpu+n-1)%n, i, b.ringSteps(gpu, i)...)
		}
	}
	b.copyOwn()
	return b.s, nil
}

// ringSteps are the steps of a rank on one ring.
func (b *builder) ringSteps(gpu, i int) (steps []schedule.Step) {
	n := len(b.s.GPUs)
	in := func(root int) schedule.Ref { return b.input(gpu, root, i) }
	out := func(root int) schedule.Ref { return b.output(gpu, root, i) }
	back := func(k int) int { return (gpu + 2*n - k) % n } // the rank k places before
	if b.s.Coll == schedule.AllGather {
		steps = append(steps, step(schedule.SendStep, in(gpu), out(gpu)))
		for k := 1; k < n-1; k++ {
			steps = append(steps, step(schedule.RecvCopySend, out(back(k)), out(back(k))))
		}
		return append(steps, step(schedule.RecvStep, out(back(n-1)), out(back(n-1))))
	}
	steps = append(steps, step(schedule.SendStep, in(back(1)), in(back(1))))
	for k := 2; k < n; k++ {
		steps = append(steps, step(schedule.RecvReduceSend, in(back(k)), in(back(k))))
	}
	if b.s.Coll == schedule.ReduceScatter {
		return append(steps, step(schedule.RecvReduceCopy, in(gpu), out(gpu)))
	}
	steps = append(steps, step(schedule.RecvReduceCopySend, in(gpu), out(gpu)))
	for k := 1; k < n-1; k++ {
		steps = append(steps, step(schedule.RecvCopySend, out(back(k)), out(back(k))))
	}
	return append(steps, step(schedule.RecvStep, out(back(n-1)), out(back(n-1))))
}

// AllPairs makes every rank exchange with every other: K blocks per peer, on K channels.
func AllPairs(o Options) (*schedule.Schedule, error) {
	b, err := newBuilder("allpairs", &o, o.K)
	if err != nil {
		return nil, err
	}
	for gpu := range o.GPUs {
		for i := range o.K {
			b.pairs(gpu, i)
		}
	}
	b.copyOwn()
	return b.s, nil
}

// pairs adds the blocks of chunk i of all roots for one GPU. What it receives of its own chunk it adds up in the order
// of the blocks.
func (b *builder) pairs(gpu, i int) {
	n := len(b.s.GPUs)
	last := schedule.None // the block that has added to this GPU's chunk last
	var blocks []int
	sum := b.input(gpu, gpu, i)
	for k := 1; k < n; k++ {
		peer := (gpu + k) % n
		if b.s.Coll == schedule.AllGather {
			b.add(gpu, peer, peer, i, step(schedule.SendStep, sum, sum),
				step(schedule.RecvStep, b.output(gpu, peer, i), b.output(gpu, peer, i)))
			continue
		}
		reduce := b.after(gpu, step(schedule.RecvReduceCopy, sum, b.output(gpu, gpu, i)), last, 1)
		last = b.add(gpu, peer, peer, i, step(schedule.SendStep, b.input(gpu, peer, i), b.input(gpu, peer, i)), reduce)
		sum = b.output(gpu, gpu, i)
		blocks = append(blocks, last)
	}
	if b.s.Coll != schedule.AllReduce {
		return
	}
	for k, block := range blocks {
		peer := (gpu + k + 1) % n
		send := step(schedule.SendStep, sum, sum)
		if block != last {
			send = b.after(gpu, send, last, 1)
		}
		steps := &b.s.GPUs[gpu].Blocks[block].Steps
		*steps = append(*steps, send, step(schedule.RecvStep, b.output(gpu, peer, i), b.output(gpu, peer, i)))
	}
}
