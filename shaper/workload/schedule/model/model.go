// SPDX-License-Identifier: Apache-2.0

// Package model calculates how long a schedule takes on a fabric if the host costs nothing: copies and sums take no
// time, messages take what the link model says. It plays the same programs as the execution with real bytes
// (nccl-plugin/drive), on the engine of shaper/engine/link, in virtual time. Connections behave as NCCL's over a
// network: a message occupies a slot of the sender until it is acknowledged, and a slot of the receiver until the
// receiver has taken it. A sender waits for the receive of the call, which takes a latency at the start; with Whole
// not behind the first call. Messages between ranks of one node take no time.
package model

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/interpret"
)

// Result is what Play found.
type Result struct {
	Times []int64       // of each call in ns, from its start on all ranks until the last rank is done
	Loads []expect.Load // of one call, by hop, the longest first; the payload of LL and LL128 includes their flags
	// Bytes and Messages are the payload between nodes of one call.
	Bytes, Messages uint64
}

// Play plays calls one after another: each starts when the last rank has ended the one before. A schedule must be good
// (see package check). If it cannot go on, the error says which block waits.
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
	sim.Endpoints
	*interpret.Conn
	path    []link.PathHop
	perCall uint64
	sizes   []uint64 // of the messages written, by number modulo slots
}

type player struct {
	cut   *schedule.Cut
	calls uint64 // for which receives may be posted: those begun, or all
	whole bool
	slots uint64
	conns []conn
	steps *interpret.Machine
	loop  *sim.Loop
}

func newPlayer(s *schedule.Schedule, c *schedule.Cut, f *expect.Fabric, net *link.Network) (*player, error) {
	p := &player{cut: c, slots: uint64(c.Slots)}
	p.steps = interpret.New(interpret.NewGraph(s), c, nil, p.act)
	p.conns = make([]conn, len(p.steps.Conns))
	for i := range p.conns {
		x := &p.conns[i]
		x.Conn = &p.steps.Conns[i]
		if x.Sender >= 0 {
			x.perCall, _ = c.Messages(p.steps.Blocks[x.Sender].Block)
		}
	}
	// The plugin numbers the connections between two NICs (link.FlowID), by sender, receiver and channel.
	made := &connections{between: map[[2]int]uint64{}, by: map[int]uint64{}}
	for _, i := range p.steps.Order(func(a, b *interpret.Edge) int {
		return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Dst, b.Dst), cmp.Compare(a.Channel, b.Channel))
	}) {
		if err := p.conns[i].open(f, net, p.slots, made); err != nil {
			return nil, err
		}
	}
	p.loop = sim.New(net, p.ends(), p.order(), f.Changes, sim.Rules{RoundRobin: true})
	return p, nil
}

func (p *player) ends() []*sim.Endpoints {
	ends := make([]*sim.Endpoints, len(p.conns))
	for i := range p.conns {
		ends[i] = &p.conns[i].Endpoints
	}
	return ends
}

// order is the order of the connections on a virtual clock: by sender, distance to the receiver and channel.
func (p *player) order() []uint64 {
	return sim.Orders(len(p.conns), func(a, b int) int {
		x, y := &p.conns[a], &p.conns[b]
		return cmp.Or(cmp.Compare(sim.Order(x.Src, x.Dst, 0), sim.Order(y.Src, y.Dst, 0)),
			cmp.Compare(x.Channel, y.Channel))
	})
}

// connections counts those that the plugin makes.
type connections struct {
	between map[[2]int]uint64 // by the NICs at both ends
	by      map[int]uint64    // by the receiver's NIC
}

// open makes the flow of a connection between nodes.
func (c *conn) open(f *expect.Fabric, net *link.Network, slots uint64, made *connections) error {
	if c.Sender < 0 || c.Receiver < 0 {
		return fmt.Errorf("GPU %d to GPU %d on channel %d has only one end", c.Src, c.Dst, c.Channel)
	}
	c.sizes = make([]uint64, slots)
	if f.Node(c.Src) == f.Node(c.Dst) {
		return nil
	}
	of := expect.Conn{Src: c.Src, Dst: c.Dst, Channel: c.Channel}
	path, _, err := f.Path(of)
	if err != nil {
		return fmt.Errorf("path of GPU %d to GPU %d on channel %d: %w", c.Src, c.Dst, c.Channel, err)
	}
	nics := [2]int{path[0].Hop / 2, path[len(path)-1].Hop / 2} // hops 2n and 2n+1 are the ports of NIC n
	of.Listened = made.by[nics[1]]
	id := link.FlowID(nics[0], nics[1], made.between[nics])
	made.by[nics[1]]++
	made.between[nics]++
	path, reverse, err := f.Path(of)
	if err != nil {
		return err
	}
	c.path, c.Remote = path, true
	if err := c.Connect(id, path, reverse, net); err != nil {
		return fmt.Errorf("GPU %d to GPU %d: %w", c.Src, c.Dst, err)
	}
	return nil
}

// call plays one call, unless ctx is done when it begins or when the loop pauses.
func (p *player) call(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !p.whole {
		p.calls++
	}
	p.steps.Start()
	for i := range p.conns {
		p.proxies(i)
	}
	p.steps.Run()
	for !p.steps.Done() || p.loop.HasPosts() {
		until := int64(link.Never)
		if p.steps.Done() {
			until = p.loop.Now() // what was posted at the end is read
		}
		flows, stop := p.loop.Run(until)
		switch {
		case stop == sim.Paused && ctx.Err() != nil:
			return ctx.Err()
		case stop == sim.Reached && until == link.Never:
			return p.stuck()
		}
		for _, i := range flows {
			p.wakeEnds(int(i))
		}
		p.steps.Run()
	}
	return nil
}

// act notes what a block sends and takes.
func (p *player) act(i int, a *schedule.Action) {
	b := &p.steps.Blocks[i]
	if a.Step.Receives() {
		p.proxies(b.In)
	}
	if a.Step.Sends() {
		c := &p.conns[b.Out]
		c.sizes[(c.Written-1)%p.slots] = a.Wire
		p.proxies(b.Out)
	}
}

// stuck says which block waits for what.
func (p *player) stuck() error {
	for i := range p.conns {
		if c := &p.conns[i]; c.Flow != nil && c.Flow.Broken() {
			return fmt.Errorf("GPU %d to GPU %d: the link is down for longer than the transport waits", c.Src, c.Dst)
		}
	}
	return p.steps.Stuck()
}
