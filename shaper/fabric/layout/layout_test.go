// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Sizes as on the page of serve, and as in a picture with long names.
var (
	small = Sizes{Leaf: Box{24, 24}, Switch: Box{76, 30}, Beside: 34}
	wide  = Sizes{Leaf: Box{230, 26}, Switch: Box{64, 22}, Beside: 90}
	high  = Sizes{Leaf: Box{60, 36}, Switch: Box{64, 36}, Beside: 34}
)

// node is one of a picture.
type node struct {
	name string
	Point
	Box
}

func nodesOf(p Picture, s Sizes) (all []node) {
	for i, at := range p.Leaves {
		all = append(all, node{fmt.Sprint("leaf ", i), at, s.Leaf})
	}
	for i, at := range p.Switches {
		all = append(all, node{fmt.Sprint("switch ", i), at, s.Switch})
	}
	return all
}

// misplaced says which nodes overlap or are outside of the picture.
func misplaced(p Picture, s Sizes) (found []string) {
	nodes := nodesOf(p, s)
	for i, a := range nodes {
		if !(a.X-a.W/2 >= edge-1e-6 && a.Y-a.H/2 >= edge-1e-6 &&
			a.X+a.W/2 <= p.Width-edge+1e-6 && a.Y+a.H/2 <= p.Height-edge+1e-6) {
			found = append(found, fmt.Sprintf("%v is outside of %v x %v", a, p.Width, p.Height))
		}
		for _, b := range nodes[:i] {
			if math.Abs(a.X-b.X) < (a.W+b.W)/2+2 && math.Abs(a.Y-b.Y) < (a.H+b.H)/2+2 {
				found = append(found, fmt.Sprintf("%v and %v overlap", a, b))
			}
		}
	}
	return found
}

// covered says which lines run through nodes that they do not join.
func covered(p Picture, s Sizes, leaves []Leaf, links []topology.Link) (found []string) {
	nodes, switches := nodesOf(p, s), len(leaves)
	check := func(a, b int) {
		for i, n := range nodes {
			if i != a && i != b && crosses(nodes[a].Point, nodes[b].Point, n) {
				found = append(found, fmt.Sprintf("the line from %v to %v runs through %v", nodes[a], nodes[b], n))
			}
		}
	}
	for i, leaf := range leaves {
		check(i, switches+leaf.Switch)
	}
	for _, k := range links {
		check(switches+k.From, switches+k.To)
	}
	return found
}

// crosses reports whether a line runs through a node: it cuts the line to what is between the node's sides.
func crosses(a, b Point, n node) bool {
	from, to := 0.0, 1.0
	cut := func(a, b, least, most float64) {
		if a == b {
			if a <= least || a >= most {
				to = -1
			}
			return
		}
		s, t := (least-a)/(b-a), (most-a)/(b-a)
		from, to = max(from, min(s, t)), min(to, max(s, t))
	}
	cut(a.X, b.X, n.X-n.W/2, n.X+n.W/2)
	cut(a.Y, b.Y, n.Y-n.H/2, n.Y+n.H/2)
	return from < to
}

// place gives places to each NIC as a leaf of its own.
func place(f *fabric.Fabric, home []int, perNode int, s Sizes) (p Picture, leaves []Leaf) {
	for n, sw := range home {
		leaves = append(leaves, Leaf{Switch: sw, Node: n / perNode})
	}
	return Place(f, leaves, s), leaves
}

