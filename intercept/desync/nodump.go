// SPDX-License-Identifier: Apache-2.0

package desync

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec"
)

// Shared is what the ranks with a dump did last in a group that has a rank without one. A hang that such a rank causes
// may show nowhere else: its own dump would say which call it has not made.
type Shared struct {
	flightrec.GroupName
	Ranks  Ranks        `json:"ranks"`      // of the group
	NoDump Ranks        `json:"no_dump"`    // those of them without a dump
	Last   []LastShared `json:"last_calls"` // one for each different call
}

// LastShared is the last call in a group, of the ranks for which it is the same.
type LastShared struct {
	Ranks    Ranks  `json:"ranks"`
	Function string `json:"function"` // "" if the dumps of the ranks have no call of the group
	Sequence uint32 `json:"sequence"`
	State    string `json:"state"` // as in Last
	Where    string `json:"where,omitempty"`
}

// shared is what the ranks with a dump did last in the group; ok is false if the group has no rank without a dump, or
// none of those with one has called it.
func (x *examiner) shared() (s Shared, ok bool) {
	called := false
	s = Shared{GroupName: x.group.GroupName, Ranks: Ranks(x.group.Ranks)}
	for _, rank := range x.group.Ranks {
		d := x.dumps[rank]
		if d == nil {
			s.NoDump = append(s.NoDump, rank)
			continue
		}
		l := x.lastOf(rank, d)
		called = called || l.Function != ""
		same := func(o LastShared) bool {
			return o.Function == l.Function && o.Sequence == l.Sequence && o.State == l.State && o.Where == l.Where
		}
		if i := slices.IndexFunc(s.Last, same); i >= 0 {
			s.Last[i].Ranks = append(s.Last[i].Ranks, rank)
			continue
		}
		l.Ranks = Ranks{rank}
		s.Last = append(s.Last, l)
	}
	return s, len(s.NoDump) > 0 && called
}

// lastOf is the last call of a rank in the group.
func (x *examiner) lastOf(rank int, d *flightrec.Dump) (l LastShared) {
	calls := x.group.Calls[rank]
	if len(calls) == 0 {
		return l
	}
	e := calls[len(calls)-1].End(d)
	l.Function, l.Sequence, l.State, l.Where = e.Func.String(), sequence(e), state(d, e), where(e)
	return l
}
