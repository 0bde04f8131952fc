// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/wakes"
)

// takeTurns plays as a virtual clock does. At each time all steps are made, then all ends act, then their posts are read
// in turn: the first one of each flow, then the second ones. Flows take turns by their NICs (flow_order in shaper/engine/clock/clock.h).
func takeTurns(players []player, next []int64, until int64) {
	order := make([]*player, len(players))
	for i := range players {
		order[i] = &players[i]
		order[i].next = next[i]
	}
	slices.SortStableFunc(order, func(a, b *player) int {
		return cmp.Or(cmp.Compare(a.Src, b.Src), wakes.ByDistance(a.Src, a.Dst, b.Dst))
	})
	for now := slices.Min(next); now <= until; {
		var due []*player
		for _, p := range order {
			if p.next <= now {
				due = append(due, p)
			}
		}
		playAt(due, now)
		now = slices.MinFunc(order, func(a, b *player) int { return cmp.Compare(a.next, b.next) }).next
	}
}

// playAt does all that players do at one time, and sets when they go on.
func playAt(players []*player, now int64) {
	for _, p := range players {
		p.step = p.flow.Advance(now)
	}
	for moved := true; moved; {
		moved = false
		for _, p := range players {
			p.next = p.step
			p.acted = p.take(now, &p.next)
			moved = moved || p.acted
		}
		moved = postInTurn(players, now) || moved
	}
	for _, p := range players {
		p.next = max(p.next, now+1)
	}
}

// postInTurn lets the players post what they can, one message each in turn. A flow of which an end has done something
// else makes its steps with the first messages.
func postInTurn(players []*player, now int64) (posted bool) {
	for first, more := true, true; more; first = false {
		more = false
		for _, p := range players {
			switch {
			case p.post(now, &p.next):
				more, posted = true, true
				p.step = p.flow.Advance(now)
			case first && p.acted:
				p.step = p.flow.Advance(now)
			}
		}
	}
	return posted
}
