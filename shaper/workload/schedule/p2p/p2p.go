// SPDX-License-Identifier: Apache-2.0

// Package p2p makes of a schedule groups of sends and receives (ncclSend and ncclRecv), with copies and sums between
// them. All that a rank can send at once goes into one group, with one message to each peer: so a rank that passes
// something on does so in its next group. Chunks are moved whole. That is coarser than MSCCL's kernel, which passes on
// pieces as they come.
package p2p

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/interpret"
)

// ElemBytes is the size of an element. All offsets and counts of a plan are in elements.
const ElemBytes = 4

// Plan is a schedule for a size.
type Plan struct {
	Ranks   []Rank
	Reduces bool // the inputs are added up
}

// Rank is what one rank does, in this order: Inputs are written, and for each group its moves and its messages are
// done, then Last. Then Expect is true.
type Rank struct {
	Memory uint64
	Groups []Group
	Last   []Move
	Inputs []Value
	Expect []Value
}

// Group is a group of sends and receives, and the moves before it.
type Group struct {
	Moves        []Move
	Sends, Recvs []Message // by peer
}

// Message is sent from, or received into, the rank's memory.
type Message struct {
	Peer      int
	At, Count uint64
}

// Move copies or adds within the memory of a rank.
type Move struct {
	Add             bool
	To, From, Count uint64
}

// Value are elements of the memory: the elements of the input of Source from First on, or if Sum is set their sum over
// all ranks.
type Value struct {
	At, Count uint64
	Sum       bool
	Source    int
	First     uint64
}

// maker makes a plan by executing the schedule, with whole steps.
type maker struct {
	s     *schedule.Schedule
	per   uint64 // elements of a chunk
	steps *interpret.Machine
	conns []conn
	ranks []rank
}

// conn has what came for a connection and is not yet used.
type conn struct {
	came  uint64
	parts []part
}

type part struct {
	at, count uint64
	area      *area
}

// area is where a message was received.
type area struct {
	at, count uint64
	parts     int // not yet used
}

// rank is the state of a rank.
type rank struct {
	out    Rank
	layout schedule.Layout
	moves  []Move                     // since the last group
	packed map[int]*packed            // by peer
	free   map[uint64][]uint64        // areas for messages, by size
	end    uint64                     // of the areas
	most   uint64                     // elements that are sent in one group
	packs  []struct{ move, peer int } // moves whose target is in the message to a peer
}

// packed is a message that is to be sent.
type packed struct {
	count uint64
	parts []sent
}

type sent struct {
	conn  int
	count uint64
}

// Make makes the plan of a good schedule. root is the root of a rooted collective.
func Make(s *schedule.Schedule, c *schedule.Cut, inPlace bool, root int) (*Plan, error) {
	sh, err := s.Shape()
	if err != nil {
		return nil, err
	}
	if c.Elem != ElemBytes {
		return nil, fmt.Errorf("elements of %d bytes: must be %d", c.Elem, ElemBytes)
	}
	m := &maker{s: s, per: c.Chunk / ElemBytes}
	for gpu := range s.GPUs {
		m.addRank(gpu, inPlace, root, sh)
	}
	if err := m.run(); err != nil {
		return nil, err
	}
	p := &Plan{Reduces: s.Coll.Reduces()}
	for gpu := range m.ranks {
		r := &m.ranks[gpu]
		r.finish()
		if len(r.out.Groups) == 0 {
			return nil, fmt.Errorf(
				"GPU %d neither sends nor receives: such a schedule cannot be played as groups of sends and "+
					"receives", gpu)
		}
		p.Ranks = append(p.Ranks, r.out)
	}
	return p, nil
}

