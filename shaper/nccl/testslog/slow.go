// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"iter"
	"math"
	"slices"
	"time"
)

// StepAlone is the factor by which a single size may exceed the sizes beside it in how far the times exceed the model:
// published tables of healthy clusters have 1.6 where NCCL changes its algorithm. stepTime is the least factor of a
// step in time to what the sizes beside it let expect.
const (
	StepAlone = 1.9
	stepTime  = 1.5
)

// A stall takes as long for several sizes, and long against the call.
const (
	stallTime   = time.Millisecond
	stallFactor = 3 // of the model's time
	stallAlone  = 5 // if it has one size
	stallGrowth = 0.5
	stallApart  = 5 // times the excess of the sizes beside it
)

// place is a sample with logarithms: of Time over Model, of Size and of Time.
type place struct {
	*Sample
	offModel, logSize, logGot float64
}

// JudgePoints judges times of calls that differ in size alone, in the order of their sizes: two sizes side by side that
// are beyond their intervals are slower, one that is beyond what single sizes are in healthy logs, and what exceeds its
// neighbours by a step that healthy logs do not have. A single size between others that are as expected is a dip.
func JudgePoints(samples []Sample) []Word {
	var points []place
	for i := range samples {
		s := &samples[i]
		points = append(points, place{Sample: s, offModel: math.Log(float64(s.Time) / float64(max(s.Model, 1))),
			logSize: math.Log(float64(s.Size)), logGot: math.Log(float64(s.Time))})
	}
	slow := make([]bool, len(points))
	for i := range points {
		p := &points[i]
		beside := i > 0 && points[i-1].offModel > math.Log(points[i-1].High) ||
			i+1 < len(points) && points[i+1].offModel > math.Log(points[i+1].High)
		slow[i] = p.offModel > math.Log(p.Alone) || p.offModel > math.Log(p.High) && beside
	}
	markSteps(points, slow)
	widen(points, slow)
	words := make([]Word, len(points))
	for i := range points {
		switch p := &points[i]; {
		case slow[i]:
			words[i] = Slower
		case p.offModel < math.Log(p.Low):
			words[i] = Faster
		default:
			words[i] = AsExpected
		}
	}
	for first, last := range runs(slow) {
		name(points, words, first, last)
	}
	return words
}

// runs are the first and the last of each run of slower sizes. What is marked in a run's place while it is used has no
// part in the runs after it.
func runs(slow []bool) iter.Seq2[int, int] {
	return func(yield func(first, last int) bool) {
		was := slices.Clone(slow)
		for first := 0; first < len(was); first++ {
			last := first
			for last+1 < len(was) && was[first] && was[last+1] {
				last++
			}
			if was[first] && !yield(first, last) {
				return
			}
			first = last
		}
	}
}

// widen marks the sizes beside slower ones that are nearer to them than to the rest of the log.
func widen(points []place, slow []bool) {
	var rest []float64
	for i := range points {
		if !slow[i] {
			rest = append(rest, points[i].offModel)
		}
	}
	if len(rest) == 0 {
		return
	}
	base := median(rest)
	for first, last := range runs(slow) {
		var off []float64
		for i := first; i <= last; i++ {
			off = append(off, points[i].offModel)
		}
		middle := (median(off) + base) / 2
		for i := first - 1; i >= 0 && !slow[i] && points[i].offModel > middle; i-- {
			slow[i] = true
		}
		for i := last + 1; i < len(points) && !slow[i] && points[i].offModel > middle; i++ {
			slow[i] = true
		}
	}
}

// markSteps marks the sizes between two steps.
func markSteps(points []place, slow []bool) {
	for first := 1; first < len(points)-1; first++ {
		least := math.Inf(1)
		for last := first; last < len(points)-1; last++ {
			least = min(least, points[last].offModel)
			before, after := &points[first-1], &points[last+1]
			step := points[last].Step
			if first == last {
				step = StepAlone
			}
			if least-max(before.offModel, after.offModel) < math.Log(step) {
				continue
			}
			above := true
			for k := first; k <= last; k++ {
				between := line(before.logSize, before.logGot, after.logSize, after.logGot, points[k].logSize)
				above = above && points[k].logGot-between > math.Log(stepTime)
			}
			for k := first; above && k <= last; k++ {
				slow[k] = true
			}
		}
	}
}

// name finds the stalls among slower sizes side by side, and the dip.
func name(points []place, words []Word, first, last int) {
	stalls := false
	for i := first; i <= last; i++ {
		for j := last; j >= i; j-- {
			if isStall(points, i, j) {
				for k := i; k <= j; k++ {
					words[k] = Stall
				}
				stalls, i = true, j
				break
			}
		}
	}
	if !stalls && first == last && first > 0 && last < len(points)-1 {
		words[first] = Dip
	}
}

// isStall says whether the times of these sizes exceed the model by about as many milliseconds, and by many more than
// those beside them.
func isStall(points []place, first, last int) bool {
	beyond := func(i int) time.Duration { return points[i].Time - points[i].Model }
	least, most := beyond(first), beyond(first)
	for i := first; i <= last; i++ {
		b := beyond(i)
		if b < stallTime || float64(points[i].Time) < stallFactor*float64(points[i].Model) {
			return false
		}
		least, most = min(least, b), max(most, b)
	}
	if most > stallApart*least {
		return false
	}
	for _, beside := range []int{first - 1, last + 1} {
		if beside >= 0 && beside < len(points) && stallApart*beyond(beside) > least {
			return false
		}
	}
	if first == last {
		return float64(points[first].Time) >= stallAlone*float64(points[first].Model)
	}
	grown := math.Log(float64(beyond(last))/float64(beyond(first))) / (points[last].logSize - points[first].logSize)
	return grown < stallGrowth
}
