// SPDX-License-Identifier: Apache-2.0

package mscclpp

import (
	"errors"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

// do makes the steps of an operation that need not wait.
func (m *machine) do(b *block, o *operation) error {
	if m.steps > msccl.MaxSteps || m.work > mostWork {
		return errTooLarge
	}
	if err := m.noteScratch(o); err != nil {
		return err
	}
	m.takePackets(b, o)
	switch o.name {
	case "signal", "rlxsignal":
		m.signal(b, o, o.name == "rlxsignal")
	case "wait", "rlxwait":
		m.wait(b, o)
	case "sem_acquire":
		m.acquire(b, o)
	case "sem_release":
		m.release(b, o)
	case "pws", "pwsf":
		m.putAll(b, o)
		m.signal(b, o, false)
	default:
		// a pipeline has iterations in which an operation has nothing left to move
		if len(o.dst) > 0 && o.dst[0].n > 0 {
			return m.move(b, o)
		}
	}
	return nil
}

// move makes the steps of an operation that moves data.
func (m *machine) move(b *block, o *operation) error {
	switch o.name {
	case "put", "ppkt":
		m.putAll(b, o)
	case "rppkt":
		m.sendAll(b, o, o.src[0], o.dst)
	case "get":
		m.warnSwapped(o)
		for i := range o.dst {
			m.request(b, o, o.source(i))
			m.inPieces(o.dst[i].n, func(at, n int) {
				m.answer(b, o, o.source(i).gpu, schedule.RecvStep, o.dst[i], o.dst[i].part(at, n))
			})
		}
	case "copy", "upkt":
		m.copy(b, o, o.src[0], o.dst[0])
	case "cpkt":
		m.written(b.gpu, o.dst[0], m.copy(b, o, o.src[0], o.dst[0]))
	case "re", "repkt", "res", "respkt", "recpkt", "recspkt":
		return m.reduceAll(b, o)
	case "rre", "rres":
		return m.readReduce(b, o, o.src[0], o.src[1:], o.dst[0], o.dst[1:])
	case "glres", "gstore", "gstorepkt":
		return m.overSwitch(b, o)
	}
	return nil
}

// putAll stores each source in its destination.
func (m *machine) putAll(b *block, o *operation) {
	for i := range o.dst {
		if o.dst[i].n > 0 {
			m.send(b, o, o.source(i), o.dst[i])
		}
	}
}

// sendAll stores one source in all destinations, round-robin by pieces.
func (m *machine) sendAll(b *block, o *operation, from span, to []span) {
	m.inPieces(from.n, func(at, n int) {
		for _, x := range to {
			m.send(b, o, from.part(at, n), x.part(at, n))
		}
	})
}

// inPieces calls f for the pieces of n parts.
func (m *machine) inPieces(n int, f func(at, n int)) {
	for at := 0; at < n; at += m.piece {
		f(at, min(m.piece, n-at))
	}
}

// part is n parts of a span from at.
func (s span) part(at, n int) span {
	s.ref.Offset += at
	s.n = n
	return s
}

// reduceAll adds up the sources in the first destination, copies the sum as packets to the second one if the operation
// does so, and sends it to the others.
func (m *machine) reduceAll(b *block, o *operation) error {
	if err := m.reduce(b, o); err != nil {
		return err
	}
	rest := o.dst[1:]
	if o.name == "recpkt" || o.name == "recspkt" {
		m.written(b.gpu, rest[0], m.copy(b, o, o.dst[0], rest[0]))
		rest = rest[1:]
	}
	m.sendAll(b, o, o.dst[0], rest)
	return nil
}

// errOverlap refuses sums of which the result depends on the order in which the threads add.
var errOverlap = errors.New("a source overlaps with the destination and is not at the same place")

// reduce adds up local sources.
func (m *machine) reduce(b *block, o *operation) error {
	dst := o.dst[0]
	first := 0
	for i, s := range o.src {
		same, overlap := m.compare(b.gpu, s, dst)
		if overlap && !same {
			return errOverlap
		}
		if same {
			first = i
		}
	}
	m.copy(b, o, o.src[first], dst)
	for i, s := range o.src {
		if i != first {
			m.local(b, schedule.Step{Kind: schedule.ReduceStep, Src: s.ref, Dst: dst.ref, Count: s.n, From: o.from})
		}
	}
	return nil
}

// compare says whether two spans of a GPU are at the same place of its memory, and whether they overlap. In place,
// input and output may.
func (m *machine) compare(gpu int, x, y span) (same, overlap bool) {
	l := &m.gpus[gpu].layout
	px, _ := l.At(x.ref, x.n)
	py, _ := l.At(y.ref, y.n)
	return px == py, px < py+y.n && py < px+x.n
}

// readReduce adds remote sources to a local one, and stores the sum in other GPUs' memories too.
func (m *machine) readReduce(b *block, o *operation, own span, remote []span, dst span, to []span) error {
	if same, overlap := m.compare(b.gpu, own, dst); overlap && !same {
		return errOverlap
	}
	if len(remote) == 0 {
		m.copy(b, o, own, dst)
	}
	for _, x := range remote {
		m.request(b, o, x)
	}
	m.inPieces(dst.n, func(at, n int) {
		add := own.part(at, n)
		for _, x := range remote {
			m.answer(b, o, x.gpu, schedule.RecvReduceCopy, add, dst.part(at, n))
			add = dst.part(at, n)
		}
		for _, x := range to {
			m.send(b, o, dst.part(at, n), x.part(at, n))
		}
	})
	return nil
}

// overSwitch does an operation of a switch channel by loads and stores, so that its result can be checked.
func (m *machine) overSwitch(b *block, o *operation) error {
	src, dst := o.src[0], o.dst[0]
	src.wide, dst.wide = false, false
	var from, to []span
	for _, rank := range o.ranks {
		if rank != b.gpu {
			from, to = append(from, span{gpu: rank, ref: src.ref, n: src.n}),
				append(to, span{gpu: rank, ref: dst.ref, n: dst.n})
		}
	}
	switch o.name {
	case "glres":
		return m.readReduce(b, o, src, from, dst, to)
	case "gstore":
		m.copy(b, o, src, dst)
	default:
		m.written(b.gpu, dst, m.copy(b, o, src, dst))
	}
	m.sendAll(b, o, dst, to)
	return nil
}

// isPackets says whether an operation sends packets.
func isPackets(o *operation) bool {
	switch o.name {
	case "ppkt", "rppkt", "respkt", "recspkt", "gstorepkt":
		return true
	}
	return false
}

// noteScratch refuses plans that have packets and plain data in one scratch buffer.
func (m *machine) noteScratch(o *operation) error {
	rule, ok := rules[o.name]
	if !ok {
		return nil
	}
	for k, list := range [2][]span{o.src, o.dst} {
		for i, s := range list {
			if s.ref.Buffer != schedule.Scratch {
				continue
			}
			letter := rule[k][min(i, len(strings.TrimRight(rule[k], "*+"))-1)]
			g := &m.gpus[s.gpu]
			if letter == 'p' || letter == 'q' || o.name == "gstorepkt" || o.name == "ppkt" && o.kind == portChannel {
				g.packed = true
			} else {
				g.plain = true
			}
			if g.plain && g.packed {
				return errBothScratch
			}
		}
	}
	return nil
}

// warnSwapped warns of a mistake of the executor.
func (m *machine) warnSwapped(o *operation) {
	for i := range o.dst {
		if o.source(i).ref.Offset != o.dst[i].ref.Offset {
			m.warn("gets with two indexes",
				"%s has another index at its source than at its destination: the executor of MSCCL++ 0.9.0 "+
					"(handleGet) takes each for the other; here it is as the plan says", o.from)
			return
		}
	}
}
