// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/bits"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// PAT (parallel aggregated trees) is NCCL's schedule for AllGather and ReduceScatter with one rank per node.
// cuda/soft/exec/pat.h describes it. This file has what determines the time: which messages there are, and what they
// wait for. The executor of the software CUDA has the schedule a second time, in C++, on purpose: it does what NCCL's
// kernels do and takes nothing from the plan, so that a run on the virtual clock finds a mistake in either (the column
// "diff").
//
// Rank r identifies the others by their distance s: rank r+s. Data for or from distance s travels along a binomial
// tree: the parent of s is s with its lowest set bit cleared, and the hop between them spans 2^d ranks, where d, the
// dimension, is the number of that bit. ReduceScatter goes from child to parent, AllGather from parent to child.
// Several hops of a dimension share a message if they fit. A distance is a multiple of the number of columns, plus a
// column. The hops of a column, one for each multiple, form a chain, and so do the hops of column 0 that share a
// dimension. A chain is sent in groups of hops, one message each.
type pat struct {
	ranks     int
	multiples int
	columns   int
	group     int
	mirrored  bool // ReduceScatter: multiples in mirrored order
}

// hop is the work of a rank for one hop of a chunk.
type hop struct {
	recvDim, sendDim     int // -1: none
	slot                 int // position in the message that is sent
	recvAhead, sendAhead int // messages beyond the connection's current one
	postRecv, postSend   bool
}

// newPAT determines the shape for chunks of chunk bytes and perRank bytes per rank on a channel: as many hops per
// message as fit, then as many messages as a connection has in flight.
func newPAT(ranks int, chunk, perRank uint64, mirrored bool) *pat {
	p := &pat{ranks: ranks, multiples: 1, columns: 1, mirrored: mirrored}
	for p.columns < ranks {
		p.columns *= 2
	}
	double := func() {
		p.multiples *= 2
		p.columns /= 2
	}
	for p.multiples < ranks/2 && chunk/(perRank*uint64(p.multiples)) >= 2 {
		double()
	}
	p.group = p.multiples
	for d := Steps; d > 1 && p.multiples < ranks/2; d /= 2 {
		double()
	}
	return p
}

// chain is a column, or, of column 0, the odd multiples of scale times columns.
type chain struct {
	*pat
	column, scale int
}

func (t chain) size() int {
	if t.column != 0 {
		return t.multiples
	}
	return t.multiples / (2 * t.scale)
}

func (t chain) distance(i int) int {
	if t.mirrored {
		i = mirror(i, t.size())
	}
	if t.column != 0 {
		return i*t.columns + t.column
	}
	return (2*i + 1) * t.scale * t.columns
}

// mirror returns the bits of ^v in reverse order, in a word that has n values. This makes multiples with a common
// parent neighbours, and puts 0 last.
func mirror(v, n int) int {
	r := 0
	for bit, mirrored := 1, n/2; bit < n; bit, mirrored = bit*2, mirrored/2 {
		if v&bit == 0 {
			r += mirrored
		}
	}
	return r
}

func (t chain) exists(i int) bool { return i < t.size() && t.distance(i) < t.ranks }

func (t chain) dimension() int { return bits.TrailingZeros(uint(t.distance(0))) }

// endsGroup says whether hop i is the last in its message. Without mirroring, ranks that do not exist come last.
func (t chain) endsGroup(i int) bool {
	return i%t.group == t.group-1 || i == t.size()-1 || !t.mirrored && !t.exists(i+1)
}

// before is the number of messages before the one with hop i.
func (t chain) before(i int) int {
	n := 0
	for g := range i / t.group {
		for k := range t.group {
			if t.exists(g*t.group + k) {
				n++
				break
			}
		}
	}
	return n
}

// find returns the chain of a distance and the number of the distance in it.
func (p *pat) find(distance int) (chain, int) {
	t := chain{p, distance % p.columns, 1}
	if t.column == 0 {
		t.scale = 1 << bits.TrailingZeros(uint(distance/p.columns))
	}
	i := 0
	for t.distance(i) != distance {
		i++
	}
	return t, i
}

// reduceHop receives what child's side has sent and passes it to child's parent; without a child, it sends this rank's
// data.
func (p *pat) reduceHop(child int, out []hop) []hop {
	parent := child & (child - 1)
	if parent >= p.ranks {
		return out
	}
	h := hop{recvDim: -1, sendDim: -1}
	if child < p.ranks {
		t, i := p.find(child)
		h.recvDim, h.postRecv = t.dimension(), t.endsGroup(i)
	}
	if parent > 0 {
		t, i := p.find(parent)
		h.sendDim, h.slot = t.dimension(), i%p.group
		if child == parent+1 { // the last child completes the message
			h.postSend = t.endsGroup(i)
		} else {
			h.sendAhead = t.before(i)
		}
	}
	return append(out, h)
}

