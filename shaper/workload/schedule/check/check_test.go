// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/make/maketest"
)

var makers = map[string]func(mk.Options) (*schedule.Schedule, error){
	"ring": mk.Ring, "allpairs": mk.AllPairs, "tree": mk.BinaryTree, "chain": mk.Chain,
	"double-binary": mk.DoubleBinary,
}

var makerNames = []string{"ring", "allpairs", "tree", "chain", "double-binary"}

// random makes a random schedule: one of package make, or one of random transfers.
func random(t *testing.T, rng *rand.Rand) *schedule.Schedule {
	t.Helper()
	if rng.IntN(2) == 0 {
		colls := maketest.Collectives()
		s, err := mk.FromSends("random", maketest.Transfers(colls[rng.IntN(len(colls))], 2+rng.IntN(4), 1+rng.IntN(3),
			rng))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	colls := []schedule.Collective{schedule.AllGather, schedule.ReduceScatter, schedule.AllReduce}
	o := mk.Options{
		Coll: colls[rng.IntN(3)], GPUs: 2 + rng.IntN(7), K: 1 + rng.IntN(3), OutOfPlace: rng.IntN(2) == 1,
		Proto: []schedule.Protocol{schedule.Simple, schedule.LL, schedule.LL128}[rng.IntN(3)],
	}
	s, err := makers[makerNames[rng.IntN(len(makerNames))]](o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustCheck(t *testing.T, s *schedule.Schedule) *check.Report {
	t.Helper()
	r, err := check.Check(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wrong is what the second opinion says of a schedule, in several orders; "" if it is good in all of them. A collective
// with a root is good if it is for some root.
func wrong(s *schedule.Schedule, rng *rand.Rand, orders int) (text string) {
	roots := 1
	if s.Coll.Rooted() {
		roots = len(s.GPUs)
	}
	for root := range roots {
		if text = wrongFor(s, root, rng, orders); text == "" {
			return ""
		}
	}
	return text
}

func wrongFor(s *schedule.Schedule, root int, rng *rand.Rand, orders int) string {
	for range orders {
		for _, inPlace := range s.Variants() {
			if text := interpret(s, inPlace, root, rng); text != "" {
				return text
			}
		}
	}
	return ""
}

// Everything that package make makes is good, also in the second opinion.
func TestMadeIsGood(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		s := random(t, rng)
		if r := mustCheck(t, s); !r.Good() {
			t.Fatalf("%s on %d GPUs: %+v", s.Name, len(s.GPUs), r.Findings)
		}
		if text := wrong(s, rng, 3); text != "" {
			t.Fatalf("%s on %d GPUs: %s", s.Name, len(s.GPUs), text)
		}
	}
}

// one is a schedule of GPUs with the given blocks.
func one(coll schedule.Collective, chunks int, gpus ...[]schedule.Block) *schedule.Schedule {
	s := &schedule.Schedule{Coll: coll, Proto: schedule.Simple, Channels: 1, LoopChunks: chunks, OutOfPlace: true}
	for _, blocks := range gpus {
		s.GPUs = append(s.GPUs, schedule.GPU{Chunks: [schedule.Buffers]int{chunks, chunks, 2}, Blocks: blocks})
	}
	return s
}

func st(kind schedule.Kind, src, dst schedule.Ref) schedule.Step {
	return schedule.Step{Kind: kind, Src: src, Dst: dst, Count: 1, DepBlock: schedule.None, DepStep: schedule.None}
}

func in(k int) schedule.Ref  { return schedule.Ref{Buffer: schedule.Input, Offset: k} }
func out(k int) schedule.Ref { return schedule.Ref{Buffer: schedule.Output, Offset: k} }

// Each collective has a good schedule, and one that is wrong.
func TestCollectives(t *testing.T) {
	send, recv, cp := schedule.SendStep, schedule.RecvStep, schedule.CopyStep
	block := func(peer int, steps ...schedule.Step) schedule.Block {
		return schedule.Block{Send: peer, Recv: peer, Steps: steps}
	}
	for _, tc := range []struct {
		name   string
		s      *schedule.Schedule
		root   int
		broken schedule.Ref // of the last step of GPU 1
	}{
		{"alltoall", one(schedule.AllToAll, 2,
			[]schedule.Block{block(1, st(cp, in(0), out(0)), st(send, in(1), in(1)), st(recv, out(1), out(1)))},
			[]schedule.Block{block(0, st(cp, in(1), out(1)), st(send, in(0), in(0)), st(recv, out(0), out(0)))}), -1,
			out(1)},
		{"broadcast of 1", one(schedule.Broadcast, 1,
			[]schedule.Block{block(1, st(recv, out(0), out(0)))},
			[]schedule.Block{block(0, st(send, in(0), in(0)), st(cp, in(0), out(0)))}), 1, in(0)},
		{"reduce to 1", one(schedule.Reduce, 1,
			[]schedule.Block{block(1, st(send, in(0), in(0)))},
			[]schedule.Block{block(0, st(schedule.RecvReduceCopy, in(0), out(0)))}), 1, in(0)},
		{"gather to 1", one(schedule.Gather, 1,
			[]schedule.Block{block(1, st(send, in(0), in(0)))},
			[]schedule.Block{block(0, st(cp, in(0), out(1)), st(recv, out(0), out(0)))}), 1, out(1)},
		{"scatter from 0", one(schedule.Scatter, 1,
			[]schedule.Block{block(1, st(cp, in(0), out(0)), st(send, in(1), in(1)))},
			[]schedule.Block{block(0, st(recv, out(0), out(0)))}), 0, schedule.Ref{Buffer: schedule.Scratch}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := mustCheck(t, tc.s)
			if !r.Good() || r.Root != tc.root {
				t.Fatalf("root %d, want %d: %+v", r.Root, tc.root, r.Findings)
			}
			steps := tc.s.GPUs[1].Blocks[0].Steps
			steps[len(steps)-1].Dst = tc.broken
			r = mustCheck(t, tc.s)
			if r.Good() || r.Findings[0].Kind != check.WrongResult || r.Root != schedule.None {
				t.Errorf("%+v", r)
			}
		})
	}
	// In place, a rank's share is where it is to be copied to: nothing happens to it, whoever reads it meanwhile.
	gather := func(gpu int) []schedule.Block {
		return []schedule.Block{block(1-gpu, st(send, in(0), in(0)), st(recv, out(1-gpu), out(1-gpu))),
			{Send: -1, Recv: -1, Steps: []schedule.Step{st(cp, in(0), out(gpu))}}}
	}
	both := one(schedule.AllGather, 2, gather(0), gather(1))
	both.InPlace = true
	if r := mustCheck(t, both); !r.Good() {
		t.Errorf("in place: %+v", r)
	}
	// Two blocks that hear of nobody copy to one chunk.
	alone := func(from int) schedule.Block {
		return schedule.Block{Send: -1, Recv: -1, Steps: []schedule.Step{st(cp, in(from), out(0))}}
	}
	r := mustCheck(t, one(schedule.Custom, 2, []schedule.Block{alone(0), alone(1)}))
	if r.Good() || r.Findings[0].Kind != check.Unordered {
		t.Errorf("two writers: %+v", r)
	}
	custom := one(schedule.Custom, 1, []schedule.Block{block(1, st(send, in(0), in(0)))},
		[]schedule.Block{block(0, st(recv, out(0), out(0)))})
	if r := mustCheck(t, custom); !r.Good() {
		t.Errorf("custom: %+v", r)
	}
}

// Block 1 of GPU 0 reads scratch while block 0 receives it. If the read value ends in scratch, no result is wrong in
// any order; if it ends in an output, the result depends on the order.
func TestHarmlessRace(t *testing.T) {
	scratch := func(k int) schedule.Ref { return schedule.Ref{Buffer: schedule.Scratch, Offset: k} }
	racing := func(to schedule.Ref) *schedule.Schedule {
		share := func(gpu int) []schedule.Step {
			return []schedule.Step{st(schedule.CopyStep, in(0), out(gpu)), st(schedule.SendStep, in(0), in(0)),
				st(schedule.RecvStep, out(1-gpu), out(1-gpu))}
		}
		return one(schedule.AllGather, 2,
			[]schedule.Block{
				{Send: 1, Recv: 1, Steps: append(share(0), st(schedule.RecvStep, scratch(0), scratch(0)))},
				{Send: -1, Recv: -1, Steps: []schedule.Step{st(schedule.ReduceStep, scratch(0), scratch(1)),
					st(schedule.CopyStep, scratch(1), to)}},
			},
			[]schedule.Block{{Send: 0, Recv: 0, Steps: append(share(1), st(schedule.SendStep, in(0), in(0)))}})
	}
	s := racing(scratch(1))
	r := mustCheck(t, s)
	if !r.Good() ||
		!strings.Contains(strings.Join(r.Warnings, "\n"),
			"unordered accesses on which no output depends (1), such as: chunk s[0] of GPU 0 is ") {
		t.Errorf("%+v", r)
	}
	if text := wrong(s, rand.New(rand.NewPCG(5, 6)), 50); text != "" {
		t.Error(text)
	}
	if r := mustCheck(t, racing(out(1))); r.Good() || r.Findings[0].Kind != check.Unordered {
		t.Errorf("%+v", r)
	}
}

// Two blocks that write the value that a chunk has already are not unordered: it has one value in every order. But
// whoever needs the value before must come before both, and equal values must be so in every order. The check executes
// blocks in an order that depends on their numbers, so these change.
func TestSameValue(t *testing.T) {
	for name, good := range map[string]bool{"the same": true, "another before": false, "not always the same": false} {
		for order := range 24 {
			me := order / 12 // the GPU whose blocks are tested
			gpus := make([][]schedule.Block, 2)
			gpus[me], gpus[1-me] = sameValueBlocks(name, me), []schedule.Block{
				{Send: me, Recv: me, Steps: []schedule.Step{st(schedule.CopyStep, in(0), out(1-me)),
					st(schedule.SendStep, in(0), in(0)), st(schedule.RecvStep, out(me), out(me))}},
				{Send: me, Recv: -1, Channel: 1, Steps: []schedule.Step{st(schedule.SendStep, in(0), in(0))}},
			}
			blocks := gpus[me]
			blocks[0], blocks[order%3] = blocks[order%3], blocks[0]
			if order/3%2 == 1 {
				blocks[1], blocks[2] = blocks[2], blocks[1]
			}
			if order/6%2 == 1 {
				slices.Reverse(gpus[1-me])
			}
			s := one(schedule.AllGather, 2, gpus...)
			s.Channels = 2
			if r := mustCheck(t, s); r.Good() != good || len(r.Warnings) > 0 ||
				!good && r.Findings[0].Kind != check.Unordered {
				t.Errorf("%s, order %d: %+v", name, order, r)
			}
		}
	}
}

// sameValueBlocks are the blocks of one of two GPUs, to which the other sends its chunk on two channels.
func sameValueBlocks(name string, me int) []schedule.Block {
	scratch, other := schedule.Ref{Buffer: schedule.Scratch}, out(1-me)
	send, recv, cp := schedule.SendStep, schedule.RecvStep, schedule.CopyStep
	exchange := func(steps ...schedule.Step) schedule.Block {
		return schedule.Block{Send: 1 - me, Recv: 1 - me, Steps: steps}
	}
	receive := func(to schedule.Ref) schedule.Block {
		return schedule.Block{Send: -1, Recv: 1 - me, Channel: 1, Steps: []schedule.Step{st(recv, to, to)}}
	}
	plain := exchange(st(send, in(0), in(0)), st(recv, other, other))
	own := schedule.Block{Send: -1, Recv: -1, Steps: []schedule.Step{st(cp, in(0), out(me))}}
	switch name {
	case "another before": // it sends its own chunk from where it then receives the other
		return []schedule.Block{exchange(st(cp, in(0), scratch), st(send, scratch, scratch), st(recv, scratch, scratch),
			st(cp, scratch, other)), receive(scratch), own}
	case "not always the same": // what is copied is the same only if it was received before
		own.Steps = append([]schedule.Step{st(cp, scratch, other)}, own.Steps...)
		return []schedule.Block{plain, receive(scratch), own}
	}
	return []schedule.Block{plain, receive(other), own}
}

// Nobody reads what two blocks write: a warning.
func TestHarmlessWrites(t *testing.T) {
	scratch := schedule.Ref{Buffer: schedule.Scratch}
	cp := func(from schedule.Ref, to schedule.Ref) schedule.Block {
		return schedule.Block{Send: -1, Recv: -1, Steps: []schedule.Step{st(schedule.CopyStep, from, to)}}
	}
	s := one(schedule.AllToAll, 2, []schedule.Block{cp(in(0), scratch), cp(in(1), scratch), cp(in(0), out(0)),
		{Send: 1, Recv: 1,
			Steps: []schedule.Step{st(schedule.SendStep, in(1), in(1)), st(schedule.RecvStep, out(1), out(1))}}},
		[]schedule.Block{cp(in(1), out(1)),
			{Send: 0, Recv: 0,
				Steps: []schedule.Step{st(schedule.SendStep, in(0), in(0)), st(schedule.RecvStep, out(0), out(0))}}})
	if r := mustCheck(t, s); !r.Good() || len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], "on which no output depends") {
		t.Errorf("%+v", r)
	}
	s.GPUs[0].Blocks[0].Steps[0].Dst, s.GPUs[0].Blocks[1].Steps[0].Dst = out(0), out(0)
	if r := mustCheck(t, s); r.Good() || r.Findings[0].Kind != check.Unordered {
		t.Errorf("in an output: %+v", r)
	}
}

// The texts name the chunk, what it has and what it must have; the cycle; both ends; both steps.
func TestTexts(t *testing.T) {
	ring := func() *schedule.Schedule {
		s, err := mk.Ring(mk.Options{Coll: schedule.AllReduce, GPUs: 3, K: 2})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	pairs := func() *schedule.Schedule {
		s, err := mk.AllPairs(mk.Options{Coll: schedule.ReduceScatter, GPUs: 3, K: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, tc := range map[string]struct {
		s      *schedule.Schedule
		change func(s *schedule.Schedule)
		kind   check.Kind
		want   string
	}{
		"result": {ring(), func(s *schedule.Schedule) { s.GPUs[0].Blocks[0].Steps[1].Kind = schedule.RecvCopySend },
			check.WrongResult,
			"out of place: output chunk 2 of GPU 0 has the sum of chunk 2 of ranks 1, 2, must have the sum of chunk 2 of ranks 0, 1, 2"},
		"cycle": {ring(), func(s *schedule.Schedule) {
			for g := range 3 {
				steps := s.GPUs[g].Blocks[0].Steps
				s.GPUs[g].Blocks[0].Steps = append(steps[1:], steps[0])
			}
		}, check.Deadlock,
			"GPU 0 block 0 step 0 waits for a message of GPU 2 on channel 0; GPU 2 block 0 step 0 waits for a message of GPU 1 on channel 0; GPU 1"},
		"counts": {ring(), func(s *schedule.Schedule) { s.GPUs[1].Blocks[1].Steps[0].Count = 2 }, check.Mismatch,
			"GPU 1 to GPU 2 on channel 1: message 0 has 2 chunks at its sender, GPU 1 block 1 step 0, and 1 at its receiver, GPU 2 block 1 step 1"},
		"messages": {ring(), func(s *schedule.Schedule) {
			b := &s.GPUs[1].Blocks[1]
			b.Steps = b.Steps[:len(b.Steps)-1]
		}, check.Mismatch, "GPU 0 to GPU 1 on channel 1: block 1 sends 4 messages, block 1 receives 3"},
		"unordered": {pairs(), func(s *schedule.Schedule) { s.GPUs[2].Blocks[1].Steps[1].DepBlock = schedule.None },
			check.Unordered,
			"GPU 2 is written by GPU 2 block"},
		"bounds": {ring(), func(s *schedule.Schedule) { s.GPUs[2].Blocks[0].Steps[4].Dst.Offset = 6 }, check.Bounds,
			"GPU 2 block 0 step 4 writes 1 chunk from o[6], but the buffer has 6"},
		"two senders": {ring(), func(s *schedule.Schedule) { s.GPUs[2].Blocks[1].Channel = 0 }, check.Connection,
			"GPU 2 blocks 0 and 1 both have the connection that sends to GPU 0 on channel 0"},
		"nobody": {pairs(), func(s *schedule.Schedule) { s.GPUs[2].Blocks = s.GPUs[2].Blocks[:1] }, check.Connection,
			"but nobody"},
		"no such step": {pairs(), func(s *schedule.Schedule) {
			s.GPUs[0].Blocks[0].Steps[0].DepBlock, s.GPUs[0].Blocks[0].Steps[0].DepStep = 9, 0
		}, check.Dependency, "waits for step 0 of block 9, which does not exist"},
		"no flag": {pairs(), func(s *schedule.Schedule) { s.GPUs[0].Blocks[0].Steps[1].HasDep = false }, check.Deadlock,
			`has hasdep="1"`},
	} {
		t.Run(name, func(t *testing.T) {
			tc.change(tc.s)
			r := mustCheck(t, tc.s)
			for _, f := range r.Findings {
				if f.Kind == tc.kind && strings.Contains(f.Text, tc.want) {
					return
				}
			}
			t.Errorf("%+v, want %s: %s", r.Findings, tc.kind, tc.want)
		})
	}
}

// What a connection cannot hold stops the schedule: always, or only for large sizes, or only where it has one buffer.
func TestSlots(t *testing.T) {
	// Both send n messages of count chunks before they receive.
	exchange := func(n, count int) *schedule.Schedule {
		gpu := func(peer int) []schedule.Block {
			var steps []schedule.Step
			for _, k := range []schedule.Kind{schedule.SendStep, schedule.RecvStep} {
				for i := range n {
					s := st(k, in(i*count), out(i*count))
					s.Count = count
					steps = append(steps, s)
				}
			}
			return []schedule.Block{{Send: peer, Recv: peer, Steps: steps}}
		}
		return one(schedule.Custom, n*count, gpu(1), gpu(0))
	}
	for _, tc := range []struct {
		n, count int
		always   bool
		warning  string
	}{
		{2, 1, false, ""},
		{3, 1, false, "over NVLink, it is too small"},
		{4, 1, false, "over NVLink"},
		{5, 1, true,
			"deadlock with NCCL's buffers, at any size: GPU 0 block 0 step 4 waits until GPU 1 takes one of the 8 messages"},
		{1, 5, false,
			"the chunks of a step are too large for one operation, the buffers of a connection are too small"},
		{1, 3, false, "over NVLink, and the chunks of a step"},
	} {
		r := mustCheck(t, exchange(tc.n, tc.count))
		if !r.Good() || r.NeedsBuffers != tc.always || !strings.Contains(strings.Join(r.Warnings, "\n"), tc.warning) ||
			(tc.warning == "") != (len(r.Warnings) == 0) {
			t.Errorf("%d messages of %d: %+v, want always %v and a warning %q", tc.n, tc.count, r, tc.always,
				tc.warning)
		}
	}
}

// Limits of MSCCL's executor are warnings.
func TestLimits(t *testing.T) {
	s, err := mk.DoubleBinary(mk.Options{Coll: schedule.AllReduce, GPUs: 8, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	s.Channels = 40
	r := mustCheck(t, s)
	if text := strings.Join(r.Warnings, "\n"); !r.Good() ||
		!strings.Contains(text, "blocks on one GPU: RCCL's executor takes at most 64") ||
		!strings.Contains(text, "40 channels") {
		t.Errorf("%+v", r)
	}
}

// What RCCL's reader refuses, or understands otherwise, is a warning.
func TestReadings(t *testing.T) {
	scratch := func(k int) schedule.Ref { return schedule.Ref{Buffer: schedule.Scratch, Offset: k} }
	nop := st(schedule.NopStep, in(0), in(0))
	flag := func(s schedule.Step) schedule.Step { s.HasDep = true; return s }
	after := func(s schedule.Step, block, step int) schedule.Step { s.DepBlock, s.DepStep = block, step; return s }
	two := func(s schedule.Step) schedule.Step { s.Count = 2; return s }
	cp, re := schedule.CopyStep, schedule.ReduceStep
	for name, tc := range map[string]struct {
		first, second []schedule.Step // of two blocks
		want          string
	}{
		"nothing": {[]schedule.Step{flag(st(cp, in(0), out(0)))},
			[]schedule.Step{after(nop, 0, 0), after(st(cp, out(0), out(1)), 0, 0)}, ""},
		"wait": {[]schedule.Step{flag(st(cp, in(0), out(0)))},
			[]schedule.Step{after(nop, 0, 0), st(cp, out(0), out(1))}, "GPU 0 block 1 step 1 follows a nop that waits"},
		"nop": {[]schedule.Step{nop, flag(st(cp, in(0), out(0)))},
			[]schedule.Step{after(st(cp, out(0), out(1)), 0, 1)},
			"GPU 0 block 0 step 0 is a nop that waits for nothing"},
		"last nop": {[]schedule.Step{flag(st(cp, in(0), out(0))), nop},
			[]schedule.Step{after(st(cp, out(0), out(1)), 0, 0)}, ""},
		"sums": {[]schedule.Step{st(cp, in(0), out(0)), two(st(re, in(0), out(0))), st(re, in(1), out(0))},
			nil, "step 2 adds 1 chunk to o[0], and the step before 2"},
		"sums apart": {[]schedule.Step{st(cp, in(0), out(0)), flag(two(st(re, in(0), out(0)))),
			st(re, in(1), out(0))}, nil, ""},
		"sums elsewhere": {[]schedule.Step{st(cp, in(0), out(0)), two(st(re, in(0), out(0))), st(re, in(1), out(1))},
			nil, ""},
		"offset": {[]schedule.Step{st(cp, in(0), scratch(1))}, nil,
			"step 0 uses s[1], and the file says that the GPU has 1 chunk there"},
	} {
		blocks := []schedule.Block{{Send: -1, Recv: -1, Steps: tc.first}, {Send: -1, Recv: -1, Steps: tc.second}}
		s := one(schedule.Custom, 2, blocks)
		s.GPUs[0].Chunks[schedule.Scratch] = 1
		if text := strings.Join(mustCheck(t, s).Warnings, "\n"); (text == "") != (tc.want == "") ||
			!strings.Contains(text, tc.want) {
			t.Errorf("%s: %q, want %q", name, text, tc.want)
		}
	}
}
