// SPDX-License-Identifier: Apache-2.0

// Package desync says what the ranks of a job that hangs wait for, from the dumps of PyTorch's flight recorder: which
// ranks have not made a call that others have made, whose calls differ, and what the ranks did last.
package desync

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec"
)

// Report has the mistakes and the unfinished calls.
type Report struct {
	// the first of each group: those that are not right before those that only have not ended, the oldest first
	Calls    []Unmatched
	Messages []Message // sends and receives, in order of the groups and ranks
	Last     []Last    // the last call of each rank that is missing somewhere
	NoDump   Ranks
	Shared   []Shared // of the groups that have a rank without a dump
	Notes    []string
	Examined int // launches of all ranks
}

// Ranks are ranks of the job. In JSON they are a list of numbers.
type Ranks []int

func (r Ranks) String() string { return workload.Ranks(r).String() }

// MarshalJSON writes an empty list for nil.
func (r Ranks) MarshalJSON() ([]byte, error) { return json.Marshal(append([]int{}, r...)) }

// Unmatched is a collective that some ranks have not called, that differs between ranks, or that has not ended on all.
type Unmatched struct {
	flightrec.GroupName
	Ranks    Ranks  `json:"ranks"` // of the group
	Function string `json:"function"`
	Sequence uint32 `json:"sequence"`
	Tensors  string `json:"tensors"`         // what goes in, such as "Float [1024]"
	Where    string `json:"where,omitempty"` // the line of the program, of one rank that has called it; "" if not known
	Begun    Ranks  `json:"called"`          // those that have called it
	Missing  Ranks  `json:"not_called"`      // those that have not
	Waiting  Ranks  `json:"not_ended"`       // those that have called it, and where it has not ended
	TimedOut Ranks  `json:"given_up"`        // those that have given it up
	// those whose dump has no call of the group, because the recorder has overwritten older ones
	Unknown Ranks        `json:"overwritten"`
	NoDump  Ranks        `json:"no_dump"` // those of which no dump was given
	Differs []Difference `json:"differs"`
	Later   int          `json:"later_calls_pending"` // calls of the group after this one that are not finished either
	created int64
}

// Difference says how the call of a rank differs from the call of most others.
type Difference struct {
	Rank      int    `json:"rank"` // -1: all ranks together
	What      string `json:"what"` // function, type, elements or number of calls
	Has       string `json:"has"`
	OthersHas string `json:"others_have"`
}

// Last is the last call of a rank.
type Last struct {
	Rank     int
	Function string // "" if the rank has made no call
	Sequence uint32
	Group    flightrec.GroupName
	State    string // ended, given up, not ended, or its end is not recorded
	Where    string
	BeforeNs int64 // how long before the newest call of all dumps it was made, by the clocks of the hosts
}

// Of finds what the ranks of a job wait for.
func Of(j *flightrec.Job) *Report {
	r := &Report{}
	dumps := map[int]*flightrec.Dump{}
	for _, d := range j.Dumps {
		dumps[d.Rank] = d
	}
	missing := map[int]bool{}
	for _, g := range j.Groups {
		x := &examiner{Report: r, group: g, dumps: dumps}
		x.collectives()
		x.messages(missing)
		if s, ok := x.shared(); ok {
			r.Shared = append(r.Shared, s)
		}
		for _, calls := range g.Calls {
			r.Examined += len(calls)
		}
	}
	slices.SortStableFunc(r.Calls, func(a, b Unmatched) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.created, b.created))
	})
	for _, c := range r.Calls {
		for _, rank := range c.Missing {
			missing[rank] = true
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(missing)) {
		r.Last = append(r.Last, last(j, dumps[rank]))
	}
	for rank := range j.World {
		if dumps[rank] == nil {
			r.NoDump = append(r.NoDump, rank)
		}
	}
	r.Notes = notes(j)
	return r
}

// peerless is the number of sends and receives of a dump that do not say the other rank, as dumps of PyTorch 2.2.
func peerless(d *flightrec.Dump) (n int) {
	for i := range d.Len() {
		if f := d.At(i).Func; f.P2P() && min(f.From, f.To) < 0 {
			n++
		}
	}
	return n
}

// notes say what the dumps do not have.
func notes(j *flightrec.Job) (out []string) {
	gloo := false
	for _, d := range j.Dumps {
		switch {
		case d.Partial():
			out = append(out,
				fmt.Sprintf(
					"rank %d: calls in the middle are not in the dump: a call that has ended looks as if it was not "+
						"made", d.Rank))
		case d.Unread > 0:
			out = append(out, fmt.Sprintf("rank %d: %d entries were not understood", d.Rank, d.Unread))
		}
		for i := range d.Len() {
			gloo = gloo || d.At(i).Func.Library == "gloo"
		}
	}
	if gloo {
		out = append(out, "gloo records no sends and receives")
	}
	for _, d := range j.Dumps {
		if n := peerless(d); n > 0 {
			out = append(out,
				fmt.Sprintf("rank %d: %d sends and receives do not say the other rank: they are not compared", d.Rank,
					n))
		}
	}
	for _, g := range j.Groups {
		if g.Guessed {
			out = append(out, fmt.Sprintf("no dump lists the ranks of group %s: %s are taken", g.GroupName.String(),
				g.Ranks))
		}
	}
	return out
}

