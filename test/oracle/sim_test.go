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
	room      int // packets, 0 = no bound
	drops     bool

	waiting []*packet // first in, first out
	taken   int       // places taken: those waiting, and those on the way here
	busy    bool
	blocked []*queue // lines whose next packet waits for room here
	isBlock bool     // it is in somebody's list

	sources []*flow // of a NIC's port: flows with packets, in turn
}

type flow struct {
	path    []*queue
	left    int // packets to send
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
	f  *flow
	at int // place in the path
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

	entries map[int]*queue // by NIC
}

// newSim makes the queues of f's hops.
func newSim(f *fabric.Fabric) *sim {
	s := &sim{entries: map[int]*queue{}}
	for _, h := range f.Hops {
		l := fabric.LinkOf(h.Spec)
		q := &queue{latency: float64(l.Latency), perPacket: packetBytes * 8e9 / float64(l.Bandwidth), drops: l.Queue.Policy == "taildrop"}
		if h.Kind == fabric.Link {
			q.perPacket = 0 // as fast as the port that feeds it
		}
		if h.Kind != fabric.TxPort && l.Queue.Bytes > 0 {
			q.room = max(int(l.Queue.Bytes)/packetBytes, 1)
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
		if f.Hops[step.Hop].Kind == fabric.Link {
			q = s.entry(src, q)
		}
		fl.path, fl.at = append(fl.path, q), append(fl.at, &recovering{})
	}
	fl.round = float64(f.Latency(src, dst) + f.Latency(dst, src))
	fl.path[0].sources = append(fl.path[0].sources, fl)
	s.flows = append(s.flows, fl)
	return fl
}

// entry is the queue where what NIC src sends enters the first switch, made from that
// of a pair, which must be like those of its other pairs.
func (s *sim) entry(src int, pair *queue) *queue {
	if s.entries[src] == nil {
		s.entries[src] = pair
	}
	return s.entries[src]
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
		if f.left--; f.left > 0 {
			q.sources = append(q.sources, f)
		}
		q.waiting = append(q.waiting, &packet{f: f})
	}
	if len(q.waiting) == 0 {
		return nil
	}
	return q.waiting[0]
}

// send lets the line of q send its next packet, if it is free and there is room.
func (s *sim) send(q *queue) {
	if q.busy || q.isBlock {
		return
	}
	p := q.next()
	if p == nil {
		return
	}
	if p.at+1 < len(p.f.path) {
		to := p.f.path[p.at+1]
		if to.room > 0 && !to.drops {
			if to.taken >= to.room {
				q.isBlock = true
				to.blocked = append(to.blocked, q)
				return
			}
			to.taken++
		}
	}
	q.waiting = q.waiting[1:]
	q.busy = true
	p.at++
	s.push(event{at: s.now + q.perPacket, free: q})
	s.push(event{at: s.now + q.perPacket + q.latency, p: p})
	if p.at > 1 || q.room > 0 {
		s.release(q)
	}
}

// release gives back a place of q, to the first line that waits for one.
func (s *sim) release(q *queue) {
	q.taken--
	if len(q.blocked) > 0 && q.taken < q.room {
		first := q.blocked[0]
		q.blocked = q.blocked[1:]
		first.isBlock = false
		s.send(first)
	}
}

// come lets a packet come to its next queue.
func (s *sim) come(p *packet) {
	f := p.f
	if p.at == len(f.path) {
		f.arrived++
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