// What ships looks well, and does with more nodes.
func TestFilesAndProfiles(t *testing.T) {
	all, err := configs.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../configs/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		c, err := configs.Load(configs.Source{File: file, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		f, err := fabric.New(c)
		if err != nil {
			t.Fatal(err)
		}
		var home []int
		for n := range f.NICs() {
			home = append(home, f.Home(n))
		}
		for _, s := range []Sizes{small, wide} {
			p, leaves := place(f, home, c.NICsPerNode, s)
			for _, line := range append(misplaced(p, s), covered(p, s, leaves, linksOf(f))...) {
				t.Errorf("%s: %s", c.Name, line)
			}
		}
	}
}

// NICs of one node are nearer to each other than those of two, and each switch is above the middle of its own.
func TestTiers(t *testing.T) {
	g, err := topology.Generate(topology.Shape{Kind: topology.LeafSpine, Nodes: 4, NICs: 2, Leaves: 2, Spines: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := place(&fabric.Fabric{Net: &configs.Net{Graph: *g}}, g.Home, 2, small)
	var got []float64
	for _, at := range append(p.Leaves, p.Switches...) {
		got = append(got, at.X-p.Leaves[0].X)
	}
	want := []float64{0, 34, 98, 132, 196, 230, 294, 328, 66, 262, 164}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("from left to right (-want +got):\n%s", diff)
	}
}

// shapes draws a shape of each kind.
var shapes = map[string]func(t *rapid.T) topology.Shape{
	topology.Rail: func(t *rapid.T) topology.Shape {
		return topology.Shape{Nodes: draw(t, 1, 40), NICs: draw(t, 2, 8), Spines: draw(t, 1, 16)}
	},
	topology.LeafSpine: func(t *rapid.T) topology.Shape {
		nodes := draw(t, 1, 64)
		return topology.Shape{Nodes: nodes, NICs: draw(t, 1, 4), Leaves: draw(t, 1, min(nodes, 32)), Spines: draw(t, 1, 16)}
	},
	topology.FatTree: func(t *rapid.T) topology.Shape {
		k := 2 * draw(t, 1, 4)
		return topology.Shape{K: k, Nodes: draw(t, 1, k*k*k/4), NICs: 1}
	},
	topology.Torus: func(t *rapid.T) topology.Shape {
		dims := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 3).Draw(t, "dims")
		nodes := 1
		for _, d := range dims {
			nodes *= d
		}
		return topology.Shape{Dims: dims, Nodes: nodes, NICs: draw(t, 1, 2)}
	},
	topology.Ring: func(t *rapid.T) topology.Shape {
		return topology.Shape{Nodes: draw(t, 1, 64), NICs: draw(t, 1, 4)}
	},
	topology.Dragonfly: func(t *rapid.T) topology.Shape {
		groups, routers := draw(t, 2, 6), draw(t, 1, 4)
		return topology.Shape{Groups: groups, Routers: routers, Nodes: draw(t, groups*routers, 64), NICs: draw(t, 1, 2)}
	},
	topology.WAN: func(t *rapid.T) topology.Shape {
		sites := draw(t, 2, 20)
		return topology.Shape{Sites: sites, Nodes: draw(t, sites, 64), NICs: draw(t, 1, 2)}
	},
	topology.Islands: func(t *rapid.T) topology.Shape {
		return topology.Shape{Island: draw(t, 1, 8), Nodes: draw(t, 1, 32), NICs: draw(t, 2, 6)}
	},
}

func draw(t *rapid.T, least, most int) int { return rapid.IntRange(least, most).Draw(t, "n") }

// custom draws switches with links and NICs in any way.
func custom(t *rapid.T) *topology.Graph {
	g := &topology.Graph{}
	n := draw(t, 1, 8)
	for i := range n {
		g.Switches = append(g.Switches, fmt.Sprint("s", i))
		for range draw(t, 0, 3) {
			if to := draw(t, 0, n-1); to != i {
				g.Links = append(g.Links, topology.Link{From: i, To: to, Cost: 1})
			}
		}
	}
	for range draw(t, 1, 12) {
		g.Home = append(g.Home, draw(t, 0, n-1))
	}
	return g
}

// Nodes are apart and in the picture, and lines do not run through nodes.
func TestPropertyPlaces(t *testing.T) {
	for _, kind := range topology.Kinds[1:] {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				perNode, g := 1, (*topology.Graph)(nil)
				if shapes[kind] == nil {
					g = custom(t)
				} else {
					shape := shapes[kind](t)
					shape.Kind, perNode = kind, shape.NICs
					var err error
					if g, err = topology.Generate(shape); err != nil {
						t.Fatal(err)
					}
				}
				s := rapid.SampledFrom([]Sizes{small, wide, high}).Draw(t, "sizes")
				f := &fabric.Fabric{Net: &configs.Net{Graph: *g}}
				p, leaves := place(f, g.Home, perNode, s)
				if found := misplaced(p, s); found != nil {
					t.Fatal(found)
				}
				if found := covered(p, s, leaves, g.Links); found != nil && !isLargeCircle(f, leaves, s) {
					t.Fatal(found)
				}
			})
		})
	}
}

// mostClear is how many switches with any links have a circle that is large enough for all links.
const mostClear = 12

// isLargeCircle says whether a fabric has so many switches on a circle that links may run through them.
func isLargeCircle(f *fabric.Fabric, leaves []Leaf, s Sizes) bool {
	n := len(f.Switches())
	l := &layout{Sizes: s, leaves: leaves, links: f.Net.Links,
		at: Picture{Leaves: make([]Point, len(leaves)), Switches: make([]Point, n)}}
	return n > mostClear && !l.placeInTiers()
}
