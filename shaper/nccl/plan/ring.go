// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// ringRank is one rank's position in the ring of one channel.
type ringRank struct {
	call     *Call
	n        int // ranks
	index    int // position of this rank, counted from rank 0
	rank     int
	next     int // ranks
	prev     int
	from, to int // connections
	elem     uint64
}

// loopMaker returns the actions of one loop for a channel with rem remaining elements, in chunks of chunk elements, and
// the number of elements that the loop carries.
type loopMaker func(h *ringRank, rem, chunk uint64) ([]Action, uint64)

// ringPlan adds the blocks of one channel. All loops are equal except the last one.
func (c *Call) ringPlan(p *Plan, s Share, make loopMaker) {
	ring := c.Rings[s.channel]
	zero := slices.Index(ring, 0)
	n, slots := c.Ranks, c.slots()
	for i := range n {
		at := func(k int) int { return ring[(zero+i+k)%n] }
		if !p.wants(at(0)) {
			continue
		}
		h := &ringRank{
			call: c, n: n, index: i, rank: at(0), next: at(1), prev: at(n - 1),
			from: p.conn(at(n-1), at(0), s.channel, slots),
			to:   p.conn(at(0), at(1), s.channel, slots),
			elem: c.shape().elem,
		}
		p.add(h.rank, s.channel, loopsOf(h, s, make))
	}
}

// loopsOf combines the equal loops into one with repetitions.
func loopsOf(h *ringRank, s Share, make loopMaker) Program {
	var prog Program
	rem := s.count
	if actions, took := make(h, rem, s.chunk); took <= rem {
		full := rem / took
		prog = append(prog, Loop{Actions: actions, Repeat: int(full)})
		rem -= full * took
	}
	if rem > 0 {
		actions, _ := make(h, rem, s.chunk)
		prog = append(prog, Loop{Actions: actions, Repeat: 1})
	}
	return prog
}

// step appends the actions for a chunk of n elements.
func (h *ringRank) step(out []Action, recv, send bool, n uint64) []Action {
	a := Action{}
	if recv {
		a.Recv = []int{h.from}
	}
	if send {
		a.Send = []int{h.to}
	}
	for _, s := range h.call.slices(n, h.elem) {
		a.Slice = s
		out = append(out, a)
	}
	return out
}

// allReduceLoop is runRing of device/all_reduce.h: once around the ring to reduce, once more to pass the result on. The
// chunks of the last loop are smaller.
func (c *Call) allReduceLoop(h *ringRank, rem, chunk uint64) ([]Action, uint64) {
	n := uint64(h.n)
	took := n * chunk
	if rem < took {
		align := 16 / h.elem
		chunk = divUp(divUp(rem, n), align) * align
	}
	elems := func(back int) uint64 { // of the chunk that many positions behind this rank
		off := uint64((h.index+2*h.n-back)%h.n) * chunk
		return min(chunk, rem-min(rem, off))
	}
	out := h.step(nil, false, true, elems(1))
	for j := 2; j <= 2*h.n-2; j++ {
		out = h.step(out, true, true, elems(j))
	}
	return h.step(out, true, false, elems(2*h.n-1)), took
}

// gatherLoop is runRing of device/all_gather.h and reduce_scatter.h.
func (c *Call) gatherLoop(h *ringRank, rem, chunk uint64) ([]Action, uint64) {
	n := min(rem, chunk)
	out := h.step(nil, false, true, n)
	for range h.n - 2 {
		out = h.step(out, true, true, n)
	}
	return h.step(out, true, false, n), chunk
}

// chainLoop is runRing of device/broadcast.h and reduce.h: the chain begins or ends at the root.
func (c *Call) chainLoop(h *ringRank, rem, chunk uint64) ([]Action, uint64) {
	first, last := h.rank == c.Root, h.next == c.Root
	if c.Coll == nccl.Reduce {
		first, last = h.prev == c.Root, h.rank == c.Root
	}
	return h.step(nil, !first, !last, min(rem, chunk)), chunk
}
