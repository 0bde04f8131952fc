// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"
	"sort"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Replayed is messages that were played again as they were posted, and what each of their segments did.
type Replayed struct {
	Trace  *messages.Trace
	Fabric *Fabric
	*Recorded
	*Result
	paths     [][]link.PathHop // of each flow
	byMessage grouped          // indices in HopRecords, by message of the trace
	byHop     grouped          // by hop of the fabric, in the order of their starts
}

// Play plays all messages of a trace again as they were posted.
func Play(f *Fabric, t *messages.Trace) (*Replayed, error) {
	p := &Replayed{Trace: t, Fabric: f, Recorded: Prepare(t)}
	var err error
	if p.Result, err = AsPosted(f, t, p.Recorded); err != nil {
		return nil, err
	}
	for _, flow := range p.Flows {
		p.paths = append(p.paths, f.FlowPath(flow.Src, flow.Dst, flow.Path))
	}
	p.byMessage = group(len(p.HopRecords), len(t.Messages), func(i int) int { return p.MessageOf(&p.HopRecords[i]) })
	p.byHop = group(len(p.HopRecords), len(f.Hops), func(i int) int { return p.HopOf(&p.HopRecords[i]) })
	for h := range f.Hops {
		all := p.byHop.of(h)
		sort.SliceStable(all, func(a, b int) bool { return p.HopRecords[all[a]].Start < p.HopRecords[all[b]].Start })
	}
	return p, nil
}

// MessageOf is the place of a record's message in the trace.
func (p *Replayed) MessageOf(x *link.HopRecord) int { return p.Messages[x.Flow][x.Msg] }

// HopOf is the hop of the fabric that a record is about.
func (p *Replayed) HopOf(x *link.HopRecord) int { return p.paths[x.Flow][x.Hop].Hop }

// PathOf is the hops that the segment of a record crosses.
func (p *Replayed) PathOf(x *link.HopRecord) []link.PathHop { return p.paths[x.Flow] }

// Path is the hops that message i crosses. The message must be played.
func (p *Replayed) Path(i int) []link.PathHop { return p.paths[p.FlowOf[i]] }

// OfMessage is the indices in HopRecords of what the segments of message i did, in the order of their steps.
func (p *Replayed) OfMessage(i int) []int32 { return p.byMessage.of(i) }

// OnHop is the indices in HopRecords of what segments did on a hop of the fabric, in the order of their starts.
func (p *Replayed) OnHop(hop int) []int32 { return p.byHop.of(hop) }

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
