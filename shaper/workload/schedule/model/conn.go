// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
)

// proxies notes that an end of a connection may have something to post at this instant.
func (p *player) proxies(i int) {
	if p.conns[i].Flow != nil {
		p.turns.Add(i)
	}
}

// post posts one send of a connection and its receives, and reports whether there are more sends.
func (p *player) post(i int) bool {
	c := &p.conns[i]
	moved := false
	if c.Sent < c.written && c.Send(c.sizes[c.Sent%p.slots], p.now) {
		moved = true
	}
	for c.Posted < c.consumed+p.slots && c.Posted < p.calls*c.perCall && c.Receive(p.now) {
		moved = true
	}
	if moved {
		p.advance(i)
	}
	return moved && c.Sent < c.written
}

// advance makes the flow's steps that are due and wakes both ends.
func (p *player) advance(i int) {
	c := &p.conns[i]
	arrived, acked, next := c.Advance(p.now)
	p.heap.Set(i, next)
	if arrived > 0 {
		p.wake(c.receiver)
	}
	if acked > 0 {
		p.wake(c.sender)
	}
	if arrived > 0 || acked > 0 {
		p.proxies(i)
	}
}

// result sums what one call moves between nodes.
func (p *player) result(f *expect.Fabric) *Result {
	r := &Result{}
	loads := map[int]*expect.Load{}
	for i := range p.blocks {
		b := &p.blocks[i]
		if b.out < 0 || p.conns[b.out].Flow == nil {
			continue
		}
		path := p.conns[b.out].path
		p.cut.EachMessage(b.b, func(payload, wire, times uint64) {
			r.Bytes += payload * times
			r.Messages += times
			for _, h := range path {
				l := loads[h.Hop]
				if l == nil {
					l = &expect.Load{Hop: h.Hop}
					loads[h.Hop] = l
				}
				l.Add(&f.Params[h.Hop], wire, times)
			}
		})
	}
	for _, l := range loads {
		r.Loads = append(r.Loads, *l)
	}
	slices.SortFunc(r.Loads, func(a, b expect.Load) int {
		return cmp.Or(cmp.Compare(b.BusyNs, a.BusyNs), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Hop, b.Hop))
	})
	return r
}
