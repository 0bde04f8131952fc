// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"fmt"
	"math"
	"time"
)

// Word is the judgement of a time in one or two words.
type Word string

// Judgements.
const (
	AsExpected    Word = "as expected"
	Slower        Word = "slower"
	Faster        Word = "faster"        // than the model of NCCL's schedule, but possible on the fabric
	Impossible    Word = "impossible"    // no schedule is that fast on this fabric
	Wrong         Word = "wrong"         // elements of the result are wrong
	Contradictory Word = "contradictory" // the row's bandwidths do not fit its size and time
	NotJudged     Word = "not judged"    // nothing is expected of the row
)

// Good says whether w confirms the fabric: nothing is wrong, and nothing is slower than it must be.
func (w Word) Good() bool { return w == AsExpected || w == Faster }

// Tolerances. boundOff covers clocks and the rounding in the table; rateOff also covers rates with two digits.
const (
	slowOff  = 0.10
	boundOff = 0.01
	rateOff  = 0.05
	rateUnit = 0.01  // GB/s, the table's last digit
	timeUnit = 10e-9 // seconds, the table's last digit
)

// Given is the expectation for a row.
type Given struct {
	Expected   time.Duration // mean over the ranks, as in the table
	LastRank   time.Duration // until the last rank is done
	Spread     float64       // possible deviation of Expected, as a fraction
	BusiestHop time.Duration // time for which NCCL's messages occupy it; 0 without rates
	Bound      time.Duration // lower bound for the last rank; 0 if there is none
	Least      time.Duration // lower bound for the mean
}

// Finding is the judgement of one time.
type Finding struct {
	Word  Word
	Cause string // the likely cause in words, "" if as expected
}

// Judge compares a time with the expectation. How far ranks run ahead of the last one depends on buffers, which a log
// does not show. So only a time longer than that of the last rank is slower.
func Judge(got time.Duration, g Given) Finding {
	off := slowOff + g.Spread
	last := max(g.LastRank, g.Expected)
	switch {
	case float64(got) < (1-boundOff)*float64(g.Least):
		return Finding{Impossible, impossible(g)}
	case float64(got) > (1+off)*float64(last):
		return Finding{Slower, cause(got, last, g)}
	case float64(got) < (1-off)*float64(g.Expected):
		return Finding{Faster, "possible on these links, but not with the algorithm, protocol, channels and buffers that NCCL takes here: another version or setting, or a lower latency"}
	}
	return Finding{Word: AsExpected}
}

func impossible(g Given) string {
	mean := ""
	if g.Least < g.Bound {
		mean = fmt.Sprintf(" for the last rank, and the mean over the ranks is %v at least", round(g.Least))
	}
	return fmt.Sprintf("the bytes alone take %v on these links%s: traffic went around the network (P2P or shared memory between nodes, fewer nodes than meant), or the links are faster", round(g.Bound), mean)
}

// cause distinguishes a row that is limited by the links' rate from one that is limited by latency.
func cause(got, last time.Duration, g Given) string {
	if 2*max(g.BusiestHop, g.Bound) >= last {
		return fmt.Sprintf("the links carried %.0f %% of what they can: a shared or slower link, fewer NICs in use, or packets lost", 100*float64(last)/float64(got))
	}
	return fmt.Sprintf("%v more than the network needs: launch or progress on the host, or a higher latency", round(got-last))
}

// Check checks h for wrong elements, and for bandwidths that do not fit size bytes, with a bus factor of factor. The
// finding is AsExpected if there are none.
func (h *Half) Check(size int64, factor float64) Finding {
	took := max(h.Time, time.Nanosecond)
	algbw := float64(size) / float64(took)
	switch {
	case h.Wrong > 0:
		return Finding{Wrong, fmt.Sprintf("%d wrong elements: whatever took this time was not the collective", h.Wrong)}
	case !agree(h.AlgBW, algbw, rateOff+timeUnit/took.Seconds()):
		return Finding{Contradictory, fmt.Sprintf("algbw %.2f, but %d bytes in %v are %.2f GB/s: size, time or algbw was changed or cut", h.AlgBW, size, h.Time, algbw)}
	case !agree(h.BusBW, h.AlgBW*factor, rateOff):
		return Finding{Contradictory, fmt.Sprintf("busbw %.2f, but %.2f times algbw is %.2f GB/s: another collective, or another number of ranks", h.BusBW, factor, h.AlgBW*factor)}
	}
	return Finding{Word: AsExpected}
}

// agree says whether a and b differ by at most the fraction off, plus rounding.
func agree(a, b, off float64) bool { return math.Abs(a-b) <= off*max(a, b)+rateUnit }

func round(d time.Duration) time.Duration {
	switch {
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > 100*time.Microsecond:
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Nanosecond)
}
