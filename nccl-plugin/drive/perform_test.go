// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// performAt executes a schedule on a virtual clock, and returns what it took and what the model says, in ns.
func performAt(t *testing.T, profile string, nodes int, change func(*configs.Fabric), s *schedule.Schedule, size uint64,
	inPlace bool) (*Outcome, []int64) {
	t.Helper()
	file := openVirtual(t, profile, nodes, change)
	fab, err := fabricfile.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	place, err := model.NewPlace(fab, len(s.GPUs))
	if err != nil {
		t.Fatal(err)
	}
	cut, err := s.Cut(size, 4)
	if err != nil {
		t.Fatal(err)
	}
	e, err := place.Expect()
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.Play(t.Context(), s, &cut, e, 3)
	if err != nil {
		t.Fatal(err)
	}
	w, err := joinToPerform(file, fab, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	out, err := w.Perform(t.Context(), Performance{Schedule: s, Cut: cut, Place: place, InPlace: inPlace, Calls: 2})
	if err != nil {
		t.Fatal(err)
	}
	return out, r.Times[1:]
}

func mustMake(t *testing.T, make func(mk.Options) (*schedule.Schedule, error), o mk.Options) *schedule.Schedule {
	t.Helper()
	s, err := make(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Real bytes on a virtual clock: every element is right, and the time is the model's.
func TestPerform(t *testing.T) {
	makers := map[string]func(mk.Options) (*schedule.Schedule, error){"ring": mk.Ring, "allpairs": mk.AllPairs,
		"tree": mk.BinaryTree, "double-binary": mk.DoubleBinary}
	for name, make := range makers {
		for i, coll := range []schedule.Collective{schedule.AllGather, schedule.ReduceScatter, schedule.AllReduce} {
			o := mk.Options{Coll: coll, GPUs: 4, K: 2,
				Proto: []schedule.Protocol{schedule.Simple, schedule.LL, schedule.LL128}[i]}
			for _, size := range []uint64{4096, 3 << 20} {
				t.Run(fmt.Sprintf("%s %s %d", name, coll, size), func(t *testing.T) {
					s := mustMake(t, make, o)
					out, want := performAt(t, "ndr400", 4, nil, s, size, s.InPlace)
					compare(t, out, want)
				})
			}
		}
	}
}

func compare(t *testing.T, out *Outcome, want []int64) {
	t.Helper()
	if out.Wrong != 0 {
		t.Errorf("%d wrong elements", out.Wrong)
	}
	for i, took := range out.Times {
		if off := math.Abs(float64(took)/float64(want[i]) - 1); off > 0.001 {
			t.Errorf("call %d took %v, the model says %d ns: %.2f %% off", i, took, want[i], 100*off)
		}
	}
}

// A chain of ranks passes on what has come: with smaller messages the last one has everything earlier.
func TestPerformGrain(t *testing.T) {
	chunk := schedule.Ref{Buffer: schedule.Output}
	step := func(kind schedule.Kind) []schedule.Step {
		return []schedule.Step{{Kind: kind, Src: chunk, Dst: chunk, Count: 1, DepBlock: schedule.None,
			DepStep: schedule.None}}
	}
	s := &schedule.Schedule{Coll: schedule.Broadcast, Proto: schedule.Simple, Channels: 1, LoopChunks: 1, InPlace: true}
	for gpu, kind := range []schedule.Kind{schedule.SendStep, schedule.RecvCopySend, schedule.RecvCopySend,
		schedule.RecvStep} {
		b := schedule.Block{Send: gpu + 1, Recv: gpu - 1, Steps: step(kind)}
		if gpu == 3 {
			b.Send = schedule.None
		}
		s.GPUs = append(s.GPUs, schedule.GPU{Chunks: [3]int{1, 1, 0}, Blocks: []schedule.Block{b}})
	}
	times := map[int64]float64{}
	for _, grain := range []int64{0, 64 << 10, 4 << 10} {
		s.Grain = grain
		out, want := performAt(t, "dgx-a100-nvlink", 4, nil, s, 5<<20, true)
		compare(t, out, want)
		times[grain] = float64(want[0])
	}
	// Two more hops of a message of 1 MiB, or of 64 KiB, behind 5 MiB.
	if ratio := times[64<<10] / times[0]; ratio > 0.85 {
		t.Errorf("%v: with messages of 64 KiB it takes %.2f of the time with 1 MiB", times, ratio)
	}
}

// Out of place, several NICs, several GPUs on a node, tcp and lossy links.
func TestPerformPlaces(t *testing.T) {
	for name, tc := range map[string]struct {
		profile string
		nodes   int
		change  func(*configs.Fabric)
		exact   bool
	}{
		"two NICs":   {"ndr400", 4, func(c *configs.Fabric) { c.NICsPerNode = 2 }, true},
		"GPUs share": {"ndr400", 2, nil, true},
		"tcp":        {"eth10", 4, nil, true},
		"lossy":      {"eth1", 4, func(c *configs.Fabric) { c.Link.Loss = configs.Loss{P: 0.001} }, false},
		"NVLink":     {"dgx-a100-nvlink", 4, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustMake(t, mk.AllPairs, mk.Options{Coll: schedule.AllReduce, GPUs: 4, K: 2})
			out, want := performAt(t, tc.profile, tc.nodes, tc.change, s, 1<<20, false)
			if !tc.exact {
				want[0], want[1] = int64(out.Times[0]), int64(out.Times[1])
			}
			compare(t, out, want)
		})
	}
}

// Other collectives, from the smallest schedules.
func TestPerformCollectives(t *testing.T) {
	in := func(k int) schedule.Ref { return schedule.Ref{Buffer: schedule.Input, Offset: k} }
	out := func(k int) schedule.Ref { return schedule.Ref{Buffer: schedule.Output, Offset: k} }
	step := func(kind schedule.Kind, src, dst schedule.Ref) schedule.Step {
		return schedule.Step{Kind: kind, Src: src, Dst: dst, Count: 1, DepBlock: schedule.None, DepStep: schedule.None}
	}
	send, recv, cp, re := schedule.SendStep, schedule.RecvStep, schedule.CopyStep, schedule.ReduceStep
	scratch := schedule.Ref{Buffer: schedule.Scratch}
	for coll, steps := range map[schedule.Collective][2][]schedule.Step{
		schedule.AllToAll: {
			{step(cp, in(0), out(0)), step(send, in(1), in(1)), step(recv, out(1), out(1))},
			{step(cp, in(1), out(1)), step(send, in(0), in(0)), step(recv, out(0), out(0))}},
		schedule.Broadcast: {{step(send, in(0), in(0)), step(send, in(1), in(1)), step(cp, in(0), out(0)),
			step(cp, in(1), out(1))}, {step(recv, out(0), out(0)), step(recv, out(1), out(1))}},
		schedule.Reduce: {
			{step(cp, in(0), out(0)), step(recv, scratch, scratch), step(re, scratch, out(0)),
				step(schedule.RecvReduceCopy, in(1), out(1))},
			{step(send, in(0), in(0)), step(send, in(1), in(1))}},
	} {
		t.Run(string(coll), func(t *testing.T) {
			s := &schedule.Schedule{Coll: coll, Proto: schedule.Simple, Channels: 1, LoopChunks: 2, OutOfPlace: true}
			for gpu, list := range steps {
				s.GPUs = append(s.GPUs,
					schedule.GPU{Chunks: [3]int{2, 2, 1},
						Blocks: []schedule.Block{{Send: 1 - gpu, Recv: 1 - gpu, Steps: list}}})
			}
			o, want := performAt(t, "ndr400", 2, nil, s, 1<<20, false)
			compare(t, o, want)
		})
	}
}

// A schedule that is wrong has wrong elements; one that hangs is given up.
func TestPerformWrong(t *testing.T) {
	s := mustMake(t, mk.Ring, mk.Options{Coll: schedule.AllReduce, GPUs: 3, K: 1})
	s.GPUs[1].Blocks[0].Steps[1].Kind = schedule.RecvCopySend
	out, _ := performAt(t, "ndr400", 3, nil, s, 1<<20, true)
	if out.Wrong == 0 {
		t.Error("no wrong element")
	}
	file := openVirtual(t, "ndr400", 3, nil)
	fab, err := fabricfile.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	w, err := joinToPerform(file, fab, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	place, err := model.NewPlace(fab, 3)
	if err != nil {
		t.Fatal(err)
	}
	for gpu := range 3 {
		steps := s.GPUs[gpu].Blocks[0].Steps
		s.GPUs[gpu].Blocks[0].Steps = append(steps[1:len(steps):len(steps)], steps[0])
	}
	cut, err := s.Cut(1<<20, 4)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Perform(t.Context(), Performance{Schedule: s, Cut: cut, Place: place, InPlace: true, Calls: 1})
	if err == nil ||
		!strings.Contains(err.Error(), "deadlock at this size: GPU 0 block 0 waits for ever at step 0 (rrs)") {
		t.Error(err)
	}
}
