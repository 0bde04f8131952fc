// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/layout"
)

func load(t *testing.T, name string) *fabric.Fabric {
	t.Helper()
	c, err := configs.Load(configs.Source{File: "../../../configs/examples/" + name,
		Getenv: func(string) string { return "" }})
	return made(t, c, err)
}

// made is the fabric of a configuration that was read.
func made(t *testing.T, c *configs.Fabric, err error) *fabric.Fabric {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTree(t *testing.T) {
	const want = `fabric leaf-spine: leaf-spine, 8 nodes, NICs per node: 1
├─ leaf0
│  ├─ node0 to node3  10Gbps
│  ├─ to and from spine0  5Gbps, 1µs
│  └─ to and from spine1  5Gbps, 1µs
├─ leaf1
│  ├─ node4 to node7  10Gbps
│  ├─ to and from spine0  5Gbps, 1µs
│  └─ to and from spine1  2.5Gbps, 1µs
├─ spine0
│  └─ to and from leaf0, leaf1: above
└─ spine1
   └─ to and from leaf0, leaf1: above
latency of a pair on one switch 25µs, of all pairs 25µs to 27µs
bisection, node0 to node3 against the others: 7.5Gbps in each direction, 5.33:1 oversubscribed
`
	if d := cmp.Diff(want, tree(load(t, "leaf-spine.yaml"))); d != "" {
		t.Errorf("tree (-want +got):\n%s", d)
	}
}

func tree(f *fabric.Fabric) string {
	var b strings.Builder
	Tree(&b, f)
	return b.String()
}

// decode makes a fabric of 10 Gb/s and 2 us of what a file has besides.
func decode(t *testing.T, text string) *fabric.Fabric {
	t.Helper()
	c, err := configs.Decode("f.yaml", []byte("link: {bandwidth: 10Gbps, latency: 2us}\n"+text))
	return made(t, c, err)
}

// oneWay is three switches, of which a has a link to c and none back.
const oneWay = `nodes: 4
topology:
  kind: custom
  switches: [a, b, c]
  attach: [{match: "*", switch: c}, {match: node0, switch: a}, {match: node1, switch: b}]
  trunk: {latency: 1us}
  links: [{between: "a:b"}, {between: "a>c", bandwidth: 1Gbps}, {between: "b:c", bandwidth: 4Gbps}]
`

// The tree describes links that differ from the others.
func TestTreeOfUnequalLinks(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a slow pair": {`nodes: 2
links: [{match: "node0:node1", bandwidth: 1Gbps, latency: 7us}]
`, `fabric f: star, 2 nodes, NICs per node: 1
└─ switch
   └─ node0 to node1  10Gbps
links of pairs at 1Gbps: node0>node1, node1>node0
latency of a pair on one switch 7µs
bisection, node0 against the others: 1Gbps in each direction, 10:1 oversubscribed
`},
		"one direction": {oneWay, `fabric f: custom, 4 nodes, NICs per node: 1
├─ a
│  ├─ node0  10Gbps
│  ├─ to and from b  10Gbps, 1µs
│  └─ to c  1Gbps, 1µs
├─ b
│  ├─ node1  10Gbps
│  ├─ to and from c  4Gbps, 1µs
│  └─ to and from a: above
└─ c
   ├─ node2 to node3  10Gbps
   ├─ from a  1Gbps, 1µs
   └─ to and from b: above
latency of a pair on one switch 2µs, of all pairs 2µs to 4µs
bisection, node0 to node1 against the others: 5Gbps to the others, 4:1 oversubscribed; 4Gbps back, 5:1 oversubscribed
`},
		"down": {`nodes: 5
links:
  - {match: node3, up: false}
  - {match: "node2>*", up: false}
  - {match: "node0>node1", latency: 9us, up: false}
`, `fabric f: star, 5 nodes, NICs per node: 1
└─ switch
   ├─ node0 to node1  10Gbps
   ├─ node2  10Gbps, DOWN out
   ├─ node3  10Gbps, DOWN
   └─ node4  10Gbps
links of pairs that are down: node0>node1
latency of a pair on one switch 2µs
bisection, node0 to node1 against the others: 20Gbps to the others; 10Gbps back, 2:1 oversubscribed
`},
		"one direction down": {`nodes: 2
links: [{match: "node0>*", up: false}]
`, `fabric f: star, 2 nodes, NICs per node: 1
└─ switch
   ├─ node0  10Gbps, DOWN out
   └─ node1  10Gbps, DOWN in
latency of a pair on one switch 2µs
bisection, node0 against the others: nothing to the others; 10Gbps back
`},
		"no pair on one switch": {`nodes: 2
topology: {kind: ring, trunk: {latency: 1us}}
`, `fabric f: ring, 2 nodes, NICs per node: 1
├─ switch0
│  ├─ node0  10Gbps
│  └─ to and from switch1  10Gbps, 1µs
└─ switch1
   ├─ node1  10Gbps
   └─ to and from switch0: above
latency of all pairs 3µs
bisection, node0 against the others: 10Gbps in each direction
`},
		"nothing up": {`nodes: 2
links: [{match: "*", up: false}]
`, `fabric f: star, 2 nodes, NICs per node: 1
└─ switch
   └─ node0 to node1  10Gbps, DOWN
latency: no pair has a path that is up
bisection, node0 against the others: none: no link that is up joins them
`},
		"unequal leaves": {`nodes: 5
topology: {kind: leaf-spine, leaves: 2, oversubscription: "2:1", trunk: {latency: 1us}}
links: [{match: "node0:*", bandwidth: 1Gbps}]
`, `fabric f: leaf-spine, 5 nodes, NICs per node: 1
├─ leaf0
│  ├─ node0 to node2  10Gbps
│  └─ to and from spine0  15Gbps, 1µs
├─ leaf1
│  ├─ node3 to node4  10Gbps
│  └─ to and from spine0  15Gbps, 1µs
└─ spine0
   └─ to and from leaf0, leaf1: above
links of pairs at 1Gbps: node0>node1, node0>node2, node0>node3, node0>node4 and 4 more
all leaves have the uplinks of the leaf with the most NICs: 2:1 is for 3 NICs, a leaf with 2 has 1.33:1
latency of a pair on one switch 2µs, of all pairs 2µs to 4µs
bisection, node0 to node1 against the others: 13Gbps in each direction, 1.54:1 oversubscribed
`},
	} {
		if d := cmp.Diff(c.want, tree(decode(t, c.text))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// A link of one direction has an arrow, in the middle of its line, where no switch
// covers it.
func TestArrows(t *testing.T) {
	var dot, svg strings.Builder
	f := decode(t, oneWay)
	DOT(&dot, f)
	SVG(&svg, f)
	if n := strings.Count(dot.String(), "dir=forward"); n != 1 {
		t.Errorf("%d arrows in DOT, want 1:\n%s", n, dot.String())
	}
	if !strings.Contains(svg.String(), ">to c: 1Gbps, 1µs<") {
		t.Errorf("a label does not name the direction:\n%s", svg.String())
	}
	if n := strings.Count(svg.String(), `marker-mid="url(#arrow)"`); n != 1 ||
		!strings.Contains(svg.String(), `<marker id="arrow"`) {
		t.Errorf("%d arrows in the picture, want 1:\n%s", n, svg.String())
	}
}

// Labels are drawn after everything that could cover them, and beside NICs at the same place.
func TestLabelsAreNotCovered(t *testing.T) {
	p := &picture{graph: &graph{switches: []string{"a", "b"}}}
	p.Switch, p.NIC = layout.Box{W: 64, H: 22}, layout.Box{W: 144, H: 26}
	p.Picture = layout.Picture{Switches: []layout.Point{{X: 100, Y: 100}, {X: 400, Y: 100}}, Width: 500, Height: 200}
	e, half := edge{from: 0, to: 1}, 36.0
	near, _ := p.labelPlace(e, half, nil)
	if near.Point != (layout.Point{X: 220, Y: 100}) {
		t.Errorf("with free space the label is at %v", near)
	}
	p.Leaves = []layout.Point{{X: 250, Y: 100}, {X: 150, Y: 100}}
	first, _ := p.labelPlace(e, half, nil)
	if y := math.Abs(first.Y - 100); y < 17 || y > 30 {
		t.Errorf("NICs in the middle: the label is at %v", first)
	}
	if second, _ := p.labelPlace(e, half, []textBox{first}); math.Abs(second.Y-first.Y) < lineHeight &&
		math.Abs(second.X-first.X) < 2*first.half {
		t.Errorf("and a label: the second is at %v, the first at %v", second, first)
	}
	var svg strings.Builder
	SVG(&svg, load(t, "custom.yaml"))
	if text := svg.String(); strings.Index(text, "4Gbps, 5µs") < strings.LastIndex(text, "<circle") {
		t.Error("a label lies under NICs")
	}
}

// What is down is red in a picture, with and without racks, and lines below it say which NICs differ.
func TestPictureOfWhatIsDown(t *testing.T) {
	const links = `
topology: {kind: leaf-spine, leaves: 2, spines: 2, trunk: {latency: 1us}}
links: [{match: "leaf0:spine1", up: false}, {match: node3, up: false}, {match: node5, bandwidth: 1Gbps}]
`
	for _, c := range []struct {
		nics        int
		lines, port int // that are red
		notes       []string
	}{
		{1, 2, 0, []string{"ports of NICs: 10Gbps, except of these:", "node3  10Gbps, DOWN", "node5  1Gbps"}},
		{2, 1, 2, []string{"ports of NICs: 10Gbps, except of these:", "node3.nic0 to node3.nic1  10Gbps, DOWN",
			"node5.nic0 to node5.nic1  1Gbps"}},
	} {
		f := decode(t, fmt.Sprintf("nodes: 8\nnics_per_node: %d", c.nics)+links)
		var svg strings.Builder
		SVG(&svg, f)
		if n := strings.Count(svg.String(), `class="line down"`); n != c.lines {
			t.Errorf("%d NICs per node: %d red lines, want %d", c.nics, n, c.lines)
		}
		if n := strings.Count(svg.String(), `class="port down"`); n != c.port {
			t.Errorf("%d NICs per node: %d red NICs, want %d", c.nics, n, c.port)
		}
		if diff := cmp.Diff(c.notes, pictureOf(f).notes); diff != "" {
			t.Errorf("%d NICs per node: notes (-want +got):\n%s", c.nics, diff)
		}
	}
}

// Links without a place for their labels are listed below the picture, and not all of many.
func TestLabelsWithoutPlace(t *testing.T) {
	p := &picture{graph: &graph{switches: []string{"a", "b"}, edges: []edge{{from: 0, to: 1, label: "1Gbps"}}},
		labels: []string{"1Gbps"}}
	p.Picture = layout.Picture{Switches: []layout.Point{{X: 30, Y: 20}, {X: 60, Y: 20}}, Width: 90, Height: 40}
	p.Switch = layout.Box{W: 76, H: 30}
	if diff := cmp.Diff([]string{"link a and b: 1Gbps"}, p.placeLabels()); diff != "" {
		t.Error(diff)
	}
	if got := shortened(make([]string, 2*mostNotes)); len(got) != mostNotes+1 || got[mostNotes] != "and 8 more" {
		t.Errorf("%q", got)
	}
}

// Both drawings of every example name all switches and NICs, and the picture is XML.
func TestPictures(t *testing.T) {
	files, err := filepath.Glob("../../../configs/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		f := load(t, filepath.Base(file))
		var dot, svg, again strings.Builder
		DOT(&dot, f)
		SVG(&svg, f)
		SVG(&again, f)
		if svg.String() != again.String() {
			t.Errorf("%s: two pictures of it differ", file)
		}
		for n := range f.NICs() {
			if !strings.Contains(dot.String(), f.NICName(n)) {
				t.Errorf("%s: %s is not drawn", file, f.NICName(n))
			}
		}
		for _, sw := range graphOf(f).switches {
			if !strings.Contains(dot.String(), sw) || !strings.Contains(svg.String(), ">"+sw+"<") {
				t.Errorf("%s: switch %s is not drawn", file, sw)
			}
		}
		if strings.Contains(svg.String(), "NaN") {
			t.Errorf("%s: a place is not a number", file)
		}
		d := xml.NewDecoder(strings.NewReader(svg.String()))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
}

func TestTreeOfOneNode(t *testing.T) {
	c := configs.Default()
	c.Nodes, c.Link.Bandwidth = 1, units.Gbps
	f, err := fabric.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	Tree(&got, f)
	if want := "fabric fabric: star, 1 node, NICs per node: 1\n"; !strings.HasPrefix(got.String(), want) {
		t.Errorf("got %s, want %s", got.String(), want)
	}
}

func TestCheck(t *testing.T) {
	for _, name := range []string{"two-nodes.yaml", "leaf-spine.yaml", "custom.yaml", "rail-optimised.yaml"} {
		if found := Check(load(t, name)); found != nil {
			t.Errorf("%s: %q", name, found)
		}
	}
	c, err := configs.Decode("f.yaml", []byte(`base: eth10
nodes: 3
topology:
  kind: custom
  switches: [a, b, idle]
  attach: [{match: "*", switch: a}, {match: node1, switch: b}]
  trunk: {latency: 1us}
  links: [{between: "a:b"}, {between: "a>idle"}]
links: [{match: "b>a", up: false}, {match: "node0>node2", up: false}]
`))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"link node0:node2 is down: its NICs do not reach each other",
		"link b:a is down, and 2 paths lead over it: routes do not avoid it",
		"link a:idle is unused: no path between NICs leads over it",
		"switch b has no capacity: no link that is up leads from it",
		"switch idle has no capacity: no link that is up leads from it",
	}
	if d := cmp.Diff(want, Check(f)); d != "" {
		t.Errorf("check (-want +got):\n%s", d)
	}
}
