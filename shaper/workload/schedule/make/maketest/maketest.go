// SPDX-License-Identifier: Apache-2.0

// Package maketest makes random collectives for tests.
package maketest

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
)

// collective says which ranks have a chunk before and after, and at which address it is.
type collective struct {
	chunks  func(n int) int
	before  func(n, chunk int) []int
	after   func(n, chunk int) []int
	address func(n, chunk int) int
}

func all(n, _ int) (out []int) {
	for r := range n {
		out = append(out, r)
	}
	return out
}

var (
	one       = func(int) int { return 1 }
	each      = func(n int) int { return n }
	pairs     = func(n int) int { return n * n }
	first     = func(int, int) []int { return []int{0} }
	scattered = func(n, c int) []int { return []int{c % n} }
	transpose = func(n, c int) []int { return []int{c / n} }
	own       = func(_, c int) int { return c }
	shared    = func(n, c int) int { return c / n }
)

var collectives = map[schedule.Collective]collective{
	schedule.Broadcast:     {one, first, all, own},
	schedule.Scatter:       {each, first, scattered, own},
	schedule.Gather:        {each, scattered, first, own},
	schedule.AllGather:     {each, scattered, all, own},
	schedule.AllToAll:      {pairs, scattered, transpose, own},
	schedule.Reduce:        {each, scattered, first, shared},
	schedule.AllReduce:     {each, scattered, all, shared},
	schedule.ReduceScatter: {pairs, scattered, transpose, shared},
	schedule.Custom:        {each, scattered, all, shared},
}

// Collectives are those that Transfers makes, in a fixed order. Custom adds up like an all-reduce.
func Collectives() []schedule.Collective { return slices.Sorted(maps.Keys(collectives)) }

// Transfers makes random transfers that are right: in each step random ranks send what the receiver does not have. A
// part of a sum is sent once, so that it is added once; a whole sum goes to anybody. Each chunk is divided into so
// many.
func Transfers(coll schedule.Collective, ranks, divided int, rng *rand.Rand) *mk.Transfers {
	c := collectives[coll]
	w := &world{Transfers: &mk.Transfers{Coll: coll, Inputs: make([][]int, ranks), Outputs: make([][]int, ranks)},
		has: map[at]parts{}, whole: map[int]parts{}}
	w.Adds = c.address(ranks, c.chunks(ranks)-1) != c.chunks(ranks)-1
	for chunk := range c.chunks(ranks) {
		for i := range divided {
			w.chunk(c.address(ranks, chunk)*divided+i, c.before(ranks, chunk), c.after(ranks, chunk))
		}
	}
	for r := range ranks {
		slices.Sort(w.Inputs[r])
		slices.Sort(w.Outputs[r])
	}
	spent := map[at]bool{}
	for w.incomplete() {
		w.Steps = append(w.Steps, w.step(ranks, spent, rng))
	}
	return w.Transfers
}

type at struct{ rank, address int }

// parts are the ranks whose inputs are in a value.
type parts map[int]bool

// world is what each rank has.
type world struct {
	*mk.Transfers
	has   map[at]parts
	whole map[int]parts
}

func (w *world) chunk(address int, before, after []int) {
	if w.whole[address] == nil {
		w.whole[address] = parts{}
	}
	for _, r := range before {
		part := 0
		if w.Adds {
			part = r
		}
		w.Inputs[r] = append(w.Inputs[r], address)
		w.has[at{r, address}] = parts{part: true}
		w.whole[address][part] = true
	}
	for _, r := range after {
		if !slices.Contains(w.Outputs[r], address) {
			w.Outputs[r] = append(w.Outputs[r], address)
		}
	}
}

func (w *world) incomplete() bool {
	for r, addresses := range w.Outputs {
		for _, a := range addresses {
			if len(w.has[at{r, a}]) < len(w.whole[a]) {
				return true
			}
		}
	}
	return false
}

// step makes the sends of a step. spent are the parts of sums that were sent.
func (w *world) step(ranks int, spent map[at]bool, rng *rand.Rand) (sends []mk.Send) {
	before, received := maps.Clone(w.has), map[at]bool{}
	for range 1 + rng.IntN(2*ranks) {
		a, src, dst := rng.IntN(len(w.whole)), at{rank: rng.IntN(ranks)}, at{rank: rng.IntN(ranks)}
		src.address, dst.address = a, a
		from, to := before[src], w.has[dst]
		if src == dst || len(from) == 0 || received[src] {
			continue
		}
		union := maps.Clone(from)
		maps.Copy(union, to)
		isWhole := len(from) == len(w.whole[a])
		if len(union) == len(to) || !isWhole && (spent[src] || spent[dst]) {
			continue
		}
		spent[src], received[dst], w.has[dst] = true, true, union
		sends = append(sends, mk.Send{Address: a, Src: src.rank, Dst: dst.rank})
	}
	return sends
}
