// SPDX-License-Identifier: Apache-2.0

// Package overview says in numbers and in a picture what a workload does.
package overview

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Summary is what a workload does.
type Summary struct {
	Ranks int `json:"ranks"`
	// Operations are the lines, and Programs how many different lists of operations the ranks have.
	Operations int     `json:"operations"`
	Programs   int     `json:"programs"`
	Comms      []Comms `json:"comms"` // if there are more than 16 names, one for all of them, without a name
	Steps      []Steps `json:"steps"`
}

// maxNames is how many names of communicators are distinguished.
const maxNames = 16

// Comms are the communicators with one name.
type Comms struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Least int    `json:"min_ranks"`
	Most  int    `json:"max_ranks"`
}

// Steps are steps that follow each other and do the same.
type Steps struct {
	// First and Last count from 1. Both are 0 for operations that no step ends.
	First int `json:"first"`
	Last  int `json:"last"`
	// Calc is the time for which each rank computes in each step, in ns, of all its streams together.
	Calc Range `json:"calc_ns"`
	// MaxCalc is the upper end of Calc where the source only bounds a time; equal to Calc if it bounds none.
	MaxCalc Range  `json:"max_calc_ns"`
	Calls   []Call `json:"calls"`
}

// Range is the least and the most of any rank.
type Range struct {
	Least int64 `json:"min"`
	Most  int64 `json:"max"`
}

func (r *Range) add(x int64, first bool) {
	if first {
		*r = Range{x, x}
	}
	r.Least, r.Most = min(r.Least, x), max(r.Most, x)
}

// Call are the calls of one function on communicators of one name, in each of the steps.
type Call struct {
	// Func is the name of the collective, send or recv.
	Func string `json:"func"`
	Comm string `json:"comm"` // "" for those of all names, if there are more than 16
	// Calls are the calls of a rank that makes any, and Bytes their sizes together: nccl-tests' size, the larger of
	// input and output.
	Calls Range `json:"calls"`
	Bytes Range `json:"bytes"`
	// Size is the size of a call.
	Size Range `json:"size"`
	// Ranks is how many ranks make these calls.
	Ranks int `json:"ranks"`
}

// callKey tells calls apart.
type callKey struct{ fn, comm string }

// stepSum is what one program does in one step.
type stepSum struct {
	calc, maxCalc int64
	calls         map[callKey]*callSum
}

type callSum struct {
	calls, bytes int64
	size         Range
}

func (s *stepSum) add(key callKey, c *callSum) {
	sum := s.calls[key]
	if sum == nil {
		sum = &callSum{size: c.size}
		s.calls[key] = sum
	}
	sum.calls += c.calls
	sum.bytes += c.bytes
	sum.size = Range{min(sum.size.Least, c.size.Least), max(sum.size.Most, c.size.Most)}
}

// Of sums up a workload.
func Of(ix *workload.Index) *Summary {
	w := ix.Workload
	s := &Summary{Ranks: w.Head.Ranks, Operations: len(w.Ops), Programs: len(ix.Programs), Comms: comms(ix)}
	var sums [][]*stepSum // by step, of the programs that have it
	var ranks [][]int     // of these programs
	var unended []*stepSum
	var unendedRanks []int
	for i := range ix.Programs {
		p := &ix.Programs[i]
		steps, rest := sumProgram(ix, p)
		for k, step := range steps {
			if k == len(sums) {
				sums, ranks = append(sums, nil), append(ranks, nil)
			}
			sums[k], ranks[k] = append(sums[k], step), append(ranks[k], len(p.Ranks))
		}
		if rest != nil {
			unended, unendedRanks = append(unended, rest), append(unendedRanks, len(p.Ranks))
		}
	}
	for k := range sums {
		next := merge(sums[k], ranks[k])
		if n := len(s.Steps); n > 0 && s.Steps[n-1].same(&next) {
			s.Steps[n-1].Last = k + 1
			continue
		}
		next.First, next.Last = k+1, k+1
		s.Steps = append(s.Steps, next)
	}
	if len(unended) > 0 {
		s.Steps = append(s.Steps, merge(unended, unendedRanks))
	}
	return s
}

