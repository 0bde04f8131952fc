// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// minSamples is how few messages still make a rate.
const minSamples = 8

// pace is how fast messages of a set of flows came through, in bytes per ns.
type pace struct {
	got  float64 // on the clock; 0 if there were too few
	want float64 // the same messages in the model, posted as they were
	free float64 // and posted by somebody who is never late; 0 if not known
}

// paceOf is the pace of messages on flows that were measured together; due are the times
// at which the model has them visible, given when they were posted; free, which may be
// nil, those if they had been posted as soon as there was room.
//
// It is taken between two messages that were as little late as any, one of the first
// and one of the last third: a thread that lost its processor sees some late, and what
// it sees in time afterwards shows that nothing was lost by that. A host that is too
// slow sees all of them later and later. Left out are the first eighth, in which queues
// fill, what came after the last post, when they empty, and what came before or after a
// time with nothing in flight: a sender that lost its processor posts nothing, which is
// not the fabric's doing.
func paceOf(flows []Flow, traces, due, free []Trace) pace {
	times := merge(flows, traces, due)
	skipped := len(times) / 8
	times = times[skipped:]
	if len(times) < minSamples {
		return pace{}
	}
	if from, run := longestRun(times); 4*len(run) >= len(times) && len(run) >= minSamples {
		times, skipped = run, skipped+from
	}
	third := len(times) / 3
	i, j := inTime(times, 0, third), inTime(times, len(times)-third, len(times))
	p := pace{got: between(times[i].visible, times[j].visible), want: between(times[i].due, times[j].due)}
	if order := arrivals(flows, free); skipped+j < len(order) {
		p.free = between(order[skipped+i], order[skipped+j])
	}
	return p
}

// throughout is the rate, in bytes per ns, of messages of size bytes in the time d from
// the first post on.
func throughout(size int, t Trace, d time.Duration) float64 {
	n := 0
	for _, at := range t.Visible {
		if at <= t.Posted[0]+int64(d) {
			n++
		}
	}
	return float64(n*size) / float64(d)
}

// off is by how many percent got is off want; -100 if nothing came through where the
// model has nothing to compare it with.
func off(got, want float64) float64 {
	if want == 0 {
		return -100
	}
	return 100 * (got/want - 1)
}

// between is the rate of what arrived after a up to b.
func between(a, b arrival) float64 { return float64(b.bytes-a.bytes) / float64(max(b.at-a.at, 1)) }

// arrivals puts the visible times of all flows in order.
func arrivals(flows []Flow, traces []Trace) []arrival {
	var all []arrival
	for f, t := range traces {
		for _, at := range t.Visible {
			all = append(all, arrival{at, int64(flows[f].Size)})
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(all); i++ {
		all[i].bytes += all[i-1].bytes
	}
	return all
}

// arrival is a message's, and the bytes of all that arrived up to then.
type arrival struct{ at, bytes int64 }

// message is one of several flows': the nth that was visible, and the nth that was due.
type message struct {
	visible, due arrival
	idle         bool // nothing was in flight in the model before it was posted
}

func (m *message) late() int64 { return m.visible.at - m.due.at }

// merge puts the messages of all flows in the order of their times.
func merge(flows []Flow, traces, due []Trace) []message {
	type span struct {
		posted int64
		arrival
	}
	var spans []span
	var visible []arrival
	last := int64(math.MinInt64)
	for _, t := range traces {
		for _, at := range t.Posted {
			last = max(last, at)
		}
	}
	for f, t := range traces {
		for i := range min(len(t.Visible), len(due[f].Visible)) {
			if due[f].Visible[i] <= last {
				visible = append(visible, arrival{t.Visible[i], int64(flows[f].Size)})
				spans = append(spans, span{t.Posted[i], arrival{due[f].Visible[i], int64(flows[f].Size)}})
			}
		}
	}
	slices.SortFunc(visible, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	out := make([]message, len(visible))
	for i := range out {
		out[i] = message{visible: visible[i], due: spans[i].arrival, idle: i > 0 && spans[i].posted > spans[i-1].at}
		if i > 0 {
			out[i].visible.bytes += out[i-1].visible.bytes
			out[i].due.bytes += out[i-1].due.bytes
		}
	}
	return out
}

// longestRun is the most messages in a row with none before which nothing was in flight,
// and where they begin.
func longestRun(times []message) (first int, best []message) {
	from := 0
	for i := range times {
		if times[i].idle {
			from = i
		}
		if i+1-from > len(best) {
			first, best = from, times[from:i+1]
		}
	}
	return first, best
}

// inTime is the message of times[from:to] that was least late.
func inTime(times []message, from, to int) int {
	best := from
	for i := from; i < to; i++ {
		if times[i].late() < times[best].late() {
			best = i
		}
	}
	return best
}

// quantile is that of sorted values, between two neighbours in proportion.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + (sorted[j]-sorted[i])*(at-float64(i))
}

// share is the part of sorted values that are at most x.
func share(sorted []float64, x float64) float64 {
	n, _ := slices.BinarySearchFunc(sorted, x, func(v, x float64) int {
		if v <= x {
			return -1
		}
		return 1
	})
	return float64(n) / float64(len(sorted))
}

// unlikely is the chance at which a sound emulator is taken for a broken one by one
// test of what is drawn at random.
const unlikely = 1e-5

// distance is how far the distribution of what was measured lies outside that of asked
// when each value may be off by the tolerance: the one-sided distances of Kolmogorov and
// Smirnov from asked shifted in either direction. Each value is known to be between one of least
// and the same one of most. All are sorted.
func distance(least, most, asked []float64, tolerance float64) float64 {
	worst, n := 0.0, float64(len(least))
	for i := range least {
		late := share(asked, least[i]-tolerance) - float64(i)/n
		early := float64(i+1)/n - share(asked, most[i]+tolerance)
		worst = max(worst, late, early)
	}
	return worst
}

// criticalDistance is the one that n draws exceed with the chance unlikely, by the
// limit of the distribution (Smirnov 1939).
func criticalDistance(n int) float64 {
	return math.Sqrt(-math.Log(unlikely/2) / 2 / float64(n))
}

// plausible says whether so many losses are when expected are expected, and each comes
// with cluster-1 others. The count of clusters is taken to be Poisson's.
func plausible(losses, expected, cluster float64) bool {
	if expected == 0 {
		return losses == 0
	}
	p := distuv.Poisson{Lambda: expected / cluster}
	k := math.Floor(losses / cluster)
	return p.CDF(k) > unlikely/2 && (k == 0 || 1-p.CDF(k-1) > unlikely/2)
}
