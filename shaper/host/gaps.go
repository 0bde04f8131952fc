// SPDX-License-Identifier: Apache-2.0

package host

import "time"

// buckets is HOST_BUCKETS of poll.h.
const buckets = 128

// gaps is a histogram of the time between polls: how many per bucket and how long
// together, in ns. Both may be weighted.
type gaps struct {
	count, total [buckets]float64
	max          time.Duration
}

// sum is the time that the gaps make up, in ns.
func (g *gaps) sum() float64 {
	all := 0.0
	for _, t := range g.total {
		all += t
	}
	return all
}

// delay is the quantile q of the time from a random moment to the next poll. A
// moment falls into a gap in proportion to the gap's length, and anywhere in it:
// what counts is not how many gaps are long but how much of the time they make up.
// Gaps of one bucket are taken for equally long, as they are but for a fifth.
func (g *gaps) delay(q float64) time.Duration {
	// The time that is further than x from the next poll is the sum over the gaps
	// longer than x of gap - x. Find the x where that is (1-q) of all time, from the
	// longest gaps down.
	want := (1 - q) * g.sum()
	var n, sum float64 // of the gaps longer than x
	for b := buckets - 1; b >= 0; b-- {
		if g.count[b] == 0 {
			continue
		}
		if gap := g.total[b] / g.count[b]; n > 0 && sum-n*gap >= want {
			break // x is not below this gap
		}
		n += g.count[b]
		sum += g.total[b]
	}
	if n == 0 {
		return 0
	}
	return time.Duration(max((sum-want)/n, 0))
}

// mixed is a histogram of time of which the share u is as in b and the rest as in a.
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

// Delay is the quantile q of the poll delay: the time from when something falls due,
// at a random moment, to the next poll, while each rank moves rate bytes per second.
func (h *Host) Delay(q, rate float64) time.Duration {
	u := 1.0
	if rate < h.Rate {
		u = rate / h.Rate
	}
	return mixed(&h.quiet, &h.busy, u).delay(q)
}

// Longest is the longest gap between two polls that was seen.
func (h *Host) Longest() time.Duration { return max(h.quiet.max, h.busy.max) }
