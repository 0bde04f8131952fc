// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// shaped is a fabric of a shape.
func shaped(t interface{ Fatal(...any) }, s topology.Shape) *fabric.Fabric {
	f := &fabric.Fabric{Config: configs.Fabric{Nodes: s.Nodes, NICsPerNode: s.NICs}}
	if s.Kind != topology.Star {
		g, err := topology.Generate(s)
		if err != nil {
			t.Fatal(err)
		}
		f.Net = &configs.Net{Graph: *g}
	}
	return f
}

// Nodes share a rack if their ports are on the same switches; many of them are divided.
func TestRacks(t *testing.T) {
	for _, c := range []struct {
		shape topology.Shape
		want  string // nodes of each rack
	}{
		{topology.Shape{Kind: topology.Star, Nodes: 16, NICs: 1}, "[]"},
		{topology.Shape{Kind: topology.Star, Nodes: 2, NICs: 8}, "[2]"},
		{topology.Shape{Kind: topology.Star, Nodes: 64, NICs: 1}, "[8 8 8 8 8 8 8 8]"},
		{topology.Shape{Kind: topology.Rail, Nodes: 64, NICs: 4, Spines: 2}, "[8 8 8 8 8 8 8 8]"},
		{topology.Shape{Kind: topology.LeafSpine, Nodes: 24, NICs: 1, Leaves: 4, Spines: 2}, "[6 6 6 6]"},
		{topology.Shape{Kind: topology.Ring, Nodes: 64, NICs: 1}, "[]"},
		{topology.Shape{Kind: topology.Ring, Nodes: 5, NICs: 2}, "[1 1 1 1 1]"},
	} {
		var got []int
		for _, r := range Of(shaped(t, c.shape), Beside).Racks {
			got = append(got, len(r.Nodes))
		}
		if diff := cmp.Diff(c.want, fmt.Sprint(got)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.shape, diff)
		}
	}
}

// Racks are apart from each other and from switches, all of each node is in its rack and beside the others. Lines from
// racks in a row to switches do not run through other racks or switches.
func TestPropertyRacks(t *testing.T) {
	for _, kind := range append([]string{topology.Star}, topology.Kinds[1:len(topology.Kinds)-1]...) {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := topology.Shape{Nodes: draw(t, 1, 64), NICs: draw(t, 1, 8)}
				if shapes[kind] != nil {
					s = shapes[kind](t)
				}
				s.Kind = kind
				p := Of(shaped(t, s), Beside)
				for _, found := range append(p.misplacedRacks(), p.misplacedNodes()...) {
					t.Error(found)
				}
			})
		})
	}
}

// rect is a named box with its middle.
type rect struct {
	name string
	Point
	Box
}

func (r rect) overlaps(o rect) bool {
	return math.Abs(r.X-o.X) < (r.W+o.W)/2 && math.Abs(r.Y-o.Y) < (r.H+o.H)/2
}

// boxes are those of racks and then of switches.
func (p *Plan) boxes() (all []rect) {
	for i, r := range p.Racks {
		all = append(all, rect{fmt.Sprint("rack ", i), Point{r.X, r.Y + r.H/2}, r.Box})
	}
	for i, at := range p.Switches {
		all = append(all, rect{fmt.Sprint("switch ", i), at, p.Switch})
	}
	return all
}

func (p *Plan) misplacedRacks() (found []string) {
	all := p.boxes()
	lowest := 0.0
	for i, a := range all {
		lowest = max(lowest, a.Y+a.H/2)
		if a.X-a.W/2 < 0 || a.Y-a.H/2 < 0 || a.X+a.W/2 > p.Width || a.Y+a.H/2 > p.Height {
			found = append(found, fmt.Sprintf("%v is outside of %v x %v", a, p.Width, p.Height))
		}
		for _, b := range all[:i] {
			if len(p.Racks) > 0 && a.overlaps(b) {
				found = append(found, fmt.Sprintf("%v and %v overlap", a, b))
			}
		}
	}
	if slices.ContainsFunc(p.Racks, func(r Rack) bool { return r.Y != p.Racks[0].Y }) {
		return found // on a circle
	}
	if len(p.Racks) > 0 && p.Height > lowest+edge+1e-6 {
		found = append(found, fmt.Sprintf("the lowest box ends at %v of %v", lowest, p.Height))
	}
	for i, r := range p.Racks {
		for _, s := range r.Switches {
			end := len(p.Racks) + s
			for k, b := range all {
				if k != i && k != end && crosses(r.Point, all[end].Point, node(b)) {
					found = append(found, fmt.Sprintf("the line from %v to %v runs through %v", all[i], all[end], b))
				}
			}
		}
	}
	return found
}

func (p *Plan) misplacedNodes() (found []string) {
	for i, r := range p.Racks {
		box := p.boxes()[i]
		nics := len(p.Leaves) / p.nodes()
		var inside []rect
		for _, n := range r.Nodes {
			w := nameLetter * float64(len(n.Name))
			inside = append(inside, rect{n.Name, Point{n.X + w/2, n.Y}, Box{w, rowHeight - 2}})
			for _, at := range p.Leaves[n.Node*nics : (n.Node+1)*nics] {
				inside = append(inside, rect{"port of " + n.Name, at, p.Port})
			}
		}
		for k, a := range inside {
			if math.Abs(a.X-box.X)+a.W/2 > box.W/2 || math.Abs(a.Y-box.Y)+a.H/2 > box.H/2 {
				found = append(found, fmt.Sprintf("%v is outside of %v", a, box))
			}
			for _, b := range inside[:k] {
				if a.overlaps(b) {
					found = append(found, fmt.Sprintf("%v and %v overlap", a, b))
				}
			}
		}
	}
	return found
}

func (p *Plan) nodes() (n int) {
	for _, r := range p.Racks {
		n += len(r.Nodes)
	}
	return n
}
