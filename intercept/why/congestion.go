// SPDX-License-Identifier: Apache-2.0

package why

import (
	"sort"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// congestion gives the time up to t, in which message i waited for bytes that wait at the congested hop, to a cause,
// and to the messages that occupied the hop meanwhile. While none did, or if the hop is -1, it is the cause alone.
func (x *index) congestion(l *timeline, i, congested int, t int64, cause Part) {
	if congested >= 0 {
		x.occupied(congested, l.at, t, func(p *link.HopRecord, from, to int64) {
			l.to(from, cause)
			filled := cause
			filled.Congested, filled.Behind = x.Fabric.HopName(congested), "this message's own bytes"
			if other := x.MessageOf(p); other != i {
				filled.Behind, filled.Between = x.behind(i, other), x.between(other)
			} else {
				filled.Between = x.between(i)
			}
			l.to(to, filled)
		})
	}
	l.to(t, cause)
}

// windowQueue is the hop at which bytes of message i's connection waited most from one time to another; -1 if none did:
// then they were on their way, and their acknowledgements.
func (x *index) windowQueue(i int, from, to int64) int {
	flow := uint32(x.FlowOf[i])
	return x.longestQueue(i, 0, from, to, func(p *link.HopRecord) bool { return p.Flow == flow })
}

// bufferQueue is the hop behind a paused one at which the bytes that fill its buffer waited most from one time to
// another: all that came over the paused hop, or, if each flow has a queue of its own, the bytes of message i's
// connection. It is -1 if none did. The time begins with the segment before on the paused hop: how long that one waits
// is what the model reserves buffer for.
func (x *index) bufferQueue(i, paused int, from, to int64) int {
	path := x.Path(i)
	place := 0
	for path[place].Hop != paused {
		place++
	}
	before := x.OnHop(paused)
	if n := sort.Search(len(before), func(k int) bool { return x.HopRecords[before[k]].Start >= from }); n > 0 {
		from = x.HopRecords[before[n-1]].Start
	}
	flow := uint32(x.FlowOf[i])
	return x.longestQueue(i, place+1, from, to, func(p *link.HopRecord) bool {
		if x.params[x.HopOf(p)].Queue.Policy == link.Fair {
			return p.Flow == flow
		}
		for _, step := range x.PathOf(p)[:p.Hop] {
			if step.Hop == paused {
				return true
			}
		}
		return false
	})
}

// longestQueue is the hop of message i's path, from a place on, at which the bytes that count waited most, all segments
// together; -1 if none did.
func (x *index) longestQueue(i, place int, from, to int64, counts func(*link.HopRecord) bool) int {
	longest, hop := int64(0), -1
	for _, step := range x.Path(i)[place:] {
		all := x.OnHop(step.Hop)
		first := sort.Search(len(all), func(k int) bool { return x.HopRecords[all[k]].Start > from })
		waited := int64(0)
		for _, k := range all[first:] {
			p := &x.HopRecords[k]
			came := x.cameAt(k)
			if came >= to && p.Start >= to {
				break // a hop serves segments about in the order in which they come
			}
			if counts(p) {
				waited += max(0, min(p.Start, to)-max(came, from))
			}
		}
		if waited > longest {
			longest, hop = waited, step.Hop
		}
	}
	return hop
}

// cameAt is when a segment came to the hop of record k: when its first byte was there, or, at the first hop, when it
// could be sent.
func (x *index) cameAt(k int32) int64 {
	if x.came == nil { // many traces have no such waits
		x.came = make([]int64, len(x.HopRecords))
		for i := range x.Trace.Messages {
			next := map[uint32]int64{} // when each segment is at its next hop
			for _, k := range x.OfMessage(i) {
				p := &x.HopRecords[k]
				x.came[k] = p.Ready
				if at, ok := next[p.Segment]; ok && p.Hop > 0 {
					x.came[k] = at
				}
				next[p.Segment] = p.Next
			}
		}
	}
	return x.came[k]
}