// gatherHop passes on to child what was received, or this rank's data.
func (p *pat) gatherHop(child int, out []hop) []hop {
	parent := child & (child - 1)
	sends, last := child < p.ranks, child == parent+1
	if parent >= p.ranks || !sends && !last || parent == 0 && !sends {
		return out
	}
	h := hop{recvDim: -1, sendDim: -1}
	if sends {
		t, i := p.find(child)
		h.sendDim, h.slot, h.postSend = t.dimension(), i%p.group, t.endsGroup(i)
	}
	if parent > 0 {
		t, i := p.find(parent)
		h.recvDim = t.dimension()
		if last {
			h.postRecv = t.endsGroup(i)
		} else {
			h.recvAhead = t.before(i)
		}
	}
	return append(out, h)
}

// gatherColumns visits a column and those below it, depth first, the largest first.
func (p *pat) gatherColumns(column, below int, out []hop) []hop {
	if column != 0 {
		t := chain{p, column, 1}
		for i := range t.size() {
			out = p.gatherHop(t.distance(i), out)
		}
		for i := range t.size() {
			if column%2 == 1 && t.exists(i) { // no children: the data is not passed on
				out = append(out, hop{recvDim: 0, sendDim: -1, postRecv: t.endsGroup(i)})
			}
		}
	}
	for c := below; c >= 1; c /= 2 {
		out = p.gatherColumns(column+c, c/2, out)
	}
	return out
}

func (p *pat) gather() []hop {
	var out []hop
	for scale := p.multiples / 2; scale >= 1; scale /= 2 {
		t := chain{p, 0, scale}
		for i := range t.size() {
			out = p.gatherHop(t.distance(i), out)
		}
	}
	return p.gatherColumns(0, p.columns/2, out)
}

func (p *pat) reduceScatter() []hop {
	var out []hop
	for column := p.columns - 1; column > 0; column-- {
		t := chain{p, column, 1}
		for i := range t.size() {
			if column%2 == 1 && t.exists(i) { // no children: only this rank's data
				out = append(out, hop{recvDim: -1, sendDim: 0, slot: i % p.group, postSend: t.endsGroup(i)})
			}
		}
		for i := range t.size() {
			if column > 1 {
				out = p.reduceHop(t.distance(i), out)
			}
		}
	}
	// Column 1's hops to column 0 follow after the other hops to column 0.
	for scale := 1; scale < p.multiples; scale *= 2 {
		t := chain{p, 0, scale}
		for i := range t.size() {
			out = p.reduceHop(t.distance(i)+1, out)
		}
		for i := range t.size() {
			out = p.reduceHop(t.distance(i), out)
		}
	}
	return p.reduceHop(1, out)
}

// patPlan adds the blocks of one channel.
func (c *Call) patPlan(p *Plan, s Share) {
	elem := c.shape().elem
	gathers := c.Coll == nccl.AllGather
	shape := newPAT(c.Ranks, s.chunk*elem, s.count*elem, !gathers)
	hops, away := shape.reduceScatter(), 1
	if gathers {
		hops, away = shape.gather(), -1
	}
	slots := map[int][]int{} // of the messages of a chunk, by dimension: what one rank sends, each sends
	for _, h := range hops {
		if h.postSend {
			slots[h.sendDim] = append(slots[h.sendDim], h.slot+1)
		}
	}
	for rank := range c.Ranks {
		if !p.wants(rank) {
			continue
		}
		peer := func(dim, sign int) int { return (rank + sign*(1<<dim) + c.Ranks) % c.Ranks }
		chunk := func(n uint64, times int) Loop {
			l := Loop{Repeat: times}
			arrived := map[int]int{} // messages by dimension
			for _, h := range hops {
				a := Action{RecvAhead: uint64(h.recvAhead), SendAhead: uint64(h.sendAhead), KeepRecv: !h.postRecv,
					KeepSend: !h.postSend}
				if h.recvDim >= 0 {
					a.Recv = []int{p.conn(peer(h.recvDim, -away), rank, s.channel, Steps)}
				}
				if h.postRecv {
					a.received = uint64(slots[h.recvDim][arrived[h.recvDim]]) * n * elem
					arrived[h.recvDim]++
				}
				if h.sendDim >= 0 {
					a.Send = []int{p.conn(rank, peer(h.sendDim, away), s.channel, Steps)}
					a.Bytes = uint64(h.slot+1) * n * elem
				}
				l.Actions = append(l.Actions, a)
			}
			return l
		}
		var prog Program
		if full := s.count / s.chunk; full > 0 {
			prog = append(prog, chunk(s.chunk, int(full)))
		}
		if rem := s.count % s.chunk; rem > 0 {
			prog = append(prog, chunk(rem, 1))
		}
		p.add(rank, s.channel, prog)
	}
}

// patChunk halves chunks until the pipeline has enough of them.
func (c *Call) patChunk(chunk, bytes uint64) uint64 {
	want := uint64(16)
	if c.Coll == nccl.AllGather {
		want = 32
	}
	for chunk*want > bytes && chunk > 65536 {
		chunk /= 2
	}
	return chunk
}
