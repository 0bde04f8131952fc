// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/interpret"
)

// data are the values of all chunks, and the known order of the accesses to them.
type data struct {
	*graph
	r       *Report
	sets    *sets
	layouts []schedule.Layout
	mem     [][]cell // by GPU
	clocks  []clock  // by block
	flags   map[[2]int]snapshot
	sent    [][]message // by connection: of steps that nobody has received
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
	d := &data{
		graph: g, r: r, sets: newSets(), sh: sh, inPlace: inPlace, races: newRaces(), flags: map[[2]int]snapshot{},
		clocks: make([]clock, len(g.Blocks)), sent: make([][]message, len(g.Edges)),
	}
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
		if err := d.fill(gpu, root); err != nil {
			return nil, err
		}
	}
	for i := range g.Blocks {
		d.checkBounds(i)
	}
	return d, nil
}

// fill puts the input of a GPU into its memory.
func (d *data) fill(gpu, root int) error {
	l := &d.layouts[gpu]
	for c := range d.s.InputChunks(gpu, root, d.inPlace, d.sh) {
		v, err := d.sets.of(partOf(gpu, c))
		if err != nil {
			return err
		}
		d.mem[gpu][l.Base[schedule.Input]+c].value = v
	}
	for _, c := range d.s.GPUs[gpu].Copies {
		from, ok := l.At(schedule.Ref{Buffer: schedule.Input, Offset: c.From}, 1)
		to, ok2 := l.At(schedule.Ref{Buffer: schedule.Output, Offset: c.To}, 1)
		if !ok || !ok2 {
			return fmt.Errorf("GPU %d: <copy> of chunk %d to %d is outside of the buffers", gpu, c.From, c.To)
		}
		d.mem[gpu][to].value = d.mem[gpu][from].value
	}
	return nil
}

func (d *data) checkBounds(i int) {
	b := &d.Blocks[i]
	l := &d.layouts[b.GPU]
	for k := range b.Steps {
		st := &b.Steps[k]
		if !st.Moves() {
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
				d.r.add(Bounds, st.Line, "%s %s %s from %v, but the buffer has %d", d.name(i, k), x.what,
					units.Count(st.Count, "chunk"), x.ref, l.Size[x.ref.Buffer])
			}
		}
	}
}

// run executes the schedule with whole steps. If it stops before the end, that is a finding.
//
// The result does not depend on how many messages fit on a connection: a block that waits for a free slot goes on in
// the end, or checkSlots finds that it does not.
func (d *data) run() (err error) {
	m := interpret.New(d.Graph, cut(d.s, math.MaxInt, math.MaxInt), d.layouts, func(i int, a *schedule.Action) {
		if err == nil && a.Waits { // what a step does is done with its first message
			err = d.execute(i, a)
		}
	})
	m.Start()
	if m.Run(); err != nil {
		return err
	}
	d.reportDeadlock(m, math.MaxInt, d.r)
	return nil
}

// execute does the step of block i of which a is the first action.
func (d *data) execute(i int, a *schedule.Action) error {
	if w := d.waitsFor[i][a.Number]; w >= 0 {
		d.takeFlag(i, d.Dependency(i, a.Step), int(w))
	}
	// In place a chunk may be where it is to be copied to.
	if a.Step.Moves() && (a.Step.Kind != schedule.CopyStep || a.Src != a.Dst) {
		if err := d.move(i, a); err != nil {
			return err
		}
	}
	if d.waiters[i][a.Number] > 0 {
		d.flags[[2]int{i, a.Number}] = d.snapshot(i, a.Number)
	}
	return nil
}

// move receives the values of a step, stores them and sends them.
func (d *data) move(i int, a *schedule.Action) error {
	b, st := &d.Blocks[i], a.Step
	var in, out []value
	if st.Receives() {
		msg := d.sent[b.In][0]
		d.sent[b.In] = d.sent[b.In][1:]
		in = msg.values
		d.join(i, msg.from)
	}
	if st.Sends() {
		out = make([]value, 0, st.Count)
	}
	for c := range st.Count {
		v, err := d.chunk(i, a, c, in)
		if err != nil {
			return err
		}
		if st.Sends() {
			out = append(out, v)
		}
	}
	if st.Sends() {
		d.sent[b.Out] = append(d.sent[b.Out], message{out, d.snapshot(i, a.Number)})
	}
	return nil
}

// chunk does chunk c of a step, and returns the value that it stores or sends.
func (d *data) chunk(i int, a *schedule.Action, c int, in []value) (v value, err error) {
	st, src, dst := a.Step, int(a.Src)+c, int(a.Dst)+c
	if st.Receives() {
		v = in[c]
	}
	if st.Kind.ReadsSource() {
		other := d.read(i, a.Number, src, st.Src, c)
		switch {
		case st.Receives():
			v, err = d.sets.sum(v, other)
		case st.Kind == schedule.ReduceStep:
			v, err = d.sets.sum(d.read(i, a.Number, dst, st.Dst, c), other)
		default:
			v = other
		}
	}
	if st.Kind.WritesTarget() {
		d.write(i, a.Number, dst, v, st.Dst, c)
	}
	return v, err
}

// takeFlag makes block i know what the block had done that it waited for.
func (d *data) takeFlag(i, other, step int) {
	key := [2]int{other, step}
	if s, ok := d.flags[key]; ok {
		d.join(i, s)
		if d.waiters[other][step] == 1 {
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
