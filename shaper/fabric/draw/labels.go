// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"io"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/fabric/layout"
)

// placedLabel is the text on the line of a link.
type placedLabel struct {
	textBox
	text string
	down bool
}

// placeLabels gives places to the labels of links between switches. It returns lines for labels without a place.
func (p *picture) placeLabels() (without []string) {
	var written []textBox
	for i, e := range p.edges {
		if p.labels[i] == "" {
			continue
		}
		at, free := p.labelPlace(e, widthOf(p.labels[i])/2, written)
		if !free {
			way := " and "
			if e.oneWay {
				way = " to "
			}
			without = append(without, "link "+p.switches[e.from]+way+p.switches[e.to]+": "+e.label)
			continue
		}
		written = append(written, at)
		p.placed = append(p.placed, placedLabel{at, p.labels[i], e.down})
	}
	return without
}

// writeLabels writes the labels of the links between switches, above everything else.
func (p *picture) writeLabels(w io.Writer) {
	for _, l := range p.placed {
		class := "label"
		if l.down {
			class += " down"
		}
		text(w, l.Point, class, l.text)
	}
}

// textBox is where a text is written.
type textBox struct {
	layout.Point
	half float64 // of its width
}

// labelPlace is a free place on the line of e, or just above or below it. Lines often cross in their middles.
func (p *picture) labelPlace(e edge, half float64, written []textBox) (l textBox, free bool) {
	a, b := p.Switches[e.from], p.Switches[e.to]
	for _, up := range []float64{0, -24, 24} {
		for _, t := range []float64{0.4, 0.6, 0.5, 0.3, 0.7, 0.2, 0.8} {
			at := between(a, b, t)
			at.Y += up
			if l := (textBox{at, half}); p.free(l, written) {
				return l, true
			}
		}
	}
	return textBox{}, false
}

// free reports whether a label is inside the picture and covers no node and none of the labels written.
func (p *picture) free(l textBox, written []textBox) bool {
	near := func(q layout.Point, x, y float64) bool { return math.Abs(l.X-q.X) < x && math.Abs(l.Y-q.Y) < y }
	covers := func(b layout.Box) func(layout.Point) bool {
		return func(q layout.Point) bool { return near(q, l.half+b.W/2, (lineHeight+b.H)/2) }
	}
	inRack := func(r layout.Rack) bool {
		return near(layout.Point{X: r.X, Y: r.Y + r.H/2}, l.half+r.W/2, (lineHeight+r.H)/2)
	}
	inside := l.X >= l.half && l.X+l.half <= p.Width && l.Y >= lineHeight && l.Y <= p.Height-lineHeight
	return inside && !slices.ContainsFunc(p.Switches, covers(p.Switch)) &&
		!slices.ContainsFunc(p.Leaves, covers(p.NIC)) && !slices.ContainsFunc(p.Racks, inRack) &&
		!slices.ContainsFunc(written, func(o textBox) bool { return near(o.Point, l.half+o.half, lineHeight) })
}
