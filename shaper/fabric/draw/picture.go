// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/layout"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/spatial/r2"

	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// DOT writes f in the language of Graphviz.
func DOT(w io.Writer, f *fabric.Fabric) {
	g := graphOf(f)
	fmt.Fprintf(w, "graph %q {\n", f.Config.Name)
	for i, sw := range g.switches {
		fmt.Fprintf(w, "  s%d [label=%q, shape=box, style=filled];\n", i, sw.name)
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

// Sizes in a picture, in its units. A node of the picture is a switch or a group of NICs.
const (
	margin        = 90
	meanDistance  = 120 // from a node to its nearest neighbour
	minHorizontal = 150 // distance of two nodes beside each other
	minVertical   = 40  // distance of two nodes above each other

	halfBox     = 32 // half the width of a switch
	halfEllipse = 72 // half the width of a group of NICs
	letter      = 6  // width of a letter
)

// SVG writes f as a picture. The positions follow from the number of links between
// switches and NICs (Isomap: Tenenbaum, de Silva and Langford 2000, by gonum), so the
// same fabric always gives the same picture. NICs with the same label are one group.
func SVG(w io.Writer, f *fabric.Fabric) {
	g := graphOf(f)
	var groups []vertex // the NICs on a switch, by the lines of the tree
	var home []int
	for i := range g.switches {
		for _, line := range nicLines(f, g, i) {
			groups, home = append(groups, vertex{name: line}), append(home, i)
		}
	}
	at := g.place(home)
	width, height := 0.0, 0.0
	for _, p := range at {
		width, height = max(width, p.X), max(height, p.Y)
	}
	fmt.Fprintf(w,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "+
			"font-size=\"11\">\n", width+margin, height+margin)
	fmt.Fprintln(w,
		`<marker id="arrow" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z" fill="#888"/></marker>`)
	for i := range groups {
		line(w, at[len(g.switches)+i], at[home[i]], "stroke-width=\"1\"")
	}
	for _, e := range g.edges {
		style := "stroke-width=\"2\""
		if e.down {
			style += " stroke-dasharray=\"4\""
		}
		if e.oneWay {
			style += " marker-mid=\"url(#arrow)\""
		}
		line(w, at[e.from], at[e.to], style)
	}
	for i, p := range at {
		if i < len(g.switches) {
			fmt.Fprintf(w,
				"<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"22\" rx=\"3\" fill=\"#cde\" stroke=\"#468\"/>\n",
				p.X-halfBox, p.Y-11, 2*halfBox)
			text(w, p, g.switches[i].name, "#000")
			continue
		}
		fmt.Fprintf(w, "<ellipse cx=\"%.1f\" cy=\"%.1f\" rx=\"%d\" ry=\"13\" fill=\"#fff\" stroke=\"#468\"/>\n", p.X,
			p.Y, halfEllipse)
		text(w, p, groups[i-len(g.switches)].name, "#000")
	}
	g.labels(w, at)
	if common := g.common(); common != "" {
		text(w, r2.Vec{X: width / 2, Y: height + margin - 12}, "links between switches: "+common+
			", except where another label is written", "#666")
	}
	fmt.Fprintln(w, "</svg>")
}

// labels writes the labels of the links between switches, above everything else.
func (g *graph) labels(w io.Writer, at []r2.Vec) {
	common := g.common()
	var written []r2.Vec
	for _, e := range g.edges {
		if e.label == common {
			continue
		}
		if e.oneWay { // the other direction may have a label on the same line
			e.label = "to " + g.switches[e.to].name + ": " + e.label
		}
		place := g.labelPlace(e, at, written)
		written = append(written, place)
		text(w, place, e.label, "#666")
	}
}

// labelPlace is a free place on the line of e, or just above or below it; the middle of
// the line if there is none.
func (g *graph) labelPlace(e edge, at, written []r2.Vec) r2.Vec {
	along := func(t float64) r2.Vec { return r2.Add(r2.Scale(1-t, at[e.from]), r2.Scale(t, at[e.to])) }
	for _, up := range []float64{0, -24, 24} {
		for _, t := range []float64{0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8} {
			p := r2.Add(along(t), r2.Vec{Y: up})
			if g.free(p, e.label, at, written) {
				return p
			}
		}
	}
	return along(0.5)
}

// free reports whether a label at p covers no node and none of the labels written, which
// are taken to have the same length.
func (g *graph) free(p r2.Vec, label string, nodes, written []r2.Vec) bool {
	half := letter * float64(len(label)) / 2
	covers := func(q r2.Vec, x, y float64) bool { return math.Abs(p.X-q.X) < half+x && math.Abs(p.Y-q.Y) < y }
	for i, q := range nodes {
		x := float64(halfEllipse)
		if i < len(g.switches) {
			x = halfBox
		}
		if covers(q, x, 17) {
			return false
		}
	}
	return !slices.ContainsFunc(written, func(q r2.Vec) bool { return covers(q, half, 12) })
}

// fewEdges is the number of links up to which each one has its label.
const fewEdges = 12

// common is the most frequent label of the links between switches, "" if there are few.
func (g *graph) common() string {
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

// line draws a line with an inner point, where the arrow is placed.
func line(w io.Writer, a, b r2.Vec, style string) {
	arrow := r2.Add(r2.Scale(0.4, a), r2.Scale(0.6, b))
	fmt.Fprintf(w, "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1f\" fill=\"none\" stroke=\"#888\" %s/>\n", a.X, a.Y, arrow.X,
		arrow.Y, b.X, b.Y, style)
}

func text(w io.Writer, at r2.Vec, s, colour string) {
	fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\">%s</text>\n", at.X, at.Y+4, colour,
		escape(s))
}

func escape(s string) string {
	var b strings.Builder
	// Writing to a strings.Builder does not fail.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// ordered is a graph that returns its nodes in the order of their numbers, so that the
// layout is always the same.
type ordered struct {
	*simple.UndirectedGraph
	nodes []gonum.Node
}

func (o ordered) Nodes() gonum.Nodes { return iterator.NewOrderedNodes(o.nodes) }

// place returns the positions of the switches, and then of the groups of NICs: home[i] is
// the switch of group i.
func (g *graph) place(home []int) []r2.Vec {
	u := ordered{UndirectedGraph: simple.NewUndirectedGraph()}
	for i := range len(g.switches) + len(home) {
		u.AddNode(simple.Node(i))
		u.nodes = append(u.nodes, simple.Node(i))
	}
	for i, h := range home {
		u.SetEdge(simple.Edge{F: simple.Node(len(g.switches) + i), T: simple.Node(h)})
	}
	for _, e := range g.edges {
		u.SetEdge(simple.Edge{F: simple.Node(e.from), T: simple.Node(e.to)})
	}
	o := layout.NewOptimizerR2(u, layout.IsomapR2{}.Update)
	for o.Update() {
	}
	at := make([]r2.Vec, len(u.nodes))
	for i := range at {
		at[i] = o.LayoutNodeR2(int64(i)).Coord2
	}
	return fit(at)
}

// fit scales the positions to the size of the picture and separates nodes that would
// cover each other, because they have the same links.
func fit(at []r2.Vec) []r2.Vec {
	least, most := corners(at)
	scale := meanDistance * math.Sqrt(float64(len(at))) / max(most.X-least.X, most.Y-least.Y, 1e-9)
	for i := range at {
		// Some positions are equal. A small offset gives separate a direction.
		turn := float64(i) * math.Pi * (3 - math.Sqrt(5))
		at[i] = r2.Add(r2.Scale(scale, at[i]), r2.Vec{X: math.Cos(turn), Y: math.Sin(turn)})
	}
	for moved, round := true, 0; moved && round < 200; round++ {
		moved = false
		for i := range at {
			for k := range i {
				moved = separate(&at[i], &at[k]) || moved
			}
		}
	}
	least, _ = corners(at)
	for i := range at {
		at[i] = r2.Add(r2.Sub(at[i], least), r2.Vec{X: margin, Y: margin})
	}
	return at
}

// separate moves two nodes apart, horizontally or vertically, if they are too close. It
// reports whether it did.
func separate(a, b *r2.Vec) bool {
	d := r2.Sub(*a, *b)
	x, y := minHorizontal-math.Abs(d.X), minVertical-math.Abs(d.Y)
	if x <= 0 || y <= 0 {
		return false
	}
	var by r2.Vec
	if x/minHorizontal < y/minVertical {
		by.X = math.Copysign(x/2+0.5, d.X)
	} else {
		by.Y = math.Copysign(y/2+0.5, d.Y)
	}
	*a, *b = r2.Add(*a, by), r2.Sub(*b, by)
	return true
}

func corners(at []r2.Vec) (least, most r2.Vec) {
	least, most = at[0], at[0]
	for _, p := range at {
		least = r2.Vec{X: min(least.X, p.X), Y: min(least.Y, p.Y)}
		most = r2.Vec{X: max(most.X, p.X), Y: max(most.Y, p.Y)}
	}
	return least, most
}
