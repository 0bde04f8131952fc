// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"sync/atomic"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// maxPortQueue is the longest queue of a send port, in ns of its rate. HTBs in the nodes keep senders below the rate,
// so the queue is short. With small packets it may grow, because the kernel does not count their framing.
const maxPortQueue = 1_000_000_000

// broadcast is the destination of packets to all NICs of the other nodes.
const broadcast = -2

// hop is a port or a link.
type hop struct {
	id       uint32
	params   atomic.Pointer[link.Params]
	count    *link.Hop
	nextFree int64
}

// reserve occupies the hop for dur ns from ready on, or from when it is free if that is later, and returns the start.
func (h *hop) reserve(ready, dur int64) int64 {
	start := max(ready, h.nextFree)
	if dur > 0 {
		h.nextFree = start + dur
	}
	return start
}

// linkState keeps the packets of a link in order and counts its draws.
type linkState struct {
	sent      uint64 // counter of jitter draws: packets, and parts of GSO packets
	drawn     uint64 // counter of loss draws: packets, also those of a GSO packet
	bad       bool   // state of the Gilbert-Elliott chain
	lastReady int64
	lastDue   int64
}

// model is the link model for packets that other programs send. It uses the arithmetic of package link, and the current
// time does not enter it. There is no transport: packets wait in queues only, and the sender's TCP retransmits them.
// A lossless queue has no limit and causes no back-pressure, because TCP has none.
type model struct {
	fabric *fabric.Fabric
	seed   uint64
	tables *link.JitterTables
	hops   []hop
	links  []linkState // by hop
	pool   pool

	noMemory atomic.Uint64 // packets that were dropped because the pool was at its limit

	crossing packets // packets on a link, by when the first byte is at the receive port
	leaving  packets // packets that have passed the receive port, by when they are due
}

func newModel(f *fabric.Fabric, seed uint64, tables *link.JitterTables, count func(int) *link.Hop) *model {
	m := &model{fabric: f, seed: seed, tables: tables, hops: make([]hop, len(f.Hops)),
		links: make([]linkState, len(f.Hops)), crossing: newPackets(), leaving: newPackets()}
	for i := range m.hops {
		m.hops[i].id, m.hops[i].count = uint32(i), count(i)
	}
	return m
}

