// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"io"
	"math"
)

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
