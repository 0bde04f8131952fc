// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/layout"
)

// DOT writes f in the language of Graphviz.
func DOT(w io.Writer, f *fabric.Fabric) {
	g := graphOf(f)
	fmt.Fprintf(w, "graph %q {\n", f.Config.Name)
	for i, sw := range g.switches {
		fmt.Fprintf(w, "  s%d [label=%q, shape=box, style=filled];\n", i, sw)
	}
	for n, name := range g.nics {
		fmt.Fprintf(w, "  n%d [label=%q];\n  n%d -- s%d [label=%q];\n", n, name, n, g.home[n], g.portLabel(f, n))
	}
	for _, e := range g.edges {
		more := ""
		if e.oneWay {
			more = ", dir=forward"
		}
		if e.down {
			more += ", style=dashed"
		}
		fmt.Fprintf(w, "  s%d -- s%d [label=%q%s];\n", e.from, e.to, e.label, more)
	}
	fmt.Fprintln(w, "}")
}

// Sizes in a picture, in its units.
const (
	letter      = 6.5 // width of a letter, about
	textHeight  = 12.0
	leastSwitch = 64.0 // width
	leastGroup  = 144.0
	leastBeside = 34.0 // between switches beside each other
)

// Styles of texts. What is written on a line has a white rim.
const (
	onNode = `fill="#000"`
	onLine = `fill="#555" stroke="#fff" stroke-width="3" paint-order="stroke"`
)

// group is NICs on a switch that have one line in the tree.
type group struct {
	name string
	home int
}

// picture is a fabric with a place for all of it.
type picture struct {
	*graph
	groups []group
	common string   // label of the links that have none of their own
	labels []string // of each of edges, "" if it is common
	layout.Sizes
	at layout.Picture
}

func pictureOf(f *fabric.Fabric) *picture {
	p := &picture{graph: graphOf(f)}
	p.Switch, p.Leaf, p.Beside = layout.Box{W: leastSwitch, H: 22}, layout.Box{W: leastGroup, H: 26}, leastBeside
	var leaves []layout.Leaf
	for i, name := range p.switches {
		p.Switch.W = max(p.Switch.W, widthOf(name)+8)
		for _, line := range nicLines(f, p.graph, i) {
			p.groups, leaves = append(p.groups, group{line, i}), append(leaves, layout.Leaf{Switch: i})
			p.Leaf.W = max(p.Leaf.W, widthOf(line)+24)
		}
	}
	p.addLabels()
	p.at = layout.Place(f, leaves, p.Sizes)
	return p
}

// addLabels makes the labels of the links between switches, and space for them.
func (p *picture) addLabels() {
	p.common = p.mostFrequent()
	for _, e := range p.edges {
		label := e.label
		switch {
		case label == p.common:
			label = ""
		case e.oneWay: // the other direction may have a label on the same line
			label = "to " + p.switches[e.to] + ": " + label
		}
		p.labels = append(p.labels, label)
		p.Beside = max(p.Beside, widthOf(label)+8)
	}
}

func widthOf(text string) float64 { return letter * float64(utf8.RuneCountInString(text)) }

// SVG writes f as a picture, always the same of the same fabric. NICs on one switch with the same label are one group.
func SVG(w io.Writer, f *fabric.Fabric) {
	p := pictureOf(f)
	note, height := "", p.at.Height
	if p.common != "" {
		note = "links between switches: " + p.common + ", except where another label is written"
		height += 2 * textHeight
	}
	fmt.Fprintf(w,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "+
			"font-size=\"11\">\n", p.at.Width, height)
	fmt.Fprintln(w,
		`<marker id="arrow" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z" fill="#888"/></marker>`)
	p.lines(w)
	for i, at := range p.at.Switches {
		fmt.Fprintf(w,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"3\" fill=\"#cde\" stroke=\"#468\"/>\n",
			at.X-p.Switch.W/2, at.Y-p.Switch.H/2, p.Switch.W, p.Switch.H)
		text(w, at, p.switches[i], onNode)
	}
	for i, at := range p.at.Leaves {
		fmt.Fprintf(w, "<ellipse cx=\"%.1f\" cy=\"%.1f\" rx=\"%.1f\" ry=\"%.1f\" fill=\"#fff\" stroke=\"#468\"/>\n",
			at.X, at.Y, p.Leaf.W/2, p.Leaf.H/2)
		text(w, at, p.groups[i].name, onNode)
	}
	p.writeLabels(w)
	text(w, layout.Point{X: p.at.Width / 2, Y: height - textHeight}, note, onNode)
	fmt.Fprintln(w, "</svg>")
}

