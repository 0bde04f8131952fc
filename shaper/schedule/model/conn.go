// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/expect"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// proxies notes that an end of a connection may have something to post at this instant.
func (p *player) proxies(i int) {
	if c := &p.conns[i]; c.flow != nil && !c.posting {
		c.posting = true
		p.posting = append(p.posting, i)
	}
}

// postInTurn posts the next message of each connection, then the ones after these, in the order of a virtual clock.
func (p *player) postInTurn() {
	posting := p.posting
	p.posting = nil
	for _, i := range posting {
		p.conns[i].posting = false
	}
	slices.SortFunc(posting, func(a, b int) int { return p.heap.turn[a] - p.heap.turn[b] })
	for len(posting) > 0 {
		posting = slices.DeleteFunc(posting, func(i int) bool { return !p.post(i) })
	}
}

// post posts one send of a connection and its receives, and reports whether there are more sends.
func (p *player) post(i int) bool {
	c := &p.conns[i]
	moved := false
	if c.sent < c.written {
		if _, ok := c.flow.Post(c.sizes[c.sent%p.slots], p.now); ok {
			c.sent++
			moved = true
		}
	}
	for c.posted < c.consumed+p.slots && c.posted < p.calls*c.perCall {
		if !c.flow.Recv(p.now) {
			break
		}
		c.posted++
		moved = true
	}
	if moved {
		p.advance(i)
	}
	return moved && c.sent < c.written
}

// advance makes the flow's steps that are due and wakes both ends.
func (p *player) advance(i int) {
	c := &p.conns[i]
	next := c.flow.Advance(p.now)
	arrived, acked := c.arrived, c.acked
	for c.arrived < min(c.sent, c.posted) {
		m := c.flow.Message(c.arrived)
		if t := max(m.Due, m.Recv); t > p.now {
			next = min(next, t)
			break
		}
		c.arrived++
	}
	for c.acked < c.sent {
		m := c.flow.Message(c.acked)
		if m.Sent > p.now {
			next = min(next, m.Sent)
			break
		}
		c.acked++
	}
	for c.freed < min(c.arrived, c.acked) {
		c.flow.Take()
		c.freed++
	}
	p.heap.set(i, next)
	if c.arrived > arrived {
		p.wake(c.receiver)
	}
	if c.acked > acked {
		p.wake(c.sender)
	}
	if c.arrived > arrived || c.acked > acked {
		p.proxies(i)
	}
}

// result sums what one call moves between nodes.
func (p *player) result(f *expect.Fabric) *Result {
	r := &Result{}
	loads := map[int]*Load{}
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.out < 0 || p.conns[b.out].flow == nil {
			continue
		}
		path := p.conns[b.out].path
		p.cut.EachMessage(b.b, func(payload, wire, times uint64) {
			r.Bytes += payload * times
			r.Messages += times
			for _, h := range path {
				l := loads[h.Hop]
				if l == nil {
					l = &Load{Hop: h.Hop}
					loads[h.Hop] = l
				}
				l.add(&f.Params[h.Hop], wire, times)
			}
		})
	}
	for _, l := range loads {
		r.Loads = append(r.Loads, *l)
	}
	slices.SortFunc(r.Loads, func(a, b Load) int {
		return cmp.Or(cmp.Compare(b.BusyNs, a.BusyNs), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Hop, b.Hop))
	})
	return r
}

func (l *Load) add(p *link.Params, bytes, times uint64) {
	packets := max((bytes+uint64(p.Payload)-1)/uint64(p.Payload), 1)
	l.Bytes += bytes * times
	if p.NsDen != 0 {
		l.BusyNs += float64(times*(bytes+packets*uint64(p.PerPacket))) * float64(p.NsNum) / float64(p.NsDen)
	}
}

// timeHeap is a heap of connections by the next time at which their flow must advance. Equal times are in the order of
// turn.
type timeHeap struct {
	at    []int64
	turn  []int
	place []int // position in order, by connection
	order []int
}

func (h *timeHeap) init(order []int) {
	n := len(order)
	h.at, h.turn, h.place, h.order = make([]int64, n), make([]int, n), make([]int, n), make([]int, n)
	for t, i := range order {
		h.turn[i] = t
	}
	for i := range n {
		h.at[i], h.place[i], h.order[i] = link.Never, i, i
	}
}

func (h *timeHeap) first() int64 {
	if len(h.order) == 0 {
		return link.Never
	}
	return h.at[h.order[0]]
}

// pop returns the earliest connection and sets its time to Never.
func (h *timeHeap) pop() int {
	i := h.order[0]
	h.set(i, link.Never)
	return i
}

func (h *timeHeap) less(a, b int) bool {
	return h.at[a] < h.at[b] || h.at[a] == h.at[b] && h.turn[a] < h.turn[b]
}

// set changes a connection's time.
func (h *timeHeap) set(i int, t int64) {
	h.at[i] = t
	k := h.place[i]
	for k > 0 && h.less(i, h.order[(k-1)/2]) {
		k = h.swap(k, (k-1)/2)
	}
	for {
		child := 2*k + 1
		if child >= len(h.order) {
			return
		}
		if child+1 < len(h.order) && h.less(h.order[child+1], h.order[child]) {
			child++
		}
		if !h.less(h.order[child], i) {
			return
		}
		k = h.swap(k, child)
	}
}

// swap exchanges two positions and returns the second.
func (h *timeHeap) swap(a, b int) int {
	x, y := h.order[a], h.order[b]
	h.order[a], h.order[b] = y, x
	h.place[x], h.place[y] = b, a
	return b
}
