// SPDX-License-Identifier: Apache-2.0

package events

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// repeats finds when calls that are played back to back begin to repeat, so that the rest need not be played: all that
// determines what follows is the same, relative to the present and to the number of the call, as a number of calls
// before. It looks whenever the last rank has ended a call.
type repeats struct {
	net   *link.Network
	seen  map[[sha256.Size]byte]mark // by state
	ids   map[any]uint64             // of parts of kernels, which all calls share
	words []uint64
	skip  *skip // nil: nothing was skipped
}

// mark is the moment at which all ranks had ended a number of calls.
type mark struct {
	calls int
	at    int64
}

// skip are calls that are not played, because they repeat those a period before: they end later by shift.
type skip struct {
	from          []int // number of the first, by rank
	calls, period int
	shift         int64 // ns
}

// newRepeats returns nil if calls cannot be known to repeat: if what is ready at the same instant has a random order,
// the state of a connection does not determine what it does, or messages wait for a rendezvous, which no state has.
func newRepeats(f *player.Fabric, conns []conn, net *link.Network) *repeats {
	if !f.InOrder || f.Nodes != nil && f.Nodes.Rendezvous > 0 ||
		slices.ContainsFunc(conns, func(c conn) bool { return c.Flow != nil && !net.Recurs(c.Flow) }) {
		return nil
	}
	return &repeats{net: net, seen: map[[sha256.Size]byte]mark{}, ids: map[any]uint64{}}
}

// skipped is the number of calls that are not played.
func (p *repeats) skipped() int {
	if p == nil || p.skip == nil {
		return 0
	}
	return p.skip.calls
}

// look looks whether the state of s, in which all ranks have ended n calls, was there before. If so, it takes calls off
// those that the ranks launch, whole periods and at most the given number, and returns how many. The last calls are
// played, because a rank that has none left to begin does not go on as before.
func (p *repeats) look(s *simulation, n, most int) int {
	if p == nil || p.skip != nil {
		return 0
	}
	s.finishInstant()
	key := p.state(s, n)
	before, known := p.seen[key]
	p.seen[key] = mark{n, s.now}
	if !known {
		return 0
	}
	out := &skip{period: n - before.calls, shift: s.now - before.at}
	for r := range s.ranks {
		run := &s.ranks[r]
		out.from = append(out.from, run.ended)
		if run.count > 0 {
			most = min(most, run.count-run.ended-len(run.comms[0].kernels))
		}
	}
	if out.calls = most / out.period * out.period; out.calls <= 0 {
		return 0
	}
	for r := range s.ranks {
		s.ranks[r].dropLast(out.calls)
	}
	p.skip = out
	return out.calls
}

// dropLast takes the last n items, calls on one stream that have not begun, off those that the rank launches.
func (r *rankRun) dropLast(n int) {
	if r.count == 0 {
		return
	}
	r.count -= n
	launched := len(r.spans) - r.count
	if launched <= 0 {
		return
	}
	r.spans = r.spans[:r.count]
	st, c := &r.streams[0], r.comms[0]
	st.queue, c.calls = st.queue[:len(st.queue)-launched], c.calls[:len(c.calls)-launched]
	atStart, atEnd := r.item(0).entries()
	st.entries -= launched * (atStart + atEnd)
}

// fill gives the ranks the calls that were skipped, and moves those after them.
func (p *repeats) fill(s *simulation) {
	if p.skipped() == 0 {
		return
	}
	k := p.skip
	for r := range s.ranks {
		run := &s.ranks[r]
		if run.count == 0 {
			continue
		}
		from := k.from[r]
		spans := slices.Clone(run.spans[:from])
		for i := range k.calls {
			spans = append(spans, spans[from+i-k.period].Later(k.shift))
		}
		for _, span := range run.spans[from:] {
			spans = append(spans, span.Later(k.shift*int64(k.calls/k.period)))
		}
		run.spans = spans
		run.ended += k.calls
	}
}

// state is a hash of all that determines what follows, so long that no two states have the same.
func (p *repeats) state(s *simulation, n int) [sha256.Size]byte {
	p.words = p.net.AppendState(p.words[:0], s.now)
	for r := range s.ranks {
		if run := &s.ranks[r]; run.count > 0 {
			p.add(uint64(run.ended-n), uint64(len(run.comms[0].kernels)), bit(run.streams[0].busy))
			p.addHost(s, run)
		}
	}
	for i := range s.conns {
		p.addConn(s, i)
	}
	bytes := make([]byte, 0, 8*len(p.words))
	for _, w := range p.words {
		bytes = binary.LittleEndian.AppendUint64(bytes, w)
	}
	return sha256.Sum256(bytes)
}

func (p *repeats) add(words ...uint64) { p.words = append(p.words, words...) }

// addHost adds what the host's thread of a rank has called, as far ahead as it matters, and what has not begun.
func (p *repeats) addHost(s *simulation, run *rankRun) {
	if s.nodes == nil {
		return
	}
	ahead := min(len(run.spans)-run.ended, s.queuedItems()+1)
	p.add(uint64(ahead), uint64(max(run.begins-s.now, 0)), uint64(max(run.called-s.now, 0)))
}

// addConn adds the state of a connection. Its messages count from the next one that the receiving kernel consumes.
func (p *repeats) addConn(s *simulation, i int) {
	c := &s.conns[i]
	base := c.consumed
	p.add(c.written-base, c.Arrived-base, c.window.size, c.window.each, c.reads, uint64(c.occupied))
	p.addProgram(s, c.sender)
	p.addProgram(s, c.receiver)
	if c.Flow == nil {
		return
	}
	p.words = c.Flow.AppendState(p.words, s.now)
	next := s.loop.NextOf(i)
	if next != link.Never {
		next -= s.now
	}
	p.add(uint64(next), c.Sent-base, c.Acked-base, c.Posted-base)
	p.add(c.sendQueued-base, c.recvQueued-base, c.sendAllowed-base, c.recvAllowed-base, c.recvSlots)
	kept := c.Acked
	if c.direct {
		kept = c.consumed
	}
	for m := kept; m < c.written; m++ {
		f := &c.messages[m%plan.Steps]
		p.add(f.bytes, f.steps)
	}
	if c.direct {
		return
	}
	p.addOps(s, c.sendOps)
	p.addOps(s, c.recvOps)
}

// addProgram adds where a program is. One that has ended is as good as none.
func (p *repeats) addProgram(s *simulation, run *programRun) {
	if run == nil || !run.active {
		p.add(0)
		return
	}
	b, k := run.block, run.block.kernel
	p.add(p.id(b.block), uint64(b.batch), uint64(b.unfinished), uint64(k.item-s.ranks[k.rank].ended),
		uint64(k.unfinished))
	loop, times, at := run.Place()
	p.add(p.id(&run.Program[0]), uint64(loop), uint64(times), uint64(at), bit(run.queued),
		uint64(max(run.ends-s.now, 0)))
}

func (p *repeats) addOps(s *simulation, o *opQueue) {
	p.add(uint64(len(o.ops)))
	for _, op := range o.ops {
		p.add(uint64(len(op.ends)))
		for _, e := range op.ends {
			p.add(uint64(e.conn), e.upTo-s.conns[e.conn].consumed, e.slots)
		}
	}
}

// id is the number of a part of a kernel, from 1.
func (p *repeats) id(part any) uint64 {
	n, ok := p.ids[part]
	if !ok {
		n = uint64(len(p.ids)) + 1
		p.ids[part] = n
	}
	return n
}
