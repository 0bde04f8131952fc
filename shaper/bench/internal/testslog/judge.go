// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"fmt"
	"math"
	"time"
)

// Word says what a time is against what the fabric gives.
type Word string

// Words.
const (
	AsExpected    Word = "as expected"
	Slower        Word = "slower"
	Faster        Word = "faster"        // than the model of NCCL's schedule, not than the fabric allows
	Impossible    Word = "impossible"    // no schedule is that fast on this fabric
	Wrong         Word = "wrong"         // elements of the result were
	Contradictory Word = "contradictory" // the row's bandwidths are not those of its size and time
	NotJudged     Word = "not judged"    // nothing is expected of such a row
)

// Good says whether w speaks for the fabric: nothing is wrong, and nothing is slower than
// it must be.
func (w Word) Good() bool { return w == AsExpected || w == Faster }

// Limits of what is as expected. Clocks and rounding of the table make up boundOff and,
// with two digits of a large number, rateOff.
const (
	slowOff  = 0.10
	boundOff = 0.01
	rateOff  = 0.05
	rateUnit = 0.01  // GB/s, the table's last digit
	timeUnit = 10e-9 // seconds, likewise
)

// Given is what the fabric gives for a row.
type Given struct {
	Expected   time.Duration // the mean over the ranks, as the table has it
	LastRank   time.Duration // until the last rank is done
	Spread     float64       // how far Expected is open, as a fraction
	BusiestHop time.Duration // for which NCCL's messages occupy it; 0 without rates
	Bound      time.Duration // that the last rank takes at least; 0 without one
	Least      time.Duration // that the mean is at least
}

// Finding is the judgement on one time.
type Finding struct {
	Word  Word
	Cause string // the likely cause in words, "" if as expected
}

// Judge compares a time with what the fabric gives. How far ranks run ahead of the last
// one is a matter of buffers, which a log does not tell: only what takes longer than the
// last rank does is slower.
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

// cause tells a row that is bound by the links' rate from one bound by latency.
func cause(got, last time.Duration, g Given) string {
	if 2*max(g.BusiestHop, g.Bound) >= last {
		return fmt.Sprintf("the links carried %.0f %% of what they can: a shared or slower link, fewer NICs in use, or packets lost", 100*float64(last)/float64(got))
	}
	return fmt.Sprintf("%v more than the network needs: launch or progress on the host, or a higher latency", round(got-last))
}

// Check looks at what half says of itself: wrong elements, and bandwidths that are not
// those of size bytes, busbw being factor times algbw. The finding is as expected if
// there is nothing.
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

// agree allows for the fraction off, and for a and b being rounded.
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
