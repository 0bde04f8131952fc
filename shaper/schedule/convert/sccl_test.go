// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/schedule"
	"github.com/ddlemu/ddlemu/shaper/schedule/check"
	mk "github.com/ddlemu/ddlemu/shaper/schedule/make"
)

// collective is one of SCCL's: which ranks have a chunk before and after, and at which address it is.
type collective struct {
	coll    schedule.Collective
	chunks  func(n int) int
	pre     func(n, chunk int) []int
	post    func(n, chunk int) []int
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

var collectives = map[string]collective{
	"Broadcast":     {schedule.Broadcast, one, first, all, own},
	"Scatter":       {schedule.Scatter, each, first, scattered, own},
	"Gather":        {schedule.Gather, each, scattered, first, own},
	"Allgather":     {schedule.AllGather, each, scattered, all, own},
	"Alltoall":      {schedule.AllToAll, pairs, scattered, transpose, own},
	"Reduce":        {schedule.Reduce, each, scattered, first, shared},
	"Allreduce":     {schedule.AllReduce, each, scattered, all, shared},
	"ReduceScatter": {schedule.ReduceScatter, pairs, scattered, transpose, shared},
	"Sum":           {schedule.Custom, each, scattered, all, shared},
}

// algorithm writes a random algorithm that is right: in each step random ranks send what the receiver does not have. A
// part of a sum is sent once, so that it is added once; a whole sum goes to anybody. Each chunk is divided.
func algorithm(name string, n, divided int, rng *rand.Rand) string {
	c := collectives[name]
	adds := c.address(n, c.chunks(n)-1) != c.chunks(n)-1
	inputs, outputs := map[int][]int{}, map[int][]int{}
	has, whole := map[[2]int]map[int]bool{}, map[int]map[int]bool{} // contributions by rank and address, and of the whole
	var chunks []map[string]int
	for chunk := range c.chunks(n) {
		chunks = append(chunks, map[string]int{"addr": c.address(n, chunk)})
		for i := range divided {
			a := c.address(n, chunk)*divided + i
			for _, r := range c.pre(n, chunk) {
				inputs[r] = append(inputs[r], a)
				part := 0
				if adds {
					part = r
				}
				if whole[a] == nil {
					whole[a] = map[int]bool{}
				}
				has[[2]int{r, a}] = map[int]bool{part: true}
				whole[a][part] = true
			}
			for _, r := range c.post(n, chunk) {
				if !slices.Contains(outputs[r], a) {
					outputs[r] = append(outputs[r], a)
				}
			}
		}
	}
	steps, spent := []any{}, map[[2]int]bool{}
	for missing(outputs, has, whole) {
		before := maps.Clone(has)
		sends, received := [][]int{}, map[[2]int]bool{}
		for range 1 + rng.IntN(2*n) {
			a, src, dst := rng.IntN(len(whole)), rng.IntN(n), rng.IntN(n)
			from, to := before[[2]int{src, a}], has[[2]int{dst, a}]
			if src == dst || len(from) == 0 {
				continue
			}
			union := maps.Clone(from)
			for p := range to {
				union[p] = true
			}
			isWhole := len(from) == len(whole[a])
			if len(union) == len(to) || received[[2]int{src, a}] || !isWhole && (spent[[2]int{src, a}] || spent[[2]int{dst, a}]) {
				continue
			}
			spent[[2]int{src, a}] = true
			has[[2]int{dst, a}], received[[2]int{dst, a}] = union, true
			sends = append(sends, []int{a, src, dst})
		}
		steps = append(steps, map[string]any{"sends": sends})
	}
	text, _ := json.Marshal(map[string]any{
		"msccl_type": "algorithm", "input_map": inputs, "output_map": outputs, "steps": steps,
		"collective": map[string]any{"name": fmt.Sprintf("%s(n=%d),chunks=%d", name, n, divided), "nodes": n, "runtime_name": "custom", "chunks": chunks},
	})
	return string(text)
}

// missing says whether an output is not whole yet.
func missing(outputs map[int][]int, has map[[2]int]map[int]bool, whole map[int]map[int]bool) bool {
	for r, addresses := range outputs {
		for _, a := range addresses {
			if len(has[[2]int{r, a}]) < len(whole[a]) {
				return true
			}
		}
	}
	return false
}

// Every algorithm that is right becomes a schedule that is.
func TestRandomAlgorithms(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for name, c := range collectives {
		inPlace := 0
		for range 30 {
			n, divided := 2+rng.IntN(4), 1+rng.IntN(3)
			text := algorithm(name, n, divided, rng)
			s, err := read(text, mk.Options{})
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if s.Coll != c.coll || len(s.GPUs) != n {
				t.Errorf("%s of %d is %s of %d", name, n, s.Coll, len(s.GPUs))
			}
			if r, err := check.Check(s); err != nil || !r.Good() {
				t.Fatalf("%v %+v: %s", err, r, text)
			}
			if s.InPlace {
				inPlace++
			}
		}
		if fits := strings.HasPrefix(name, "All") && name != "Alltoall" || name == "ReduceScatter" || name == "Reduce" || name == "Broadcast"; fits != (inPlace == 30) {
			t.Errorf("%s: %d of 30 are right in place", name, inPlace)
		}
	}
}
