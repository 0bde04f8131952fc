// SPDX-License-Identifier: Apache-2.0

package events

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// explain makes a simulation keep moments. Its network must keep records.
func (s *simulation) explain(f *player.Fabric) {
	x := &causes{s: s, begin: &moment{}, conns: make([]connCauses, len(s.conns)), ranks: make([]rankCauses, len(s.ranks))}
	if f.Nodes != nil {
		x.nics = f.Nodes.NICLatency
	}
	for i := range s.conns {
		x.conns[i].records = map[uint64][]link.HopRecord{}
		if c := &s.conns[i]; c.Flow != nil {
			x.conns[i].loses = slices.ContainsFunc(c.path, func(h link.PathHop) bool {
				return f.Params[h.Hop].Loss.P > 0 || f.Params[h.Hop].Loss.BadP > 0
			})
			for len(x.numbers) <= c.Flow.Number() {
				x.numbers = append(x.numbers, -1)
			}
			x.numbers[c.Flow.Number()] = i
		}
	}
	for r := range x.ranks {
		x.ranks[r] = rankCauses{host: x.begin, launched: map[int]*moment{}}
	}
	watch := s.loop.Watch
	s.loop.Watch = func(p *link.HopRecord) {
		c := &x.conns[x.numbers[p.Flow]]
		c.records[p.Msg] = append(c.records[p.Msg], *p)
		if watch != nil {
			watch(p)
		}
	}
	s.causes = x
}

// spent is where the time went on each rank until the last thing that has ended there.
func (x *causes) spent() []player.Spent {
	out := make([]player.Spent, len(x.ranks))
	for r := range x.ranks {
		if ended := x.ranks[r].ended; ended != nil {
			out[r] = ended.spent
		}
	}
	return out
}

// now is a moment as something that happens now.
func (x *causes) now(m *moment) *moment { return m.by(x.s.now, player.Unexplained) }

// --- the host's thread, and kernels

// free is when the host's thread of a rank could go on: after its last call, or when an item ended.
func (x *causes) free(r int) *moment {
	run := &x.ranks[r]
	if run.host.at < x.s.now {
		return x.now(later(run.host, run.ended))
	}
	return run.host
}

// calls notes that the host's thread begins to make a call that takes so long.
func (x *causes) calls(r int, ns int64) {
	if x != nil {
		x.ranks[r].host = x.free(r).after(ns, player.Calling)
	}
}

// launches notes that the host's thread has launched an item.
func (x *causes) launches(r, item int) {
	if x != nil {
		x.ranks[r].launched[item] = x.free(r)
	}
}

// starts is the moment at which an item starts.
func (x *causes) starts(r, item int) *moment {
	if x == nil {
		return nil
	}
	run := &x.ranks[r]
	m := later(run.launched[item], run.ended)
	delete(run.launched, item)
	return x.now(m)
}

func (x *causes) itemEnds(r int, m *moment) {
	if x != nil {
		x.ranks[r].ended = x.now(later(m, x.ranks[r].ended))
	}
}

// --- programs

// begins is the moment at which a program begins action a, which is ready.
func (x *causes) begins(p *programRun, a *plan.Action) *moment {
	if x == nil {
		return nil
	}
	m := p.at
	for _, i := range a.Recv {
		if n := p.conns[i]; !a.Empty {
			m = later(m, x.conns[n].arrived.of(x.s.conns[n].consumed+a.RecvAhead))
		}
	}
	for _, i := range a.Send {
		n := p.conns[i]
		m = later(m, x.conns[n].freed)
		if c := &x.s.conns[n]; c.proxied() && c.p2p {
			m = later(m, x.conns[n].sendAllowed)
		}
	}
	return x.now(m)
}

// writes notes that the sending kernel begins to write the next message of a connection, and when it ends.
func (x *causes) writes(i int, begins, m *moment) {
	if x == nil {
		return
	}
	c, k := &x.s.conns[i], &x.conns[i]
	k.written.set(c.written, m)
	if c.Flow == nil {
		k.arrived.set(c.written, m)
	}
	if c.direct {
		k.posts(c.written, begins)
	}
}

// agrees notes that the NICs have agreed where message n of a connection goes.
func (x *causes) agrees(i int, n uint64) {
	if x != nil {
		written := &x.conns[i].written
		written.set(n, written.of(n).by(x.s.now, player.NIC))
	}
}

// consumes notes that the receiving kernel consumes the next message of a connection.
func (x *causes) consumes(i int, m *moment) {
	if x == nil {
		return
	}
	c, k := &x.s.conns[i], &x.conns[i]
	k.consumed.set(c.consumed, m)
	if !c.proxied() {
		k.freed = m
	}
}

// --- proxies

// operation is the moment at which the proxies of a rank are given an operation.
func (x *causes) operation(r int) *moment {
	if x == nil {
		return nil
	}
	run := &x.ranks[r]
	m := run.ended
	if run.host.at <= x.s.now { // else it makes the next call
		m = later(m, run.host)
	}
	return x.now(m)
}

// allows notes that an operation of a queue begins.
func (x *causes) allows(o *opQueue, m *moment) {
	if x == nil {
		return
	}
	for _, e := range o.ops[0].ends {
		if k := &x.conns[e.conn]; o.recv {
			k.recvAllowed = m
		} else {
			k.sendAllowed = m
		}
	}
}

// completes is the moment at which an operation is complete.
func (x *causes) completes(o *opQueue) *moment {
	if x == nil {
		return nil
	}
	var m *moment
	for _, e := range o.ops[0].ends {
		if k := &x.conns[e.conn]; o.recv {
			m = later(later(m, k.arrived.of(e.upTo-1)), k.consumed.of(e.upTo-1))
		} else {
			m = later(m, k.freed)
		}
	}
	return m
}

// posts notes which messages the ends of a connection have posted now, since they had sent and posted so many.
func (x *causes) posts(i int, sent, posted uint64) {
	if x == nil {
		return
	}
	c, k := &x.s.conns[i], &x.conns[i]
	for n := sent; n < c.Sent && c.proxied(); n++ {
		k.posts(n, x.now(later(k.written.of(n), k.sendAllowed)))
	}
	ahead := uint64(directAhead)
	if c.proxied() {
		ahead = c.recvSlots
	}
	for n := posted; n < c.Posted; n++ {
		m := later(x.begin, k.recvAllowed)
		if n >= ahead {
			m = later(later(m, k.arrived.of(n-ahead)), k.consumed.of(n-ahead))
		}
		k.received.set(n, x.now(m))
	}
}

// sees notes that the last messages of a connection have arrived, or are complete for the sender.
func (x *causes) sees(i int, arrived, acked uint64) {
	if x == nil {
		return
	}
	c, k := &x.s.conns[i], &x.conns[i]
	for n := c.Arrived - arrived; n < c.Arrived; n++ {
		k.arrived.set(n, x.now(x.arrives(i, n)))
	}
	for n := c.Acked - acked; n < c.Acked; n++ {
		k.freed = x.now(x.acknowledged(i, n))
	}
}
