// SPDX-License-Identifier: Apache-2.0

// Package replay plays recorded messages again through the link model, in virtual time: as they were
// posted, to learn what each of their segments did, or with something changed, to learn what would have
// been.
package replay

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
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
	Order    uint64 // flows take turns by it at equal times; they are different
	Path     uint64 // what its path is drawn by, if each flow has its own
}

// driver says when messages are posted.
type driver interface {
	// next is the time of the next post or receive that is known, or link.Never.
	next() int64
	// act makes what is to be done at s.now by s.post and s.receive.
	act(s *sim) error
	// due and sent say that message msg of a flow is at the receiver, or complete for the sender, at s.now.
	due(s *sim, flow, msg int)
	sent(s *sim, flow, msg int)
}

// sim moves messages in virtual time, in the order of a virtual clock (shaper/engine/clock/flows.c): at each
// instant first the steps of the flows, in their order; then what is posted, one message of each flow in
// turn.
type sim struct {
	now     int64
	net     *link.Network
	flows   []*flow
	queue   wakes
	changes []ledger.Change
	scale   int
	driver  driver
	posts   map[int][]uint64 // sizes that flows are to post at this instant
	active  []int            // flows that post or receive at this instant
	passes  []link.Pass
	keeps   bool
	watch   func(part float64) error // nil, or Fabric.Watch
	acts    int                      // posts and receives so far
	allActs int                      // that there will be
}

// flow is a flow and how far it is.
type flow struct {
	*link.Flow
	order           uint64
	posted          int
	nextDue         int // the first message that is not due yet
	nextSent        int
	taken           int
	times           []Times
	at              int64 // when it must be advanced
	place           int   // in the queue, -1: it is not there
	active          bool
	receivesPending int
}

// Times is what the model says of a message, in ns; link.Never if it has not happened.
type Times struct {
	Due  int64 // the last byte is at the receiver, or the receive was posted later than that
	Sent int64 // the send is complete
}

var errNoPath = errors.New("the fabric has no path between them")

// newSim makes the flows on the fabric, which is at rest. keeps: passes are kept.
func newSim(f *Fabric, flows []Flow, keeps bool) (*sim, error) {
	params, err := f.Params(f.TimeScale)
	if err != nil {
		return nil, fmt.Errorf("prepare the fabric: %w", err)
	}
	transport := f.Transport().Scaled(int64(f.TimeScale))
	s := &sim{net: link.NewNetwork(params, &transport, f.JitterTables(), f.Config.Seed), changes: f.Changes, scale: f.TimeScale, posts: map[int][]uint64{}, keeps: keeps, watch: f.Watch}
	if keeps {
		s.net.KeepPasses()
	}
	for _, x := range flows {
		if !f.hasPath(x.Src, x.Dst) {
			s.close()
			return nil, fmt.Errorf("a connection from NIC %d to NIC %d: %w", x.Src, x.Dst, errNoPath)
		}
		s.flows = append(s.flows, &flow{Flow: s.net.NewFlow(x.ID, f.FlowPath(x.Src, x.Dst, x.Path), f.FlowReverse(x.Src, x.Dst, x.Path)), order: x.Order, at: link.Never, place: -1})
	}
	return s, nil
}

func (s *sim) close() { s.net.Close() }

// post posts a message at s.now. It is for driver.act.
func (s *sim) post(flow int, size uint64) {
	s.acts++
	s.posts[flow] = append(s.posts[flow], size)
	s.activate(flow)
}

// receive posts a receive at s.now. It is for driver.act.
func (s *sim) receive(flow int) {
	s.acts++
	s.flows[flow].receivesPending++
	s.activate(flow)
}

func (s *sim) activate(i int) {
	if !s.flows[i].active {
		s.flows[i].active = true
		s.active = append(s.active, i)
	}
}

// watchEvery is the number of instants between two calls of Watch: some ms.
const watchEvery = 4096

// run plays until nothing is left to happen.
func (s *sim) run(d driver) error {
	s.driver = d
	for turn := 0; ; turn++ {
		if turn%watchEvery == 0 && s.watch != nil {
			if err := s.watch(float64(s.acts) / float64(max(s.allActs, s.acts, 1))); err != nil {
				return err
			}
		}
		t := min(s.queue.first(s), d.next(), s.nextChange())
		if t == link.Never {
			return nil
		}
		s.now = max(s.now, t)
		if err := s.change(); err != nil {
			return err
		}
		for s.queue.first(s) <= s.now {
			s.advance(s.queue.order[0])
		}
		for d.next() <= s.now {
			if err := d.act(s); err != nil {
				return err
			}
			if err := s.takeTurns(); err != nil {
				return err
			}
		}
	}
}

