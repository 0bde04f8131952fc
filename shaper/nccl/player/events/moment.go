// SPDX-License-Identifier: Apache-2.0

package events

import "github.com/ddlemu/ddlemu/shaper/nccl/player"

// moment is something that happened in a simulation, with where the time since the start went along the chain of what
// it waited for last: at is the sum of spent. A moment never changes. All methods accept nil, for a simulation that
// does not keep moments.
type moment struct {
	at    int64
	spent player.Spent
}

// later is the moment that came last, a if both came at once. Either may be nil.
func later(a, b *moment) *moment {
	if a == nil || b != nil && b.at > a.at {
		return b
	}
	return a
}

// after is the moment so many ns later, which a part took.
func (m *moment) after(ns int64, p player.Part) *moment {
	if m == nil || ns <= 0 {
		return m
	}
	out := *m
	out.add(ns, p)
	return &out
}

// by is the moment at time t, the time up to which a part took. It is m if t has passed.
func (m *moment) by(t int64, p player.Part) *moment {
	if m == nil {
		return nil
	}
	return m.after(t-m.at, p)
}

func (m *moment) add(ns int64, p player.Part) {
	m.spent[p] += ns
	m.at += ns
}

// to gives the time up to t to a part; none if t has passed. It changes m, which nobody else has yet.
func (m *moment) to(t int64, p player.Part) {
	if t > m.at {
		m.add(t-m.at, p)
	}
}
