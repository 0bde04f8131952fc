// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/layout"
	"github.com/ddlemu/ddlemu/shaper/internal/xmltext"
)

// Sizes in a picture, in its units.
const (
	letter     = 6.5 // width of a letter, about
	lineHeight = 16.0
	margin     = 22.0 // beside the lines of text
	mostNotes  = 8    // lines about NICs that differ, and about links without a label
)

// style has the colours of a light and of a dark page. Red is for links that are down.
const style = `<style>
svg { background: #fff; color-scheme: light dark }
text { font: 11px system-ui, "DejaVu Sans", sans-serif; fill: #1d2a33; text-anchor: middle }
.back { fill: #fff }
.line { stroke: #7b8992; fill: none }
.box { fill: #fff; stroke: #5b6b76; stroke-width: 1.5 }
.port { fill: #4fa3d8 }
.note, .node { text-anchor: start }
.label { fill: #44525b; stroke: #fff; stroke-width: 3px; paint-order: stroke }
.arrow { fill: #7b8992 }
.line.down { stroke: #d32f2f; stroke-dasharray: 4 4 }
.port.down { fill: #d32f2f }
.label.down { fill: #c62828; font-weight: 600 }
@media (prefers-color-scheme: dark) {
svg { background: #12181c }
text { fill: #e3eaee } .back { fill: #12181c } .box { fill: #1b2329; stroke: #9fb0ba }
.label { fill: #b9c7cf; stroke: #12181c }
.line.down { stroke: #ff7b76 } .port.down { fill: #ff7b76 } .label.down { fill: #ff7b76 }
}
</style>
`

// picture is a fabric with a place for all of it.
type picture struct {
	*graph
	layout.Plan
	fabric *fabric.Fabric
	common string   // label of the links between switches that have none of their own
	labels []string // of each of edges, "" if it is common
	placed []placedLabel
	notes  []string // below the fabric
}

func pictureOf(f *fabric.Fabric) *picture {
	p := &picture{graph: graphOf(f), fabric: f}
	p.Plan = layout.Of(f, p.addLabels())
	p.notes = p.ports(f)
	if p.common != "" {
		note := "links between switches: " + p.common
		if strings.Join(p.labels, "") != "" {
			note += ", except where another label is written"
		}
		p.notes = append(p.notes, note)
	}
	p.notes = append(p.notes, shortened(p.placeLabels())...)
	p.notes = append(p.notes, p.pairLines(f)...)
	return p
}

// addLabels makes the labels of the links between switches. It returns the space that they need between switches.
func (p *picture) addLabels() (beside float64) {
	p.common, beside = p.mostFrequent(), layout.Beside
	for _, e := range p.edges {
		label := e.label
		switch {
		case label == p.common:
			label = ""
		case e.oneWay: // the other direction may have a label on the same line
			label = "to " + p.switches[e.to] + ": " + label
		}
		p.labels = append(p.labels, label)
		beside = max(beside, widthOf(label)+8)
	}
	return beside
}

