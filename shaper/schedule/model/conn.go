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
	slices.SortFunc(posting, func(a, b int) int { return p.turn[a] - p.turn[b] })
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
	p.heap.Set(i, next)
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
