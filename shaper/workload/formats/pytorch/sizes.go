// SPDX-License-Identifier: Apache-2.0

package pytorch

import (
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Known tells whether the source says anything of the group.
func (g *Group) Known() bool { return g.Name != "" || g.Size > 0 || g.Ranks != nil }

// Annotated returns what the tensors of a call's annotation (nccl:...) are, of n elements together: what goes in, what comes
// out, or both; -1 is not known. ProcessGroupNCCL annotates a call with the first argument of collective(): the input, but
// for scatter and recv the output. The name must be set.
func (c *Call) Annotated(n int64) (in, out int64) {
	f, kind := c.function()
	switch {
	case f == workload.AllReduce || f == workload.Broadcast || f == workload.Reduce:
		return n, n
	case f == workload.Scatter || kind == workload.Recv:
		return -1, n
	}
	return n, -1
}

// GroupBySizes is the number of ranks that follows from what goes in and what comes out on a rank; 0 if it does not follow.
func (c *Call) GroupBySizes(in, out int64) int {
	part, whole := in, out
	switch f, _ := c.function(); f {
	case workload.AllGather:
	case workload.ReduceScatter:
		part, whole = out, in
	default:
		return 0
	}
	if part < 1 || whole < part || whole%part != 0 || whole/part > workload.MaxRanks {
		return 0
	}
	return int(whole / part)
}

// Parts is a list of the sizes of the parts of an all-to-all.
type Parts struct {
	Sizes []int64
	Cut   bool // the end is left out: PyTorch writes 30 into the traces of its profiler
}

// ParseParts reads a list such as "[4, 0]" or, if it is cut, "[4, 0, ...]".
func ParseParts(text string) Parts {
	text = strings.Trim(strings.TrimSpace(text), "[]")
	shown := strings.TrimRight(text, ". ,")
	p := Parts{Sizes: ParseList(shown), Cut: shown != strings.TrimSpace(text)}
	p.Cut = p.Cut && p.Sizes != nil
	return p
}

// CompleteParts completes the parts of an all-to-all of n ranks. taken says that cut lists are taken to go on as they begin,
// with equal parts, which the numbers of elements allow and do not prove. If the parts stay unknown, [Call.Op] says that
// they differ.
func (c *Call) CompleteParts(n int) (taken bool) {
	if f, _ := c.function(); f != workload.AllToAll || !c.InSplit.Cut && !c.OutSplit.Cut {
		return false
	}
	row := c.row()
	in, inTaken, inKnown := c.InSplit.complete(c.In, row, n)
	out, outTaken, outKnown := c.OutSplit.complete(c.Out, row, n)
	if !inKnown || !outKnown {
		c.PartsUnknown = true
		return false
	}
	c.InSplit, c.OutSplit = in, out
	return inTaken || outTaken
}

// row is the number of elements that a part counts as one; 0 if it is not known.
func (c *Call) row() int64 {
	for _, side := range []struct {
		parts    Parts
		elements int64
	}{{c.InSplit, c.In}, {c.OutSplit, c.Out}} {
		if sum := total(side.parts.Sizes); !side.parts.Cut && sum > 0 && side.elements%sum == 0 {
			return side.elements / sum
		}
	}
	return c.Row
}

// complete returns the list with n parts of so many elements together.
func (p Parts) complete(elements, row int64, n int) (whole Parts, taken, known bool) {
	missing := n - len(p.Sizes)
	switch {
	case !p.Cut:
		return p, false, true
	case missing < 1:
		return p, false, false
	}
	rest := int64(-1)
	if row > 0 && elements%row == 0 {
		rest = elements/row - total(p.Sizes)
	}
	fill := func(size int64) Parts {
		return Parts{Sizes: append(slices.Clone(p.Sizes), slices.Repeat([]int64{size}, missing)...)}
	}
	first := p.Sizes[0]
	switch {
	case rest == 0, rest > 0 && missing == 1:
		return fill(rest), false, true
	case first > 0 && uniform(p.Sizes) && (rest < 0 && row == 0 && elements%(first*int64(n)) == 0 || rest == first*int64(missing)):
		return fill(first), true, true
	}
	return p, false, false
}

// EvenRanks reads a list of n ranks that is cut, such as "[0, 4, ...]", if the distance of those that are shown is the same.
// It returns nil if it is not.
func EvenRanks(list string, n int64) workload.Ranks {
	p := ParseParts(list)
	if !p.Cut || len(p.Sizes) < 2 || int64(len(p.Sizes)) >= n {
		return nil
	}
	first, stride := p.Sizes[0], p.Sizes[1]-p.Sizes[0]
	whole := ParseRanks("", first, stride, n)
	for i, r := range p.Sizes {
		if whole == nil || int64(whole[i]) != r {
			return nil
		}
	}
	return whole
}
