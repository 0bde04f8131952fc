// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"slices"
)

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
