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

// Shares is a picture of the parts of a whole: a bar for each, one below the other.
type Shares struct {
	Title, X string // what it is about, and what the whole is
	Parts    []Share
}

// Share is a part.
type Share struct {
	Name    string
	Percent float64
	Differs bool // in colour, from the other parts
}

const (
	barHeight = 16.0
	full      = width - 2*margin // length of the bar of 100 %
)

// WriteSVG draws the shares.
func (s *Shares) WriteSVG(w io.Writer) error {
	p := begin(s.Title, s.X)
	for _, part := range s.Parts {
		percent := fmt.Sprintf("%.1f %%", part.Percent)
		for i, line := range wrap(part.Name, lettersIn(full)-len(percent)-2) {
			if p.text(margin, p.y+font, "part", line); i == 0 {
				p.text(width-margin, p.y+font, "part", percent, `text-anchor="end"`)
			}
			p.y += lineSpace
		}
		number := 0
		if part.Differs {
			number = 1
		}
		p.add(`<rect class="track" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, margin, p.y, full, barHeight)
		p.add(`<rect class="mark %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"/>`, colour(number), margin, p.y,
			full*min(max(part.Percent/100, 0), 1), barHeight)
		p.y += barHeight + font/2
	}
	return p.writeTo(w)
}

// Scatter is a picture of pairs of values of the same unit, both axes logarithmic and with the same range.
type Scatter struct {
	Title, X, Y string  // labels
	Groups      []Line  // points without lines, with a colour for each group; all values must be above 0
	Guides      []Guide // lines through all of the picture
}

// Guide is the line on which Y is Factor times X.
type Guide struct {
	Name   string // "" for none
	Factor float64
	Dashed bool
}

const scatterHeight = 480.0 // of the area of the points

// WriteSVG draws the picture. A picture without points is an error.
func (s *Scatter) WriteSVG(w io.Writer) error {
	low, high, ok := s.span()
	if !ok {
		return fmt.Errorf("draw %s: there are no points", s.Title)
	}
	p := begin(s.Title, s.Y)
	top, bottom := p.y, p.y+scatterHeight
	right := width - margin - max(font, widthOf(number(high))/2)
	y := axis{log: true, low: low, high: high, from: bottom, to: top}
	left := p.drawScale(y, right+font/2)
	x := axis{log: true, low: low, high: high, from: left, to: right}
	var ticks []Tick
	for _, v := range x.ticks() {
		ticks = append(ticks, Tick{v, number(v)})
		p.add(`<path class="grid" d="M%.1f %.1fV%.1f"/>`, x.at(v), bottom, top)
	}
	p.y = bottom + p.drawTicks(ticks, false, x, bottom) + lineSpace
	p.text((left+right)/2, p.y-font*0.3, "soft", s.X, `text-anchor="middle"`)
	free := &space{area: box{left, top, right, bottom}}
	for i := range s.Guides {
		s.Guides[i].draw(p, x, y)
		free.points = append(free.points, s.Guides[i].points(x, y)...)
	}
	for i, g := range s.Groups {
		for _, q := range g.Points {
			p.mark(x.at(q.X), y.at(q.Y), i)
			free.points = append(free.points, Point{x.at(q.X), y.at(q.Y)})
		}
	}
	for i := range s.Groups {
		p.nameGroup(&s.Groups[i], i, x, y, free)
	}
	for i := range s.Guides {
		p.nameGuide(&s.Guides[i], x, y, free)
	}
	return p.writeTo(w)
}

// span is the range of all values, as whole powers of ten; ok is false if there are none.
func (s *Scatter) span() (low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, g := range s.Groups {
		for _, x := range g.Points {
			low, high = min(low, x.X, x.Y), max(high, x.X, x.Y)
		}
	}
	if low > high {
		return 0, 0, false
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if low == high { // all values are the same power of ten
		high++
	}
	return math.Pow(10, low), math.Pow(10, high), true
}

// draw draws the part of the line that lies in the picture.
func (g *Guide) draw(p *picture, x, y axis) {
	from, to := max(x.low, x.low/g.Factor), min(x.high, x.high/g.Factor)
	class := "guide"
	if g.Dashed {
		class += " dashed"
	}
	p.add(`<path class="%s" d="M%.1f %.1fL%.1f %.1f"/>`, class, x.at(from), y.at(from*g.Factor), x.at(to),
		y.at(to*g.Factor))
}
