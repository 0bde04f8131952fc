// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

func TestLongestWayFillsAPath(t *testing.T) {
	if topology.MaxLinks+3 != link.MaxHops {
		t.Errorf("a path has up to %d links between switches and three more hops, the link model has %d hops",
			topology.MaxLinks, link.MaxHops)
	}
}

// wired is a fabric of so many nodes and NICs on a topology.
func wired(nodes, nics int, top configs.Topology) configs.Fabric {
	c := config(nodes, nics)
	latency := 600 * time.Nanosecond
	top.Trunk.Latency = &latency
	c.Topology = top
	return c
}

// checkPaths walks every path of f and fails if one does not lead from its source's
// switch to its destination's, link by link.
func checkPaths(t interface {
	Helper()
	Fatalf(string, ...any)
}, f *Fabric) {
	t.Helper()
	for src := range f.NICs() {
		for dst := range f.NICs() {
			if f.NodeOfNIC(src) == f.NodeOfNIC(dst) {
				continue
			}
			checkPath(t, f, src, dst, f.Path(src, dst))
			for _, path := range f.Paths(src, dst) {
				checkPath(t, f, src, dst, path)
			}
			for id := range uint64(4) {
				if path := f.FlowPath(src, dst, id); !slices.ContainsFunc(f.Paths(src, dst),
					func(p []link.PathHop) bool { return slices.Equal(p, path) }) {
					t.Fatalf("%s to %s: the path of flow %d is none of Paths: %v", f.NICName(src), f.NICName(dst), id,
						path)
				}
			}
		}
	}
}

func checkPath(t interface {
	Helper()
	Fatalf(string, ...any)
}, f *Fabric, src, dst int, path []link.PathHop) {
	t.Helper()
	n := len(path)
	if n < 3 || n > link.MaxHops || path[0].Hop != 2*src ||
		path[1] != (link.PathHop{Hop: f.Link(src, dst), Private: true}) || path[n-1].Hop != 2*dst+1 {
		t.Fatalf("%s to %s: %v", f.NICName(src), f.NICName(dst), path)
	}
	at := f.Net.Home[src]
	for _, s := range path[2 : n-1] {
		h := f.Hops[s.Hop]
		if h.Kind != link.Trunk || h.Src != at || s.Private {
			t.Fatalf("%s to %s: %v: hop %s does not follow", f.NICName(src), f.NICName(dst), path, f.HopName(s.Hop))
		}
		at = h.Dst
	}
	if at != f.Net.Home[dst] {
		t.Fatalf("%s to %s: ends at %s", f.NICName(src), f.NICName(dst), f.Net.Switches[at])
	}
}

// The numbers of switches and of links between them, one for each direction, and
// the longest path, by the topologies' definitions.
func TestTopologies(t *testing.T) {
	for _, c := range []struct {
		name               string
		config             configs.Fabric
		switches, links    int
		longest, bisection float64 // links on a path; Gb/s of line rate between halves
	}{
		{"rail", wired(4, 2, configs.Topology{Kind: topology.Rail, Spines: 2}), 4, 8, 2, 400},
		{"leaf-spine",
			wired(8, 1, configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Spines: 2, Oversubscription: 4}), 4, 8, 2,
			100},
		{"fat-tree", wired(16, 1, configs.Topology{Kind: topology.FatTree, K: 4}), 20, 64, 4, 800},
		{"half a fat-tree", wired(5, 1, configs.Topology{Kind: topology.FatTree, K: 4}), 20, 64, 4, 200},
		{"torus", wired(16, 1, configs.Topology{Kind: topology.Torus, Dims: []int{4, 4}}), 16, 64, 4, 800},
		{"small torus", wired(8, 1, configs.Topology{Kind: topology.Torus, Dims: []int{2, 2, 2}}), 8, 24, 3, 400},
		{"ring", wired(6, 1, configs.Topology{Kind: topology.Ring}), 6, 12, 3, 200},
		{"ring of two", wired(2, 1, configs.Topology{Kind: topology.Ring}), 2, 2, 1, 100},
		{"dragonfly", wired(9, 1, configs.Topology{Kind: topology.Dragonfly, Groups: 3, Routers: 3}), 9, 24, 3, 0},
		{"islands", wired(6, 2, configs.Topology{Kind: topology.Islands, Island: 4}), 3, 4, 2, 0},
		{"wan", wired(6, 2, configs.Topology{Kind: topology.WAN, Sites: 3}), 3, 6, 1, 0},
	} {
		f := build(t, c.config)
		checkPaths(t, f)
		longest := 0
		for src := range f.NICs() {
			for dst := range f.NICs() {
				longest = max(longest, len(f.Net.Path(src, dst)))
			}
		}
		got := []any{len(f.Net.Switches), len(f.Net.Links), float64(longest)}
		if d := cmp.Diff([]any{c.switches, c.links, c.longest}, got); d != "" {
			t.Errorf("%s: switches, links, longest path (-want +got):\n%s", c.name, d)
		}
		if b := f.Bisection(); c.bisection != 0 && (b.There.LineRate != units.Bandwidth(c.bisection)*units.Gbps ||
			b.Back != b.There) {
			t.Errorf("%s: bisection %v, want %v Gb/s", c.name, b, c.bisection)
		}
	}
}

