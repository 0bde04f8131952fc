// SPDX-License-Identifier: Apache-2.0

// Package model calculates how long a schedule takes on a fabric if the host costs nothing: copies and sums take no
// time, messages take what the link model says. It plays the same programs as the execution with real bytes
// (nccl-plugin/drive), on the engine of shaper/engine/link, in virtual time. Connections behave as NCCL's over a network: a
// message occupies a slot of the sender until it is acknowledged, and a slot of the receiver until the receiver has
// taken it. A sender waits for the receive of the call, which takes a latency at the start; with Whole not behind the first
// call. Messages between ranks of one node take no time.
package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Result is what Play found.
type Result struct {
	Times []int64       // of each call in ns, from its start on all ranks until the last rank is done
	Loads []expect.Load // of one call, by hop, the longest first; the payload of LL and LL128 includes their flags
	// Bytes and Messages are the payload between nodes of one call.
	Bytes, Messages uint64
}

// Play plays calls one after another: each starts when the last rank has ended the one before. A schedule must be good
// (see package check). If it cannot go on, the error says who waits.
func Play(ctx context.Context, s *schedule.Schedule, c *schedule.Cut, f *expect.Fabric, calls int) (*Result, error) {
	net := link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed)
	defer net.Close()
	p, err := newPlayer(s, c, f, net)
	if err != nil {
		return nil, err
	}
	if s.Whole { // who stores into another GPU's memory does not wait for a receive
		p.calls, p.whole = uint64(calls), true
	}
	r := p.result(f)
	for range calls {
		start := p.loop.Now()
		if err := p.call(ctx); err != nil {
			return nil, err
		}
		r.Times = append(r.Times, p.loop.Now()-start)
	}
	return r, nil
}

// conn is a connection. All counts are of messages since the start.
type conn struct {
	sim.Ends          // within a node Arrived counts what the receiving block sees
	src, dst, channel int
	id                uint64 // of the flow: it selects the random draws
	path              []link.PathHop
	sender, receiver  int // blocks
	perCall           uint64

	written, consumed uint64
	sizes             []uint64 // of the messages written, by number modulo slots
}

type blockRun struct {
	gpu     int
	b       *schedule.Block
	program *schedule.Program
	in, out int // connections, -1 for none
	flag    schedule.Flag
	waiting []int // blocks that wait for the flag
	queued  bool
	ended   bool
}

type player struct {
	cut      *schedule.Cut
	calls    uint64 // for which receives may be posted: those begun, or all
	whole    bool
	slots    uint64
	conns    []conn
	blocks   []blockRun
	first    []int // block of each GPU
	runnable []int
	loop     *sim.Loop
	running  int // blocks that have not ended
}

func newPlayer(s *schedule.Schedule, c *schedule.Cut, f *expect.Fabric, net *link.Network) (*player, error) {
	p := &player{cut: c, slots: uint64(c.Slots)}
	sh, err := s.Shape()
	if err != nil {
		return nil, err
	}
	byEnds := map[[3]int]int{}
	for gpu := range s.GPUs {
		p.first = append(p.first, len(p.blocks))
		layout := s.Layout(gpu, false, 0, sh)
		for id := range s.GPUs[gpu].Blocks {
			b := &s.GPUs[gpu].Blocks[id]
			run := blockRun{gpu: gpu, b: b, program: schedule.NewProgram(b, c, &layout), in: -1, out: -1}
			out, in := c.Messages(b)
			if out > 0 {
				run.out = p.connect(byEnds, gpu, b.Send, b.Channel)
				p.conns[run.out].sender, p.conns[run.out].perCall = len(p.blocks), out
			}
			if in > 0 {
				run.in = p.connect(byEnds, b.Recv, gpu, b.Channel)
				p.conns[run.in].receiver = len(p.blocks)
			}
			p.blocks = append(p.blocks, run)
		}
	}
	// The plugin numbers the connections between two NICs (link.FlowID), by sender, receiver and channel.
	made := &connections{between: map[[2]int]uint64{}, by: map[int]uint64{}}
	for _, i := range p.inOrderOfIDs() {
		if err := p.conns[i].open(f, net, p.slots, made); err != nil {
			return nil, err
		}
	}
	p.loop = sim.New(net, p.ends(), p.places(), sim.Rules{InTurns: true})
	return p, nil
}

func (p *player) ends() []*sim.Ends {
	ends := make([]*sim.Ends, len(p.conns))
	for i := range p.conns {
		ends[i] = &p.conns[i].Ends
	}
	return ends
}

// places are those of the connections in the order of a virtual clock: by sender, distance to the receiver and channel.
func (p *player) places() []uint64 {
	return sim.Places(len(p.conns), func(a, b int) int {
		x, y := &p.conns[a], &p.conns[b]
		return cmp.Or(cmp.Compare(sim.Order(x.src, x.dst, 0), sim.Order(y.src, y.dst, 0)), cmp.Compare(x.channel, y.channel))
	})
}

// inOrderOfIDs is the connections by sender, receiver and channel.
func (p *player) inOrderOfIDs() []int {
	order := make([]int, len(p.conns))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &p.conns[a], &p.conns[b]
		return cmp.Or(cmp.Compare(x.src, y.src), cmp.Compare(x.dst, y.dst), cmp.Compare(x.channel, y.channel))
	})
	return order
}

func (p *player) connect(byEnds map[[3]int]int, src, dst, channel int) int {
	key := [3]int{src, dst, channel}
	i, ok := byEnds[key]
	if !ok {
		i = len(p.conns)
		byEnds[key] = i
		p.conns = append(p.conns, conn{src: src, dst: dst, channel: channel, sender: -1, receiver: -1})
	}
	return i
}

