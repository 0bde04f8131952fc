// SPDX-License-Identifier: Apache-2.0

package pytorch

import (
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Known tells whether the source says anything of the group.
func (g *Group) Known() bool { return g.Name != "" || g.Size > 0 || g.Ranks != nil }

// Annotated returns what the tensors of a call's annotation (nccl:...) are, of n elements together: what goes in, what
// comes out, or both; -1 is not known. ProcessGroupNCCL annotates a call with the first argument of collective(): the
// input, but for scatter and recv the output. The name must be set.
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

// GroupBySizes is the number of ranks that follows from what goes in and what comes out on a rank; 0 if it does not
// follow.
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

// ParseParts reads a list such as "[4, 0]" or, if it is cut, "[4, 0, ...]".
func ParseParts(text string) (sizes []int64, cut bool) {
	text = strings.Trim(strings.TrimSpace(text), "[]")
	shown := strings.TrimRight(text, ". ,")
	sizes = ParseList(shown)
	return sizes, sizes != nil && shown != strings.TrimSpace(text)
}

// CompleteParts completes the parts of an all-to-all of n ranks. taken says that cut lists are taken to go on as they
// begin, with equal parts, which the numbers of elements allow and do not prove. If the parts stay unknown, [Call.Op]
// says that they differ.
func (c *Call) CompleteParts(n int) (taken bool) {
	if f, _ := c.function(); f != workload.AllToAll || !c.InCut && !c.OutCut {
		return false
	}
	row := c.row()
	in, inTaken, inKnown := completed(c.InSplit, c.InCut, c.In, row, n)
	out, outTaken, outKnown := completed(c.OutSplit, c.OutCut, c.Out, row, n)
	if !inKnown || !outKnown {
		c.PartsUnknown = true
		return false
	}
	c.InSplit, c.OutSplit, c.InCut, c.OutCut = in, out, false, false
	return inTaken || outTaken
}

// row is the number of elements that a part counts as one; 0 if it is not known.
func (c *Call) row() int64 {
	for _, side := range []struct {
		parts    []int64
		cut      bool
		elements int64
	}{{c.InSplit, c.InCut, c.In}, {c.OutSplit, c.OutCut, c.Out}} {
		if sum := total(side.parts); !side.cut && sum > 0 && side.elements%sum == 0 {
			return side.elements / sum
		}
	}
	return c.Row
}

// completed returns a list with n parts of so many elements together.
func completed(parts []int64, cut bool, elements, row int64, n int) (whole []int64, taken, known bool) {
	missing := n - len(parts)
	switch {
	case !cut:
		return parts, false, true
	case missing < 1:
		return parts, false, false
	}
	rest := int64(-1)
	if row > 0 && elements%row == 0 {
		rest = elements/row - total(parts)
	}
	fill := func(size int64) []int64 { return append(slices.Clone(parts), slices.Repeat([]int64{size}, missing)...) }
	first := parts[0]
	switch {
	case rest == 0, rest > 0 && missing == 1:
		return fill(rest), false, true
	case first > 0 && uniform(parts) && (rest < 0 && row == 0 && elements%(first*int64(n)) == 0 ||
		rest == first*int64(missing)):
		return fill(first), true, true
	}
	return parts, false, false
}

// EvenRanks reads a list of n ranks that is cut, such as "[0, 4, ...]", if the distance of those that are shown is the
// same. It returns nil if it is not.
func EvenRanks(list string, n int64) workload.Ranks {
	shown, cut := ParseParts(list)
	if !cut || len(shown) < 2 || int64(len(shown)) >= n {
		return nil
	}
	first, stride := shown[0], shown[1]-shown[0]
	whole := ParseRanks("", first, stride, n)
	for i, r := range shown {
		if whole == nil || int64(whole[i]) != r {
			return nil
		}
	}
	return whole
}
