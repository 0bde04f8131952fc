// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// dipOff is by how much a time must exceed what its neighbours let expect, to be a dip: it has less than 80 % of their
// bandwidth. Where NCCL changes its algorithm, times of real clusters exceed it by up to 18 %.
const dipOff = 0.25

// bothOff is by how much the ratio of a dip to the model must exceed the ratio of either neighbour. Before a step, at
// which a faster schedule begins, the ratio of the smaller neighbour counts.
const bothOff = 0.05

// Comparison is how a time compares with the times of the next smaller and the next larger size.
type Comparison struct {
	DipTo float64 // the fraction of the bandwidth that the neighbours let expect; 0 if the time is no dip
	// End says that the time has neighbours on one side only: it may as well be the begin of a slower part.
	End bool
}

// Neighbours compares each time with the times of its neighbours in size, whose median counts if a size has several
// times. samples are calls of one kind, which differ in size alone.
//
// A time is a dip if it is too long in two ways: against its neighbours' times, and in how far it exceeds the model
// with the fixed cost against how far theirs do. The first alone would name the sizes at which a longer schedule
// begins, the second those at which the model changes its schedule and the cluster does not. Between neighbours both
// are interpolated in logarithms, and the ratio must be above the ratio of either. At the ends, the smallest size may
// take as long as the next one, and the largest must follow its two neighbours, within what its size allows.
func Neighbours(samples []Sample, fixed time.Duration) []Comparison {
	points := pointsOf(samples, fixed)
	all := make([]Comparison, len(samples))
	for i, s := range samples {
		own := point{logSize: math.Log(float64(s.Size)), logTime: math.Log(float64(s.Time)),
			logRatio: logRatio(s, fixed)}
		at, found := slices.BinarySearchFunc(points, own,
			func(a, b point) int { return cmp.Compare(a.logSize, b.logSize) })
		if !found || !own.finite() || len(points) < 3 {
			continue
		}
		excess := excess(points, at, own)
		if excess > math.Log(1+dipOff+s.Spread) {
			all[i] = Comparison{DipTo: math.Exp(-excess), End: at == 0 || at == len(points)-1}
		}
	}
	return all
}

// point is a size with its time and the ratio of that to the expectation, as logarithms.
type point struct{ logSize, logTime, logRatio float64 }

func (p point) finite() bool {
	return !math.IsInf(p.logSize, 0) && !math.IsInf(p.logTime, 0) && !math.IsInf(p.logRatio, 0)
}

func logRatio(s Sample, fixed time.Duration) float64 {
	return math.Log(float64(s.Time)) - math.Log(float64(s.Network+fixed))
}

// pointsOf has the median time of each size, in order of size.
func pointsOf(samples []Sample, fixed time.Duration) []point {
	bySize := map[int64][]Sample{}
	for _, s := range samples {
		bySize[s.Size] = append(bySize[s.Size], s)
	}
	var points []point
	for size, all := range bySize {
		var times []time.Duration
		for _, s := range all {
			times = append(times, s.Time)
		}
		s := Sample{Size: size, Time: median(times), Network: all[0].Network}
		p := point{logSize: math.Log(float64(size)), logTime: math.Log(float64(s.Time)), logRatio: logRatio(s, fixed)}
		if p.finite() {
			points = append(points, p)
		}
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.logSize, b.logSize) })
	return points
}

// excess is the logarithm of the factor by which own, at points[at], is too long.
func excess(points []point, at int, own point) float64 {
	last := len(points) - 1
	switch at {
	case 0:
		next := points[1]
		return min(own.logTime-next.logTime, own.logRatio-next.logRatio)
	case last:
		a, b := points[last-2], points[last-1]
		// Longer than the next smaller size, but not by more than in proportion to the size.
		grown := min(max(line(a.logSize, a.logTime, b.logSize, b.logTime, own.logSize), b.logTime),
			b.logTime+own.logSize-b.logSize)
		return min(own.logTime-grown, own.logRatio-b.logRatio)
	}
	a, b := points[at-1], points[at+1]
	if own.logRatio-max(a.logRatio, b.logRatio) < math.Log(1+bothOff) {
		return 0
	}
	return min(own.logTime-line(a.logSize, a.logTime, b.logSize, b.logTime, own.logSize),
		own.logRatio-line(a.logSize, a.logRatio, b.logSize, b.logRatio, own.logSize))
}

// line is the value at x of the line through two points.
func line(x0, y0, x1, y1, x float64) float64 { return y0 + (y1-y0)*(x-x0)/(x1-x0) }
