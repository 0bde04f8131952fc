// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// interpreter executes a schedule on numbers, in a random order of the blocks. It shares no code with the check: a
// second opinion.
type interpreter struct {
	s       *schedule.Schedule
	layouts []schedule.Layout
	mem     [][]int64
	at      [][]int // step of each block
	flags   [][]int
	queues  map[[3]int][][]int64 // by source, destination and channel
	read    map[[2]int][]int64   // by GPU and block: what a step has read, and will store and send
	rng     *rand.Rand
}

// input is the number of a chunk of a rank's input. Sums of different chunks differ, most likely.
func input(rank, chunk int) int64 {
	return int64(rand.New(rand.NewPCG(uint64(rank), uint64(chunk))).Uint32())
}

// interpret runs the schedule once and says what is wrong: "" for nothing.
func interpret(s *schedule.Schedule, inPlace bool, root int, rng *rand.Rand) string {
	sh, err := s.Shape()
	if err != nil {
		return err.Error()
	}
	in := &interpreter{s: s, queues: map[[3]int][][]int64{}, read: map[[2]int][]int64{}, rng: rng}
	for g := range s.GPUs {
		l := s.Layout(g, inPlace, root, sh)
		mem := make([]int64, l.Total)
		for i := range mem {
			mem[i] = rng.Int64()
		}
		for c := range s.InputChunks(g, root, inPlace, sh) {
			mem[l.Base[schedule.Input]+c] = input(g, c)
		}
		for _, c := range s.GPUs[g].Copies {
			mem[l.Base[schedule.Output]+c.To] = mem[l.Base[schedule.Input]+c.From]
		}
		in.layouts, in.mem = append(in.layouts, l), append(in.mem, mem)
		in.at, in.flags = append(in.at, make([]int, len(s.GPUs[g].Blocks))),
			append(in.flags, make([]int, len(s.GPUs[g].Blocks)))
		for b := range in.flags[g] {
			in.flags[g][b] = -1
		}
	}
	if text := in.run(); text != "" {
		return text
	}
	return in.results(sh, root)
}

// run lets random blocks go on, often the same one for long. In every second run some wait until nobody else can go on.
func (in *interpreter) run() string {
	type id struct{ gpu, block int }
	var live []id
	for g := range in.s.GPUs {
		for b := range in.s.GPUs[g].Blocks {
			live = append(live, id{g, b})
		}
	}
	rank := map[id]int{} // a block goes on if none of a lower rank can
	if in.rng.IntN(2) == 0 {
		for _, x := range live {
			rank[x] = in.rng.IntN(4)
		}
	}
	for len(live) > 0 {
		moved := false
		in.rng.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		slices.SortStableFunc(live, func(a, b id) int { return cmp.Compare(rank[a], rank[b]) })
		for k := 0; k < len(live); k++ {
			x := live[k]
			if moved && rank[x] > 0 {
				break
			}
			steps := in.s.GPUs[x.gpu].Blocks[x.block].Steps
			for n := in.rng.IntN(2*len(steps) + 2); n >= 0 && in.at[x.gpu][x.block] < len(steps); n-- {
				ok, wrong := in.step(x.gpu, x.block)
				if wrong != "" {
					return wrong
				}
				if !ok {
					break
				}
				moved = true
			}
			if in.at[x.gpu][x.block] == len(steps) {
				live = append(live[:k], live[k+1:]...)
				k--
			}
		}
		if !moved && in.idle() {
			return "deadlock"
		}
	}
	for key, q := range in.queues {
		if len(q) > 0 {
			return fmt.Sprintf("messages left over on %v", key)
		}
	}
	return ""
}

// idle says whether no block can go on.
func (in *interpreter) idle() bool {
	for g := range in.s.GPUs {
		for b := range in.s.GPUs[g].Blocks {
			if in.at[g][b] < len(in.s.GPUs[g].Blocks[b].Steps) && in.ready(g, b) {
				return false
			}
		}
	}
	return true
}

