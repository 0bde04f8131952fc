// SPDX-License-Identifier: Apache-2.0

// Package chart draws lines over a parameter, pairs of values, and the parts of a whole, as SVG. A picture is as wide
// as the page that shows it, has colours for light and dark pages, and the name of a line or group beside it.
package chart

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Chart is a picture of lines. An axis is logarithmic if its values ask for it.
type Chart struct {
	Title, X, Y string // labels
	Ticks       []Tick // of X
	Names       bool   // the ticks are names, not figures: all of them are written
	Lines       []Line
}

// Tick is a marked value of X.
type Tick struct {
	At   float64
	Text string
}

// Line is a line with a mark at each of its points.
type Line struct {
	Name   string
	Points []Point
}

// Point is a point of a line.
type Point struct{ X, Y float64 }

const (
	plotHeight = 330.0 // of the area of the lines, at least
	longName   = 20    // letters of a line of a name
)

// WriteSVG draws the chart.
func (c *Chart) WriteSVG(w io.Writer) error {
	var xs, ys []float64
	for _, l := range c.Lines {
		for _, p := range l.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	if len(xs) == 0 {
		return begin(c.Title, "There are no values.").writeTo(w)
	}
	for _, t := range c.Ticks {
		xs = append(xs, t.At)
	}
	p := begin(c.Title, c.Y)
	names := c.names()
	top := p.y
	bottom := top + max(plotHeight, names.height())
	y := valueAxis(ys, bottom, top)
	left := p.drawScale(y, names.left())
	x := placeAxis(xs, left+font/2, names.left()-font)
	p.y = bottom + p.drawTicks(c.Ticks, c.Names, x, bottom)
	if c.X != "" {
		p.y += lineSpace
		p.text((left+names.left())/2, p.y-font*0.3, "soft", c.X, `text-anchor="middle"`)
	}
	for i, l := range c.Lines {
		p.drawLine(l.Points, i, x, y)
	}
	names.draw(p, x, y, top, bottom)
	return p.writeTo(w)
}

// drawScale draws the scale of the values up to right, and returns where it ends on the left.
func (p *picture) drawScale(y axis, right float64) (left float64) {
	ticks := y.ticks()
	for _, v := range ticks {
		left = max(left, margin+widthOf(number(v)))
	}
	for _, v := range ticks {
		p.text(left, y.at(v), "soft", number(v), `text-anchor="end"`, lineDown(0))
		p.add(`<path class="grid" d="M%.1f %.1fH%.1f"/>`, left+font/3, y.at(v), right-font/2)
	}
	return left + font/3
}

// drawTicks draws the ticks of X below bottom: the ends and those that fit between them, or all names, on as many lines
// as they take. It returns the height.
func (p *picture) drawTicks(ticks []Tick, names bool, x axis, bottom float64) (height float64) {
	widest := 0.0 // so that ticks at even distances are written at even distances
	for _, t := range ticks {
		widest = max(widest, widthOf(t.Text))
		p.add(`<path class="grid" d="M%.1f %.1fv6"/>`, x.at(t.At), bottom)
	}
	below := space{area: box{0, bottom, width, math.Inf(1)}}
	for _, t := range endsFirst(ticks) {
		half := widthOf(t.Text) / 2
		at := min(max(x.at(t.At), margin+half), width-margin-half)
		if !names {
			half = widest / 2
		}
		line, b := 0.0, box{max(0, at-half-font/4), bottom + 8, min(width, at+half+font/4), bottom + 8 + font}
		for names && !below.fits(b) {
			b.top, b.bottom, line = b.top+lineSpace, b.bottom+lineSpace, line+1
		}
		if below.fits(b) {
			below.names = append(below.names, b)
			p.text(at, b.bottom, "soft", t.Text, `text-anchor="middle"`)
			height = max(height, 8+lineSpace*(line+1))
		}
	}
	return height
}

// endsFirst are ticks in the order in which they are written.
func endsFirst(ticks []Tick) []Tick {
	out := slices.SortedStableFunc(slices.Values(ticks), func(a, b Tick) int { return cmp.Compare(a.At, b.At) })
	if last := len(out) - 1; last > 1 {
		out = append([]Tick{out[0], out[last]}, out[1:last]...)
	}
	return out
}

// drawLine draws line number i.
func (p *picture) drawLine(points []Point, i int, x, y axis) {
	if len(points) == 0 {
		return
	}
	var path strings.Builder
	for k, q := range points {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(k, 1)], x.at(q.X), y.at(q.Y))
	}
	class := "line"
	if i/colours%2 == 1 {
		class += " dashed"
	}
	p.add(`<path class="%s %s" d="%s"/>`, class, colour(i), path.String())
	for _, q := range points {
		p.mark(x.at(q.X), y.at(q.Y), i)
	}
}