// Minimal routing on a dragonfly uses one link between groups, never two.
func TestDragonflyIsMinimal(t *testing.T) {
	f := build(t, wired(24, 1, configs.Topology{Kind: topology.Dragonfly, Groups: 6, Routers: 2}))
	for src := range f.NICs() {
		for dst := range f.NICs() {
			global := 0
			for _, l := range f.Net.Path(src, dst) {
				if k := f.Net.Links[l]; f.Net.Zone[k.From] != f.Net.Zone[k.To] {
					global++
				}
			}
			if want := min(1, abs(f.Net.Zone[f.Net.Home[src]]-f.Net.Zone[f.Net.Home[dst]])); global != want {
				t.Fatalf("%d to %d: %d links between groups, want %d", src, dst, global, want)
			}
		}
	}
}

func abs(x int) int { return max(x, -x) }

// Any topology that is accepted has a good path for each pair, whatever its figures.
func TestPropertyEveryNICReachesEveryOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		kind := rapid.SampledFrom(topology.Kinds[1:len(topology.Kinds)-1]).Draw(t, "kind")
		top := configs.Topology{Kind: kind}
		nodes, nics := 1+n("nodes", 23), 1+n("nics", 2)
		switch kind {
		case topology.Rail:
			top.Spines = n("spines", 3)
		case topology.LeafSpine:
			top.Leaves, top.Spines = n("leaves", 6), n("spines", 3)
		case topology.FatTree:
			top.K = n("k", 8)
		case topology.Torus:
			top.Dims = rapid.SliceOfN(rapid.IntRange(1, 4), 1, 3).Draw(t, "dims")
			nodes = 1
			for _, d := range top.Dims {
				nodes *= d
			}
		case topology.Dragonfly:
			top.Groups, top.Routers = n("groups", 6), n("routers", 4)
		case topology.WAN:
			top.Sites = n("sites", 5)
		case topology.Islands:
			top.Island = n("island", 9)
		}
		c := wired(nodes, nics, top)
		c.Seed = rapid.Uint64().Draw(t, "seed")
		c.Topology.ECMP = rapid.SampledFrom([]string{"", configs.PerFlow}).Draw(t, "ecmp")
		f, err := New(&c)
		if err != nil {
			if !configs.IsUserError(err) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v: want one line that is the user's", err)
			}
			return
		}
		checkPaths(t, f)
		again, err := New(&c)
		if d := cmp.Diff(f, again); err != nil || d != "" {
			t.Fatalf("made again differs: %v\n%s", err, d)
		}
	})
}

func TestExamplesReach(t *testing.T) {
	files, err := filepath.Glob("../../configs/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		c, err := configs.Load(configs.Source{File: file, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		if f := build(t, *c); f.Net != nil {
			checkPaths(t, f)
		}
	}
}

