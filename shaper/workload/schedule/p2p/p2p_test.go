// SPDX-License-Identifier: Apache-2.0

package p2p_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/make/maketest"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/p2p"
)

// input is an element of a rank's input.
func input(rank int, i uint64) uint32 { return uint32(rank+1)*2654435761 + uint32(i)*40503 }

// play executes a plan, rank by rank as far as each can go, and returns the number of wrong elements.
func play(t *testing.T, p *p2p.Plan) (wrong int) {
	t.Helper()
	type flow struct{ src, dst int }
	memory, next := make([][]uint32, len(p.Ranks)), make([]int, len(p.Ranks))
	sent := map[flow][][]uint32{}
	began := make([]bool, len(p.Ranks))
	for i := range p.Ranks {
		memory[i] = make([]uint32, p.Ranks[i].Memory)
		for k := range memory[i] {
			memory[i][k] = 0xa5a5a5a5
		}
		for _, v := range p.Ranks[i].Inputs {
			for k := range v.Count {
				memory[i][v.At+k] = input(v.Source, v.First+k)
			}
		}
	}
	do := func(rank int, moves []p2p.Move) {
		for _, m := range moves {
			from := append([]uint32{}, memory[rank][m.From:m.From+m.Count]...)
			for k, x := range from {
				if m.Add {
					x += memory[rank][m.To+uint64(k)]
				}
				memory[rank][m.To+uint64(k)] = x
			}
		}
	}
	for moved := true; moved; {
		moved = false
		for r := range p.Ranks {
			if next[r] == len(p.Ranks[r].Groups) {
				continue
			}
			g := &p.Ranks[r].Groups[next[r]]
			if !began[r] {
				do(r, g.Moves)
				for _, x := range g.Sends {
					at := flow{r, x.Peer}
					sent[at] = append(sent[at], append([]uint32{}, memory[r][x.At:x.At+x.Count]...))
				}
				began[r], moved = true, true
			}
			ready := true
			for _, x := range g.Recvs {
				ready = ready && len(sent[flow{x.Peer, r}]) > 0
			}
			if !ready {
				continue
			}
			for _, x := range g.Recvs {
				at := flow{x.Peer, r}
				if uint64(len(sent[at][0])) != x.Count {
					t.Fatalf("rank %d sends %d elements to %d, which receives %d", x.Peer, len(sent[at][0]), r, x.Count)
				}
				copy(memory[r][x.At:], sent[at][0])
				sent[at] = sent[at][1:]
			}
			next[r]++
			began[r], moved = false, true
		}
	}
	for r := range p.Ranks {
		if next[r] != len(p.Ranks[r].Groups) {
			t.Fatalf("rank %d waits for ever in group %d", r, next[r])
		}
		do(r, p.Ranks[r].Last)
		for _, v := range p.Ranks[r].Expect {
			for k := range v.Count {
				want := input(v.Source, v.First+k)
				if v.Sum {
					want = 0
					for rank := range p.Ranks {
						want += input(rank, v.First+k)
					}
				}
				if memory[r][v.At+k] != want {
					wrong++
				}
			}
		}
	}
	return wrong
}

func plan(t *testing.T, s *schedule.Schedule, size uint64, inPlace bool) *p2p.Plan {
	t.Helper()
	c, err := s.Cut(size, p2p.ElemBytes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := p2p.Make(s, &c, inPlace, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The plans of all schedules that package make makes have right results, and valid workloads.
func TestResults(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	makers := []func(mk.Options) (*schedule.Schedule, error){mk.Ring, mk.AllPairs, mk.BinaryTree, mk.Chain,
		mk.DoubleBinary}
	for range 200 {
		o := mk.Options{
			Coll: []schedule.Collective{schedule.AllGather, schedule.ReduceScatter, schedule.AllReduce}[rng.IntN(3)],
			GPUs: 2 + rng.IntN(7), K: 1 + rng.IntN(3), OutOfPlace: rng.IntN(2) == 0,
		}
		s, err := makers[rng.IntN(len(makers))](o)
		if err != nil {
			t.Fatal(err)
		}
		for _, inPlace := range s.Variants() {
			p := plan(t, s, uint64(s.LoopChunks*(1+rng.IntN(5))*4), inPlace)
			if wrong := play(t, p); wrong > 0 {
				t.Fatalf("%s on %d GPUs, in place %v: %d wrong elements", s.Name, o.GPUs, inPlace, wrong)
			}
			if _, err := p.Workload("x").Index(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// So have those of random collectives, whose blocks wait for each other much more.
func TestRandomResults(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, coll := range maketest.Collectives() {
		for range 20 {
			s, err := mk.FromSends("random", maketest.Transfers(coll, 2+rng.IntN(5), 1+rng.IntN(3), rng))
			if err != nil {
				t.Fatal(err)
			}
			sh, err := s.Shape()
			if err != nil {
				t.Fatal(err)
			}
			for _, inPlace := range s.Variants() {
				if wrong := play(t, plan(t, s, uint64(sh.Larger*(1+rng.IntN(5))*4), inPlace)); wrong > 0 {
					t.Fatalf("%s on %d GPUs, in place %v: %d wrong elements", s.Name, len(s.GPUs), inPlace, wrong)
				}
			}
		}
	}
}

// A ring passes on a chunk in its next group: an all-gather of n ranks takes n-1 groups, with one message each way.
func TestGroups(t *testing.T) {
	s, err := mk.Ring(mk.Options{Coll: schedule.AllGather, GPUs: 4, K: 2})
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, s, 8*4, true)
	for r := range p.Ranks {
		if n := len(p.Ranks[r].Groups); n != 3 {
			t.Errorf("rank %d has %d groups", r, n)
		}
		for _, g := range p.Ranks[r].Groups {
			if len(g.Sends) != 1 || len(g.Recvs) != 1 || g.Sends[0].Count != 2 {
				t.Errorf("rank %d: %+v", r, g)
			}
		}
	}
}

// What cannot be played is refused.
func TestRefusals(t *testing.T) {
	one := func(steps ...schedule.Step) *schedule.Schedule {
		s := &schedule.Schedule{Coll: schedule.Custom, Proto: schedule.Simple, Channels: 1, LoopChunks: 1,
			OutOfPlace: true}
		s.GPUs = make([]schedule.GPU, 2)
		s.GPUs[0].Blocks = []schedule.Block{{Send: 1, Recv: 1, Steps: steps}}
		return s
	}
	step := func(kind schedule.Kind) schedule.Step {
		return schedule.Step{Kind: kind, Dst: schedule.Ref{Buffer: schedule.Output}, Count: 1, DepBlock: schedule.None}
	}
	for want, s := range map[string]*schedule.Schedule{
		"GPU 0 neither sends nor receives":           one(step(schedule.CopyStep)),
		"GPU 0 block 0 waits for ever at step 0 (r)": one(step(schedule.RecvStep), step(schedule.SendStep)),
	} {
		c, err := s.Cut(4, p2p.ElemBytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p2p.Make(s, &c, false, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
