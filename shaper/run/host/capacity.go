// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"time"
)

// Times of the messages that Capacity is predicted for.
const (
	shortMessage = time.Microsecond
	longMessage  = 10 * time.Millisecond
)

// Capacity is a prediction of what this host carries with a number of ranks. Rates are GB/s per rank, poll delays the
// time from a random moment to the next poll.
type Capacity struct {
	Ranks          int     `json:"ranks"`
	Threads        int     `json:"busy_threads"`
	CopyRate       float64 `json:"copy_gbs"`
	Short          float64 `json:"valid_gbs"`     // that would be VALID at time scale 1 with messages of 1 us; 0 = none
	Long           float64 `json:"valid_far_gbs"` // the same with messages of 10 ms
	ShortScale     int     `json:"time_scale"`    // the smallest for low rates with messages of 1 us; 0 = none
	PollDelayP50Ns int64   `json:"poll_delay_p50_ns"`
	PollDelayP99Ns int64   `json:"poll_delay_p99_ns"`
	LongestPollNs  int64   `json:"poll_gap_max_ns"`
}

// MeasureCapacity measures this host for d with the busy threads of that many ranks.
func MeasureCapacity(ctx context.Context, ranks int, d time.Duration) (Capacity, error) {
	h, err := Measure(ctx, BusyThreads(ranks), d)
	if err != nil {
		return Capacity{}, err
	}
	limits := VerdictLimits()
	c := Capacity{
		Ranks: ranks, Threads: h.Threads, CopyRate: h.Rate / 1e9,
		Short: LargestRate(h, shortMessage, limits) / 1e9, Long: LargestRate(h, longMessage, limits) / 1e9,
		PollDelayP50Ns: int64(h.Delay(0.5, 0)), PollDelayP99Ns: int64(h.Delay(0.99, 0)),
		LongestPollNs: int64(h.Longest()),
	}
	if k, _, err := Scale(h, Demand{Rate: 1, T: shortMessage}, limits); err == nil {
		c.ShortScale = k
	}
	return c, nil
}
