// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"sync/atomic"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// never is a time that does not come.
const never = math.MaxInt64

// maxPortQueue is the most that may wait for a port to send, in ns. Senders are kept
// below the port's rate in their nodes, as far as they send packets of the MTU: the
// kernel does not count what small ones have around them on the wire.
const maxPortQueue = 1_000_000_000

// broadcast is the destination of what goes to every NIC of the other nodes.
const broadcast = -2

// hop is a port or a link.
type hop struct {
	id       uint32
	params   atomic.Pointer[link.Params]
	count    *link.Hop
	nextFree int64
}

// reserve is link.Hop.Reserve.
func (h *hop) reserve(ready, dur int64) int64 {
	start := max(ready, h.nextFree)
	if dur > 0 {
		h.nextFree = start + dur
	}
	return start
}

// order is what a link remembers, so that packets do not overtake each other and
// each has draws of its own.
type order struct {
	sent      uint64 // packets, large ones and parts of them
	drawn     uint64 // packets on the wire whose loss was drawn
	bad       bool   // state of the Gilbert-Elliott chain
	lastReady int64
	lastDue   int64
}

// model is package link's arithmetic for packets that arrive by themselves: nothing
// holds them back but queues, nothing sends them again but their sender. As there,
// the current time does not enter it. What it leaves out: a lossless queue holds
// nobody up, because TCP knows no such back-pressure; it is as long as it gets.
type model struct {
	fabric *fabric.Fabric
	seed   uint64
	tables *link.JitterTables
	hops   []hop
	orders []order // by hop; of links
	pool   pool

	starved atomic.Uint64 // packets on the wire dropped for want of memory

	crossing heap // by when the first byte reaches the receiving port
	leaving  heap // by when they are due
}

func newModel(f *fabric.Fabric, seed uint64, tables *link.JitterTables, count func(int) *link.Hop) *model {
	m := &model{fabric: f, seed: seed, tables: tables, hops: make([]hop, len(f.Hops)), orders: make([]order, len(f.Hops))}
	for i := range m.hops {
		m.hops[i].id, m.hops[i].count = uint32(i), count(i)
	}
	return m
}

// arrive takes a packet that came out of its NIC at p.arrived, not before any other
// of that NIC.
func (m *model) arrive(p *packet) {
	tx := &m.hops[2*p.src]
	par := tx.params.Load()
	wire := p.headers.wire(0, p.headers.packets, par.Framing)
	p.dur = par.Occupancy(wire)
	if tx.nextFree-p.arrived > maxPortQueue {
		m.drop(tx, p.headers.packets)
		m.pool.put(p)
		return
	}
	start := tx.reserve(p.arrived, p.dur)
	tx.add(p, uint64(p.headers.payloadOf(0, p.headers.packets)), wire, p.headers.packets, p.dur)
	start += par.Latency
	if p.dst != broadcast {
		m.cross(p, start, par)
		return
	}
	for dst := range m.fabric.NICs() {
		if m.fabric.NodeOfNIC(dst) != m.fabric.NodeOfNIC(p.src) {
			m.copyTo(p, dst, start, par)
		}
	}
	m.pool.put(p)
}

// copyTo sends a copy of p to one of several receivers.
func (m *model) copyTo(p *packet, dst int, start int64, tx *link.Params) {
	c := m.pool.get(len(p.buf))
	if c == nil {
		m.starve(&m.hops[m.fabric.Link(p.src, dst)], p.headers.packets)
		return
	}
	copy(c.buf, p.buf)
	buf := c.buf
	*c = *p
	c.buf, c.dst = buf, dst
	m.cross(c, start, tx)
}

// cross takes p over the link to its destination: it is at the link at start, as
// fast as the port tx gives it out.
func (m *model) cross(p *packet, start int64, tx *link.Params) {
	i := m.fabric.Link(p.src, p.dst)
	l, o := &m.hops[i], &m.orders[i]
	par := l.params.Load()
	n := p.headers.packets
	if par.Down || tx.Down || m.hops[2*p.dst+1].params.Load().Down {
		m.drop(l, n)
		m.pool.put(p)
		return
	}
	if !par.Loss.Any() {
		m.over(p, l, o, par, start, start+p.dur)
		return
	}
	// Runs of packets of one fate.
	from, lost := 0, m.lost(l, o, par)
	for k := 1; k <= n; k++ {
		next := k < n && m.lost(l, o, par)
		if k < n && next == lost {
			continue
		}
		switch {
		case lost:
			m.drop(l, k-from)
		case k-from == n:
			m.over(p, l, o, par, start, start+p.dur)
			return
		default:
			m.part(p, l, o, par, start+tx.Occupancy(p.headers.wire(0, from, tx.Framing)), tx, from, k)
		}
		from, lost = k, next
	}
	m.pool.put(p)
}