// ports are lines with the rates of NICs: the rate of most NICs, and the rates of the others.
func (p *picture) ports(f *fabric.Fabric) (lines []string) {
	count, common := map[string]int{}, ""
	for n := range p.nics {
		label := p.portLabel(f, n)
		if count[label]++; count[label] > count[common] {
			common = label
		}
	}
	lines = []string{"ports of NICs: " + common}
	for sw := range p.switches {
		for _, line := range nicLines(f, p.graph, sw) {
			if _, label, _ := strings.Cut(line, "  "); label != common {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) > 1 {
		lines[0] += ", except of these:"
	}
	return append(lines[:1], shortened(lines[1:])...)
}

// shortened is the first of many lines.
func shortened(lines []string) []string {
	if more := len(lines) - mostNotes; more > 1 {
		return append(lines[:mostNotes:mostNotes], fmt.Sprintf("and %d more", more))
	}
	return lines
}

func widthOf(text string) float64 { return letter * float64(utf8.RuneCountInString(text)) }

// SVG writes f as a picture, always the same of the same fabric. All is at the places of layout.Of, as on the pages of
// `ddlemu serve` and `ddlemu report`.
func SVG(w io.Writer, f *fabric.Fabric) {
	p := pictureOf(f)
	width := p.Width
	for _, note := range p.notes {
		width = max(width, widthOf(note)+2*margin)
	}
	height := p.Height + lineHeight*float64(len(p.notes)) + lineHeight/2
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n",
		width, height, width, height)
	fmt.Fprintf(w, "<title>%s</title>\n%s<rect class=\"back\" width=\"%.0f\" height=\"%.0f\"/>\n",
		xmltext.Escape(f.Config.Name), style, width, height)
	fmt.Fprintln(w,
		`<marker id="arrow" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z" class="arrow"/></marker>`)
	fmt.Fprintf(w, "<g transform=\"translate(%.1f 0)\">\n", (width-p.Width)/2)
	p.writeLinks(w)
	if p.Racks == nil {
		p.writeNICs(w)
	} else {
		p.writeRacks(w)
	}
	for i, at := range p.Switches {
		writeBox(w, layout.Point{X: at.X - p.Switch.W/2, Y: at.Y - p.Switch.H/2}, p.Switch)
		text(w, at, "", p.switches[i])
	}
	p.writeLabels(w)
	fmt.Fprintln(w, "</g>")
	for i, note := range p.notes {
		text(w, layout.Point{X: margin, Y: p.Height + lineHeight*float64(i)}, "note", note)
	}
	fmt.Fprintln(w, "</svg>")
}

// writeLinks writes the links between switches.
func (p *picture) writeLinks(w io.Writer) {
	for _, e := range p.edges {
		more := ` stroke-width="2"`
		if e.oneWay {
			more += ` marker-mid="url(#arrow)"`
		}
		line(w, p.Switches[e.from], p.Switches[e.to], e.down, more)
	}
}

// writeNICs writes NICs as circles, each with a line to its switch.
func (p *picture) writeNICs(w io.Writer) {
	for n, at := range p.Leaves {
		line(w, at, p.Switches[p.home[n]], p.isDown(n), "")
	}
	for n, at := range p.Leaves {
		fmt.Fprintf(w, `<circle cx="%.1f" cy="%.1f" r="%.1f" class="box"><title>%s</title></circle>`+"\n", at.X, at.Y,
			p.NIC.W/2, xmltext.Escape(p.nics[n]+"  "+p.portLabel(p.fabric, n)))
		text(w, at, "", strings.TrimPrefix(p.nics[n], "node"))
	}
}

// writeRacks writes racks with a box for each NIC, and a line from each rack to each of its switches.
func (p *picture) writeRacks(w io.Writer) {
	for _, r := range p.Racks {
		for _, s := range r.Switches {
			line(w, r.Point, p.Switches[s], !p.reaches(r, s), "")
		}
	}
	for _, r := range p.Racks {
		writeBox(w, layout.Point{X: r.X - r.W/2, Y: r.Y}, r.Box)
		for _, n := range r.Nodes {
			text(w, n.Point, "node", n.Name)
			for _, nic := range p.nicsOf(n.Node) {
				p.writePort(w, nic)
			}
		}
	}
}

// reaches reports whether a NIC of a rack is up that is on a switch.
func (p *picture) reaches(r layout.Rack, sw int) bool {
	return slices.ContainsFunc(r.Nodes, func(n layout.RackNode) bool {
		return slices.ContainsFunc(p.nicsOf(n.Node), func(nic int) bool { return p.home[nic] == sw && !p.isDown(nic) })
	})
}

// writePort writes the box of a NIC in a rack.
func (p *picture) writePort(w io.Writer, nic int) {
	class, at := "port", p.Leaves[nic]
	if p.isDown(nic) {
		class += " down"
	}
	fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" class="%s"><title>%s</title></rect>`+"\n",
		at.X-p.Port.W/2, at.Y-p.Port.H/2, p.Port.W, p.Port.H, class,
		xmltext.Escape(p.nics[nic]+"  "+p.portLabel(p.fabric, nic)))
}

// nicsOf are the NICs of a node.
func (p *picture) nicsOf(node int) (all []int) {
	for nic := range p.fabric.Config.NICsPerNode {
		all = append(all, p.fabric.NIC(node, nic))
	}
	return all
}

// isDown reports whether a direction of a NIC is down: its port is, or all links from it or to it.
func (p *picture) isDown(n int) bool {
	return p.fabric.Config.Nodes > 1 && !(p.out[n] && p.in[n]) ||
		slices.ContainsFunc(p.fabric.Hops, func(h fabric.Hop) bool {
			return (h.Kind == link.TxPort || h.Kind == link.RxPort) && h.Src == n && h.Spec.Down
		})
}

// fewEqual is the number of links with the same label up to which each one has its label.
const fewEqual = 3

// mostFrequent is the most frequent label of the links between switches, "" if few have it.
func (g *graph) mostFrequent() (best string) {
	count := map[string]int{}
	for _, e := range g.edges {
		count[e.label]++
	}
	for _, e := range g.edges {
		if count[e.label] > max(fewEqual, count[best]) {
			best = e.label
		}
	}
	return best
}

// between is the place at the part t of the way from a to b.
func between(a, b layout.Point, t float64) layout.Point {
	return layout.Point{X: (1-t)*a.X + t*b.X, Y: (1-t)*a.Y + t*b.Y}
}

// line draws a line with an inner point, where an arrow is placed.
func line(w io.Writer, a, b layout.Point, down bool, more string) {
	class, inner := "line", between(a, b, 0.6)
	if down {
		class += " down"
	}
	fmt.Fprintf(w, `<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1f" class="%s"%s/>`+"\n", a.X, a.Y, inner.X, inner.Y, b.X, b.Y,
		class, more)
}

func writeBox(w io.Writer, corner layout.Point, b layout.Box) {
	fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" class="box"/>`+"\n", corner.X, corner.Y,
		b.W, b.H)
}

// text writes s at half the height of a line.
func text(w io.Writer, at layout.Point, class, s string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>\n", at.X, at.Y+4, class, xmltext.Escape(s))
}
