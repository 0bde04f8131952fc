// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
)

// proxies lets both ends of a connection post what they can at this instant.
func (p *player) proxies(i int) {
	c := &p.conns[i]
	if c.Flow == nil {
		return
	}
	for c.Sent < c.Written && c.Send(c.sizes[c.Sent%p.slots]) {
	}
	for c.Posted < c.Consumed+p.slots && c.Posted < p.calls*c.perCall && c.Receive() {
	}
}

// wakeEnds wakes the blocks at the ends that have something to see.
func (p *player) wakeEnds(i int) {
	c := &p.conns[i]
	c.Poll()
	p.steps.Progress(i, c.Arrived, c.Acked)
	p.proxies(i)
}

// result sums what one call moves between nodes.
func (p *player) result(f *expect.Fabric) *Result {
	r := &Result{}
	loads := map[int]*expect.Load{}
	for i := range p.steps.Blocks {
		b := &p.steps.Blocks[i]
		if b.Out < 0 || p.conns[b.Out].Flow == nil {
			continue
		}
		path := p.conns[b.Out].path
		p.cut.EachMessage(b.Block, func(payload, wire, times uint64) {
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
