// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"
)

// Fit divides the available time among rows. Each row takes at most as long as a common limit allows, so rows with
// short calls keep their iterations, and rows with long calls lose some, but not the last. The rows of the largest
// sizes are left out if the others could otherwise not have half of an equal part each.
func Fit(rows []Row, c *Costs, available time.Duration) []Iterations {
	given := make([]Iterations, len(rows))
	most := largestThatFits(rows, c, available)
	limit, full := limits(rows, c, most)
	if full > available {
		limit = commonLimit(rows, c, most, limit, available)
	}
	for i, r := range rows {
		if r.Size <= most {
			given[i] = within(r, c, limit)
		}
	}
	return given
}

// commonLimit is the largest limit, at most high, with which the rows fit into the time. Their sum grows with the
// limit.
func commonLimit(rows []Row, c *Costs, most int64, high, available time.Duration) time.Duration {
	const exact = time.Millisecond
	low := time.Duration(0)
	for high-low > exact {
		middle := low + (high-low)/2
		if sum(rows, c, most, middle) > available {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// largestThatFits is the largest size so that all rows up to it can be measured in the time, each within half of an
// equal part or with the fewest iterations; -1 if there is none.
func largestThatFits(rows []Row, c *Costs, available time.Duration) int64 {
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b Row) int { return cmp.Compare(a.Size, b.Size) })
	most, total := int64(-1), time.Duration(0)
	half := available / time.Duration(2*max(len(rows), 1))
	for i, r := range sorted {
		if total += c.Of(r, within(r, c, half)); total > available {
			break
		}
		if i+1 == len(sorted) || sorted[i+1].Size > r.Size { // rows of one size stay together
			most = r.Size
		}
	}
	return most
}

// limits are the time of the longest row of at most a size, and of all such rows together, with all iterations.
func limits(rows []Row, c *Costs, most int64) (longest, full time.Duration) {
	for _, r := range rows {
		if r.Size <= most {
			all := c.Of(r, Iterations{r.Warmup, r.Iters})
			longest, full = max(longest, all), full+all
		}
	}
	return longest, full
}

func sum(rows []Row, c *Costs, most int64, limit time.Duration) (total time.Duration) {
	for _, r := range rows {
		if r.Size <= most {
			total += c.Of(r, within(r, c, limit))
		}
	}
	return total
}

// fewest is the least that a row can be measured with.
func fewest(r Row) Iterations { return Iterations{Warmup: min(r.Warmup, 1), Iters: 1} }

// within is what a row can have within the limit, and at least the fewest. With fewer iterations than asked for it has
// one for warm-up.
func within(r Row, c *Costs, limit time.Duration) Iterations {
	if c.Of(r, Iterations{r.Warmup, r.Iters}) <= limit {
		return Iterations{r.Warmup, r.Iters}
	}
	s := fewest(r)
	if one := time.Duration(r.Halves) * c.OfCall(r); one > 0 {
		s.Iters = int((limit-c.OfRest(r))/one) - s.Warmup
	}
	s.Iters = min(max(s.Iters, 1), r.Iters)
	return s
}
