// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wired is a good fabric; its last line is the topology's kind.
const wired = `base: eth10
nodes: 4
nics_per_node: 1
topology:
  trunk: {latency: 1us}
`

func TestTopologyRefuses(t *testing.T) {
	const custom = wired + `  kind: custom
  switches: [a, b]
  attach: [{match: "*", switch: a}, {match: node1, switch: b}]
`
	const joined = custom + "  links: [{between: 'a:b'}]\n"
	long := wired +
		"  kind: custom\n  switches: [a, b, c, d, e, f, g]\n  attach: [{match: '*', switch: a}, {match: node3, switch: g}]\n" +
		"  links: [{between: 'a:b'}, {between: 'b:c'}, {between: 'c:d'}, {between: 'd:e'}, {between: 'e:f'}, {between: 'f:g'}]\n"
	for _, c := range []struct{ text, want string }{
		{"base: eth10\ntopology: mesh", `f.yaml:2: topology.kind: "mesh" is not a kind of topology`},
		{"base: eth10\ntopology: [1]", `f.yaml:2: topology: a list was given: must hold keys`},
		{"base: eth10\ntopology: {kind: star, spines: 2}", `f.yaml:2: topology.spines: given for the kind star`},
		{"base: eth10\ntopology: ring", `f.yaml:2: topology.trunk.latency: missing`},
		{wired + "  kind: ring\n  leaves: 2", `f.yaml:7: topology.leaves: given for the kind ring`},
		{wired + "  kind: leaf-spine", `f.yaml:5: topology.leaves: missing or 0: must be 1 to 4`},
		{wired + "  kind: leaf-spine\n  leaves: 5", `f.yaml:7: topology.leaves: 5: must be 1 to 4`},
		{wired + "  kind: leaf-spine\n  leaves: 2\n  spines: 10000",
			`f.yaml:8: topology.spines: 10000: must be 1 to 256`},
		{wired + "  kind: leaf-spine\n  leaves: 2\n  oversubscription: 0:1",
			`f.yaml:8: topology.oversubscription: "0:1" is not`},
		{wired + "  kind: leaf-spine\n  leaves: 2\n  oversubscription: 1000:1\n  spines: 256",
			`f.yaml:8: topology.oversubscription: makes uplinks of`},
		{wired + "  kind: rail", `f.yaml:6: topology.kind: rail has a switch for each NIC`},
		{wired + "  kind: fat-tree\n  k: 3", `f.yaml:7: topology.k: 3: must be an even number`},
		{wired + "  kind: fat-tree\n  k: 2\nnics_per_node: 2", `f.yaml:8: nics_per_node: given twice`},
		{"base: eth10\nnodes: 3\ntopology: {kind: fat-tree, k: 2, trunk: {latency: 0s}}",
			`f.yaml:3: topology.k: 2: a fat-tree of k 2 has 2 ports`},
		{wired + "  kind: torus\n  dims: [2, 3]", `f.yaml:7: topology.dims: [2 3] make 6 nodes, the fabric has 4`},
		{wired + "  kind: torus\n  dims: [0]", `f.yaml:7: topology.dims: 0: must be 1 to 4`},
		{wired + "  kind: dragonfly\n  groups: 2", `f.yaml:5: topology.routers: missing or 0: must be 1 to 4`},
		{wired + "  kind: dragonfly\n  groups: 3\n  routers: 2",
			`f.yaml:8: topology.routers: 3 groups of 2 are more routers`},
		{wired + "  kind: wan\n  sites: 1", `f.yaml:7: topology.sites: 1: must be 2 to 4`},
		{wired + "  kind: custom", `f.yaml:5: topology.switches: has 0 names`},
		{wired + "  kind: custom\n  switches: [a, a]", `f.yaml:7: topology.switches[1]: "a": must be a unique name`},
		{wired + "  kind: custom\n  switches: [node1]",
			`f.yaml:7: topology.switches[0]: "node1": must be a unique name`},
		{wired + "  kind: custom\n  switches: [a]", `f.yaml:5: topology.attach: node0.nic0 is on no switch`},
		{custom, `f.yaml:5: topology: node1.nic0 cannot reach node0.nic0: no links lead from b to a`},
		{custom + "  links: [{between: 'a>b'}]",
			`f.yaml:5: topology: node1.nic0 cannot reach node0.nic0: no links lead from b to a`},
		{custom + "  links: [{between: 'a:c'}]",
			`f.yaml:9: topology.links[0].between: "a:c": must name two of the switches`},
		{custom + "  links: [{between: 'a:b'}, {between: 'b>a'}]",
			`f.yaml:9: topology.links[1].between: b is joined to a already`},
		{custom + "  links: [{between: 'a:b', bandwidth: 0}]", `f.yaml:9: topology.links[0].bandwidth: "0"`},
		{custom + "  links: [{between: 'a:b', mtu: 100}]", `f.yaml:9: topology.links[0].mtu: 100 is out of range`},
		{joined + "  routes: [{match: '0:1', via: [a]}]",
			`f.yaml:5: topology: node1.nic0 cannot reach node0.nic0: the route given for it must begin`},
		{joined + "  routes: [{match: '0:1', via: [a, c]}]",
			`f.yaml:10: topology.routes[0].via[1]: "c" is not a switch`},
		{joined + "  routes: [{match: '0:1', via: [a, b, a, b]}]",
			`f.yaml:10: topology.routes[0].via[2]: a is on the path already`},
		{joined + "  routes: [{match: '0', via: [a]}]",
			`f.yaml:10: topology.routes[0].match: "0": must name two nodes`},
		{joined + "  routes: [{match: '0:1'}]", `f.yaml:10: topology.routes[0].via: missing`},
		{joined + "links: [{match: 'a:c', up: false}]",
			`f.yaml:10: links[0].match: "a:c" names no link between switches: there are a:b, b:a`},
		{joined + "links: [{match: a, mtu: 100}]", `f.yaml:10: links[0].mtu: 100 is out of range`},
		{long,
			`f.yaml:5: topology: node3.nic0 cannot reach node0.nic0: the path from g to a has 6 links between switches: at most 5 links`},
		{"base: eth10\nnic_of_gpu: [0]",
			`f.yaml:2: nic_of_gpu: has 1 NICs: must have one for each GPU of a node, of which there are 0 (node.gpus, or else gpus_per_node)`},
		{"base: eth10\ngpus_per_node: 2\nnic_of_gpu: [0, 1]", `f.yaml:3: nic_of_gpu[1]: 1: each node has NIC 0 to 0`},
	} {
		_, err := Decode("f.yaml", []byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !IsUserError(err) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestTopologyStar(t *testing.T) {
	for _, text := range []string{"topology: star", "topology: {kind: star}", "topology: {}"} {
		f, err := Decode("eth10.yaml", []byte("base: eth10\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		want, err := Decode("eth10.yaml", []byte("base: eth10"))
		if d := cmp.Diff(want, f); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", text, err, d)
		}
	}
}

// A flag for all links does not change those between switches.
func TestFlagsDoNotChangeTrunks(t *testing.T) {
	f, err := Load(Source{File: "examples/leaf-spine.yaml", Getenv: func(name string) string {
		return map[string]string{"DDLEMU_BW": "1Gbps", "DDLEMU_LAT": "1ms"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Links) != 1 || *f.Links[0].Bandwidth != 2500_000_000 {
		t.Errorf("the override of a link between switches became %+v", f.Links)
	}
	net, err := f.Net()
	if err != nil {
		t.Fatal(err)
	}
	if l := net.Trunks[0]; l.Bandwidth != 500_000_000 || l.Latency != 1000 {
		t.Errorf("uplinks of %v and %v, want 4 x 1 Gb/s / 4 / 2 and 1us", l.Bandwidth, l.Latency)
	}
}
