// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"fmt"
	"time"
)

// Word says what a time is against what the fabric gives.
type Word string

// Words.
const (
	AsExpected Word = "as expected"
	Slower     Word = "slower"
	Faster     Word = "faster"     // than the model of NCCL's schedule, not than the fabric allows
	Impossible Word = "impossible" // no schedule is that fast on this fabric
)

// Limits of what is as expected. Clocks and rounding of the table make up boundOff.
const (
	slowOff  = 0.10
	boundOff = 0.01
)

// Given is what the fabric gives for a row.
type Given struct {
	Expected time.Duration
	Spread   float64       // how far Expected is open, as a fraction
	Bound    time.Duration // at least; 0 without a bound
}

// Finding is the judgement on one time.
type Finding struct {
	Word  Word
	Cause string // the likely cause in words, "" if as expected
}

// Judge compares a time with what the fabric gives.
func Judge(got time.Duration, g Given) Finding {
	off := slowOff + g.Spread
	switch {
	case float64(got) < (1-boundOff)*float64(g.Bound):
		return Finding{Impossible, fmt.Sprintf("the bytes alone take %v on these links: traffic went around the network (P2P or shared memory between nodes, fewer nodes than meant), or the links are faster", round(g.Bound))}
	case float64(got) > (1+off)*float64(g.Expected):
		return Finding{Slower, cause(got, g)}
	case float64(got) < (1-off)*float64(g.Expected):
		return Finding{Faster, "possible on these links, but not with the algorithm, protocol and channels that NCCL takes here: another version or setting, or a lower latency"}
	}
	return Finding{Word: AsExpected}
}

// cause tells a row that is bound by the links' rate from one bound by latency.
func cause(got time.Duration, g Given) string {
	if 2*g.Bound >= g.Expected {
		return fmt.Sprintf("the links carried %.0f %% of what they can: a shared or slower link, fewer NICs in use, or packets lost", 100*float64(g.Expected)/float64(got))
	}
	return fmt.Sprintf("%v more than the network needs: launch or progress on the host, or a higher latency", round(got-g.Expected))
}

func round(d time.Duration) time.Duration {
	switch {
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > 100*time.Microsecond:
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Nanosecond)
}
