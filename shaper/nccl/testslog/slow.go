// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"math"
	"time"
)

// Point is a time of a log, with the model's for it and how far healthy clusters are from that.
type Point struct {
	Size            int64
	Time, Model     time.Duration
	Low, High       float64 // two sizes side by side may be faster or slower than the model by these factors
	Alone           float64 // a single size may be slower by this factor
	offModel        float64 // logarithm of Time over Model
	logSize, logGot float64
}

// A step of a log is sharper than any that published tables of healthy clusters have, where NCCL changes its
// algorithm: stepModel is the least factor to the sizes beside it in how far the times exceed the model, stepTime that
// in time to what the sizes beside it let expect.
const (
	stepModel = 1.9
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

// JudgePoints judges times of calls that differ in size alone, in the order of their sizes: two sizes side by side that
// are beyond their intervals are slower, one that is beyond what single sizes are in healthy logs, and what exceeds its
// neighbours by a step that healthy logs do not have. A single size between others that are as expected is a dip.
func JudgePoints(points []Point) []Word {
	for i := range points {
		p := &points[i]
		p.offModel = math.Log(float64(p.Time) / float64(max(p.Model, 1)))
		p.logSize, p.logGot = math.Log(float64(p.Size)), math.Log(float64(p.Time))
	}
	slow := make([]bool, len(points))
	for i := range points {
		p := &points[i]
		beside := i > 0 && points[i-1].offModel > math.Log(points[i-1].High) ||
			i+1 < len(points) && points[i+1].offModel > math.Log(points[i+1].High)
		slow[i] = p.offModel > math.Log(p.Alone) || p.offModel > math.Log(p.High) && beside
	}
	markSteps(points, slow)
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
	for first := 0; first < len(points); first++ {
		last := first
		for last+1 < len(points) && slow[first] && slow[last+1] {
			last++
		}
		if slow[first] {
			name(points, words, first, last)
		}
		first = last
	}
	return words
}

// markSteps marks the sizes between two steps.
func markSteps(points []Point, slow []bool) {
	for first := 1; first < len(points)-1; first++ {
		least := math.Inf(1)
		for last := first; last < len(points)-1; last++ {
			least = min(least, points[last].offModel)
			before, after := &points[first-1], &points[last+1]
			if least-max(before.offModel, after.offModel) < math.Log(stepModel) {
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
func name(points []Point, words []Word, first, last int) {
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
func isStall(points []Point, first, last int) bool {
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