// lines writes the ports and links.
func (p *picture) lines(w io.Writer) {
	for i, g := range p.groups {
		line(w, p.at.Leaves[i], p.at.Switches[g.home], "stroke-width=\"1\"")
	}
	for _, e := range p.edges {
		style := "stroke-width=\"2\""
		if e.down {
			style += " stroke-dasharray=\"4\""
		}
		if e.oneWay {
			style += " marker-mid=\"url(#arrow)\""
		}
		line(w, p.at.Switches[e.from], p.at.Switches[e.to], style)
	}
}

// writeLabels writes the labels of the links between switches, above everything else.
func (p *picture) writeLabels(w io.Writer) {
	var written []textBox
	for i, e := range p.edges {
		if p.labels[i] != "" {
			at := p.labelPlace(e, widthOf(p.labels[i])/2, written)
			written = append(written, at)
			text(w, at.Point, p.labels[i], onLine)
		}
	}
}

// textBox is where a text is written.
type textBox struct {
	layout.Point
	half float64 // of its width
}

// labelPlace is a free place on the line of e, or just above or below it; the middle of the line if there is none.
// Lines often cross in their middles.
func (p *picture) labelPlace(e edge, half float64, written []textBox) textBox {
	a, b := p.at.Switches[e.from], p.at.Switches[e.to]
	for _, up := range []float64{0, -24, 24} {
		for _, t := range []float64{0.4, 0.6, 0.5, 0.3, 0.7, 0.2, 0.8} {
			at := between(a, b, t)
			at.Y += up
			if l := (textBox{at, half}); p.free(l, written) {
				return l
			}
		}
	}
	return textBox{between(a, b, 0.5), half}
}

// free reports whether a label is inside the picture and covers no node and none of the labels written.
func (p *picture) free(l textBox, written []textBox) bool {
	near := func(q layout.Point, x, y float64) bool { return math.Abs(l.X-q.X) < x && math.Abs(l.Y-q.Y) < y }
	covers := func(b layout.Box) func(layout.Point) bool {
		return func(q layout.Point) bool { return near(q, l.half+b.W/2, (textHeight+b.H)/2) }
	}
	return l.X >= l.half && l.X+l.half <= p.at.Width && !slices.ContainsFunc(p.at.Switches, covers(p.Switch)) &&
		!slices.ContainsFunc(p.at.Leaves, covers(p.Leaf)) &&
		!slices.ContainsFunc(written, func(o textBox) bool { return near(o.Point, l.half+o.half, textHeight) })
}

// fewEdges is the number of links up to which each one has its label.
const fewEdges = 12

// mostFrequent is the most frequent label of the links between switches, "" if there are few.
func (g *graph) mostFrequent() string {
	count, best := map[string]int{}, ""
	for _, e := range g.edges {
		count[e.label]++
	}
	for _, e := range g.edges {
		if len(g.edges) > fewEdges && count[e.label] > count[best] {
			best = e.label
		}
	}
	return best
}

// between is the place at the part t of the way from a to b.
func between(a, b layout.Point, t float64) layout.Point {
	return layout.Point{X: (1-t)*a.X + t*b.X, Y: (1-t)*a.Y + t*b.Y}
}

// line draws a line with an inner point, where the arrow is placed.
func line(w io.Writer, a, b layout.Point, style string) {
	arrow := between(a, b, 0.6)
	fmt.Fprintf(w, "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1f\" fill=\"none\" stroke=\"#888\" %s/>\n", a.X, a.Y, arrow.X,
		arrow.Y, b.X, b.Y, style)
}

// text writes s with its middle at a place, nothing if it is empty.
func text(w io.Writer, at layout.Point, s, style string) {
	if s == "" {
		return
	}
	fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" %s>%s</text>\n", at.X, at.Y+4, style, escape(s))
}

func escape(s string) string {
	var b strings.Builder
	// Writing to a strings.Builder does not fail.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
