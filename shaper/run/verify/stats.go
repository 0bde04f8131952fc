// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// minSamples is the minimum number of messages for a rate.
const minSamples = 8

// pace is the rate of a set of flows in bytes per ns.
type pace struct {
	got   float64 // measured; 0 if there were too few messages
	want  float64 // of the same messages in the model, posted when they were
	ideal float64 // of messages posted as early as possible, in the model; 0 if not known
}

// paceOf is the rate of messages on flows that were measured together. due are the model's traces for the measured
// posts; ideal, which may be nil, those for posts as early as possible.
//
// The rate is measured between two messages: the least late one of the first third and the least late one of the last
// third. A thread that lost its processor sees some messages late; if later ones are in time, the fabric lost nothing
// by that. On a host that is too slow, lateness grows. Excluded are the first eighth, in which queues fill, what came
// after the last post, when they drain, and what came before or after a time with nothing in flight: then the sender
// did not run, which is not caused by the fabric.
func paceOf(flows []Flow, traces, due, ideal []Trace) pace {
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
	i, j := leastLate(times, 0, third), leastLate(times, len(times)-third, len(times))
	p := pace{got: between(times[i].visible, times[j].visible), want: between(times[i].due, times[j].due)}
	if order := arrivals(flows, ideal); skipped+j < len(order) {
		p.ideal = between(order[skipped+i], order[skipped+j])
	}
	return p
}

// meanRate is the rate in bytes per ns of messages of size bytes within d from the first post on.
func meanRate(size int, t Trace, d time.Duration) float64 {
	n := 0
	for _, at := range t.Visible {
		if at <= t.Posted[0]+int64(d) {
			n++
		}
	}
	return float64(n*size) / float64(d)
}

// deviation is the deviation of got from want in percent; -100 if nothing is expected.
func deviation(got, want float64) float64 {
	if want == 0 {
		return -100
	}
	return 100 * (got/want - 1)
}

// between is the rate of the bytes that arrived after a, up to b.
func between(a, b arrival) float64 { return float64(b.bytes-a.bytes) / float64(max(b.at-a.at, 1)) }

// arrivals are the visible times of all flows, sorted, with running sums of their bytes.
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

// arrival is the time of a message, and the bytes of all messages up to it.
type arrival struct{ at, bytes int64 }

// message pairs the nth message that was visible with the nth that was due, over several flows.
type message struct {
	visible, due arrival
	idle         bool // nothing was in flight in the model before it was posted
}

func (m *message) late() int64 { return m.visible.at - m.due.at }

// merge sorts the messages of all flows by their times.
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

// longestRun is the longest sequence of messages without an idle time before one of them, and the index of its first.
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

// leastLate is the index of the least late message of times[from:to].
func leastLate(times []message, from, to int) int {
	best := from
	for i := from; i < to; i++ {
		if times[i].late() < times[best].late() {
			best = i
		}
	}
	return best
}

// quantile is the quantile q of sorted values, interpolated linearly.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + (sorted[j]-sorted[i])*(at-float64(i))
}

// share is the fraction of sorted values that are at most x.
func share(sorted []float64, x float64) float64 {
	n, _ := slices.BinarySearchFunc(sorted, x, func(v, x float64) int {
		if v <= x {
			return -1
		}
		return 1
	})
	return float64(n) / float64(len(sorted))
}

// unlikely is the probability that one statistical test rejects a correct emulator.
const unlikely = 1e-5

// distance is the distance of Kolmogorov and Smirnov between the measured distribution and asked, beyond tolerance: the
// larger of the one-sided distances from asked shifted by tolerance up and down. Value i is between least[i] and
// most[i]. All are sorted.
func distance(least, most, asked []float64, tolerance float64) float64 {
	worst, n := 0.0, float64(len(least))
	for i := range least {
		late := share(asked, least[i]-tolerance) - float64(i)/n
		early := float64(i+1)/n - share(asked, most[i]+tolerance)
		worst = max(worst, late, early)
	}
	return worst
}

// criticalDistance is the distance that n samples exceed with probability unlikely, by the limit of the distribution
// (Smirnov 1939).
func criticalDistance(n int) float64 {
	return math.Sqrt(-math.Log(unlikely/2) / 2 / float64(n))
}

// plausible says whether a number of losses is plausible if expected losses are expected in clusters of the given size.
// The number of clusters is assumed to be Poisson distributed.
func plausible(losses, expected, cluster float64) bool {
	if expected == 0 {
		return losses == 0
	}
	p := distuv.Poisson{Lambda: expected / cluster}
	k := math.Floor(losses / cluster)
	return p.CDF(k) > unlikely/2 && (k == 0 || 1-p.CDF(k-1) > unlikely/2)
}