// comms counts the communicators of each name.
func comms(ix *workload.Index) []Comms {
	all := make([]Comms, len(ix.Names))
	if len(all) > maxNames {
		all = all[:1]
	}
	for _, c := range ix.Comms {
		sum, name := &all[0], ""
		if len(ix.Names) <= maxNames {
			sum, name = &all[ix.NameOf(c.Name)], c.Name
		}
		n := len(c.Ranks)
		if sum.Count == 0 {
			*sum = Comms{Name: name, Least: n, Most: n}
		}
		sum.Count++
		sum.Least, sum.Most = min(sum.Least, n), max(sum.Most, n)
	}
	return all
}

// sumProgram sums up the steps of a program, and what comes after the last one, nil if nothing does.
func sumProgram(ix *workload.Index, p *workload.Program) (steps []*stepSum, rest *stepSum) {
	sizes := map[string]int{} // of the communicators of the first rank
	sizeOf := func(comm string) int {
		n, ok := sizes[comm]
		if !ok {
			place, _ := ix.Place(comm, p.Ranks[0])
			n = len(ix.Comms[place.Comm].Ranks)
			sizes[comm] = n
		}
		return n
	}
	step := &stepSum{calls: map[callKey]*callSum{}}
	busy := false
	for _, c := range p.Calls {
		o := &ix.Workload.Ops[c.Op]
		if o.Kind == workload.Step {
			steps, step, busy = append(steps, step), &stepSum{calls: map[callKey]*callSum{}}, false
			continue
		}
		busy = busy || o.Kind != workload.Wait
		step.calc += o.Nanos
		step.maxCalc += max(o.Nanos, o.MaxNanos)
		for part := range o.Parts() {
			key := callKey{fn: nameOf(part)}
			if len(ix.Names) <= maxNames {
				key.comm = ix.Names[ix.NameOf(part.Comm)]
			}
			size := part.Bytes(sizeOf(part.Comm))
			step.add(key, &callSum{1, size, Range{size, size}})
		}
	}
	if busy {
		rest = step
	}
	return steps, rest
}

// nameOf is the collective, or send or recv.
func nameOf(o *workload.Op) string {
	if o.Kind == workload.Coll {
		return string(o.Func)
	}
	return string(o.Kind)
}

// merge joins what programs do in one step.
func merge(sums []*stepSum, ranks []int) (s Steps) {
	calls := map[callKey]*Call{}
	for i, sum := range sums {
		s.Calc.add(sum.calc, i == 0)
		s.MaxCalc.add(sum.maxCalc, i == 0)
		for key, c := range sum.calls {
			call := calls[key]
			first := call == nil
			if first {
				call = &Call{Func: key.fn, Comm: key.comm}
				calls[key] = call
			}
			call.Calls.add(c.calls, first)
			call.Bytes.add(c.bytes, first)
			call.Size.add(c.size.Least, first)
			call.Size.add(c.size.Most, false)
			call.Ranks += ranks[i]
		}
	}
	s.Calls = []Call{}
	for _, c := range calls {
		s.Calls = append(s.Calls, *c)
	}
	slices.SortFunc(s.Calls, func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Comm, b.Comm), cmp.Compare(order(a.Func), order(b.Func)))
	})
	return s
}

// order is the place of a function in tables.
func order(name string) int {
	if i := slices.Index(workload.Funcs(), workload.Func(name)); i >= 0 {
		return i
	}
	return len(workload.Funcs()) + slices.Index([]string{"send", "recv"}, name)
}

// same says whether two steps do the same.
func (s *Steps) same(t *Steps) bool {
	return s.Calc == t.Calc && s.MaxCalc == t.MaxCalc && slices.Equal(s.Calls, t.Calls)
}