func (in *interpreter) ready(g, b int) bool {
	if _, ok := in.read[[2]int{g, b}]; ok {
		return true
	}
	block := &in.s.GPUs[g].Blocks[b]
	st := &block.Steps[in.at[g][b]]
	if st.DepBlock >= 0 && in.flags[g][st.DepBlock] < st.DepStep {
		return false
	}
	return !st.Kind.Receives() || len(in.queues[[3]int{block.Recv, g, block.Channel}]) > 0
}

// step does half of a step: what it reads, or what it stores and sends. Others may go on between the two.
func (in *interpreter) step(g, b int) (bool, string) {
	block := &in.s.GPUs[g].Blocks[b]
	st := &block.Steps[in.at[g][b]]
	if out, ok := in.read[[2]int{g, b}]; ok {
		delete(in.read, [2]int{g, b})
		in.write(g, b, st, out)
		return true, ""
	}
	if !in.ready(g, b) {
		return false, ""
	}
	if st.Kind == schedule.NopStep {
		in.at[g][b]++
		return true, ""
	}
	src, ok1 := in.layouts[g].At(st.Src, st.Count)
	dst, ok2 := in.layouts[g].At(st.Dst, st.Count)
	if st.Kind.ReadsSource() && !ok1 || st.Kind.WritesTarget() && !ok2 {
		return false, "outside of a buffer"
	}
	out := make([]int64, st.Count)
	if st.Kind.Receives() {
		key := [3]int{block.Recv, g, block.Channel}
		if len(in.queues[key][0]) != st.Count {
			return false, "count mismatch"
		}
		copy(out, in.queues[key][0])
		in.queues[key] = in.queues[key][1:]
	}
	for c := range out {
		if st.Kind.ReadsSource() {
			out[c] += in.mem[g][src+c]
		}
		if st.Kind == schedule.ReduceStep {
			out[c] += in.mem[g][dst+c]
		}
	}
	in.read[[2]int{g, b}] = out
	return true, ""
}

func (in *interpreter) write(g, b int, st *schedule.Step, out []int64) {
	block := &in.s.GPUs[g].Blocks[b]
	if st.Kind.WritesTarget() {
		dst, _ := in.layouts[g].At(st.Dst, st.Count)
		copy(in.mem[g][dst:], out)
	}
	if st.Kind.Sends() {
		key := [3]int{g, block.Send, block.Channel}
		in.queues[key] = append(in.queues[key], out)
	}
	if st.HasDep {
		in.flags[g][b] = in.at[g][b]
	}
	in.at[g][b]++
}

// results compares the outputs with what the collective must give.
func (in *interpreter) results(sh schedule.Shape, root int) string {
	n := len(in.s.GPUs)
	sum := func(chunk int) (v int64) {
		for r := range n {
			v += input(r, chunk)
		}
		return v
	}
	for g := range n {
		for c := range sh.Out {
			var want int64
			switch in.s.Coll {
			case schedule.AllReduce:
				want = sum(c)
			case schedule.AllGather:
				want = input(c/sh.Share, c%sh.Share)
			case schedule.ReduceScatter:
				want = sum(g*sh.Share + c)
			case schedule.AllToAll:
				want = input(c/sh.Share, g*sh.Share+c%sh.Share)
			case schedule.Broadcast:
				want = input(root, c)
			case schedule.Scatter:
				want = input(root, g*sh.Share+c)
			case schedule.Reduce:
				want = sum(c)
			case schedule.Gather:
				want = input(c/sh.Share, c%sh.Share)
			default:
				return ""
			}
			if g != root && (in.s.Coll == schedule.Reduce || in.s.Coll == schedule.Gather) {
				continue
			}
			if got := in.mem[g][in.layouts[g].Base[schedule.Output]+c]; got != want {
				return fmt.Sprintf("wrong result: chunk %d of GPU %d", c, g)
			}
		}
	}
	return ""
}