// last is the last call of a rank.
func last(j *flightrec.Job, d *flightrec.Dump) Last {
	l := Last{Rank: d.Rank}
	if d.Len() == 0 {
		return l
	}
	e := d.At(d.Len() - 1)
	l.Function, l.Group, l.Where = e.Func.String(), *e.Group, where(e)
	l.Sequence, l.State = sequence(e), state(d, e)
	l.BeforeNs = j.Newest() - e.Created
	return l
}

// sequence is the number of a call: of the group's collectives, or of the sends and receives of the pair.
func sequence(e *flightrec.Entry) uint32 {
	if e.IsP2P {
		return e.P2P
	}
	return e.Coll
}

// state says whether a call has ended.
func state(d *flightrec.Dump, e *flightrec.Entry) string {
	switch {
	case e.TimedOut():
		return "given up"
	case !e.EndRecorded():
		return "its end is not recorded"
	case d.Done(e):
		return "ended"
	}
	return "not ended"
}

func where(e *flightrec.Entry) string {
	if e.Where == nil {
		return ""
	}
	return *e.Where
}

// examiner examines one group.
type examiner struct {
	*Report
	group *flightrec.Group
	dumps map[int]*flightrec.Dump // by rank
}

// member is a rank of the group with a dump.
type member struct {
	rank int
	dump *flightrec.Dump
	last int64 // the number of its last collective, -1 if there is none
}

// collectives adds the first collective that is not right, and counts those after it.
func (x *examiner) collectives() {
	var members []member
	var noDump Ranks
	var lists [][]flightrec.Numbered
	comparable := true
	for _, rank := range x.group.Ranks {
		d := x.dumps[rank]
		if d == nil {
			noDump = append(noDump, rank)
			continue
		}
		m := member{rank: rank, dump: d, last: -1}
		list, doubtful := x.group.Collectives(d)
		comparable = comparable && !doubtful
		if n := len(list); n > 0 {
			m.last = int64(list[n-1].Number)
		}
		members, lists = append(members, m), append(lists, list)
	}
	if !comparable {
		x.Notes = append(x.Notes,
			fmt.Sprintf(
				"group %s: its collectives cannot be compared: their numbers count batches of sends and receives too, "+
					"and a recorder has overwritten calls",
				x.group.GroupName.String()))
		return
	}
	var first *Unmatched
	flightrec.EachNumber(lists, func(number uint32, launches []*flightrec.Launch) {
		switch c := x.call(members, number, launches); {
		case !c.wrong():
		case first != nil:
			first.Later++
		default:
			c.NoDump = noDump
			first = c
		}
	})
	if first != nil {
		x.Calls = append(x.Calls, *first)
	}
}

func (c *Unmatched) wrong() bool {
	return len(c.Missing)+len(c.Waiting)+len(c.TimedOut)+len(c.Differs) > 0
}

// order is 0 for a call that is not right, and 1 for one that has only not ended.
func (c *Unmatched) order() int {
	if len(c.Missing)+len(c.Differs) > 0 {
		return 0
	}
	return 1
}

// call is the collective of a number, with the launches of the members.
func (x *examiner) call(members []member, number uint32, launches []*flightrec.Launch) *Unmatched {
	c := &Unmatched{GroupName: x.group.GroupName, Ranks: Ranks(x.group.Ranks), Sequence: number, created: math.MaxInt64}
	var made []made
	for i, m := range members {
		l := launches[i]
		switch {
		case l == nil && m.last > int64(number):
			c.Begun = append(c.Begun, m.rank) // and it has made later calls
			continue
		case l == nil && m.last < 0 && m.dump.BeginsLate() > 0:
			c.Unknown = append(c.Unknown, m.rank)
			continue
		case l == nil:
			c.Missing = append(c.Missing, m.rank)
			continue
		}
		c.Begun = append(c.Begun, m.rank)
		made = append(made, newMade(m.rank, m.dump, l))
		e := m.dump.At(int(l.First))
		if c.created == math.MaxInt64 {
			c.Function, c.Tensors, c.Where = made[0].title, made[0].tensors, where(e)
		}
		c.created = min(c.created, e.Created)
		switch end := l.End(m.dump); {
		case end.TimedOut():
			c.TimedOut = append(c.TimedOut, m.rank)
		case !m.dump.Done(end):
			c.Waiting = append(c.Waiting, m.rank)
		}
	}
	c.Differs = differences(made, len(made) == len(x.group.Ranks))
	return c
}