// load makes the fabric of an example.
func load(t *testing.T, name string) *Fabric {
	t.Helper()
	c, err := configs.Load(configs.Source{File: "../../configs/examples/" + name,
		Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return build(t, *c)
}

func TestCustomRoutes(t *testing.T) {
	f := load(t, "custom.yaml")
	path := func(src, dst int) string {
		s := f.Net.Switches[f.Net.Home[src]]
		for _, l := range f.Net.Path(src, dst) {
			s += f.Net.Switches[f.Net.Links[l].To]
		}
		return s
	}
	got := []string{path(0, 3), path(3, 0), path(0, 2), path(2, 0), path(1, 3), path(0, 1)}
	if d := cmp.Diff([]string{"abcd", "dcba", "ac", "ca", "bcd", "ab"}, got); d != "" {
		t.Errorf("paths (-want +got):\n%s", d)
	}
	if l := f.Latency(0, 3); l != 2*time.Microsecond+5*time.Microsecond+2*500*time.Nanosecond {
		t.Errorf("latency of the longest path: %v", l)
	}
	f.Config.NCCL.Latency.OfLink = true
	if p := f.Props(0); p.LatencyUs != 8 {
		t.Errorf("NCCL is told a latency of %v us, want 8", p.LatencyUs)
	}
}

func TestTrunkRates(t *testing.T) {
	f := load(t, "leaf-spine.yaml")
	rates := map[string]units.Bandwidth{}
	for i, h := range f.Hops {
		if h.Kind == link.Trunk {
			rates[f.HopName(i)] = LinkOf(h.Spec).Bandwidth
		}
	}
	want := map[string]units.Bandwidth{}
	for _, leaf := range []string{"leaf0", "leaf1"} {
		for _, spine := range []string{"spine0", "spine1"} {
			want[leaf+":"+spine], want[spine+":"+leaf] = 5*units.Gbps, 5*units.Gbps
		}
	}
	want["leaf1:spine1"], want["spine1:leaf1"] = 2500*units.Mbps, 2500*units.Mbps
	if d := cmp.Diff(want, rates); d != "" {
		t.Errorf("rates (-want +got):\n%s", d)
	}
}

func TestSelectTrunks(t *testing.T) {
	f := load(t, "leaf-spine.yaml")
	for pattern, want := range map[string][]string{
		"leaf0:spine1":   {"leaf0:spine1", "spine1:leaf0"},
		"leaf0>spine1":   {"leaf0:spine1"},
		"spine1":         {"leaf0:spine1", "spine1:leaf0", "leaf1:spine1", "spine1:leaf1"},
		"leaf1>*":        {"leaf1:spine0", "leaf1:spine1"},
		"leaf* > spine0": {"leaf0:spine0", "leaf1:spine0"},
	} {
		hops, err := f.Select(pattern)
		if err != nil {
			t.Errorf("Select(%q): %v", pattern, err)
			continue
		}
		var got []string
		for _, h := range hops {
			got = append(got, f.HopName(h))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Select(%q) (-want +got):\n%s", pattern, d)
		}
	}
	all, err := f.Select("*")
	if err != nil || slices.ContainsFunc(all, func(h int) bool { return f.Hops[h].Kind == link.Trunk }) {
		t.Errorf("Select(*): %d hops, %v; want none between switches", len(all), err)
	}
	for _, pattern := range []string{"leaf2", "leaf0:leaf1", "leaf0:node0"} {
		if _, err := f.Select(pattern); !configs.IsUserError(err) {
			t.Errorf("Select(%q): %v; want a user's error", pattern, err)
		}
	}
	changed, err := f.Shape("leaf0>spine*", configs.LinkPatch{Bandwidth: ptr(units.Gbps), Up: ptr(false)})
	if err != nil || len(changed) != 2 || !f.Hops[changed[0]].Spec.Down {
		t.Errorf("Shape changed %v, %v", changed, err)
	}
}

// Paths of equal cost are used by about equally many pairs, and another seed draws other
// paths.
func TestECMP(t *testing.T) {
	c := wired(32, 1, configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Spines: 4})
	use := func(seed uint64) string {
		c.Seed = seed
		f := build(t, c)
		n := make([]int, 4)
		text := ""
		for src := range 16 {
			for dst := 16; dst < 32; dst++ {
				spine := f.Net.Links[f.Net.Path(src, dst)[0]].To - 2
				n[spine]++
				text += fmt.Sprint(spine)
			}
		}
		for spine, k := range n {
			if k < 40 || k > 90 { // of 256 pairs, 64 expected with a deviation of 7
				t.Errorf("seed %d: %d of 256 pairs on spine%d", seed, k, spine)
			}
		}
		return text
	}
	if a, b := use(1), use(2); a == b || a != use(1) {
		t.Error("the paths do not depend on the seed")
	}
}

// Where each flow has a path of its own, flows of one pair use all paths about equally, and the same ones with the same
// seed. A route that the user gave remains.
func TestECMPPerFlow(t *testing.T) {
	c := wired(4, 1, configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Spines: 4, ECMP: configs.PerFlow})
	use := func(seed uint64) string {
		c.Seed = seed
		f := build(t, c)
		n := make([]int, 4)
		text := ""
		for id := range uint64(256) {
			spine := f.Net.Links[f.Net.FlowPath(0, 3, link.PathID(3, id))[0]].To - 2
			n[spine]++
			text += fmt.Sprint(spine)
		}
		for spine, k := range n {
			if k < 40 || k > 90 {
				t.Errorf("seed %d: %d of 256 flows on spine%d", seed, k, spine)
			}
		}
		return text
	}
	if a, b := use(1), use(2); a == b || a != use(1) {
		t.Error("the paths do not depend on the seed")
	}
	f := build(t, c)
	if n := len(f.Paths(0, 3)); n != 4 {
		t.Errorf("%d paths, want one over each spine", n)
	}
	if n := len(f.Paths(0, 1)); n != 1 || len(f.FlowPath(0, 1, 7)) != 3 {
		t.Errorf("%d paths on one switch, want 1 without links between switches", n)
	}

	given := load(t, "custom.yaml").Config
	given.Topology.ECMP = configs.PerFlow
	custom := build(t, given)
	routed := custom.Path(0, custom.NICs()-1)
	for id := range uint64(64) {
		if path := custom.FlowPath(0, custom.NICs()-1, id); !slices.Equal(path, routed) {
			t.Fatalf("flow %d takes %v, not the route of the user, %v", id, path, routed)
		}
	}
	c.Topology = configs.Topology{ECMP: configs.PerFlow}
	if _, err := New(&c); err == nil || !strings.Contains(err.Error(), "topology.ecmp: given for the kind star") {
		t.Errorf("on a star: %v", err)
	}
}

