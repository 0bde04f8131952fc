// SPDX-License-Identifier: Apache-2.0

// Package why says where the time of each collective went: along its critical path, from the call to its
// last byte, every nanosecond has one cause.
package why

import (
	"cmp"
	"fmt"
	"slices"
)

// Cause is why time passed.
type Cause string

// The causes.
const (
	// the rank had nothing to send yet: its GPU, or what stands for it, or its program
	NotReady Cause = "not ready"
	LateCall Cause = "late call" // the rank had not begun this collective yet
	// NCCL finishes one call on a channel before the next: an earlier one was not complete
	Busy        Cause = "busy"
	Receive     Cause = "receive"      // the receive was not posted yet
	Serialize   Cause = "serializing"  // the message's own bytes occupied the link
	Queue       Cause = "queueing"     // other messages occupied the link
	Paused      Cause = "paused"       // a full queue behind the link held it back
	Down        Cause = "link down"    // the link was down
	Propagation Cause = "propagation"  // the latency of links, of acknowledgements and of clear-to-send too
	Recovery    Cause = "recovery"     // losses: until the packets were sent again
	Window      Cause = "window"       // tcp's send buffer, receive window or congestion window was full
	Host        Cause = "host"         // what the emulated hosts cost: overheads, copies
	Stall       Cause = "stalled"      // real clock: NCCL's thread did not run
	Late        Cause = "emulator"     // real clock: the bytes were there later than in the model
	Unexplained Cause = "not recorded" // the model does not have it: traffic without a ledger, or steps that were late
)

// Part is a time with one cause.
type Part struct {
	Cause  Cause  `json:"cause"`
	Link   string `json:"link,omitempty"`   // of the fabric, if it is about one
	Rank   string `json:"rank,omitempty"`   // if it is about one
	Behind string `json:"behind,omitempty"` // whose messages occupied the link
	Ns     int64  `json:"ns"`               // of the fabric's clock, not divided by the time scale
}

// String says the cause in a phrase.
func (p Part) String() string {
	switch p.Cause {
	case NotReady:
		return p.Rank + " had nothing ready to send"
	case LateCall:
		return p.Rank + " began the call late"
	case Busy:
		return fmt.Sprintf("a channel of %s still carried %s", p.Rank, p.Behind)
	case Receive:
		return "waiting until " + p.Rank + " posted its receive"
	case Serialize:
		return "serializing on " + p.Link
	case Queue:
		return fmt.Sprintf("queueing on %s behind %s", p.Link, p.Behind)
	case Paused:
		return p.Link + " paused by a full queue behind it"
	case Down:
		return p.Link + " was down"
	case Propagation:
		return "propagation"
	case Recovery:
		return "recovery of losses from " + p.Link
	case Window:
		return "full window or send buffer"
	case Host:
		return "cost of the emulated hosts"
	case Stall:
		return p.Rank + "'s thread of NCCL did not run"
	case Late:
		return "the emulator was late at " + p.Rank
	}
	return "not explained by the recorded messages"
}

// Merged sums the parts with the same cause, link, rank and other side, the largest first.
func Merged(parts []Part) []Part {
	sums := map[Part]int64{}
	for _, p := range parts {
		ns := p.Ns
		p.Ns = 0
		sums[p] += ns
	}
	out := make([]Part, 0, len(sums))
	for p, ns := range sums {
		if ns != 0 {
			p.Ns = ns
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Link, b.Link),
			cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Behind, b.Behind))
	})
	return out
}

// Sum is the time of all parts.
func Sum(parts []Part) (ns int64) {
	for _, p := range parts {
		ns += p.Ns
	}
	return ns
}
