// SPDX-License-Identifier: Apache-2.0

// Package draw writes a fabric for people: as a tree of text, as a graph in the language
// DOT, and as a picture in SVG.
package draw

import (
	"fmt"
	"io"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Tree writes f as a tree: its switches, and below each the NICs on it and its links to
// others with their rates, then lines about the whole fabric. A link that is the same in
// both directions is described at one of its ends; the other end refers to it.
func Tree(w io.Writer, f *fabric.Fabric) {
	c := &f.Config
	kind := topology.Star
	if f.Net != nil {
		kind = c.Topology.Kind
	}
	fmt.Fprintf(w, "fabric %s: %s, %s, NICs per node: %d\n", c.Name, kind, units.Count(c.Nodes, "node"), c.NICsPerNode)
	g := graphOf(f)
	for i, sw := range g.switches {
		branch, bar := "├─ ", "│  "
		if i == len(g.switches)-1 {
			branch, bar = "└─ ", "   "
		}
		fmt.Fprintln(w, branch+sw)
		lines := append(nicLines(f, g, i), g.edgeLines(i)...)
		for k, line := range lines {
			leaf := "├─ "
			if k == len(lines)-1 {
				leaf = "└─ "
			}
			fmt.Fprintln(w, bar+leaf+line)
		}
	}
	for _, line := range g.figures(f) {
		fmt.Fprintln(w, line)
	}
}

// graph is the fabric in the form that Tree, DOT and SVG draw.
type graph struct {
	switches []string // names
	nics     []string // names
	home     []int    // switch of each NIC
	out, in  []bool   // whether a link from each NIC, to each NIC is up
	edges    []edge   // between switches; one edge for both directions if they are the same
}

type edge struct {
	from, to int
	label    string
	oneWay   bool
	down     bool
}

func graphOf(f *fabric.Fabric) *graph {
	g := &graph{switches: f.Switches()}
	for n := range f.NICs() {
		g.nics, g.home = append(g.nics, f.NICName(n)), append(g.home, f.Home(n))
	}
	g.out, g.in = make([]bool, f.NICs()), make([]bool, f.NICs())
	for _, h := range f.Hops {
		if h.Kind == link.Link && !h.Spec.Down {
			g.out[h.Src], g.in[h.Dst] = true, true
		}
	}
	g.addEdges(f)
	return g
}

// edgeLines lists the links between a switch and others.
func (g *graph) edgeLines(sw int) []string {
	var lines, above []string
	for _, e := range g.edges {
		switch {
		case e.from == sw && e.oneWay:
			lines = append(lines, fmt.Sprintf("to %s  %s", g.switches[e.to], e.label))
		case e.from == sw:
			lines = append(lines, fmt.Sprintf("to and from %s  %s", g.switches[e.to], e.label))
		case e.to == sw && e.oneWay:
			lines = append(lines, fmt.Sprintf("from %s  %s", g.switches[e.from], e.label))
		case e.to == sw:
			above = append(above, g.switches[e.from])
		}
	}
	if above != nil {
		lines = append(lines, "to and from "+strings.Join(above, ", ")+": above")
	}
	return lines
}

// nicLines lists the NICs on a switch. Consecutive NICs with the same label share a line.
func nicLines(f *fabric.Fabric, g *graph, sw int) []string {
	var lines []string
	for n := 0; n < len(g.nics); n++ {
		if g.home[n] != sw {
			continue
		}
		label, last := g.portLabel(f, n), n
		for k := n + 1; k < len(g.nics) && g.home[k] == sw && g.portLabel(f, k) == label; k++ {
			last = k
		}
		name := g.nics[n]
		if last > n {
			name += " to " + g.nics[last]
		}
		lines = append(lines, name+"  "+label)
		n = last
	}
	return lines
}

// portLabel is the rates of a NIC's ports, and whether all its links are down.
func (g *graph) portLabel(f *fabric.Fabric, n int) string {
	tx, rx := fabric.LinkOf(f.Hops[2*n].Spec).Bandwidth, fabric.LinkOf(f.Hops[2*n+1].Spec).Bandwidth
	label := tx.String()
	if tx != rx {
		label = fmt.Sprintf("%s out, %s in", tx, rx)
	}
	switch {
	case f.Config.Nodes == 1 || g.out[n] && g.in[n]:
	case g.out[n]:
		label += ", DOWN in"
	case g.in[n]:
		label += ", DOWN out"
	default:
		label += ", DOWN"
	}
	return label
}

// addEdges adds the links between switches, as one edge if both directions are the same.
func (g *graph) addEdges(f *fabric.Fabric) {
	specs := map[[2]int]configs.Link{}
	for _, h := range f.Hops {
		if h.Kind == link.Trunk {
			specs[[2]int{h.Src, h.Dst}] = fabric.LinkOf(h.Spec)
		}
	}
	for _, h := range f.Hops {
		if h.Kind != link.Trunk {
			continue
		}
		l := specs[[2]int{h.Src, h.Dst}]
		back, both := specs[[2]int{h.Dst, h.Src}]
		same := both && back == l
		if same && h.Src > h.Dst {
			continue
		}
		g.edges = append(g.edges, edge{h.Src, h.Dst, label(l), !same, !l.Up})
	}
}

// label describes a link between switches. It leaves out parameters that are none.
func label(l configs.Link) string {
	words := []string{l.Bandwidth.String(), l.Latency.String()}
	if l.Jitter.Kind != configs.NoJitter {
		words = append(words, "jitter "+l.Jitter.String())
	}
	if l.Loss != (configs.Loss{}) {
		words = append(words, "loss "+l.Loss.String())
	}
	if !l.Up {
		words = append(words, "DOWN")
	}
	return strings.Join(words, ", ")
}
