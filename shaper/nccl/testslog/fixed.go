// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"cmp"
	"slices"
	"time"
)

// Sample is one time of a log, with what the model expects of it and how far healthy clusters are from that.
type Sample struct {
	Size      int64         // bytes
	Time      time.Duration // in the log
	Network   time.Duration // in the model
	Spread    float64       // possible deviation of Network, as a fraction
	Model     time.Duration // that Time is compared with: Network, or the time of the last rank
	Low, High float64       // two sizes side by side may be faster or slower than Model by these factors
	Alone     float64       // a single size may be slower by this factor
	Step      float64       // several sizes may exceed the sizes before and after them by this factor
}

// Fixed is what each call of a log takes beyond the network: the launch and the end of its kernel, the work of NCCL's
// proxies, and any latency that the model does not have.
type Fixed struct {
	Cost time.Duration // 0 also if it is not known
	// Times is the number of times that show the cost, and UpTo the largest size among them in bytes. They are 0 if the
	// log shows none.
	Times int
	UpTo  int64
}

// The flat part of a log: its times differ from the base by less than flatOff in either direction, and its sizes span
// at least flatSpan. A time that is proportional to the size spans at most flatOff squared there, which is less.
const (
	flatOff   = 1.5
	flatSpan  = 4
	flatTimes = 3
	baseSizes = 5 // the base is the median of the times of so many of the smallest sizes
)

// FixedCost fits one fixed cost to the flat part of a log, in which the time hardly depends on the size: the median of
// what the times there exceed the model by, and at least 0. A lower bandwidth lengthens a call in proportion to its
// size, so it has no part in the cost: without a flat part there is no cost. A higher latency does have a part.
func FixedCost(samples []Sample) Fixed {
	var beyond []time.Duration
	flat, upTo := flatPart(samples)
	for _, s := range flat {
		beyond = append(beyond, s.Time-s.Network)
	}
	return Fixed{Cost: max(median(beyond), 0), Times: len(flat), UpTo: upTo}
}

// Small compares the flat part of a log with a model that has the time of nodes.
type Small struct {
	Time  time.Duration // median
	Ratio float64       // median of Time to the model's time
	Times int           // 0 if there is no flat part
	UpTo  int64         // largest of their sizes in bytes
}

// SmallCalls compares the flat part of a log, in which launches and latencies determine the time, with the model.
func SmallCalls(samples []Sample) Small {
	flat, upTo := flatPart(samples)
	if len(flat) == 0 {
		return Small{}
	}
	var times []time.Duration
	var ratios []float64
	for _, s := range flat {
		times = append(times, s.Time)
		ratios = append(ratios, float64(s.Time)/float64(max(s.Network, 1)))
	}
	return Small{median(times), median(ratios), len(flat), upTo}
}

// flatPart are the samples in which the time hardly depends on the size, none if there are too few, and the largest of
// their sizes.
func flatPart(samples []Sample) (flat []Sample, upTo int64) {
	base := baseTime(samples)
	var least int64
	for _, s := range samples {
		if t := float64(s.Time); t > flatOff*base || t*flatOff < base || s.Size < 1 {
			continue
		}
		if len(flat) == 0 {
			least, upTo = s.Size, s.Size
		}
		least, upTo = min(least, s.Size), max(upTo, s.Size)
		flat = append(flat, s)
	}
	if len(flat) < flatTimes || upTo < flatSpan*least {
		return nil, 0
	}
	return flat, upTo
}

// baseTime is the median of the times of the smallest sizes in nanoseconds.
func baseTime(samples []Sample) float64 {
	sorted := slices.Clone(samples)
	slices.SortStableFunc(sorted, func(a, b Sample) int { return cmp.Compare(a.Size, b.Size) })
	var times []time.Duration
	sizes, last := 0, int64(-1)
	for _, s := range sorted {
		if s.Size != last {
			sizes, last = sizes+1, s.Size
		}
		if sizes > baseSizes {
			break
		}
		times = append(times, s.Time)
	}
	return float64(median(times))
}

// median of no numbers is 0.
func median[T time.Duration | float64](of []T) T {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
