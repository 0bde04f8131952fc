// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"container/heap"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// A packet of these fabrics: its line bytes and its payload.
const (
	mtu           = 9000
	header        = 40
	framing       = 38
	packetBytes   = mtu + framing
	packetPayload = mtu - header
)

// queue is the queue of a hop and the line behind it. Times are ns.
type queue struct {
	perPacket float64 // time on the line
	latency   float64
	drops     bool
	limit     int // with drops: packets, 0 = no limit
	// without drops: limit of packets that came over this line and are still in the switch behind it; 0 = none
	buffer    int
	buffered  int  // number of these packets
	delayOnly bool // the hop has only a latency

	waiting  []*packet // first in, first out
	occupied int       // places of packets that wait or are on their way to this queue
	busy     bool

	sources []*flow // of a NIC's port: flows with packets, in order of their turns
}

type flow struct {
	path      []*queue
	remaining int  // packets to send
	window    int  // maximum of packets in flight; 0 = no limit
	inFlight  int  // number of these packets
	blocked   bool // by its window
	arrived   int
	onArrival func()        // after each packet that arrives; may be nil
	round     float64       // round-trip time
	at        []*recovering // by position in the path
}

// recovering is the state of a flow at a hop that dropped one of its packets.
type recovering struct {
	dropped *packet   // the dropped packet, sent again
	later   []*packet // packets that may not overtake it
}

type packet struct {
	f    *flow
	at   int    // position in the path
	line *queue // whose buffer it occupies
}

// event is the arrival of a packet at its queue, or the end of a transmission on a line.
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
	// cutThrough lets a packet be at the next queue when its first byte is there, and at the receiver when its last
	// one is.
	cutThrough bool
}

// newSim makes the queues of f's hops.
func newSim(f *fabric.Fabric) *sim {
	s := &sim{}
	for _, h := range f.Hops {
		l := fabric.LinkOf(h.Spec)
		q := &queue{latency: float64(l.Latency), perPacket: packetBytes * 8e9 / float64(l.Bandwidth),
			drops: l.Queue.Policy == configs.TailDrop}
		if h.Kind == link.Link {
			q.perPacket, q.delayOnly = 0, true // as fast as the port that feeds it
		}
		places := max(int(l.Queue.Bytes)/packetBytes, 1)
		switch {
		case l.Queue.Bytes == 0:
		case q.drops && h.Kind != link.TxPort:
			q.limit = places
		case !q.drops && (h.Kind == link.Link || h.Kind == link.Trunk):
			q.buffer = places
		}
		s.queues = append(s.queues, q)
	}
	return s
}

// add adds a flow of bytes bytes.
func (s *sim) add(f *fabric.Fabric, src, dst, bytes int) *flow {
	fl := &flow{remaining: (bytes + packetPayload - 1) / packetPayload}
	for _, step := range f.Path(src, dst) {
		q := s.queues[step.Hop]
		fl.path, fl.at = append(fl.path, q), append(fl.at, &recovering{})
	}
	fl.round = float64(f.Latency(src, dst) + f.Latency(dst, src))
	fl.path[0].buffer = fl.path[1].buffer // the link leads to the switch
	fl.path[0].sources = append(fl.path[0].sources, fl)
	s.flows = append(s.flows, fl)
	return fl
}

// post gives a flow more packets to send, behind those that it has.
func (s *sim) post(f *flow, packets int) {
	idle := f.remaining == 0
	f.remaining += packets
	if port := f.path[0]; idle {
		port.sources = append(port.sources, f)
		s.send(port)
	}
}

// run simulates until the time end.
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
		s.arrive(e.p)
	}
}

func (s *sim) push(e event) {
	s.order++
	e.order = s.order
	heap.Push(&s.heap, e)
}

// next removes and returns the packet that the line of q sends next, nil if there is none.
func (q *queue) next() *packet {
	if len(q.waiting) == 0 && len(q.sources) > 0 {
		f := q.sources[0]
		q.sources = q.sources[1:]
		f.inFlight++
		if f.remaining--; f.remaining > 0 {
			if f.window > 0 && f.inFlight >= f.window {
				f.blocked = true
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

// send lets the line of q send its next packet if it is free and its buffer at the switch behind it is not full. A
// packet that leaves a switch frees its place in the buffer of the line that it came over.
func (s *sim) send(q *queue) {
	if q.busy || !q.delayOnly && q.buffer > 0 && q.buffered >= q.buffer {
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
	there := s.now + q.perPacket + q.latency
	if s.cutThrough && p.at < len(p.f.path) {
		there = s.now + q.latency
	}
	s.push(event{at: there, p: p})
	if q.limit > 0 {
		q.occupied--
	}
	if q.delayOnly {
		return
	}
	from := p.line
	p.line = q
	if q.buffer > 0 {
		q.buffered++
	}
	if from != nil && from.buffer > 0 {
		from.buffered--
		s.send(from)
	}
}

// arrive lets a packet arrive at its next queue.
func (s *sim) arrive(p *packet) {
	f := p.f
	if p.at == len(f.path) {
		f.arrived++
		if f.inFlight--; f.blocked {
			f.blocked = false
			f.path[0].sources = append(f.path[0].sources, f)
			s.send(f.path[0])
		}
		if f.onArrival != nil {
			f.onArrival()
		}
		return
	}
	if q := f.path[p.at]; q.drops && q.limit > 0 {
		s.arriveOrDrop(q, p)
		return
	}
	s.enter(f.path[p.at], p)
}

func (s *sim) enter(q *queue, p *packet) {
	q.waiting = append(q.waiting, p)
	s.send(q)
}

// arriveOrDrop drops a packet that finds the queue full. It arrives again a round trip later, and the flow's later
// packets wait for it.
func (s *sim) arriveOrDrop(q *queue, p *packet) {
	r := p.f.at[p.at]
	if r.dropped != nil && r.dropped != p {
		r.later = append(r.later, p)
		return
	}
	if q.occupied >= q.limit {
		r.dropped = p
		s.push(event{at: s.now + p.f.round, p: p})
		return
	}
	r.dropped = nil
	q.occupied++
	s.enter(q, p)
	for len(r.later) > 0 && r.dropped == nil {
		first := r.later[0]
		r.later = r.later[1:]
		s.arriveOrDrop(q, first)
	}
}
