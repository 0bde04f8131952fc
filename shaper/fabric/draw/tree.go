// SPDX-License-Identifier: Apache-2.0

// Package draw shows a fabric to people: as a tree of text, as a graph in the language
// DOT, and as a picture in SVG.
package draw

import (
	"fmt"
	"io"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Tree writes f as a tree: its switches, and under each the NICs on it and its links to
// others, with their rates, then the bisection bandwidth.
func Tree(w io.Writer, f *fabric.Fabric) {
	c := &f.Config
	kind := topology.Star
	if f.Net != nil {
		kind = c.Topology.Kind
	}
	fmt.Fprintf(w, "fabric %s: %s, %d nodes, NICs per node: %d\n", c.Name, kind, c.Nodes, c.NICsPerNode)
	g := graphOf(f)
	for i, sw := range g.switches {
		branch, bar := "├─ ", "│  "
		if i == len(g.switches)-1 {
			branch, bar = "└─ ", "   "
		}
		fmt.Fprintln(w, branch+sw.name)
		for k, line := range sw.lines {
			leaf := "├─ "
			if k == len(sw.lines)-1 {
				leaf = "└─ "
			}
			fmt.Fprintln(w, bar+leaf+line)
		}
	}
	fmt.Fprintf(w, "latency of a pair on one switch %v", c.Link.Latency)
	if least, most := spread(f); least != most {
		fmt.Fprintf(w, ", of all pairs %v to %v", least, most)
	}
	fmt.Fprintln(w)
	half := "node0"
	if n := c.Nodes / 2; n > 1 {
		half += fmt.Sprintf(" to node%d", n-1)
	}
	if c.Nodes > 1 {
		fmt.Fprintf(w, "bisection, %s against the others: %s\n", half, bisection(f.Bisection()))
	}
}

func bisection(b fabric.Bisection) string {
	if b.Cut {
		return "none: no link that is up joins them"
	}
	if b.Full == units.Unlimited || b.LineRate == units.Unlimited {
		return b.LineRate.String()
	}
	s := fmt.Sprintf("%s each way", b.LineRate)
	if b.LineRate < b.Full {
		s += fmt.Sprintf(", %.3g:1 oversubscribed", float64(b.Full)/float64(b.LineRate))
	}
	return s
}

// graph is what is drawn: switches with what is on them, in words, and the edges
// between all things.
type graph struct {
	switches []vertex
	nics     []string // names
	home     []int    // switch of each NIC
	edges    []edge   // between switches; both directions are one if they are alike
}

type vertex struct {
	name  string
	lines []string
}

type edge struct {
	from, to int
	label    string
	oneWay   bool
	down     bool
}

func graphOf(f *fabric.Fabric) *graph {
	g := &graph{}
	if f.Net == nil {
		g.switches = []vertex{{name: "switch"}}
	} else {
		for _, name := range f.Net.Switches {
			g.switches = append(g.switches, vertex{name: name})
		}
	}
	for n := range f.NICs() {
		home := 0
		if f.Net != nil {
			home = f.Net.Home[n]
		}
		g.nics, g.home = append(g.nics, f.NICName(n)), append(g.home, home)
	}
	for i := range g.switches {
		g.switches[i].lines = nicLines(f, g, i)
	}
	g.addEdges(f)
	for _, e := range g.edges {
		arrow := "to and from"
		if e.oneWay {
			arrow = "to"
		}
		sw := &g.switches[e.from]
		sw.lines = append(sw.lines, fmt.Sprintf("%s %s  %s", arrow, g.switches[e.to].name, e.label))
	}
	return g
}

// nicLines is the NICs on a switch, those next to each other and alike in one line.
func nicLines(f *fabric.Fabric, g *graph, sw int) []string {
	var lines []string
	for n := 0; n < len(g.nics); n++ {
		if g.home[n] != sw {
			continue
		}
		label, last := portLabel(f, n), n
		for k := n + 1; k < len(g.nics) && g.home[k] == sw && portLabel(f, k) == label; k++ {
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

// portLabel is the rates of a NIC's port.
func portLabel(f *fabric.Fabric, n int) string {
	tx, rx := fabric.LinkOf(f.Hops[2*n].Spec).Bandwidth, fabric.LinkOf(f.Hops[2*n+1].Spec).Bandwidth
	if tx == rx {
		return tx.String()
	}
	return fmt.Sprintf("%s out, %s in", tx, rx)
}

// addEdges adds the links between switches, two directions that are alike as one.
func (g *graph) addEdges(f *fabric.Fabric) {
	specs := map[[2]int]configs.Link{}
	for _, h := range f.Hops {
		if h.Kind == fabric.Trunk {
			specs[[2]int{h.Src, h.Dst}] = fabric.LinkOf(h.Spec)
		}
	}
	for _, h := range f.Hops {
		if h.Kind != fabric.Trunk {
			continue
		}
		l := specs[[2]int{h.Src, h.Dst}]
		back, both := specs[[2]int{h.Dst, h.Src}]
		alike := both && back == l
		if alike && h.Src > h.Dst {
			continue
		}
		g.edges = append(g.edges, edge{h.Src, h.Dst, label(l), !alike, !l.Up})
	}
}

// label is what is worth saying of a link between switches.
func label(l configs.Link) string {
	parts := []string{l.Bandwidth.String(), l.Latency.String()}
	if l.Jitter.Kind != configs.NoJitter {
		parts = append(parts, "jitter "+l.Jitter.String())
	}
	if l.Loss != (configs.Loss{}) {
		parts = append(parts, "loss "+l.Loss.String())
	}
	if !l.Up {
		parts = append(parts, "DOWN")
	}
	return strings.Join(parts, ", ")
}
