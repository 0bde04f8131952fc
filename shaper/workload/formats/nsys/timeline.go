// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// idle is the gap in ns after which a stream counts as idle: kernels that are launched back to back follow within it.
const idle = 3000

// moment is a point of the timeline of a rank: a call is ready, or the computation waits for calls.
type moment struct {
	at    int64
	from  int64   // when the computation began to wait
	call  *unit   // that is ready
	sure  int64   // the earliest time at which it may have been ready
	joins []*unit // that the computation waits for
}

// moments are the moments of a rank, in order. A call without a kernel is ready when the host calls it.
func (m *member) moments(left *counts) []moment {
	var out []moment
	list := slices.Clone(m.all)
	for _, u := range list {
		if !u.hasKernel() {
			u.start, u.end = u.called, u.returned
		}
	}
	slices.SortStableFunc(list, func(a, b *unit) int { return cmp.Compare(a.start, b.start) })
	type previous struct{ end, sure int64 }
	streams := map[int64]previous{}
	for _, u := range list {
		one := moment{at: u.start, call: u, sure: u.start}
		if u.hasKernel() {
			if before, ok := streams[u.stream]; ok && u.start-before.end < idle {
				one.sure = max(before.sure, min(u.start, u.called))
			}
			streams[u.stream] = previous{max(streams[u.stream].end, u.end), one.sure}
		}
		out = append(out, one)
	}
	out = append(out, m.joins(list, left)...)
	slices.SortStableFunc(out, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return out
}

// gap is a time in which the computation may have waited.
type gap struct {
	from, until int64
	correlation int64 // of the wait; math.MaxInt64 if it is not known
	stream      int64 // of the calls that are waited for; -1 for all
}

// joins are the moments at which the computation waited for calls: those that were launched before the wait and that
// ended before the next kernel began.
func (m *member) joins(list []*unit, left *counts) (out []moment) {
	gaps := m.waitGaps()
	if gaps == nil {
		gaps = idleGaps(m.recording.computes[m.process])
		left.idle = left.idle || len(gaps) > 0
	}
	var open []*unit  // not joined
	var ended []*unit // ended before a gap that was none of waiting: joined by the next one that is
	next := 0
	for _, g := range gaps {
		for ; next < len(list) && list[next].start < g.until; next++ {
			if list[next].hasKernel() {
				open = append(open, list[next])
			}
		}
		one := moment{from: g.from, at: g.from}
		waited := false
		open = slices.DeleteFunc(open, func(u *unit) bool {
			if u.end > g.until || u.correlation > g.correlation || g.stream >= 0 && u.stream != g.stream {
				return false
			}
			one.joins, one.at = append(one.joins, u), max(one.at, u.end)
			waited = waited || u.end > g.from
			return true
		})
		switch {
		case len(one.joins) == 0:
		case g.correlation == math.MaxInt64 && !waited: // the GPU was idle for another reason
			ended = append(ended, one.joins...)
		default:
			one.joins, ended = append(ended, one.joins...), nil
			out = append(out, one)
		}
	}
	return out
}

// waitGaps are the gaps before the next kernels of streams that wait for an event, or on which a call of NCCL ran. A
// stream of NCCL alone waits for the data of a call; it does not count. It is nil if no wait was recorded.
func (m *member) waitGaps() (gaps []gap) {
	waits := m.recording.waits[m.process]
	if len(waits) == 0 {
		return nil
	}
	byStream := map[int32][]span{}
	for _, s := range m.recording.computes[m.process] {
		byStream[s.stream] = append(byStream[s.stream], s)
	}
	for _, list := range byStream {
		slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.correlation, b.correlation) })
	}
	add := func(stream int32, correlation, of int64) {
		list := byStream[stream]
		at := sort.Search(len(list), func(i int) bool { return list[i].correlation > correlation })
		if at == len(list) {
			return
		}
		g := gap{from: list[at].start, until: list[at].start, correlation: correlation, stream: of}
		if at > 0 {
			g.from = min(list[at-1].end, g.until)
		}
		gaps = append(gaps, g)
	}
	for _, w := range waits {
		add(w.stream, w.correlation, -1)
	}
	for _, u := range m.all {
		if u.hasKernel() && u.stream >= 0 {
			add(int32(u.stream), u.correlation, u.stream)
		}
	}
	slices.SortStableFunc(gaps, func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.correlation, b.correlation))
	})
	return gaps
}

// idleGaps are the times in which no kernel ran.
func idleGaps(computes []span) (gaps []gap) {
	list := slices.Clone(computes)
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	end := int64(math.MinInt64)
	for i, s := range list {
		if i > 0 && s.start-end >= idle {
			gaps = append(gaps, gap{end, s.start, math.MaxInt64, -1})
		}
		end = max(end, s.end)
	}
	return gaps
}

// timeline is the operations of a member, from its first call on. It starts skew ns later than the first rank;
// negative if that is not known. made operations are already there.
func (j *job) timeline(at int, skew int64, made int) ([]workload.Op, error) {
	m := j.members[at]
	list := m.moments(&j.left)
	delete(m.recording.computes, m.process)
	t := &perrank.Timeline{Ops: make([]workload.Op, 0, j.options.Limit.Room(2*len(m.all)))}
	ids := map[*unit]int{}
	started := false
	for _, one := range list {
		if one.call == nil {
			if started && slices.ContainsFunc(one.joins, func(u *unit) bool { return ids[u] != 0 }) {
				t.Compute(one.from)
				for _, u := range one.joins {
					if id := ids[u]; id != 0 {
						t.Pending = append(t.Pending, id)
						delete(ids, u)
					}
				}
				t.Now = max(t.Now, one.at)
			}
			continue
		}
		o, err := j.operation(at, one.call)
		if err != nil || o == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if !started {
			started, t.Now = true, one.sure
			if skew > 0 {
				t.StartLater(skew)
			}
		}
		t.Compute(one.sure)
		if one.at > one.sure {
			j.left.bounded++
		}
		if !one.call.hasKernel() {
			j.left.hostOnly++
		}
		stream := fmt.Sprintf("stream %d", one.call.stream)
		if one.call.stream < 0 {
			stream = "communicator " + o.Comm
		}
		ids[one.call] = t.Call(*o, stream, one.at-one.sure)
		if err := j.options.Limit.Check(made + len(t.Ops)); err != nil {
			return nil, err
		}
		if !one.call.hasKernel() { // the host was busy with the call
			t.Now = max(t.Now, one.call.returned)
		}
	}
	return t.Ops, nil
}
