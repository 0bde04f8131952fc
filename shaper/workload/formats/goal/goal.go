// SPDX-License-Identifier: Apache-2.0

// Package goal reads and writes GOAL, the text format of LogGOPSim and ATLAHS: sends, receives and computations of each
// rank, and which requires which. Its times are in ns. Collectives are already sends and receives there.
//
// A computation on cpu K is on the stream cpuK. The messages from rank A to rank B are on the communicator A>B of
// these two ranks and, at each of them, on a stream of that name, so that messages of different pairs do not wait for
// each other. Those of different tags have communicators of their own, such as A>B#tag, if the file has few tags.
package goal

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/internal/queue"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Read reads a file.
func Read(f input.File, o input.Options) (*workload.Workload, error) {
	p, err := parse(f, o.Limit)
	if err != nil {
		return nil, err
	}
	anyTag := p.joinAnyTags()
	p.orderReceives()
	separate := p.separateTags()
	c := &converter{program: p, options: o, known: map[string]bool{}, sent: map[[2]int][]string{},
		taken: map[[2]int][]string{}}
	lists := make([][]workload.Op, len(p.ranks))
	for r := range p.ranks {
		if lists[r], err = c.rank(r); err != nil {
			return nil, fmt.Errorf("%s: rank %d: %w", f.Name, r, err)
		}
	}
	source := workload.Source{Kind: "goal", File: filepath.Base(f.Name), Missing: []string{
		"collectives: they are sends and receives already",
		"the type of the elements",
	}}
	if !p.computes {
		source.Missing = append(source.Missing, "no computation between the messages is known")
	}
	note, say := input.Counts(&source.Notes), input.Sentences(&source.Notes)
	note(c.early, "receive", "each requires a send and starts with it, since a send of NCCL ends only when it is received")
	note(p.nics, "message", "its nic is not used; NCCL chooses the NICs")
	say(anyTag > 0, "%s of any tag (-1): the messages between the two ranks are received in the order in which they are "+
		"sent", units.Count(anyTag, "receive"))
	say(!separate, "messages of different tags between two ranks wait for each other: there are more than %d tags of "+
		"two ranks, and each would need a communicator", maxSeparate)
	n := c.misordered()
	say(n > 0 && !separate, "%s of ranks: messages are received in another order than they are sent in. NCCL has no "+
		"tags, so sends and receives of other sizes may meet", units.Count(n, "pair"))
	slices.SortFunc(c.comms, func(a, b workload.Comm) int { return slices.Compare(a.Ranks, b.Ranks) })
	return perrank.Workload(len(p.ranks), lists, c.comms, source), nil
}

// converter makes operations of tasks.
type converter struct {
	program *program
	options input.Options
	comms   []workload.Comm
	known   map[string]bool
	early   int                 // receives that require a send, and start with it
	sent    map[[2]int][]string // tags of the messages of each pair, as they are sent, and received
	taken   map[[2]int][]string
}

// rank makes the operations of a rank, in an order in which each comes after those that it requires.
func (c *converter) rank(r int) ([]workload.Op, error) {
	tasks := c.program.ranks[r]
	after := make([][]int, len(tasks))
	for i := range tasks {
		var early bool
		var err error
		if after[i], early, err = requirements(tasks, i, &c.program.budget); err != nil {
			return nil, fmt.Errorf("what %s requires, itself and through the tasks that it starts with: %w",
				tasks[i].label, err)
		}
		if early {
			c.early++
		}
	}
	order, err := sorted(tasks, after)
	if err != nil {
		return nil, err
	}
	ids := make([]int, len(tasks))
	for n, i := range order {
		ids[i] = n + 1
	}
	ops := make([]workload.Op, 0, len(tasks))
	for _, i := range order {
		op := c.op(r, &tasks[i])
		op.ID = ids[i]
		for _, d := range after[i] {
			op.After = append(op.After, ids[d])
		}
		slices.Sort(op.After)
		ops = append(ops, op)
	}
	return ops, nil
}

