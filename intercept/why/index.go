// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// index finds what segments did: by message, and by hop and time.
type index struct {
	trace    *messages.Trace
	recorded *replay.Recorded
	result   *replay.Result
	fabric   *replay.Fabric
	paths    [][]link.PathHop // of each flow
	// Scaled by the fabric's time scale.
	params    []link.Params
	transport link.Transport

	byMessage grouped // places in result.Passes, by message of the trace
	byHop     grouped // by hop of the fabric, in the order of their starts
	longest   []int64 // the longest occupation of each hop
	// The messages that each rank has sent on each of NCCL's channels, by the time at which they were
	// complete for it.
	complete map[channel][]messages.At
}

// grouped is numbers in groups: those of group g are in all[first[g]:first[g+1]].
type grouped struct {
	first []int
	all   []int32
}

func (g *grouped) of(group int) []int32 { return g.all[g.first[group]:g.first[group+1]] }

// group puts the numbers 0 to n-1 into groups and keeps their order.
func group(n, groups int, of func(i int) int) grouped {
	g := grouped{first: make([]int, groups+1), all: make([]int32, n)}
	for i := range n {
		g.first[of(i)+1]++
	}
	for i := range groups {
		g.first[i+1] += g.first[i]
	}
	next := slices.Clone(g.first)
	for i := range n {
		k := of(i)
		g.all[next[k]] = int32(i)
		next[k]++
	}
	return g
}

func newIndex(f *replay.Fabric, t *messages.Trace, r *replay.Recorded, result *replay.Result) *index {
	x := &index{trace: t, recorded: r, result: result, fabric: f, longest: make([]int64, len(f.Hops))}
	for _, flow := range r.Flows {
		x.paths = append(x.paths, f.Path(flow.Src, flow.Dst))
	}
	passes := result.Passes
	x.byMessage = group(len(passes), len(t.Messages), func(i int) int { return x.messageOf(&passes[i]) })
	x.byHop = group(len(passes), len(f.Hops), func(i int) int { return x.hopOf(&passes[i]) })
	x.complete = completeOf(t)
	for h := range f.Hops {
		all := x.byHop.of(h)
		sort.SliceStable(all, func(a, b int) bool { return passes[all[a]].Start < passes[all[b]].Start })
		for _, i := range all {
			x.longest[h] = max(x.longest[h], passes[i].Dur)
		}
	}
	return x
}

// channel is one of NCCL's channels at a rank, or at a node; -1 for all of them.
type channel struct{ job, rank, number int }

func completeOf(t *messages.Trace) map[channel][]messages.At {
	all := map[channel][]messages.At{}
	for i := range t.Messages {
		if m := &t.Messages[i]; m.Sent {
			key := channel{m.Job, m.Sender, m.Channel}
			all[key] = append(all[key], messages.At{Time: max(m.Complete, m.Posted), Message: i})
		}
	}
	for _, sent := range all {
		sortByTime(sent)
	}
	return all
}

func sortByTime(all []messages.At) {
	slices.SortFunc(all, func(a, b messages.At) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Message, b.Message))
	})
}

// messageOf is the place of a pass's message in the trace.
func (x *index) messageOf(p *link.Pass) int { return x.recorded.Messages[p.Flow][p.Msg] }

// hopOf is the hop of the fabric that a pass is about.
func (x *index) hopOf(p *link.Pass) int { return x.paths[p.Flow][p.Hop].Hop }

// occupied calls do for each part of [from, to) in which a segment occupied the hop, in order.
func (x *index) occupied(hop int, from, to int64, do func(p *link.Pass, from, to int64)) {
	all, passes := x.byHop.of(hop), x.result.Passes
	first := sort.Search(len(all), func(i int) bool { return passes[all[i]].Start > from-x.longest[hop]-1 })
	at := from
	for _, i := range all[first:] {
		p := &passes[i]
		if p.Start >= to {
			return
		}
		if begin, end := max(p.Start, at), min(p.Start+p.Dur, to); end > begin {
			do(p, begin, end)
			at = end
		}
	}
}

// isDown says whether a hop was down at a time.
func (x *index) isDown(hop int, at int64) bool {
	down := x.fabric.Hops[hop].Spec.Down
	for _, c := range x.fabric.Changes {
		if c.Time > at {
			break
		}
		if c.Hop == hop {
			down = c.Spec.Down
		}
	}
	return down
}