// part sends some of a large packet's packets over the link.
func (m *model) part(p *packet, l *hop, o *order, par *link.Params, start int64, tx *link.Params, from, to int) {
	c := m.pool.get(vnetLen + p.headers.payload + p.headers.payloadOf(from, to))
	if c == nil {
		m.starve(l, to-from)
		return
	}
	buf := c.buf
	*c = *p
	c.buf = buf
	part(c.buf, p.buf, &p.headers, from, to)
	c.headers.size, c.headers.packets = len(buf)-vnetLen, to-from
	if to-from == 1 {
		c.headers.gso = 0
	}
	c.dur = tx.Occupancy(c.headers.wire(0, to-from, tx.Framing))
	m.over(c, l, o, par, start, start+c.dur)
}

// lost draws whether the next packet on the wire is lost.
func (m *model) lost(l *hop, o *order, par *link.Params) bool {
	o.drawn++
	return par.Loss.Lost(m.seed, l.id, 0, o.drawn-1, &o.bad)
}

// over takes p over link l, where its first byte is at ready and its last at finish,
// as far as the port it comes from goes.
func (m *model) over(p *packet, l *hop, o *order, par *link.Params, ready, finish int64) {
	n := p.headers.packets
	payload, wire := uint64(p.headers.payloadOf(0, n)), p.headers.wire(0, n, par.Framing)
	dur := par.Occupancy(wire)
	start := max(ready, l.nextFree)
	if full(par, start-ready) {
		m.drop(l, n)
		m.pool.put(p)
		return
	}
	if dur > p.dur {
		l.reserve(ready, dur)
	}
	l.add(p, payload, wire, n, dur)
	delay := par.Delay(m.seed, l.id, 0, o.sent, m.tables)
	o.sent++
	p.dur = dur
	p.ready = max(start+delay, o.lastReady)
	o.lastReady = p.ready
	p.finish = max(finish, start+dur) + delay
	m.crossing.push(p.ready, p)
}

// full says whether a packet that would have to wait so long for a hop is dropped.
func full(par *link.Params, wait int64) bool {
	return par.Queue.Policy == link.TailDrop && par.Queue.LimitNs > 0 && wait > par.Queue.LimitNs
}

// advance lets what has reached a receiving port by now take it.
func (m *model) advance(now int64) {
	for m.crossing.next() <= now {
		m.enter(m.crossing.pop())
	}
}

// enter lets p take its receiving port.
func (m *model) enter(p *packet) {
	rx, n := &m.hops[2*p.dst+1], p.headers.packets
	par := rx.params.Load()
	payload, wire := uint64(p.headers.payloadOf(0, n)), p.headers.wire(0, n, par.Framing)
	dur := par.Occupancy(wire)
	start := max(p.ready, rx.nextFree)
	if full(par, start-p.ready) {
		m.drop(rx, n)
		m.pool.put(p)
		return
	}
	rx.reserve(p.ready, dur)
	rx.add(p, payload, wire, n, dur)
	o := &m.orders[m.fabric.Link(p.src, p.dst)]
	p.due = max(p.finish, start+dur, o.lastDue) + par.Latency
	o.lastDue = p.due - par.Latency
	m.leaving.push(p.due, p)
}

// starve drops packets for which there is no memory.
func (m *model) starve(h *hop, packets int) {
	m.drop(h, packets)
	m.starved.Add(uint64(packets))
}

func (m *model) drop(h *hop, packets int) { atomic.AddUint64(&h.count.Counters.Drops, uint64(packets)) }

func (h *hop) add(p *packet, payload, wire uint64, packets int, dur int64) {
	c := h.count
	c.Counters.Add(link.Counters{Bytes: payload, LineBytes: wire, Segments: uint64(packets), BusyNs: dur})
	atomic.AddUint64(&c.Classes[p.class], payload)
}