// arrive adds a packet that its NIC sent at p.arrived. Packets of one NIC must be added in order.
func (m *model) arrive(p *packet) {
	tx := &m.hops[2*p.src]
	par := tx.params.Load()
	lineBytes := p.headers.lineBytes(0, p.headers.packets, par.Framing)
	p.dur = par.Occupancy(lineBytes)
	if tx.nextFree-p.arrived > maxPortQueue {
		m.drop(tx, p.headers.packets)
		m.pool.put(p)
		return
	}
	start := tx.reserve(p.arrived, p.dur)
	tx.add(p, uint64(p.headers.payloadOf(0, p.headers.packets)), lineBytes, p.headers.packets, p.dur)
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

// copyTo sends a copy of a broadcast to one receiver.
func (m *model) copyTo(p *packet, dst int, start int64, tx *link.Params) {
	c := m.pool.get(len(p.buf))
	if c == nil {
		m.dropForMemory(&m.hops[m.fabric.Link(p.src, dst)], p.headers.packets)
		return
	}
	copy(c.buf, p.buf)
	buf := c.buf
	*c = *p
	c.buf, c.dst = buf, dst
	m.cross(c, start, tx)
}

// cross sends p over the link to its destination, unless it is lost. The first byte reaches the link at start. The port
// with parameters tx determines how fast the others follow.
func (m *model) cross(p *packet, start int64, tx *link.Params) {
	i := m.fabric.Link(p.src, p.dst)
	l, state := &m.hops[i], &m.links[i]
	par := l.params.Load()
	n := p.headers.packets
	if par.Down || tx.Down || m.hops[2*p.dst+1].params.Load().Down {
		m.drop(l, n)
		m.pool.put(p)
		return
	}
	if !par.Loss.Any() && par.Reorder.P == 0 {
		m.occupyLink(p, l, state, par, start, start+p.dur)
		return
	}
	// Send or drop runs of packets of the same fate.
	from, fate := 0, m.drawFate(l, state, par)
	for k := 1; k <= n; k++ {
		next := fate
		if k < n {
			next = m.drawFate(l, state, par)
		}
		if k < n && next == fate {
			continue
		}
		p.early = fate == early
		switch {
		case fate == lost:
			m.drop(l, k-from)
		case k-from == n:
			m.occupyLink(p, l, state, par, start, start+p.dur)
			return
		default:
			m.sendPart(p, l, state, par, start+tx.Occupancy(p.headers.lineBytes(0, from, tx.Framing)), tx, from, k)
		}
		from, fate = k, next
	}
	m.pool.put(p)
}

// sendPart sends packets [from, to) of a GSO packet over the link.
func (m *model) sendPart(p *packet, l *hop, state *linkState, par *link.Params, start int64, tx *link.Params, from,
	to int) {
	c := m.pool.get(vnetLen + p.headers.payload + p.headers.payloadOf(from, to))
	if c == nil {
		m.dropForMemory(l, to-from)
		return
	}
	buf := c.buf
	*c = *p
	c.buf = buf
	extract(c.buf, p.buf, &p.headers, from, to)
	c.headers.size, c.headers.packets = len(buf)-vnetLen, to-from
	if to-from == 1 {
		c.headers.gso = 0
	}
	c.dur = tx.Occupancy(c.headers.lineBytes(0, to-from, tx.Framing))
	m.occupyLink(c, l, state, par, start, start+c.dur)
}

// fate is what becomes of a packet on a link.
type fate int

const (
	passes fate = iota
	lost
	early // it arrives before packets that were sent before it
)

// drawFate draws what becomes of the next packet on the link.
func (m *model) drawFate(l *hop, state *linkState, par *link.Params) fate {
	state.drawn++
	switch {
	case par.Loss.Lost(m.seed, l.id, 0, state.drawn-1, &state.bad):
		return lost
	case par.Reorder.Draw(m.seed, l.id, 0, state.drawn-1):
		return early
	}
	return passes
}

// occupyLink sends p over link l. The first byte reaches the link at ready, the last at finish, as far as the
// sender's port determines it.
func (m *model) occupyLink(p *packet, l *hop, state *linkState, par *link.Params, ready, finish int64) {
	n := p.headers.packets
	payload, lineBytes := uint64(p.headers.payloadOf(0, n)), p.headers.lineBytes(0, n, par.Framing)
	dur := par.Occupancy(lineBytes)
	start := max(ready, l.nextFree)
	if isFull(par, start-ready) {
		m.drop(l, n)
		m.pool.put(p)
		return
	}
	if dur > p.dur {
		l.reserve(ready, dur)
	}
	l.add(p, payload, lineBytes, n, dur)
	delay := par.Delay(m.seed, l.id, 0, state.sent, m.tables)
	state.sent++
	p.dur = dur
	if p.early {
		delay = max(0, delay-par.Reorder.EarlyNs)
		p.ready = start + delay
	} else {
		p.ready = max(start+delay, state.lastReady)
		state.lastReady = p.ready
	}
	p.finish = max(finish, start+dur) + delay
	m.crossing.push(p.ready, p)
}

// isFull reports whether the hop drops a packet that would have to wait for a time.
func isFull(par *link.Params, wait int64) bool {
	return par.Queue.Policy == link.TailDrop && par.Queue.LimitNs > 0 && wait > par.Queue.LimitNs
}

// advance moves the packets that have reached their receive port by now through it.
func (m *model) advance(now int64) {
	for m.crossing.next() <= now {
		m.receive(m.crossing.pop())
	}
}

// receive occupies the receive port of p and computes when p is due.
func (m *model) receive(p *packet) {
	rx, n := &m.hops[2*p.dst+1], p.headers.packets
	par := rx.params.Load()
	payload, lineBytes := uint64(p.headers.payloadOf(0, n)), p.headers.lineBytes(0, n, par.Framing)
	dur := par.Occupancy(lineBytes)
	start := max(p.ready, rx.nextFree)
	if isFull(par, start-p.ready) {
		m.drop(rx, n)
		m.pool.put(p)
		return
	}
	rx.reserve(p.ready, dur)
	rx.add(p, payload, lineBytes, n, dur)
	p.due = max(p.finish, start+dur) + par.Latency
	if state := &m.links[m.fabric.Link(p.src, p.dst)]; !p.early {
		p.due = max(p.due, state.lastDue)
		state.lastDue = p.due
	}
	m.leaving.push(p.due, p)
}

// dropForMemory drops packets because the pool is at its limit.
func (m *model) dropForMemory(h *hop, packets int) {
	m.drop(h, packets)
	m.noMemory.Add(uint64(packets))
}

func (m *model) drop(h *hop, packets int) { atomic.AddUint64(&h.count.Counters.Drops, uint64(packets)) }

// add adds a packet to the hop's counters.
func (h *hop) add(p *packet, payload, lineBytes uint64, packets int, dur int64) {
	c := h.count
	c.Counters.Add(link.Counters{Bytes: payload, LineBytes: lineBytes, Segments: uint64(packets), BusyNs: dur})
	atomic.AddUint64(&c.Classes[p.class], payload)
}
