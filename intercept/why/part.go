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

// Pair is the two ranks of a message.
type Pair struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Part is a time with one cause.
type Part struct {
	Cause  Cause  `json:"cause"`
	Link   string `json:"link,omitempty"`   // of the fabric, if it is about one
	Rank   string `json:"rank,omitempty"`   // if it is about one
	Behind string `json:"behind,omitempty"` // whose messages occupied the link, or the congested one
	// Congested is the link whose queue held the bytes for which a full window or a paused link waited.
	Congested string `json:"congested,omitempty"`
	Ns        int64  `json:"ns"` // of the fabric's clock, not divided by the time scale
	Between   Pair   `json:"-"`  // the ranks of these messages
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
		if p.Congested != "" {
			return fmt.Sprintf("%s paused by the full queue at %s behind %s", p.Link, p.Congested, p.Behind)
		}
		return p.Link + " paused by a full queue behind it"
	case Down:
		return p.Link + " was down"
	case Propagation:
		return "propagation"
	case Recovery:
		return "recovery of losses from " + p.Link
	case Window:
		if p.Congested != "" {
			return fmt.Sprintf("full window or send buffer: its bytes queue at %s behind %s", p.Congested, p.Behind)
		}
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

// Total is the time with one cause, of several parts.
type Total struct {
	Part
	By []Share `json:"by,omitempty"` // whose messages occupied the link, or the congested one, the largest first
}

// Share is how much of a time messages between two ranks have caused.
type Share struct {
	Pair
	Ns int64 `json:"ns"` // of the fabric's clock, not divided by the time scale
}

// Totals sums the parts with the same cause, links, rank and other side, the largest first.
func Totals(parts []Part) []Total {
	var out []Total
	at := map[Part]int{}
	by := map[Part]map[Pair]int64{}
	for _, p := range parts {
		key := p
		key.Ns, key.Between = 0, Pair{}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key], by[key] = i, map[Pair]int64{}
			out = append(out, Total{Part: key})
		}
		out[i].Ns += p.Ns
		if p.Between != (Pair{}) {
			by[key][p.Between] += p.Ns
		}
	}
	for i := range out {
		key := out[i].Part
		key.Ns = 0
		for pair, ns := range by[key] {
			out[i].By = append(out[i].By, Share{pair, ns})
		}
		slices.SortFunc(out[i].By, func(a, b Share) int {
			return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		})
	}
	out = slices.DeleteFunc(out, func(t Total) bool { return t.Ns == 0 })
	slices.SortFunc(out, func(a, b Total) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Link, b.Link),
			cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Behind, b.Behind), cmp.Compare(a.Congested, b.Congested))
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
