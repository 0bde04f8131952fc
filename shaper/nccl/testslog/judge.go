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
	Dip           Word = "dip"    // slower than the sizes around it, which are in line with each other
	Stall         Word = "stall"  // takes as many ms for several sizes
	Faster        Word = "faster" // than the model of NCCL's schedule, but possible on the fabric
	FasterTree    Word = "faster: probably NVLS/tree"
	Impossible    Word = "impossible"    // no schedule is that fast on this fabric
	Wrong         Word = "wrong"         // elements of the result are wrong
	Contradictory Word = "contradictory" // the row's bandwidths do not fit its size and time
	NotJudged     Word = "not judged"    // nothing is expected of the row
)

// Words returns all judgements, from good to bad.
func Words() []Word {
	return []Word{AsExpected, Faster, FasterTree, Slower, Stall, Dip, Impossible, Wrong, Contradictory, NotJudged}
}

// Good says whether w confirms the fabric: nothing is wrong, and nothing is slower than it must be.
func (w Word) Good() bool { return w == AsExpected || w == Faster || w == FasterTree }

// SlowOff is by how much a time may differ, as a fraction, from an expectation that has no Spread and no interval. The
// intervals come from published tables and the model with the time of nodes. Without that time the log's own fixed cost
// stands for the nodes, and no table says how far the network alone is off.
const SlowOff = 0.10

// Tolerances. boundOff covers clocks and the rounding in the table; rateOff also covers rates with two digits.
const (
	boundOff = 0.01
	rateOff  = 0.05
	rateUnit = 0.01  // GB/s, the table's last digit
	timeUnit = 10e-9 // seconds, the table's last digit
)

// Given is the expectation for a row. Its times are from the network's model, without Fixed.
type Given struct {
	Expected   time.Duration // mean over the ranks, as in the table
	LastRank   time.Duration // until the last rank is done
	Spread     float64       // possible deviation of Expected, as a fraction
	BusiestHop time.Duration // time for which NCCL's messages occupy it; 0 without rates
	Bound      time.Duration // lower bound for the last rank; 0 if there is none
	Least      time.Duration // lower bound for the mean
	Fixed      time.Duration // what each call takes beyond the network, see [FixedCost]
	// Steps is by how much a call may exceed Fixed on a healthy cluster: what the steps of the algorithm within nodes
	// take more than the smallest calls do. The model of the network has none of them.
	Steps time.Duration
	// Limit is what limits the call, if the model has the time of nodes; "" if it does not.
	Limit string
	// Ring says that the model plays an AllReduce by rings, for which real machines may take a tree or NVLS.
	Ring bool
}

// Finding is the judgement of one time.
type Finding struct {
	Word  Word
	Cause string // the likely cause in words, "" if as expected
}

// Judge compares a time with the expectation. How far ranks run ahead of the last one depends on buffers, which a log
// does not show. So only a time longer than the last rank's is slower. It is faster only if it is below the
// network's own time.
func Judge(got time.Duration, g Given) Finding {
	off := SlowOff + g.Spread
	last := max(g.LastRank, g.Expected)
	switch {
	case float64(got) < (1-boundOff)*float64(g.Least):
		return Finding{Impossible, impossible(g)}
	case float64(got) > (1+off)*float64(last+g.Fixed+g.Steps):
		return Finding{Slower, cause(got, last, g)}
	case float64(got) < (1-off)*float64(g.Expected):
		return g.FasterThan()
	}
	return Finding{Word: AsExpected}
}

// FasterThan is the finding of a time that is shorter than the model's.
func (g *Given) FasterThan() Finding {
	if g.Ring {
		return Finding{FasterTree, fmt.Sprintf("rings take %v here; a tree or NVLS sends fewer bytes between nodes",
			round(g.Expected))}
	}
	return Finding{Faster, "possible on these links, but not with the algorithm, protocol, channels and buffers that " +
		"NCCL takes here: another version or setting, or a lower latency"}
}

// SlowerThan is the cause of a time that is longer than the model's.
func (g *Given) SlowerThan(got time.Duration) string {
	return cause(got, max(g.LastRank, g.Expected), *g)
}