// connections counts those that the plugin makes.
type connections struct {
	between map[[2]int]uint64 // by the NICs at both ends
	by      map[int]uint64    // by the receiver's NIC
}

// open makes the flow of a connection between nodes.
func (c *conn) open(f *expect.Fabric, net *link.Network, slots uint64, made *connections) error {
	if c.sender < 0 || c.receiver < 0 {
		return fmt.Errorf("GPU %d to GPU %d on channel %d has only one end", c.src, c.dst, c.channel)
	}
	c.sizes = make([]uint64, slots)
	if f.Node(c.src) == f.Node(c.dst) {
		return nil
	}
	of := expect.Conn{Src: c.src, Dst: c.dst, Channel: c.channel}
	path, _, err := f.Path(of)
	if err != nil {
		return fmt.Errorf("path of GPU %d to GPU %d on channel %d: %w", c.src, c.dst, c.channel, err)
	}
	nics := [2]int{path[0].Hop / 2, path[len(path)-1].Hop / 2} // hops 2n and 2n+1 are the ports of NIC n
	of.Listened = made.by[nics[1]]
	c.id = link.FlowID(nics[0], nics[1], made.between[nics])
	made.by[nics[1]]++
	made.between[nics]++
	path, reverse, err := f.Path(of)
	if err != nil {
		return err
	}
	c.path = path
	if err := c.Connect(c.id, path, reverse, net); err != nil {
		return fmt.Errorf("GPU %d to GPU %d: %w", c.src, c.dst, err)
	}
	return nil
}

// stepsPerCheck is the number of steps between two checks of the context, a few milliseconds.
const stepsPerCheck = 4096

// call plays one call.
func (p *player) call(ctx context.Context) error {
	if !p.whole {
		p.calls++
	}
	p.running = len(p.blocks)
	for i := range p.blocks {
		b := &p.blocks[i]
		b.program.Reset()
		b.flag, b.waiting, b.ended = schedule.NoFlag, nil, false
		p.wake(i)
	}
	for i := range p.conns {
		p.proxies(i)
	}
	p.runBlocks()
	for n := 0; p.running > 0 || p.loop.HasPosts(); n++ {
		if n%stepsPerCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		until := int64(link.Never)
		if p.running == 0 {
			until = p.loop.Now() // what was posted at the end is read
		}
		flows := p.loop.Run(until)
		if len(flows) == 0 && !p.loop.HasPosts() && p.running > 0 && p.loop.Next() == link.Never {
			return p.stuck()
		}
		for _, i := range flows {
			p.look(int(i))
		}
		p.runBlocks()
	}
	return nil
}

// runBlocks lets blocks do what they can at this instant.
func (p *player) runBlocks() {
	for k := 0; k < len(p.runnable); k++ {
		i := p.runnable[k]
		p.blocks[i].queued = false
		for p.runBlock(i) {
		}
	}
	p.runnable = p.runnable[:0]
}

func (p *player) wake(i int) {
	if b := &p.blocks[i]; !b.queued && !b.ended {
		b.queued = true
		p.runnable = append(p.runnable, i)
	}
}

// runBlock does the next action of a block, if it is ready.
func (p *player) runBlock(i int) bool {
	b := &p.blocks[i]
	if b.ended {
		return false
	}
	if b.program.Done() {
		b.ended = true
		p.running--
		return false
	}
	var a schedule.Action
	b.program.Current(&a)
	if !p.ready(i, &a) {
		return false
	}
	if a.Receives() {
		c := &p.conns[b.in]
		c.consumed++
		if c.Flow == nil {
			p.wake(c.sender)
		} else {
			p.proxies(b.in)
		}
	}
	if a.Sends() {
		c := &p.conns[b.out]
		c.sizes[c.written%p.slots] = a.Wire
		c.written++
		if c.Flow == nil {
			c.Arrived++
			p.wake(c.receiver)
		} else {
			p.proxies(b.out)
		}
	}
	b.program.Next()
	if a.Ends && a.Step.HasDep && a.Step.Kind != schedule.NopStep {
		b.flag = schedule.Flag{Loop: a.Loop, Step: a.Number}
		for _, w := range b.waiting {
			p.wake(w)
		}
		b.waiting = b.waiting[:0]
	}
	return true
}

// ready says whether a block need not wait.
func (p *player) ready(i int, a *schedule.Action) bool {
	b := &p.blocks[i]
	if a.Waits && a.Step.DepBlock >= 0 {
		o := &p.blocks[p.first[b.gpu]+a.Step.DepBlock]
		if !o.flag.Reached(a.Loop, a.Step.DepStep) {
			o.waiting = append(o.waiting, i)
			return false
		}
	}
	if a.Receives() {
		if c := &p.conns[b.in]; c.Arrived == c.consumed {
			return false
		}
	}
	if a.Sends() {
		c := &p.conns[b.out]
		if done := c.Acked; c.Flow != nil && c.written >= done+p.slots {
			return false
		}
		if c.Flow == nil && c.written >= c.consumed+p.slots {
			return false
		}
	}
	return true
}

// stuck says who waits for what.
func (p *player) stuck() error {
	for i := range p.conns {
		if c := &p.conns[i]; c.Flow != nil && c.Flow.Broken() {
			return fmt.Errorf("GPU %d to GPU %d: the link is down for longer than the transport waits", c.src, c.dst)
		}
	}
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.ended || b.program.Done() {
			continue
		}
		var a schedule.Action
		b.program.Current(&a)
		return fmt.Errorf("deadlock at this size: GPU %d block %d waits for ever at step %d (%v) of loop %d: check the schedule", b.gpu, i-p.first[b.gpu], a.Number, a.Step.Kind, a.Loop)
	}
	return errors.New("nothing is left to do, but a block has not ended: the model is wrong")
}
