// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/ddlemu/ddlemu/shaper/workload/schedule"

// uses are the accesses to a cell. If blocks write the value that the cell has already, nothing changes: it does not
// matter in which order they do, nor whether others read the cell meanwhile. So whoever reads a value must come after
// one of the writes of it, and whoever writes another value after all accesses to this one.
type uses struct {
	now  accesses // of the value that the cell has
	past accesses // of the one that it had before
}

// accesses to one value. No writes: the cell had it from the beginning.
type accesses struct {
	writes []event
	reads  []event // the last of each block
}

func (c *cell) use() *uses {
	if c.uses == nil {
		c.uses = &uses{}
	}
	return c.uses
}

// reached says whether block i knows that the value is there.
func (d *data) reached(a *accesses, i int) bool {
	for _, e := range a.writes {
		if d.before(e, i) {
			return true
		}
	}
	return len(a.writes) == 0
}

// read is the value of chunk k of a step, which is at a place of its GPU's memory.
func (d *data) read(i, step, place int, ref schedule.Ref, k int) value {
	c := &d.mem[d.Blocks[i].GPU][place]
	u := c.use()
	now := event{int32(i), int32(step)}
	if !d.reached(&u.now, i) {
		d.races.reads[access{now, place}] = true
		d.unordered(u.now.writes[len(u.now.writes)-1], now, "written by", "read by", ref, k)
	}
	v := c.value
	if d.races.isUncertain(access{now, place}, cellAt{d.Blocks[i].GPU, place}) {
		v = d.races.unknown
	}
	for n := range u.now.reads {
		if int(u.now.reads[n].block) == i {
			u.now.reads[n].step = int32(step)
			return v
		}
	}
	u.now.reads = append(u.now.reads, now)
	return v
}

func (d *data) write(i, step, place int, v value, ref schedule.Ref, k int) {
	c := &d.mem[d.Blocks[i].GPU][place]
	u := c.use()
	now := event{int32(i), int32(step)}
	if v == c.value && d.sets.certain(v) {
		if !d.reached(&u.now, i) {
			d.follow(&u.past, now, place, ref, k)
		}
		u.now.writes = append(u.now.writes, now)
		return
	}
	d.follow(&u.now, now, place, ref, k)
	u.past, u.now = u.now, accesses{writes: []event{now}}
	c.value = v
}

// follow reports the accesses of which the block of a write does not know that they come before.
func (d *data) follow(a *accesses, now event, place int, ref schedule.Ref, k int) {
	for _, e := range a.writes {
		if !d.before(e, int(now.block)) {
			d.races.cells[cellAt{d.Blocks[now.block].GPU, place}] = true
			d.unordered(e, now, "written by", "written by", ref, k)
		}
	}
	for _, e := range a.reads {
		if !d.before(e, int(now.block)) {
			d.races.reads[access{e, place}] = true
			d.unordered(e, now, "read by", "written by", ref, k)
		}
	}
}

func (d *data) unordered(e, now event, first, second string, ref schedule.Ref, k int) {
	ref.Offset += k
	b := &d.Blocks[now.block]
	d.r.add(Unordered, b.Steps[now.step].Line, "chunk %v of GPU %d is %s %s and %s %s, "+
		"and nothing says which comes first", ref, b.GPU, first, d.name(int(e.block), int(e.step)), second,
		d.name(int(now.block), int(now.step)))
}
