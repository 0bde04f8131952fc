// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"cmp"
	"slices"
)

// Pair sums the messages from one rank to another. Times are ns of the fabric's clock, already
// multiplied by the time scale, of the messages that both ends have got back.
type Pair struct {
	Sender, Receiver int // ranks, -1 if unknown
	Messages         int
	Bytes, Largest   uint64
	Whole            int   // messages that both ends have got back
	Transfer         int64 // median time from the send's post to the last byte at the receiver, in the model
	LongestTransfer  int64
	ReceiveAfter     int64 // median time from the send's post to the receive's; negative if the receive was first
	MostLate         int64 // of the bytes, behind the model
}

// Pairs sums the messages by sender and receiver, in the order of ranks.
func (t *Trace) Pairs() []Pair {
	type ranks struct{ sender, receiver int }
	by := map[ranks][]*Message{}
	for i := range t.Messages {
		m := &t.Messages[i]
		r := ranks{m.Sender, m.Receiver}
		by[r] = append(by[r], m)
	}
	var pairs []Pair
	for r, all := range by {
		pairs = append(pairs, pair(r.sender, r.receiver, all))
	}
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Sender, b.Sender), cmp.Compare(a.Receiver, b.Receiver))
	})
	return pairs
}

func pair(sender, receiver int, all []*Message) Pair {
	p := Pair{Sender: sender, Receiver: receiver, Messages: len(all)}
	var transfers, after []int64
	for _, m := range all {
		p.Bytes += m.Size
		p.Largest = max(p.Largest, m.Size)
		p.MostLate = max(p.MostLate, m.Late)
		if m.IsWhole() {
			transfers = append(transfers, m.Due-m.Posted)
			after = append(after, m.ReceivePosted-m.Posted)
		}
	}
	if p.Whole = len(transfers); p.Whole > 0 {
		slices.Sort(transfers)
		slices.Sort(after)
		p.Transfer, p.LongestTransfer, p.ReceiveAfter = transfers[p.Whole/2], transfers[p.Whole-1], after[p.Whole/2]
	}
	return p
}

// Whole counts the messages that both ends have got back.
func (t *Trace) Whole() int {
	n := 0
	for i := range t.Messages {
		if t.Messages[i].IsWhole() {
			n++
		}
	}
	return n
}
