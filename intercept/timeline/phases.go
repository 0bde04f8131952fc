// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// phaseKey is ranges that nest: those that one thread has pushed in one domain. Ranges that were started may
// overlap, so each takes a free lane.
type phaseKey struct {
	started bool
	pid     uint32
	thread  uint32
	domain  string
}

func (k phaseKey) String() string {
	text := "phases"
	switch {
	case k.started:
		text += ", of any thread"
	case k.thread != k.pid:
		text += fmt.Sprintf(", thread %d", k.thread)
	}
	if k.domain != "" {
		text += ", domain " + k.domain
	}
	return text
}

func keyOf(r *messages.Range) phaseKey {
	if r.Style == ledger.Started {
		return phaseKey{started: true, pid: r.PID, domain: r.Domain}
	}
	return phaseKey{pid: r.PID, thread: r.Thread, domain: r.Domain}
}

// compareKeys has the main thread first, and threads before ranges of any thread.
func compareKeys(a, b phaseKey) int {
	number := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.pid, b.pid), number(a.started)-number(b.started),
		number(a.thread != a.pid)-number(b.thread != b.pid), cmp.Compare(a.thread, b.thread),
		cmp.Compare(a.domain, b.domain))
}

// phasesOfRanks are the ranges of each rank, in the order of their begins.
func (d *drawing) phasesOfRanks() map[rankKey][]*messages.Range {
	out := map[rankKey][]*messages.Range{}
	for i := range d.Trace.Ranges {
		r := &d.Trace.Ranges[i]
		key := rankKey{r.Job, r.Owner}
		out[key] = append(out[key], r)
	}
	return out
}

// phases draws the ranges of one rank.
func (d *drawing) phases(group int, all []*messages.Range) {
	rows := map[phaseKey][]*messages.Range{}
	var keys []phaseKey
	for _, r := range all {
		key := keyOf(r)
		if rows[key] == nil {
			keys = append(keys, key)
		}
		rows[key] = append(rows[key], r)
	}
	slices.SortFunc(keys, compareKeys)
	for i, key := range keys {
		order := i - len(keys) // above the calls
		if key.started {
			d.overlapping(newLanes(d, group, key.String(), order), rows[key])
		} else {
			d.nested(d.track(group, key.String(), order), rows[key])
		}
	}
}

// nested draws ranges in each other, those in a range that is missing too.
func (d *drawing) nested(track int, all []*messages.Range) {
	var open []*messages.Range
	now := int64(0)
	end := func(has func(*messages.Range) bool) {
		for n := len(open); n > 0 && has(open[n-1]); n-- {
			now = max(now, d.endOf(open[n-1]))
			d.endPhase(track, open[n-1], now)
			open = open[:n-1]
		}
	}
	for _, r := range all {
		end(func(x *messages.Range) bool { return x.Depth >= r.Depth || d.endOf(x) < r.Begun })
		now = max(now, r.Begun)
		if r.Style == ledger.Mark {
			d.Instant(Event{Track: track, At: d.at(now), Name: nameOfRange(r)})
			continue
		}
		d.Begin(Event{Track: track, At: d.at(now), Name: nameOfRange(r)})
		open = append(open, r)
	}
	end(func(*messages.Range) bool { return true })
}

// overlapping draws ranges side by side.
func (d *drawing) overlapping(lanes *lanes, all []*messages.Range) {
	begin := int64(0)
	for _, r := range all {
		begin = max(begin, r.Begun) // they are in order, unless the ledger is damaged
		end := max(begin, d.endOf(r))
		lane := lanes.take(begin, end)
		d.Begin(Event{Track: lane, At: d.at(begin), Name: nameOfRange(r)})
		d.endPhase(lane, r, end)
	}
}

// endPhase draws the end of a range, at a time.
func (d *drawing) endPhase(track int, r *messages.Range, at int64) {
	if r.Ended == 0 {
		d.Instant(Event{Track: track, At: d.at(at), Name: "not ended"})
	}
	d.End(track, d.at(at))
}

// endOf is when a range ended, or the end of the trace.
func (d *drawing) endOf(r *messages.Range) int64 {
	if r.Ended == 0 {
		return max(d.last, r.Begun)
	}
	return r.Ended
}

func nameOfRange(r *messages.Range) string { return cmp.Or(r.Name, "range without a name") }