// takeTurns posts what the driver has said, one message of each flow in turn.
func (s *sim) takeTurns() error {
	active := s.active
	s.active = nil
	slices.SortFunc(active, func(a, b int) int { return cmp.Compare(s.flows[a].order, s.flows[b].order) })
	for _, i := range active {
		s.flows[i].active = false
	}
	for len(active) > 0 {
		left := active[:0]
		for _, i := range active {
			f := s.flows[i]
			for ; f.receivesPending > 0; f.receivesPending-- {
				if !f.Recv(s.now) {
					return fmt.Errorf("at %d ns: more than %d receives of one connection are not finished", s.now, link.MaxMessages)
				}
			}
			if sizes := s.posts[i]; len(sizes) > 0 {
				if _, ok := f.Post(sizes[0], s.now); !ok {
					return fmt.Errorf("at %d ns: more than %d messages of one connection are not finished", s.now, link.MaxMessages)
				}
				f.times = append(f.times, Times{Due: link.Never, Sent: link.Never})
				f.posted++
				s.posts[i] = sizes[1:]
				if len(sizes) > 1 {
					left = append(left, i)
				} else {
					delete(s.posts, i)
				}
			}
			s.advance(i)
		}
		active = left
	}
	return nil
}

// advance makes the steps of a flow up to now, and tells the driver what has happened.
func (s *sim) advance(i int) {
	f := s.flows[i]
	next := f.Advance(s.now)
	if s.keeps {
		s.passes = s.net.Passes(s.passes)
	}
	for ; f.nextDue < f.posted; f.nextDue++ {
		m := f.Message(uint64(f.nextDue))
		if m.Due == link.Never || m.Recv == link.Never {
			break
		}
		if t := max(m.Due, m.Recv); t > s.now {
			next = min(next, t)
			break
		}
		f.times[f.nextDue].Due = max(m.Due, m.Recv)
		s.driver.due(s, i, f.nextDue)
	}
	for ; f.nextSent < f.posted; f.nextSent++ {
		m := f.Message(uint64(f.nextSent))
		if m.Sent > s.now {
			next = min(next, m.Sent)
			break
		}
		f.times[f.nextSent].Sent = m.Sent
		s.driver.sent(s, i, f.nextSent)
	}
	for f.taken < min(f.nextDue, f.nextSent) {
		f.Take()
		f.taken++
	}
	if next <= s.now {
		next = s.now + 1 // what is to be done by now is done
	}
	s.queue.set(s, i, next)
}

func (s *sim) nextChange() int64 {
	if len(s.changes) == 0 || s.idle() {
		return link.Never
	}
	return s.changes[0].Time
}

// idle says whether nothing happens any more, whatever the links do.
func (s *sim) idle() bool { return s.queue.first(s) == link.Never && s.driver.next() == link.Never }

// change puts the parameters in force that are due.
func (s *sim) change() error {
	for ; len(s.changes) > 0 && s.changes[0].Time <= s.now; s.changes = s.changes[1:] {
		c := s.changes[0]
		if c.Hop >= len(s.net.Hops) {
			return fmt.Errorf("a change of hop %d: the fabric has %d", c.Hop, len(s.net.Hops))
		}
		p, err := link.NewParams(c.Spec, s.scale)
		if err != nil {
			return fmt.Errorf("a change of hop %d: %w", c.Hop, err)
		}
		s.net.Change(c.Hop, p, s.now)
	}
	return nil
}

// wakes is the queue of the flows that must be advanced, by time and order.
type wakes struct {
	order []int
	flows []*flow
}

func (w *wakes) Len() int { return len(w.order) }
func (w *wakes) Less(a, b int) bool {
	x, y := w.flows[w.order[a]], w.flows[w.order[b]]
	return x.at < y.at || x.at == y.at && x.order < y.order
}
func (w *wakes) Swap(a, b int) {
	w.order[a], w.order[b] = w.order[b], w.order[a]
	w.flows[w.order[a]].place, w.flows[w.order[b]].place = a, b
}
func (w *wakes) Push(x any) {
	i, _ := x.(int)
	w.flows[i].place = len(w.order)
	w.order = append(w.order, i)
}
func (w *wakes) Pop() any {
	i := w.order[len(w.order)-1]
	w.order = w.order[:len(w.order)-1]
	w.flows[i].place = -1
	return i
}

// first is the earliest time.
func (w *wakes) first(s *sim) int64 {
	if len(w.order) == 0 {
		return link.Never
	}
	return s.flows[w.order[0]].at
}

// set changes the time of a flow.
func (w *wakes) set(s *sim, i int, at int64) {
	w.flows = s.flows
	f := s.flows[i]
	f.at = at
	switch {
	case at == link.Never && f.place >= 0:
		heap.Remove(w, f.place)
	case at == link.Never:
	case f.place < 0:
		heap.Push(w, i)
	default:
		heap.Fix(w, f.place)
	}
}