func (m *maker) addRank(gpu int, inPlace bool, root int, sh schedule.Shape) {
	l := m.s.Layout(gpu, inPlace, root, sh)
	r := rank{layout: l, packed: map[int]*packed{}, free: map[uint64][]uint64{}, end: uint64(l.Total) * m.per}
	r.out.Inputs = []Value{
		{At: uint64(l.Base[schedule.Input]) * m.per, Count: uint64(m.s.InputChunks(gpu, root, inPlace, sh)) * m.per,
			Sum: m.s.Coll.Reduces(), Source: gpu}}
	for _, x := range m.s.Result(gpu, root, sh) {
		r.out.Expect = append(r.out.Expect, Value{
			At: uint64(l.Base[schedule.Output]+x.At) * m.per, Count: uint64(x.Chunks) * m.per, Sum: x.Sum,
			Source: x.Source, First: uint64(x.First) * m.per,
		})
	}
	for _, c := range m.s.GPUs[gpu].Copies {
		from, _ := l.At(schedule.Ref{Buffer: schedule.Input, Offset: c.From}, 1)
		to, _ := l.At(schedule.Ref{Buffer: schedule.Output, Offset: c.To}, 1)
		r.copy(uint64(to)*m.per, uint64(from)*m.per, m.per)
	}
	m.ranks = append(m.ranks, r)
}

// run executes the schedule: all that needs no message, then a group, and so on.
func (m *maker) run() error {
	var layouts []schedule.Layout
	for gpu := range m.ranks {
		layouts = append(layouts, m.ranks[gpu].layout)
	}
	// In elements, so that an action has the same places as the plan.
	cut := &schedule.Cut{Elem: 1, Chunk: m.per, Piece: m.per, Loops: 1, Group: math.MaxInt, Slices: 1,
		Slots: math.MaxInt}
	m.steps = interpret.New(interpret.NewGraph(m.s), cut, layouts, m.act)
	m.conns = make([]conn, len(m.steps.Conns))
	for i := range m.steps.Conns {
		m.steps.Conns[i].Remote = true
	}
	m.steps.Start()
	for {
		m.steps.Run()
		sending := false
		for gpu := range m.ranks {
			sending = sending || len(m.ranks[gpu].packed) > 0
		}
		if !sending {
			break
		}
		m.exchange()
	}
	if b, a := m.steps.Waiting(); b != nil {
		return fmt.Errorf("GPU %d block %d waits for ever at step %d (%v)", b.GPU, b.ID, a.Number, a.Step.Kind)
	}
	return nil
}

// act does what a step does with the memory.
func (m *maker) act(i int, a *schedule.Action) {
	b, st := &m.steps.Blocks[i], a.Step
	if !st.Moves() {
		return
	}
	r := &m.ranks[b.GPU]
	from, to, n := a.Src, a.Dst, a.Payload
	var got part
	if st.Receives() {
		c := &m.conns[b.In]
		got, c.parts = c.parts[0], c.parts[1:]
		defer r.release(got.area)
	}
	pack := func(moves ...Move) { r.pack(b.Send, b.Out, n, moves...) }
	switch st.Kind {
	case schedule.SendStep:
		pack(Move{From: from})
	case schedule.RecvStep:
		r.copy(to, got.at, n)
	case schedule.RecvCopySend:
		r.copy(to, got.at, n)
		pack(Move{From: got.at})
	case schedule.RecvReduceSend:
		pack(Move{From: got.at}, Move{From: from, Add: true})
	case schedule.RecvReduceCopy, schedule.RecvReduceCopySend:
		r.copy(to, from, n)
		r.moves = append(r.moves, Move{Add: true, To: to, From: got.at, Count: n})
		if st.Kind.Sends() {
			pack(Move{From: to})
		}
	case schedule.CopyStep:
		r.copy(to, from, n)
	case schedule.ReduceStep:
		r.moves = append(r.moves, Move{Add: true, To: to, From: from, Count: n})
	}
}

func (r *rank) copy(to, from, n uint64) {
	if to != from {
		r.moves = append(r.moves, Move{To: to, From: from, Count: n})
	}
}

// pack adds n elements to the message to a peer. The moves make them; where the message will be is not yet known.
func (r *rank) pack(peer, conn int, n uint64, moves ...Move) {
	p := r.packed[peer]
	if p == nil {
		p = &packed{}
		r.packed[peer] = p
	}
	for _, move := range moves {
		move.To, move.Count = p.count, n
		r.packs = append(r.packs, struct{ move, peer int }{len(r.moves), peer})
		r.moves = append(r.moves, move)
	}
	p.count += n
	p.parts = append(p.parts, sent{conn, n})
}

