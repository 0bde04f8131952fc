// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// index finds what segments did by hop and time, and what ranks had sent.
type index struct {
	*replay.Replayed
	// Scaled by the fabric's time scale.
	params    []link.Params
	transport link.Transport

	last    int64   // the last time that the ledgers know
	longest []int64 // the longest occupation of each hop
	came    []int64 // see cameAt; nil until somebody asks
	// The messages that each rank has sent on each of NCCL's channels, by the time at which they were
	// complete for it.
	complete map[channel][]messages.At
}

func newIndex(p *replay.Replayed) *index {
	x := &index{Replayed: p, longest: make([]int64, len(p.Fabric.Hops)), complete: completeOf(p.Trace),
		last: p.Trace.Last()}
	for h := range p.Fabric.Hops {
		for _, i := range p.OnHop(h) {
			x.longest[h] = max(x.longest[h], p.HopRecords[i].Dur)
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

// occupied calls do for each part of [from, to) in which a segment occupied the hop, in order.
func (x *index) occupied(hop int, from, to int64, do func(p *link.HopRecord, from, to int64)) {
	all, records := x.OnHop(hop), x.HopRecords
	first := sort.Search(len(all), func(i int) bool { return records[all[i]].Start > from-x.longest[hop]-1 })
	at := from
	for _, i := range all[first:] {
		p := &records[i]
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
	_, down := x.Fabric.DownSince(hop, at)
	return down
}
