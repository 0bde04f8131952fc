// SPDX-License-Identifier: Apache-2.0

package plan

// treePlan adds the blocks of one channel: runTreeSplit of device/all_reduce.h. A rank reduces upwards and passes
// results downwards at the same time; the root does both in one program.
func (c *Call) treePlan(p *Plan, s Share) {
	slots := c.slots()
	for rank, l := range c.Trees[s.channel] {
		if !p.wants(rank) {
			continue
		}
		var fromDown, toDown []int
		for _, d := range l.Down {
			if d == -1 {
				continue
			}
			fromDown = append(fromDown, p.conn(d, rank, s.channel, slots))
			toDown = append(toDown, p.conn(rank, d, s.channel, slots))
		}
		if l.Up == -1 {
			p.add(rank, s.channel, c.chunks(s, fromDown, toDown))
			continue
		}
		up := c.chunks(s, fromDown, []int{p.conn(rank, l.Up, s.channel, slots)})
		down := c.chunks(s, []int{p.conn(l.Up, rank, s.channel, slots)}, toDown)
		p.add(rank, s.channel, up, down)
	}
}

// chunks is the program that does the same with each chunk of the share.
func (c *Call) chunks(s Share, recv, send []int) Program {
	elem := c.shape().elem
	one := func(n uint64, times int) Loop {
		l := Loop{Repeat: times}
		for _, s := range c.slices(n, elem) {
			l.Actions = append(l.Actions, Action{Recv: recv, Send: send, Slice: s})
		}
		return l
	}
	var prog Program
	if full := s.count / s.chunk; full > 0 {
		prog = append(prog, one(s.chunk, int(full)))
	}
	if rem := s.count % s.chunk; rem > 0 {
		prog = append(prog, one(rem, 1))
	}
	return prog
}
