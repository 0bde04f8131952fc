// SPDX-License-Identifier: Apache-2.0

// Package replay plays recorded messages again through the link model, in virtual time: as they were
// posted, to learn what each of their segments did, or with something changed, to learn what would have
// been.
package replay

import (
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// Fabric is what the messages cross.
type Fabric struct {
	*fabric.Fabric
	TimeScale int
	Changes   []ledger.Change // of its hops, in the order of their times
	// Watch, if not nil, is called now and then while messages are played, with the part that is done, 0 to 1. An error
	// ends it.
	Watch func(part float64) error
}

// Flow is one connection.
type Flow struct {
	ID       uint64 // names it in random draws
	Src, Dst int    // NICs of the fabric
	Order    uint64 // of the flows at equal times; they are different
	Path     uint64 // what its path is drawn by, if each flow has its own
}

// driver says when messages are posted.
type driver interface {
	// start makes s.at call what happens first.
	start(s *simulation)
	// due and sent say that message msg of a flow is at the receiver, or complete for the sender, at s.now.
	due(s *simulation, flow, msg int)
	sent(s *simulation, flow, msg int)
}

// simulation moves messages in virtual time, in the order of a virtual clock (shaper/engine/sim).
type simulation struct {
	now     int64
	net     *link.Network
	flows   []flow
	loop    *sim.Loop
	driver  driver
	records []link.HopRecord
	watch   func(part float64) error // nil, or Fabric.Watch
	acts    int                      // posts and receives so far
	allActs int                      // that there will be
	err     error                    // the first one of a post or receive
}

// flow is a flow and what the model says of its messages.
type flow struct {
	sim.Endpoints
	times []Times
}

// Times is what the model says of a message, in ns; link.Never if it has not happened.
type Times struct {
	Due  int64 // the last byte is at the receiver, or the receive was posted later than that
	Sent int64 // the send is complete
}

var errNoPath = errors.New("the fabric has no path between them")

// newSimulation makes the flows on the fabric, which is at rest. keeps: records are kept.
func newSimulation(f *Fabric, flows []Flow, keeps bool) (*simulation, error) {
	params, err := f.Params(f.TimeScale)
	if err != nil {
		return nil, fmt.Errorf("prepare the fabric: %w", err)
	}
	changes, err := f.changes()
	if err != nil {
		return nil, err
	}
	transport := f.Transport().Scaled(int64(f.TimeScale))
	s := &simulation{net: link.NewNetwork(params, &transport, f.JitterTables(), f.Config.Seed), watch: f.Watch,
		flows: make([]flow, len(flows))}
	if keeps {
		s.net.KeepHopRecords()
	}
	ends, orders := make([]*sim.Endpoints, len(flows)), make([]uint64, len(flows))
	for i, x := range flows {
		if !f.hasPath(x.Src, x.Dst) {
			s.close()
			return nil, fmt.Errorf("a connection from NIC %d to NIC %d: %w", x.Src, x.Dst, errNoPath)
		}
		ends[i], orders[i] = &s.flows[i].Endpoints, x.Order
		if err := ends[i].Connect(x.ID, f.FlowPath(x.Src, x.Dst, x.Path), f.FlowReverse(x.Src, x.Dst, x.Path),
			s.net); err != nil {
			s.close()
			return nil, fmt.Errorf("a connection from NIC %d to NIC %d: %w", x.Src, x.Dst, err)
		}
	}
	s.loop = sim.New(s.net, ends, orders, changes, sim.Rules{RoundRobin: true})
	if keeps {
		s.loop.Watch = func(p *link.HopRecord) { s.records = append(s.records, *p) }
	}
	return s, nil
}

func (s *simulation) close() { s.net.Close() }

// changes is the changes of the fabric's hops for the loop.
func (f *Fabric) changes() ([]sim.Change, error) {
	out := make([]sim.Change, len(f.Changes))
	for i, c := range f.Changes {
		if c.Hop >= len(f.Hops) {
			return nil, fmt.Errorf("a change of hop %d: the fabric has %d", c.Hop, len(f.Hops))
		}
		p, err := link.NewParams(c.Spec, f.TimeScale)
		if err != nil {
			return nil, fmt.Errorf("a change of hop %d: %w", c.Hop, err)
		}
		out[i] = sim.Change{Time: c.Time, Hop: c.Hop, Params: p}
	}
	return out, nil
}

// at makes act be called at a time, now at the earliest: of several at one time first the one with the smallest number.
func (s *simulation) at(t int64, number int32, act func() error) {
	s.loop.After(t, uint64(number), func() {
		s.now = s.loop.Now()
		if s.err == nil {
			s.err = act()
		}
	})
}

// post posts a message at s.now.
func (s *simulation) post(flow int, size uint64) error {
	s.acts++
	f := &s.flows[flow]
	if !f.Send(size) {
		return fmt.Errorf("at %d ns: more than %d messages of one connection are not finished", s.now, link.MaxMessages)
	}
	f.times = append(f.times, Times{Due: link.Never, Sent: link.Never})
	return nil
}

// receive posts a receive at s.now.
func (s *simulation) receive(flow int) error {
	s.acts++
	if !s.flows[flow].Receive() {
		return fmt.Errorf("at %d ns: more than %d receives of one connection are not finished", s.now, link.MaxMessages)
	}
	return nil
}

// report calls Watch.
func (s *simulation) report() error {
	if s.watch == nil {
		return nil
	}
	return s.watch(float64(s.acts) / float64(max(s.allActs, s.acts, 1)))
}

// run plays until nothing is left to happen.
func (s *simulation) run(d driver) error {
	s.driver = d
	if err := s.report(); err != nil {
		return err
	}
	d.start(s)
	for s.err == nil {
		flows, stop := s.loop.Run(link.Never)
		s.now = s.loop.Now()
		switch stop {
		case sim.Reached:
			return nil
		case sim.Paused:
			if err := s.report(); err != nil {
				return err
			}
		case sim.Seen:
			s.see(flows)
			s.loop.RunTimers()
		}
	}
	return s.err
}

// see calls the driver for what has happened to flows.
func (s *simulation) see(flows []uint32) {
	for _, i := range flows {
		f := &s.flows[i]
		arrived, acked := f.Poll()
		for k := f.Arrived - arrived; k < f.Arrived; k++ {
			m := f.Flow.Message(k)
			f.times[k].Due = max(m.Due, m.Recv)
			s.driver.due(s, int(i), int(k))
		}
		for k := f.Acked - acked; k < f.Acked; k++ {
			f.times[k].Sent = f.Flow.Message(k).Sent
			s.driver.sent(s, int(i), int(k))
		}
	}
}
