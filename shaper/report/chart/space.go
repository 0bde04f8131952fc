// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"math"
	"slices"
)

// space is where names can be written in an area: they cover no points and no other names.
type space struct {
	area   box
	points []Point
	names  []box
}

type box struct{ left, top, right, bottom float64 }

func (b box) overlaps(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// within reports whether b is in o.
func (b box) within(o box) bool {
	return b.left >= o.left && b.right <= o.right && b.top >= o.top && b.bottom <= o.bottom
}

const markRadius = 5.0

// fits reports whether a name can be written in b.
func (s *space) fits(b box) bool {
	return b.within(s.area) && !slices.ContainsFunc(s.names, b.overlaps) &&
		!slices.ContainsFunc(s.points, func(p Point) bool {
			return b.overlaps(box{p.X - markRadius, p.Y - markRadius, p.X + markRadius, p.Y + markRadius})
		})
}

const (
	directions = 16
	distances  = 24 // that are tried
	mostPoints = 64 // of a group beside which its name is tried
)

// beside finds a place for a name of a width near one of some points: the nearest free one. It takes the place. ok is
// false if there is none.
func (s *space) beside(points []Point, wide float64) (at box, point Point, ok bool) {
	if step := (len(points) + mostPoints - 1) / mostPoints; step > 1 {
		var some []Point
		for i := 0; i < len(points); i += step {
			some = append(some, points[i])
		}
		points = some
	}
	for d := range distances {
		distance := 3 + float64(d)*font*0.75
		for _, p := range points {
			for k := range directions {
				sin, cos := math.Sincos(2 * math.Pi * float64(k) / directions)
				// The middle of the name; at the distance from its edge.
				x, y := p.X+cos*(distance+markRadius+wide/2), p.Y+sin*(distance+markRadius+lineSpace/2)
				b := box{x - wide/2, y - lineSpace/2, x + wide/2, y + lineSpace/2}
				if s.fits(b) {
					s.names = append(s.names, b)
					return b, p, true
				}
			}
		}
	}
	return box{}, Point{}, false
}

// nameGroup writes the name of group i near one of its points, rather near one that is far from the others. If there is
// no free place, the name is written below the picture.
func (p *picture) nameGroup(group *Line, i int, x, y axis, free *space) {
	var points []Point
	for _, q := range group.Points {
		points = append(points, Point{x.at(q.X), y.at(q.Y)})
	}
	if len(points) == 0 {
		return
	}
	// In units of the picture, both axes begin at the corner on the lower left.
	off := func(q Point) float64 { return math.Abs((q.X-x.from)/(x.to-x.from) - (q.Y-y.from)/(y.to-y.from)) }
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(off(b), off(a)) })
	if b, point, ok := free.beside(points, widthOf(group.Name)+font/2); ok {
		p.nameAt(b, point, colour(i), group.Name)
		return
	}
	for k, line := range wrap(group.Name, lettersIn(width-2*margin-font)) {
		if k == 0 {
			p.mark(margin+markRadius, p.y+lineSpace/2, i)
		}
		p.text(margin+font, p.y+lineSpace/2, "name "+colour(i), line, lineDown(0))
		p.y += lineSpace
	}
}

// nameAt writes a name into a box, with a thin line to its point.
func (p *picture) nameAt(b box, to Point, class, name string) {
	from := Point{min(max(to.X, b.left+font/4), b.right-font/4), min(max(to.Y, b.top), b.bottom)}
	p.add(`<path class="lead %s" d="M%.1f %.1fL%.1f %.1f"/>`, class, from.X, from.Y, to.X, to.Y)
	p.text((b.left+b.right)/2, (b.top+b.bottom)/2, "name "+class, name, `text-anchor="middle"`, lineDown(0))
}

// points are some on the line, from its upper end on.
func (g *Guide) points(x, y axis) (out []Point) {
	for k := 100; k >= 0; k-- {
		v := x.low * math.Pow(x.high/x.low, float64(k)/100)
		if v*g.Factor >= y.low && v*g.Factor <= y.high {
			out = append(out, Point{x.at(v), y.at(v * g.Factor)})
		}
	}
	return out
}

// nameGuide writes the name of a guide near its line, if there is a free place.
func (p *picture) nameGuide(g *Guide, x, y axis, free *space) {
	if g.Name == "" {
		return
	}
	if b, point, ok := free.beside(g.points(x, y), widthOf(g.Name)+font/2); ok {
		p.nameAt(b, point, "guides", g.Name)
	}
}
