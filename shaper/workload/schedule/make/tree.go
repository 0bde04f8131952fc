// SPDX-License-Identifier: Apache-2.0

package make

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Tree is the tree of one chunk: Parent of each rank, None for the root.
type Tree struct {
	Root   int
	Index  int // of the chunk among those of the root
	Parent []int
}

// check says whether it is a tree of all ranks.
func (t *Tree) check() error {
	n := len(t.Parent)
	if t.Root < 0 || t.Root >= n || t.Parent[t.Root] != schedule.None {
		return fmt.Errorf("tree %d of root %d: the root must be one of %d ranks, without a parent", t.Index, t.Root, n)
	}
	for r := range n {
		at := r
		for steps := 0; at != t.Root; steps++ {
			if at = t.Parent[at]; at < 0 || at >= n || steps > n {
				return fmt.Errorf("tree %d of root %d: rank %d is not connected with the root", t.Index, t.Root, r)
			}
		}
	}
	return nil
}

// FromTrees makes the schedule of trees: o.K for each root, with index 0 to o.K-1.
func FromTrees(name string, o Options, trees []Tree) (*schedule.Schedule, error) {
	b, err := newBuilder(name, &o, o.K)
	if err != nil {
		return nil, err
	}
	seen := map[[2]int]bool{}
	for i := range trees {
		t := &trees[i]
		if len(t.Parent) != o.GPUs || t.Index < 0 || t.Index >= o.K || seen[[2]int{t.Root, t.Index}] {
			return nil, fmt.Errorf(
				"tree %d of root %d: there must be one for each root and each index below %d, of %d ranks",
				t.Index, t.Root, o.K, o.GPUs)
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		seen[[2]int{t.Root, t.Index}] = true
	}
	if len(trees) != o.GPUs*o.K {
		return nil, fmt.Errorf("%d trees: must be %d for each of %d roots", len(trees), o.K, o.GPUs)
	}
	used := map[[3]int]bool{}
	for i := range trees {
		b.tree(&trees[i], used)
	}
	b.copyOwn()
	return b.s, nil
}

// shape is a tree with the children of each rank, and the channel of the edge to its parent. A rank's first child has
// the channel of its own edge, so that one block can pass on what it receives.
type shape struct {
	*Tree
	children [][]int
	channel  []int
	order    []int // ranks from the root down
}

// shapeOf selects channels, each the lowest that no other tree uses on any of the edges, in both directions.
func shapeOf(t *Tree, used map[[3]int]bool) *shape {
	n := len(t.Parent)
	s := &shape{Tree: t, children: make([][]int, n), channel: make([]int, n), order: []int{t.Root}}
	for r := range n {
		if r != t.Root {
			s.children[t.Parent[r]] = append(s.children[t.Parent[r]], r)
		}
	}
	for i := 0; i < len(s.order); i++ {
		r := s.order[i]
		s.order = append(s.order, s.children[r]...)
		for k, c := range s.children[r] {
			if k > 0 || r == t.Root {
				s.selectChannel(c, used)
			}
		}
	}
	return s
}

// selectChannel gives the edges from rank c's parent along first children one channel.
func (s *shape) selectChannel(c int, used map[[3]int]bool) {
	path := []int{c}
	for r := c; len(s.children[r]) > 0; {
		r = s.children[r][0]
		path = append(path, r)
	}
	free := func(channel int) bool {
		return !slices.ContainsFunc(path, func(r int) bool {
			return used[[3]int{s.Parent[r], r, channel}] || used[[3]int{r, s.Parent[r], channel}]
		})
	}
	channel := 0
	for !free(channel) {
		channel++
	}
	for _, r := range path {
		used[[3]int{s.Parent[r], r, channel}], used[[3]int{r, s.Parent[r], channel}] = true, true
		s.channel[r] = channel
	}
}

// tree adds the blocks of one tree.
func (b *builder) tree(t *Tree, used map[[3]int]bool) {
	s := shapeOf(t, used)
	down := make([]int, len(t.Parent)) // the block that has the result, None if it needs no waiting
	for _, r := range s.order {
		down[r] = schedule.None
		if b.s.Coll != schedule.AllGather {
			down[r] = b.up(s, r)
		}
		if b.s.Coll != schedule.ReduceScatter {
			b.down(s, r, down[r])
		}
	}
}

// up adds the blocks by which rank r adds up its subtree and sends the sum to its parent. At the root it returns the
// block with the result.
func (b *builder) up(s *shape, r int) int {
	root := r == s.Root
	from, children := b.input(r, s.Root, s.Index), s.children[r]
	sum := b.output(r, s.Root, s.Index)
	if !root && b.s.Coll == schedule.ReduceScatter && len(children) > 1 {
		sum = schedule.Ref{Buffer: schedule.Scratch, Offset: b.s.GPUs[r].Chunks[schedule.Scratch]}
		b.s.GPUs[r].Chunks[schedule.Scratch]++
	}
	last := schedule.None
	for k := len(children) - 1; k >= 1; k-- {
		add := b.after(r, step(schedule.RecvReduceCopy, from, sum), last, 0)
		last = b.add(r, schedule.None, children[k], s.channel[children[k]], add)
		from = sum
	}
	switch {
	case root && b.s.Coll == schedule.AllReduce:
		c := children[0]
		return b.add(r, c, c, s.channel[c], b.after(r, step(schedule.RecvReduceCopySend, from, sum), last, 0))
	case root:
		c := children[0]
		return b.add(r, schedule.None, c, s.channel[c], b.after(r, step(schedule.RecvReduceCopy, from, sum), last, 0))
	case len(children) == 0:
		b.add(r, s.Parent[r], schedule.None, s.channel[r], step(schedule.SendStep, from, from))
	default:
		b.add(r, s.Parent[r], children[0], s.channel[r], b.after(r, step(schedule.RecvReduceSend, from, from), last, 0))
	}
	return schedule.None
}

// down adds the blocks by which rank r passes the chunk to its children. has is the block of the root that has it.
func (b *builder) down(s *shape, r, has int) {
	children, out := s.children[r], b.output(r, s.Root, s.Index)
	first := 0
	switch {
	case r == s.Root && b.s.Coll == schedule.AllReduce:
		first = 1 // the block of the sum sends to the first child
	case r == s.Root:
		out = b.input(r, r, s.Index)
	case len(children) == 0:
		b.add(r, schedule.None, s.Parent[r], s.channel[r], step(schedule.RecvStep, out, out))
	default:
		has = b.add(r, children[0], s.Parent[r], s.channel[r], step(schedule.RecvCopySend, out, out))
		first = 1
	}
	for _, c := range children[min(first, len(children)):] {
		b.add(r, c, schedule.None, s.channel[c], b.after(r, step(schedule.SendStep, out, out), has, 0))
	}
}

// fromShape makes the schedule of trees of all roots that have one shape: parent is the parent of a position,
// position 0 is the root.
func fromShape(name string, o Options, parent func(position, index int) int) (*schedule.Schedule, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var out []Tree
	n := o.GPUs
	for root := range n {
		for i := range o.K {
			t := Tree{Root: root, Index: i, Parent: make([]int, n)}
			for p := range n {
				at := schedule.None
				if p > 0 {
					at = (root + parent(p, i)) % n
				}
				t.Parent[(root+p)%n] = at
			}
			out = append(out, t)
		}
	}
	return FromTrees(name, o, out)
}

// Chain makes chains: from each root to the next ranks, one after another.
func Chain(o Options) (*schedule.Schedule, error) {
	return fromShape("chain", o, func(p, _ int) int { return p - 1 })
}

// BinaryTree makes binary trees: the rank at position p from the root has the children at 2p+1 and 2p+2.
func BinaryTree(o Options) (*schedule.Schedule, error) {
	return fromShape("tree", o, func(p, _ int) int { return (p - 1) / 2 })
}

// DoubleBinary makes pairs of binary trees: in the second of a pair the ranks behind the root are in reverse order, so
// that most ranks that are inner ones in the first are leaves in the second. K is the number of pairs for each root.
func DoubleBinary(o Options) (*schedule.Schedule, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.K *= 2
	s, err := fromShape("double_binary", o, func(p, index int) int {
		if index%2 == 0 {
			return (p - 1) / 2
		}
		if q := (o.GPUs - p - 1) / 2; q > 0 {
			return o.GPUs - q
		}
		return 0
	})
	if err == nil {
		s.Name = fmt.Sprintf("%s_double_binary_k%d", o.Coll, o.K/2)
	}
	return s, err
}
