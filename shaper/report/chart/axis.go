// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// axis maps values to places in a picture.
type axis struct {
	log       bool
	low, high float64 // values at the ends
	from, to  float64 // places of the ends
}

// wide is from which ratio of the largest to the smallest value on a linear scale hides the small ones.
const wide = 20

// valueAxis is the axis for some values: logarithmic if they are all above 0 and differ by much, else from 0 on.
func valueAxis(values []float64, from, to float64) axis {
	low, high := slices.Min(values), slices.Max(values)
	if low > 0 && high >= wide*low {
		// A part of the scale is free at both ends.
		space := math.Pow(high/low, 0.04)
		return axis{log: true, low: low / space, high: high * space, from: from, to: to}
	}
	if high <= 0 {
		high = 1
	}
	return axis{low: min(low, 0), high: 1.05 * high, from: from, to: to}
}

// placeAxis is the axis for values that the user has chosen: logarithmic if they lie more evenly on this scale.
func placeAxis(values []float64, from, to float64) axis {
	sorted := slices.Compact(slices.Sorted(slices.Values(values)))
	linear := axis{low: sorted[0], high: sorted[len(sorted)-1], from: from, to: to}
	if linear.low == linear.high {
		linear.low, linear.high = linear.low-1, linear.high+1
		return linear
	}
	log := linear
	log.log = true
	if sorted[0] > 0 && log.closest(sorted) > linear.closest(sorted) {
		return log
	}
	return linear
}

// closest is the least distance between values that are sorted.
func (a axis) closest(sorted []float64) float64 {
	least := math.Inf(1)
	for i := 1; i < len(sorted); i++ {
		least = min(least, math.Abs(a.at(sorted[i])-a.at(sorted[i-1])))
	}
	return least
}

// at is the place of a value.
func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return a.from + (a.to-a.from)*(v-low)/(high-low)
}

// fewDecades is up to how many powers of ten a logarithmic scale has ticks between them.
const fewDecades = 2.5

// ticks are the marked values of a scale, about 3 to 8 of them.
func (a axis) ticks() (out []float64) {
	if !a.log {
		step := niceStep((a.high - a.low) / 5)
		for i := math.Ceil(a.low / step); i*step <= a.high; i++ {
			out = append(out, i*step)
		}
		return out
	}
	decades := math.Log10(a.high / a.low)
	parts := []float64{1}
	if decades < fewDecades {
		parts = []float64{1, 2, 5}
	}
	step := max(1, math.Ceil(decades/8))
	for d := math.Floor(math.Log10(a.low)); d <= math.Log10(a.high); d += step {
		for _, part := range parts {
			if v := part * math.Pow(10, d); v >= a.low && v <= a.high {
				out = append(out, v)
			}
		}
	}
	return out
}

// niceStep is the least of 1, 2 and 5 times a power of ten that is not below a step.
func niceStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, part := range []float64{1, 2, 5} {
		if part*power >= least*(1-1e-9) {
			return part * power
		}
	}
	return 10 * power
}

// number writes the value of a tick.
func number(v float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if x := math.Abs(rounded); x != 0 && (x < 1e-4 || x >= 1e7) {
		return strconv.FormatFloat(rounded, 'g', -1, 64)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// lineNames are the names of the lines of a chart, on the right of their ends.
type lineNames []lineName

type lineName struct {
	number int // of the line
	lines  []string
	end    Point
	y      float64 // of the middle
}

func (n *lineName) height() float64 { return lineSpace * float64(len(n.lines)) }

// names are the names of the lines that have points.
func (c *Chart) names() (out lineNames) {
	for i, l := range c.Lines {
		if len(l.Points) > 0 {
			out = append(out, lineName{number: i, lines: wrap(l.Name, longName), end: l.Points[len(l.Points)-1]})
		}
	}
	return out
}

// height is the height of all names.
func (n lineNames) height() (sum float64) {
	for i := range n {
		sum += n[i].height()
	}
	return sum
}

// left is where the names begin.
func (n lineNames) left() float64 {
	widest := 0.0
	for i := range n {
		for _, line := range n[i].lines {
			widest = max(widest, widthOf(line))
		}
	}
	return width - margin - widest
}

// place places the names between top and bottom near the ends of their lines, without overlaps.
func (n lineNames) place(y axis, top, bottom float64) {
	for i := range n {
		n[i].y = y.at(n[i].end.Y)
	}
	slices.SortStableFunc(n, func(a, b lineName) int { return cmp.Compare(a.y, b.y) })
	free := top // above it are names
	for i := range n {
		n[i].y = max(n[i].y, free+n[i].height()/2)
		free = n[i].y + n[i].height()/2
	}
	free = bottom // below it are names
	for i := len(n) - 1; i >= 0; i-- {
		n[i].y = min(n[i].y, free-n[i].height()/2)
		free = n[i].y - n[i].height()/2
	}
}

// draw writes the names, each with a thin line to the end of its line if it is not beside it.
func (n lineNames) draw(p *picture, x, y axis, top, bottom float64) {
	n.place(y, top, bottom)
	left := n.left()
	for i := range n {
		l := &n[i]
		endX, endY := x.at(l.end.X), y.at(l.end.Y)
		p.add(`<path class="lead dotted %s" d="M%.1f %.1fL%.1f %.1f"/>`, colour(l.number), endX+5, endY, left-3, l.y)
		for k, line := range l.lines {
			down := float64(k) - float64(len(l.lines)-1)/2
			p.text(left, l.y, "name "+colour(l.number), line, lineDown(down))
		}
	}
}
