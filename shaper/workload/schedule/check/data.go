// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// data are the values of all chunks, and what is known of the order of the accesses to them.
type data struct {
	sets    *sets
	layouts []schedule.Layout
	mem     [][]cell // by GPU
	clocks  []clock  // by block
	flags   map[[2]int]snapshot
	sh      schedule.Shape
	garbage value
	inPlace bool
	races   races
}

// cell is a chunk of memory.
type cell struct {
	value value
	*uses // nil: nobody has used it
}

// event is a step of a block.
type event struct{ block, step int32 }

// snapshot is what a block knew at a step: for each block, how many of its steps came before.
type snapshot struct {
	known []int32 // shared, not to be changed
	by    event
}

// clock is what a block knows now.
type clock struct {
	known  []int32
	shared bool // known is part of a snapshot
}

type message struct {
	values []value
	from   snapshot
}

// newData fills the inputs.
func newData(g *graph, r *Report, sh schedule.Shape, inPlace bool, root int) (*data, error) {
	d := &data{sets: newSets(), sh: sh, inPlace: inPlace, flags: map[[2]int]snapshot{}, clocks: make([]clock, len(g.blocks)), races: newRaces()}
	var err error
	if d.garbage, err = d.sets.of(garbage); err != nil {
		return nil, err
	}
	total := 0
	for gpu := range g.s.GPUs {
		l := g.s.Layout(gpu, inPlace, root, sh)
		if total += l.Total; total > mostCells {
			return nil, errTooLarge
		}
		d.layouts = append(d.layouts, l)
		cells := make([]cell, l.Total)
		for i := range cells {
			cells[i].value = d.garbage
		}
		d.mem = append(d.mem, cells)
		if err := d.fill(g.s, gpu, root); err != nil {
			return nil, err
		}
	}
	for i := range g.blocks {
		d.checkBounds(g, r, i)
	}
	return d, nil
}

// fill puts the input of a GPU into its memory.
func (d *data) fill(s *schedule.Schedule, gpu, root int) error {
	l := &d.layouts[gpu]
	for c := range s.InputChunks(gpu, root, d.inPlace, d.sh) {
		v, err := d.sets.of(partOf(gpu, c))
		if err != nil {
			return err
		}
		d.mem[gpu][l.Base[schedule.Input]+c].value = v
	}
	for _, c := range s.GPUs[gpu].Copies {
		from, ok := l.At(schedule.Ref{Buffer: schedule.Input, Offset: c.From}, 1)
		to, ok2 := l.At(schedule.Ref{Buffer: schedule.Output, Offset: c.To}, 1)
		if !ok || !ok2 {
			return fmt.Errorf("GPU %d: <copy> of chunk %d to %d is outside of the buffers", gpu, c.From, c.To)
		}
		d.mem[gpu][to].value = d.mem[gpu][from].value
	}
	return nil
}

func (d *data) checkBounds(g *graph, r *Report, i int) {
	b := &g.blocks[i]
	l := &d.layouts[b.gpu]
	for k := range b.b.Steps {
		st := &b.b.Steps[k]
		if !moves(st) {
			continue
		}
		for _, x := range []struct {
			used bool
			ref  schedule.Ref
			what string
		}{{st.Kind.ReadsSource(), st.Src, "reads"}, {st.Kind.WritesTarget(), st.Dst, "writes"}} {
			if !x.used {
				continue
			}
			if _, ok := l.At(x.ref, st.Count); !ok {
				r.add(Bounds, st.Line, "%s %s %s from %v, but the buffer has %d", g.name(i, k), x.what, chunks(st.Count), x.ref, l.Size[x.ref.Buffer])
			}
		}
	}
}

func chunks(n int) string {
	if n == 1 {
		return "1 chunk"
	}
	return fmt.Sprintf("%d chunks", n)
}

// execute does a step of block i.
func (d *data) execute(m *machine, i, step int) error {
	b := &m.blocks[i]
	st := &b.b.Steps[step]
	if w := b.waitsFor[step]; w >= 0 {
		d.takeFlag(m, i, m.other(i, step), int(w))
	}
	if !moves(st) {
		d.noteDone(i, step, b)
		return nil
	}
	var in, out []value
	if st.Kind.Receives() {
		c := &m.conns[b.in]
		msg := c.messages[0]
		c.messages = c.messages[1:]
		in = msg.values
		d.join(i, msg.from)
	}
	if st.Kind.Sends() {
		out = make([]value, 0, st.Count)
	}
	src, _ := d.layouts[b.gpu].At(st.Src, st.Count)
	dst, _ := d.layouts[b.gpu].At(st.Dst, st.Count)
	if st.Kind == schedule.CopyStep && src == dst {
		d.noteDone(i, step, b) // in place a chunk may be where it is to be copied to
		return nil
	}
	for c := range st.Count {
		v, err := d.chunk(m, i, step, c, src+c, dst+c, in)
		if err != nil {
			return err
		}
		if st.Kind.Sends() {
			out = append(out, v)
		}
	}
	if st.Kind.Sends() {
		c := &m.conns[b.out]
		c.messages = append(c.messages, message{out, d.snapshot(i, step)})
	}
	d.noteDone(i, step, b)
	return nil
}

// noteDone keeps what the block knows for those that wait for its step.
func (d *data) noteDone(i, step int, b *blockInfo) {
	if b.waiters[step] > 0 {
		d.flags[[2]int{i, step}] = d.snapshot(i, step)
	}
}

// chunk does chunk c of a step, and returns the value that it stores or sends.
func (d *data) chunk(m *machine, i, step, c, src, dst int, in []value) (v value, err error) {
	st := &m.blocks[i].b.Steps[step]
	if st.Kind.Receives() {
		v = in[c]
	}
	if st.Kind.ReadsSource() {
		other := d.read(m, i, step, src, st.Src, c)
		switch {
		case st.Kind.Receives():
			v, err = d.sets.sum(v, other)
		case st.Kind == schedule.ReduceStep:
			v, err = d.sets.sum(d.read(m, i, step, dst, st.Dst, c), other)
		default:
			v = other
		}
	}
	if st.Kind.WritesTarget() {
		d.write(m, i, step, dst, v, st.Dst, c)
	}
	return v, err
}

// takeFlag makes block i know what the block had done that it waited for.
func (d *data) takeFlag(m *machine, i, other, step int) {
	key := [2]int{other, step}
	if s, ok := d.flags[key]; ok {
		d.join(i, s)
		if m.blocks[other].waiters[step] == 1 {
			delete(d.flags, key)
		}
	}
}

func (d *data) snapshot(i, step int) snapshot {
	d.clocks[i].shared = true
	return snapshot{d.clocks[i].known, event{int32(i), int32(step)}}
}

// join adds what a snapshot knows.
func (d *data) join(i int, s snapshot) {
	c := &d.clocks[i]
	set := func(b int, n int32) {
		if c.known == nil || c.shared {
			known := make([]int32, len(d.clocks))
			copy(known, c.known)
			c.known, c.shared = known, false
		}
		c.known[b] = n
	}
	for b, n := range s.known {
		if c.known == nil || n > c.known[b] {
			set(b, n)
		}
	}
	if c.known == nil || s.by.step+1 > c.known[s.by.block] {
		set(int(s.by.block), s.by.step+1)
	}
}

// before says whether block i knows that e has happened.
func (d *data) before(e event, i int) bool {
	if int(e.block) == i {
		return true
	}
	known := d.clocks[i].known
	return known != nil && known[e.block] > e.step
}