// exchange makes a group of the packed elements.
func (m *maker) exchange() {
	groups := make([]Group, len(m.ranks))
	for gpu := range m.ranks {
		groups[gpu].Sends = m.ranks[gpu].place()
	}
	for gpu := range m.ranks {
		for _, peer := range slices.Sorted(maps.Keys(m.ranks[gpu].packed)) {
			groups[peer].Recvs = append(groups[peer].Recvs, m.receive(gpu, peer, m.ranks[gpu].packed[peer]))
		}
	}
	for gpu := range m.ranks {
		r, g := &m.ranks[gpu], groups[gpu]
		if len(g.Sends)+len(g.Recvs) == 0 {
			continue
		}
		slices.SortFunc(g.Recvs, func(a, b Message) int { return cmp.Compare(a.Peer, b.Peer) })
		g.Moves, r.moves = r.moves, nil
		r.out.Groups = append(r.out.Groups, g)
		r.packed, r.packs = map[int]*packed{}, nil
	}
}

// sendArea marks offsets in the messages that are sent until finish knows where that is.
const sendArea = uint64(math.MaxUint64) / 2

// place lays the messages of a rank side by side, and returns them.
func (r *rank) place() (out []Message) {
	base, total := map[int]uint64{}, uint64(0)
	for _, peer := range slices.Sorted(maps.Keys(r.packed)) {
		base[peer] = total
		out = append(out, Message{Peer: peer, At: sendArea + total, Count: r.packed[peer].count})
		total += r.packed[peer].count
	}
	for _, x := range r.packs {
		r.moves[x.move].To += sendArea + base[x.peer]
	}
	r.most = max(r.most, total)
	return out
}

// receive gives a message a place at its receiver.
func (m *maker) receive(src, dst int, p *packed) Message {
	r := &m.ranks[dst]
	a := &area{count: p.count, parts: len(p.parts)}
	if free := r.free[p.count]; len(free) > 0 {
		a.at, r.free[p.count] = free[len(free)-1], free[:len(free)-1]
	} else {
		a.at = r.end
		r.end += p.count
	}
	at := a.at
	for _, x := range p.parts {
		c := &m.conns[x.conn]
		c.came++
		c.parts = append(c.parts, part{at, x.count, a})
		m.steps.Progress(x.conn, c.came, 0) // what sends here needs no free slot
		at += x.count
	}
	return Message{Peer: src, At: a.at, Count: p.count}
}

// release notes that a part of a message was used.
func (r *rank) release(a *area) {
	if a.parts--; a.parts == 0 {
		r.free[a.count] = append(r.free[a.count], a.at)
	}
}

// finish places the messages that are sent behind everything else.
func (r *rank) finish() {
	r.out.Last = r.moves
	fix := func(at *uint64) {
		if *at >= sendArea {
			*at += r.end - sendArea
		}
	}
	for g := range r.out.Groups {
		for i := range r.out.Groups[g].Moves {
			fix(&r.out.Groups[g].Moves[i].To)
		}
		for i := range r.out.Groups[g].Sends {
			fix(&r.out.Groups[g].Sends[i].At)
		}
	}
	r.out.Memory = r.end + r.most
}

// Workload is the calls of the plan: each group is one operation, the groups of a rank in order.
func (p *Plan) Workload(name string) *workload.Workload {
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Name: name, Ranks: len(p.Ranks),
		Source: workload.Source{Kind: "schedule"}}}
	for i := range p.Ranks {
		for _, g := range p.Ranks[i].Groups {
			op := workload.Op{Ranks: workload.Ranks{i}, Kind: workload.Group}
			for _, x := range g.Sends {
				op.Ops = append(op.Ops, workload.Op{Kind: workload.Send, Peer: x.Peer, Count: int64(x.Count),
					Type: "int32"})
			}
			for _, x := range g.Recvs {
				op.Ops = append(op.Ops, workload.Op{Kind: workload.Recv, Peer: x.Peer, Count: int64(x.Count),
					Type: "int32"})
			}
			w.Ops = append(w.Ops, op)
		}
	}
	return w
}

// Bytes is the memory of all ranks.
func (p *Plan) Bytes() (sum uint64) {
	for i := range p.Ranks {
		sum += p.Ranks[i].Memory * ElemBytes
	}
	return sum
}