func impossible(g Given) string {
	mean := ""
	if g.Least < g.Bound {
		mean = fmt.Sprintf(" for the last rank, and the mean over the ranks is %v at least", round(g.Least))
	}
	return fmt.Sprintf(
		"the bytes alone take %v on these links%s: traffic went around the network (P2P or shared memory between "+
			"nodes, fewer nodes than meant), or the links are faster", round(g.Bound), mean)
}

// cause distinguishes a row that is limited by the links' rate from one that is limited by latency.
func cause(got, last time.Duration, g Given) string {
	if g.Limit != "" && 2*max(g.BusiestHop, g.Bound) < last {
		return fmt.Sprintf("%v more than the model, in which the limit is %s: launch or progress on the host, or a higher "+
			"latency", round(got-last), g.Limit)
	}
	if beyond := g.Fixed + g.Steps; 2*max(g.BusiestHop, g.Bound) >= last && last > beyond {
		return fmt.Sprintf(
			"the links carried %.0f %% of what they can: a shared or slower link, fewer NICs in use, or packets lost",
			100*float64(last)/float64(got-g.Fixed))
	}
	return fmt.Sprintf(
		"%v more than the network and the fixed cost: launch or progress on the host, or a higher latency",
		round(got-last-g.Fixed))
}

// Against turns the finding of a time into a dip, if it is one. At an end of the log, a slower time stays slower.
func (f Finding) Against(c Comparison) Finding {
	switch {
	case c.DipTo == 0 || c.End && f.Word == Slower:
		return f
	case c.End:
		return Finding{Dip,
			fmt.Sprintf(
				"%.0f %% of the bandwidth that its neighbours let expect: measure beyond it too, to see whether it is "+
					"alone", 100*c.DipTo)}
	}
	return Finding{Dip,
		fmt.Sprintf("%.0f %% of the bandwidth of its neighbours: measure this size again, with more iterations",
			100*c.DipTo)}
}

// Check checks h for wrong elements, and for bandwidths that do not fit size bytes, with a bus factor of factor. The
// finding is AsExpected if there are none.
func (h *Half) Check(size int64, factor float64) Finding {
	took := max(h.Time, time.Nanosecond)
	algbw := float64(size) / float64(took)
	// nccl-tests before 2.9 printed the bandwidth of the bytes that cross a link as both, for all_gather and
	// reduce_scatter. Its hypercube still does.
	crossing := factor < 1 && agree(h.AlgBW, algbw*factor, rateOff+timeUnit/took.Seconds(), rateUnit) &&
		agree(h.BusBW, h.AlgBW, rateOff, rateUnit)
	switch {
	case h.Wrong > 0:
		return Finding{Wrong, fmt.Sprintf("%d wrong elements: whatever took this time was not the collective", h.Wrong)}
	case h.Wrong == SomeWrong:
		return Finding{Wrong, "the error is beyond its bound: whatever took this time was not the collective"}
	case crossing:
	case !agree(h.AlgBW, algbw, rateOff+timeUnit/took.Seconds(), rateUnit):
		return Finding{Contradictory,
			fmt.Sprintf("algbw %.2f, but %d bytes in %v are %.2f GB/s: size, time or algbw was changed or cut", h.AlgBW,
				size, h.Time, algbw)}
	case !agree(h.BusBW, h.AlgBW*factor, rateOff, rateUnit*(1+factor)/2): // both are rounded
		return Finding{Contradictory,
			fmt.Sprintf("busbw %.2f, but %.2f times algbw is %.2f GB/s: another collective, or another number of ranks",
				h.BusBW, factor, h.AlgBW*factor)}
	}
	return Finding{Word: AsExpected}
}

// agree says whether a and b differ by at most the fraction off, plus rounding.
func agree(a, b, off, rounding float64) bool { return math.Abs(a-b) <= off*max(a, b)+rounding }

func round(d time.Duration) time.Duration {
	switch {
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > 100*time.Microsecond:
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Nanosecond)
}
