// SPDX-License-Identifier: Apache-2.0

package interpret_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/interpret"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/make/maketest"
)

// watch sees that every block does its actions in order, waits for what its steps depend on, and takes no message and
// no slot that is not there.
type watch struct {
	t              *rapid.T
	m              *interpret.Machine
	slots          uint64
	last           []schedule.Action // of each block
	done           int
	arrived, acked []uint64 // of each connection
}

func (w *watch) act(i int, a *schedule.Action) {
	b, was := &w.m.Blocks[i], &w.last[i]
	if a.Loop < was.Loop || a.Loop == was.Loop && a.Number < was.Number {
		w.t.Fatalf("block %d: step %d of loop %d comes behind step %d of loop %d", i, a.Number, a.Loop, was.Number,
			was.Loop)
	}
	*was = *a
	w.done++
	if a.Step.DepBlock >= 0 && !w.hasDone(w.m.Dependency(i, a.Step), a.Loop, a.Step.DepStep) {
		w.t.Fatalf("block %d does step %d before step %d of block %d", i, a.Number, a.Step.DepStep, a.Step.DepBlock)
	}
	if a.Step.Receives() {
		if c := &w.m.Conns[b.In]; c.Consumed > c.Written || c.Remote && c.Consumed > w.arrived[b.In] {
			w.t.Fatalf("block %d takes message %d, which is not there", i, c.Consumed)
		}
	}
	if a.Step.Sends() {
		c := &w.m.Conns[b.Out]
		if c.Written > c.Consumed+w.slots || c.Remote && c.Written > w.acked[b.Out]+w.slots {
			w.t.Fatalf("block %d sends message %d without a free slot", i, c.Written)
		}
	}
}

// hasDone says whether a block has done all actions of a step of a loop.
func (w *watch) hasDone(block, loop, step int) bool {
	last := &w.last[block]
	done := schedule.Flag{Loop: last.Loop, Step: last.Number}
	if last.Step == nil {
		return false
	}
	if !last.Ends {
		done.Step--
	}
	return done.Reached(loop, step)
}

// deliver makes some messages of a remote connection arrive, and acknowledges some. all: all of them.
func (w *watch) deliver(i int, all bool) (moved bool) {
	c := &w.m.Conns[i]
	arrived, acked := c.Written, c.Consumed
	if !all {
		arrived = rapid.Uint64Range(w.arrived[i], arrived).Draw(w.t, "arrived")
		acked = rapid.Uint64Range(w.acked[i], acked).Draw(w.t, "acked")
	}
	moved = arrived > w.arrived[i] || acked > w.acked[i]
	w.arrived[i], w.acked[i] = arrived, acked
	w.m.Progress(i, arrived, acked)
	return moved
}

// call executes a call, with messages that arrive at random times.
func (w *watch) call() {
	clear(w.last)
	w.m.Start()
	for moved := true; moved && !w.m.Done(); {
		moved = w.m.Run()
		all := !moved // so that nothing that could go on waits for ever
		for i := range w.m.Conns {
			if w.m.Conns[i].Remote {
				moved = w.deliver(i, all) || moved
			}
		}
	}
}

// random makes a good schedule and divides a call of it.
func random(t *rapid.T) (*schedule.Schedule, *schedule.Cut, []schedule.Layout) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	colls := maketest.Collectives()
	s, err := mk.FromSends("random", maketest.Transfers(colls[rng.IntN(len(colls))], 2+rng.IntN(4), 1+rng.IntN(3), rng))
	if err != nil {
		t.Fatal(err)
	}
	s.Proto = rapid.SampledFrom([]schedule.Protocol{schedule.Simple, schedule.LL}).Draw(t, "protocol")
	cut, err := s.Cut(rapid.Uint64Range(1<<10, 32<<20).Draw(t, "size"), 4)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := s.Shape()
	if err != nil {
		t.Fatal(err)
	}
	var layouts []schedule.Layout
	for gpu := range s.GPUs {
		layouts = append(layouts, s.Layout(gpu, false, 0, shape))
	}
	return s, &cut, layouts
}

// Each block does all its actions in every call, in whatever order remote messages arrive. With few slots it may be
// that blocks wait for a free one for ever, but only then.
func TestRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, cut, layouts := random(t)
		few := rapid.Bool().Draw(t, "few slots")
		if !few {
			cut.Slots = 1 << 30
		}
		g := interpret.NewGraph(s)
		w := &watch{
			t: t, slots: uint64(cut.Slots), last: make([]schedule.Action, len(g.Blocks)),
			arrived: make([]uint64, len(g.Edges)), acked: make([]uint64, len(g.Edges)),
		}
		w.m = interpret.New(g, cut, layouts, w.act)
		for i := range w.m.Conns {
			w.m.Conns[i].Remote = rapid.Bool().Draw(t, "remote")
		}
		want := 0
		for i := range g.Blocks {
			for p := schedule.NewProgram(g.Blocks[i].Block, cut, &layouts[g.Blocks[i].GPU]); !p.Done(); p.Next() {
				want++
			}
		}
		for range 2 {
			w.done = 0
			w.call()
			if !w.m.Done() {
				mustWaitForSlot(t, w.m, few)
				return
			}
			if w.done != want {
				t.Fatalf("%d actions, want %d", w.done, want)
			}
		}
	})
}

func mustWaitForSlot(t *rapid.T, m *interpret.Machine, few bool) {
	var why []interpret.Reason
	for i := range m.Blocks {
		reason, _, _ := m.Waits(i)
		why = append(why, reason)
	}
	if !few || !slices.Contains(why, interpret.Slot) || slices.Contains(why, interpret.Nothing) || m.Stuck() == nil {
		t.Fatalf("stuck: %v: blocks wait for %v", m.Stuck(), why)
	}
}

// Two GPUs that both receive first wait for each other, and each says so.
func TestStuck(t *testing.T) {
	step := func(kind schedule.Kind) schedule.Step {
		return schedule.Step{Kind: kind, Count: 1, DepBlock: schedule.None, DepStep: schedule.None}
	}
	s := &schedule.Schedule{Coll: schedule.AllGather, Proto: schedule.Simple, LoopChunks: 2}
	for gpu := range 2 {
		b := schedule.Block{Send: 1 - gpu, Recv: 1 - gpu}
		b.Steps = []schedule.Step{step(schedule.RecvStep), step(schedule.SendStep)}
		s.GPUs = append(s.GPUs, schedule.GPU{Blocks: []schedule.Block{b}})
	}
	cut := &schedule.Cut{Elem: 1, Chunk: 1, Piece: 1, Loops: 1, Group: 1, Slices: 1, Slots: 1}
	m := interpret.New(interpret.NewGraph(s), cut, nil, func(int, *schedule.Action) {})
	m.Start()
	if m.Run() {
		t.Error("a block moved")
	}
	for i := range 2 {
		if why, by, a := m.Waits(i); why != interpret.Message || by != 1-i || a.Number != 0 {
			t.Errorf("block %d waits for %v by block %d at step %d", i, why, by, a.Number)
		}
	}
	const want = "GPU 0 block 0 waits for ever at step 0 (r) of loop 0"
	if err := m.Stuck(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	for gpu := range s.GPUs {
		slices.Reverse(s.GPUs[gpu].Blocks[0].Steps)
	}
	m.Start()
	if moved := m.Run(); !moved || !m.Done() || m.Stuck() != nil {
		t.Error(moved, m.Stuck())
	}
}
