// SPDX-License-Identifier: Apache-2.0

package expect

// treePlan adds the blocks of one channel: device/all_reduce.h's runTreeSplit, in
// which a rank reduces upwards and passes results downwards at the same time, and
// the root does both in one go.
func (c *call) treePlan(p *plan, pt part) {
	slots := c.slots()
	for rank, l := range c.Trees[pt.channel] {
		var fromDown, toDown []int
		for _, d := range l.Down {
			if d == -1 {
				continue
			}
			fromDown = append(fromDown, p.conn(d, rank, pt.channel, slots))
			toDown = append(toDown, p.conn(rank, d, pt.channel, slots))
		}
		if l.Up == -1 {
			p.add(rank, pt.channel, c.chunks(pt, fromDown, toDown))
			continue
		}
		up := c.chunks(pt, fromDown, []int{p.conn(rank, l.Up, pt.channel, slots)})
		down := c.chunks(pt, []int{p.conn(l.Up, rank, pt.channel, slots)}, toDown)
		p.add(rank, pt.channel, up, down)
	}
}

// chunks is the program that does the same with each chunk of the part.
func (c *call) chunks(pt part, recv, send []int) program {
	elem := c.shape().elem
	one := func(n uint64, times int) loop {
		l := loop{repeat: times}
		for _, s := range c.slices(n, elem) {
			l.actions = append(l.actions, action{recv: recv, send: send, slice: s})
		}
		return l
	}
	var prog program
	if full := pt.count / pt.chunk; full > 0 {
		prog = append(prog, one(pt.chunk, int(full)))
	}
	if rem := pt.count % pt.chunk; rem > 0 {
		prog = append(prog, one(rem, 1))
	}
	return prog
}
