// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"container/heap"

	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// A packet of these fabrics: what it takes of the line, and its payload.
const (
	mtu           = 9000
	header        = 40
	framing       = 38
	packetBytes   = mtu + framing
	packetPayload = mtu - header
)

// queue is what waits for one hop, and the line behind it. Times are ns.
type queue struct {
	perPacket float64 // time on the line
	latency   float64
	drops     bool
	room      int  // with drops: packets, 0 = no bound
	buffer    int  // without: packets that came over this line and are still at the switch behind it; 0 = no bound
	held      int  // of these
	pass      bool // nothing but latency

	waiting []*packet // first in, first out
	taken   int       // places taken: those waiting, and those on the way here
	busy    bool

	sources []*flow // of a NIC's port: flows with packets, in turn
}

type flow struct {
	path    []*queue
	left    int  // packets to send
	window  int  // packets under way at most; 0 = no bound
	out     int  // of these
	waits   bool // for its window
	arrived int
	round   float64       // trip
	at      []*recovering // by place in the path
}

// recovering is a flow where one of its packets was dropped.
type recovering struct {
	again  *packet   // the dropped one, on its way again
	behind []*packet // what may not overtake it
}

type packet struct {
	f    *flow
	at   int    // place in the path
	line *queue // in whose buffer it is
}

// event is a packet that comes to its queue, or a line that is free again.
type event struct {
	at    float64
	order int
	p     *packet
	free  *queue
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// sim is the network.
type sim struct {
	now    float64
	heap   events
	order  int
	queues []*queue
	flows  []*flow
}

// newSim makes the queues of f's hops.
func newSim(f *fabric.Fabric) *sim {
	s := &sim{}
	for _, h := range f.Hops {
		l := fabric.LinkOf(h.Spec)
		q := &queue{latency: float64(l.Latency), perPacket: packetBytes * 8e9 / float64(l.Bandwidth), drops: l.Queue.Policy == "taildrop"}
		if h.Kind == fabric.Link {
			q.perPacket, q.pass = 0, true // as fast as the port that feeds it
		}
		places := max(int(l.Queue.Bytes)/packetBytes, 1)
		switch {
		case l.Queue.Bytes == 0:
		case q.drops && h.Kind != fabric.TxPort:
			q.room = places
		case !q.drops && (h.Kind == fabric.Link || h.Kind == fabric.Trunk):
			q.buffer = places
		}
		s.queues = append(s.queues, q)
	}
	return s
}

// add adds a flow of so many bytes.
func (s *sim) add(f *fabric.Fabric, src, dst, bytes int) *flow {
	fl := &flow{left: (bytes + packetPayload - 1) / packetPayload}
	for _, step := range f.Path(src, dst) {
		q := s.queues[step.Hop]
		fl.path, fl.at = append(fl.path, q), append(fl.at, &recovering{})
	}
	fl.round = float64(f.Latency(src, dst) + f.Latency(dst, src))
	fl.path[0].buffer = fl.path[1].buffer // the link is what leads to the switch
	fl.path[0].sources = append(fl.path[0].sources, fl)
	s.flows = append(s.flows, fl)
	return fl
}

// run runs until the time end.
func (s *sim) run(end float64) {
	for _, f := range s.flows {
		s.send(f.path[0])
	}
	for len(s.heap) > 0 && s.heap[0].at <= end {
		e := heap.Pop(&s.heap).(event)
		s.now = e.at
		if e.free != nil {
			e.free.busy = false
			s.send(e.free)
			continue
		}
		s.come(e.p)
	}
}

func (s *sim) push(e event) {
	s.order++
	e.order = s.order
	heap.Push(&s.heap, e)
}

// next is the packet that the line of q sends next, nil if there is none.
func (q *queue) next() *packet {
	if len(q.waiting) == 0 && len(q.sources) > 0 {
		f := q.sources[0]
		q.sources = q.sources[1:]
		f.out++
		if f.left--; f.left > 0 {
			if f.window > 0 && f.out >= f.window {
				f.waits = true
			} else {
				q.sources = append(q.sources, f)
			}
		}
		q.waiting = append(q.waiting, &packet{f: f})
	}
	if len(q.waiting) == 0 {
		return nil
	}
	return q.waiting[0]
}

// send lets the line of q send its next packet, if it is free and has room in its buffer
// at the switch behind it; what leaves a switch makes room in that of the line it came by.
func (s *sim) send(q *queue) {
	if q.busy || !q.pass && q.buffer > 0 && q.held >= q.buffer {
		return
	}
	p := q.next()
	if p == nil {
		return
	}
	q.waiting = q.waiting[1:]
	q.busy = true
	p.at++
	s.push(event{at: s.now + q.perPacket, free: q})
	s.push(event{at: s.now + q.perPacket + q.latency, p: p})
	if q.room > 0 {
		q.taken--
	}
	if q.pass {
		return
	}
	from := p.line
	p.line = q
	if q.buffer > 0 {
		q.held++
	}
	if from != nil && from.buffer > 0 {
		from.held--
		s.send(from)
	}
}

// come lets a packet come to its next queue.
func (s *sim) come(p *packet) {
	f := p.f
	if p.at == len(f.path) {
		f.arrived++
		if f.out--; f.waits {
			f.waits = false
			f.path[0].sources = append(f.path[0].sources, f)
			s.send(f.path[0])
		}
		return
	}
	if q := f.path[p.at]; q.drops && q.room > 0 {
		s.comeOrDrop(q, p)
		return
	}
	s.enter(f.path[p.at], p)
}

func (s *sim) enter(q *queue, p *packet) {
	q.waiting = append(q.waiting, p)
	s.send(q)
}

// comeOrDrop drops a packet that finds no room: it comes again a round trip later, and
// its flow's next ones wait for it.
func (s *sim) comeOrDrop(q *queue, p *packet) {
	r := p.f.at[p.at]
	if r.again != nil && r.again != p {
		r.behind = append(r.behind, p)
		return
	}
	if q.taken >= q.room {
		r.again = p
		s.push(event{at: s.now + p.f.round, p: p})
		return
	}
	r.again = nil
	q.taken++
	s.enter(q, p)
	for len(r.behind) > 0 && r.again == nil {
		first := r.behind[0]
		r.behind = r.behind[1:]
		s.comeOrDrop(q, first)
	}
}