func TestNearestNIC(t *testing.T) {
	f := load(t, "rail-optimised.yaml")
	f.Config.NICOfGPU = []int{1, 1, 0, 0}
	plain := build(t, config(2, 2))
	for gpu, want := range []int{1, 1, 0, 0} {
		if got := f.NearestNIC(gpu, 4); got != want {
			t.Errorf("given: GPU %d has NIC %d, want %d", gpu, got, want)
		}
		if got := plain.NearestNIC(gpu, 4); got != 1-want {
			t.Errorf("not given: GPU %d has NIC %d, want %d", gpu, got, 1-want)
		}
	}
}

// The most that a path may lose is what the link model's attempts make of it, one packet in
// 10^9, whether one link loses it or several.
func TestLossesOfAWay(t *testing.T) {
	if p := math.Pow(configs.MaxLoss, link.MaxAttempts); p > 1e-9 || p < 1e-10 {
		t.Errorf("with a loss of %v one packet of %.0f is let through", configs.MaxLoss, 1/p)
	}
	c := wired(4, 1, configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Spines: 1})
	c.Link.Loss.P = 0.4
	lose := func(p float64) configs.LinkPatch { return configs.LinkPatch{Loss: &configs.Loss{P: p}} }
	for _, tc := range []struct {
		p    float64
		want string
	}{{0.1, ""},
		{0.5,
			"loss: the links on the path node0:node2 lose 85% together: on datapath shm a path may lose at most 72%; "},
		{1, "loss: 100% is too much"}} {
		c.Links = []configs.LinkOverride{{Match: "leaf*", LinkPatch: lose(tc.p)}}
		_, err := New(&c)
		c.Links = nil
		f := build(t, c)
		before := slices.Clone(f.Hops)
		_, live := f.Shape("leaf*", lose(tc.p))
		for what, err := range map[string]error{"file": err, "shape": live} {
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) ||
				!configs.IsUserError(err)) {
				t.Errorf("%s, links between switches lose %v: %v", what, tc.p, err)
			}
		}
		if live != nil && !slices.Equal(f.Hops, before) {
			t.Errorf("links between switches lose %v: refused, and changed", tc.p)
		}
	}
	// What is healed by a later override, and what the kernel loses.
	c.Links = []configs.LinkOverride{{Match: "leaf*", LinkPatch: lose(0.5)}, {Match: "leaf*", LinkPatch: lose(0)}}
	build(t, c)
	k := config(2, 1)
	k.Datapath, k.Transport = configs.Kernel, configs.DefaultTransport(configs.TCP)
	if _, err := build(t, k).Shape("*", lose(1)); err != nil {
		t.Error(err)
	}
}
