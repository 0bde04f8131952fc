// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

func load(t *testing.T, name string) *fabric.Fabric {
	t.Helper()
	c, err := configs.Load(configs.Source{File: "../../../configs/examples/" + name, Getenv: func(string) string { return "" }})
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
	var b strings.Builder
	Tree(&b, load(t, "leaf-spine.yaml"))
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
└─ spine1
latency of a pair on one switch 25µs, of all pairs 25µs to 27µs
bisection, node0 to node3 against the others: 7.5Gbps each way, 5.33:1 oversubscribed
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("tree (-want +got):\n%s", d)
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
			if !strings.Contains(dot.String(), sw.name) || !strings.Contains(svg.String(), ">"+sw.name+"<") {
				t.Errorf("%s: switch %s is not drawn", file, sw.name)
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
		"link b:a is down, and 2 ways lead over it: routes do not go around",
		"link a:idle is used by nobody: no way between NICs leads over it",
		"switch b has no capacity: no link that is up leads from it",
		"switch idle has no capacity: no link that is up leads from it",
	}
	if d := cmp.Diff(want, Check(f)); d != "" {
		t.Errorf("check (-want +got):\n%s", d)
	}
	if least, most := spread(f); least != 25*time.Microsecond || most != 26*time.Microsecond {
		t.Errorf("latencies %v to %v", least, most)
	}
}
