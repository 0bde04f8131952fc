// SPDX-License-Identifier: Apache-2.0

package host

import "time"

// buckets is HOST_BUCKETS of poll.h.
const buckets = 128

// gaps is a histogram of the times between polls: number and total ns per bucket. Both may be weighted.
type gaps struct {
	count, total [buckets]float64
	max          time.Duration
}

// sum is the total time of all gaps in ns.
func (g *gaps) sum() float64 {
	all := 0.0
	for _, t := range g.total {
		all += t
	}
	return all
}

// delay is the quantile q of the time from a random moment to the next poll. A moment is in a gap with a probability
// proportional to the length of the gap, so the total time of long gaps counts, not their number. All gaps of a bucket
// are assumed to have the same length; they differ by up to a fifth.
func (g *gaps) delay(q float64) time.Duration {
	// The time that is more than x away from the next poll is the sum of gap - x over all gaps longer than x. Find the
	// x for which that is (1-q) of all time, starting with the longest gaps.
	want := (1 - q) * g.sum()
	var n, sum float64 // of the gaps longer than x
	for b := buckets - 1; b >= 0; b-- {
		if g.count[b] == 0 {
			continue
		}
		if gap := g.total[b] / g.count[b]; n > 0 && sum-n*gap >= want {
			break // x is at least this gap
		}
		n += g.count[b]
		sum += g.total[b]
	}
	if n == 0 {
		return 0
	}
	return time.Duration(max((sum-want)/n, 0))
}

// mixed is a histogram of time that consists of the fraction u of b and 1-u of a.
func mixed(a, b *gaps, u float64) *gaps {
	m := &gaps{max: max(a.max, b.max)}
	for _, part := range []struct {
		g     *gaps
		share float64
	}{{a, 1 - u}, {b, u}} {
		all := part.g.sum()
		if all == 0 {
			continue
		}
		for i := range m.count {
			m.count[i] += part.g.count[i] * part.share / all
			m.total[i] += part.g.total[i] * part.share / all
		}
	}
	return m
}

// Delay is the quantile q of the poll delay: the time from a random moment to the next poll, while each rank moves rate
// bytes per second.
func (h *Host) Delay(q, rate float64) time.Duration {
	u := 1.0
	if rate < h.Rate {
		u = rate / h.Rate
	}
	return mixed(&h.quiet, &h.busy, u).delay(q)
}

// Longest is the longest gap between two polls.
func (h *Host) Longest() time.Duration { return max(h.quiet.max, h.busy.max) }
