// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// hand is one rank's place in the ring of one channel.
type hand struct {
	call     *call
	n        int // ranks
	index    int // of this rank, counted from rank 0
	rank     int
	next     int // ranks
	prev     int
	from, to int // connections
	elem     uint64
}

// loopMaker returns the actions of one loop that carries rem elements of the
// channel's part, in chunks of chunk elements, and how many elements that takes.
type loopMaker func(h *hand, rem, chunk uint64) ([]action, uint64)

// ringPlan adds the blocks of one channel. The loops are all alike but the last.
func (c *call) ringPlan(p *plan, pt part, make loopMaker) {
	ring := c.Rings[pt.channel]
	zero := slices.Index(ring, 0)
	n, slots := c.Ranks, c.slots()
	for i := range n {
		at := func(k int) int { return ring[(zero+i+k)%n] }
		h := &hand{
			call: c, n: n, index: i, rank: at(0), next: at(1), prev: at(n - 1),
			from: p.conn(at(n-1), at(0), pt.channel, slots),
			to:   p.conn(at(0), at(1), pt.channel, slots),
			elem: c.shape().elem,
		}
		p.add(h.rank, pt.channel, loopsOf(h, pt, make))
	}
}

// loopsOf folds the equal loops at the start into one.
func loopsOf(h *hand, pt part, make loopMaker) program {
	var prog program
	rem := pt.count
	if actions, took := make(h, rem, pt.chunk); took <= rem {
		full := rem / took
		prog = append(prog, loop{actions: actions, repeat: int(full)})
		rem -= full * took
	}
	if rem > 0 {
		actions, _ := make(h, rem, pt.chunk)
		prog = append(prog, loop{actions: actions, repeat: 1})
	}
	return prog
}

// step appends the actions for a chunk of n elements.
func (h *hand) step(out []action, recv, send bool, n uint64) []action {
	a := action{}
	if recv {
		a.recv = []int{h.from}
	}
	if send {
		a.send = []int{h.to}
	}
	for _, s := range h.call.slices(n, h.elem) {
		a.slice = s
		out = append(out, a)
	}
	return out
}

// allReduceLoop is device/all_reduce.h's runRing: reduce once around the ring,
// then pass the result on once around. The last loop's chunks are made smaller.
func (c *call) allReduceLoop(h *hand, rem, chunk uint64) ([]action, uint64) {
	n := uint64(h.n)
	took := n * chunk
	if rem < took {
		align := 16 / h.elem
		chunk = divUp(divUp(rem, n), align) * align
	}
	elems := func(back int) uint64 { // of the chunk so many places behind this rank
		off := uint64((h.index+2*h.n-back)%h.n) * chunk
		return min(chunk, rem-min(rem, off))
	}
	out := h.step(nil, false, true, elems(1))
	for j := 2; j <= 2*h.n-2; j++ {
		out = h.step(out, true, true, elems(j))
	}
	return h.step(out, true, false, elems(2*h.n-1)), took
}

// gatherLoop is device/all_gather.h's and reduce_scatter.h's runRing.
func (c *call) gatherLoop(h *hand, rem, chunk uint64) ([]action, uint64) {
	n := min(rem, chunk)
	out := h.step(nil, false, true, n)
	for range h.n - 2 {
		out = h.step(out, true, true, n)
	}
	return h.step(out, true, false, n), chunk
}

// chainLoop is device/broadcast.h's and reduce.h's runRing: the root is where the
// chain begins or ends.
func (c *call) chainLoop(h *hand, rem, chunk uint64) ([]action, uint64) {
	first, last := h.rank == c.Root, h.next == c.Root
	if c.Coll == nccl.Reduce {
		first, last = h.prev == c.Root, h.rank == c.Root
	}
	return h.step(nil, !first, !last, min(rem, chunk)), chunk
}