// op is the operation of a task.
func (c *converter) op(r int, t *task) workload.Op {
	if t.kind == workload.Calc {
		return workload.Op{Kind: workload.Calc, Stream: fmt.Sprintf("cpu%d", t.cpu), Nanos: t.amount}
	}
	from, to := r, t.peer
	if t.kind == workload.Recv {
		from, to = to, from
	}
	name := pairName(from, to) + t.suffix
	if !c.known[name] {
		c.known[name] = true
		c.comms = append(c.comms, workload.Comm{Name: name, Ranks: workload.Ranks{from, to}})
	}
	pair, op := [2]int{from, to}, workload.Op{Kind: t.kind, Comm: name, Stream: name}
	op.Count, op.Type = c.options.Elements(t.amount, 1)
	if t.kind == workload.Send {
		op.Peer = 1
		c.sent[pair] = append(c.sent[pair], t.tag)
	} else {
		c.taken[pair] = append(c.taken[pair], t.tag)
	}
	return op
}

// pairName is the name of the communicator of the messages from a rank to another.
func pairName(from, to int) string { return fmt.Sprintf("%d>%d", from, to) }

// misordered is the number of pairs whose messages are received in another order than they are sent in.
func (c *converter) misordered() (n int) {
	for pair, tags := range c.sent {
		if !slices.Equal(tags, c.taken[pair]) {
			n++
		}
	}
	return n
}

// bytesPerRequirement is what a requirement takes: in the lists of tasks and of operations, and in the search.
const bytesPerRequirement = 24

// requirements are the tasks that must have ended before task i starts. One that must only have started (irequires) has
// started when those that it requires itself have ended. A send that a receive requires must only have started too
// (early): a send of NCCL ends when it is received, a send of GOAL before, so that all ranks could wait for ever. The
// budget bounds the lists and the search.
func requirements(tasks []task, i int, budget *bounds.Budget) (out []int, early bool, err error) {
	seen := map[int]bool{i: true}
	var next []int
	for _, s := range tasks[i].starts {
		if onOneStream(&tasks[i], &tasks[s]) { // it waits for the end of s anyway
			out = append(out, s)
		} else {
			next = append(next, s)
		}
	}
	add := func(required []int) {
		for _, d := range required {
			if tasks[i].kind == workload.Recv && tasks[d].kind == workload.Send {
				early, next = true, append(next, d)
			} else {
				out = append(out, d)
			}
		}
	}
	add(tasks[i].requires)
	for len(next) > 0 {
		s := next[0]
		next = next[1:]
		if !seen[s] {
			seen[s] = true
			next = append(next, tasks[s].starts...)
			add(tasks[s].requires)
			if err := budget.Make(int64(1+len(tasks[s].starts)+len(tasks[s].requires)), bytesPerRequirement); err != nil {
				return nil, false, err
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), early, nil
}

// onOneStream says whether the operations of two tasks of a rank are on one stream.
func onOneStream(a, b *task) bool {
	return a.kind == b.kind && (a.kind == workload.Calc && a.cpu == b.cpu || a.kind != workload.Calc &&
		a.peer == b.peer && a.suffix == b.suffix)
}

// sorted orders tasks such that each comes after those that it requires, by priority where that leaves a choice.
func sorted(tasks []task, after [][]int) ([]int, error) {
	order, stuck := queue.Order(after, func(a, b int) bool {
		return cmp.Or(cmp.Compare(tasks[a].priority, tasks[b].priority), cmp.Compare(a, b)) < 0
	})
	if len(stuck) > 0 {
		var cycle []string
		for _, i := range stuck[:min(len(stuck), 5)] {
			cycle = append(cycle, tasks[i].label)
		}
		return nil, fmt.Errorf("tasks require each other, some of %s", strings.Join(cycle, ", "))
	}
	return order, nil
}
