// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// pairs is a job in which each of these pairs of nodes sends one message of 1.25 MB (100 us at 100 Gb/s), in one call.
func pairs(t *testing.T, f *replay.Fabric, all ...[2]int) *messages.Trace {
	t.Helper()
	tr := &messages.Trace{Jobs: []string{"A"}, Nodes: map[[2]int]int{}, Ranks: []ledger.Info{{World: uint32(f.NICs()),
		Virtual: true, TimeScale: 1}}}
	c := messages.Call{Name: "AllToAll", Comm: 1}
	for n := range f.NICs() {
		tr.Nodes[[2]int{0, n}] = n
		c.Tasks = append(c.Tasks, n)
		tr.Tasks = append(tr.Tasks, messages.Task{Owner: n, Rank: n, Comm: 1, Func: "AllToAll", Ranks: f.NICs()})
	}
	for i, p := range all {
		tr.Connections = append(tr.Connections, messages.Connection{Flow: uint64(i), Sender: p[0], Receiver: p[1],
			Src: p[0], Dst: p[1], Order: uint64(i)})
		tr.Messages = append(tr.Messages, messages.Message{Flow: uint64(i), Sender: p[0], Receiver: p[1], Src: p[0],
			Dst: p[1], Size: 1_250_000, HasSend: true, HasReceive: true, SendTask: p[0], ReceiveTask: p[1]})
		c.Messages = append(c.Messages, i)
	}
	tr.Calls = []messages.Call{c}
	replaytest.Play(t, f, tr)
	return tr
}

// upgrades are those of a job, with their results.
func upgrades(t *testing.T, f *replay.Fabric, tr *messages.Trace, most int) ([]Change, []*Result) {
	t.Helper()
	played, err := replay.Play(f, tr)
	if err != nil {
		t.Fatal(err)
	}
	r, err := why.Of(played)
	if err != nil {
		t.Fatal(err)
	}
	changes := Upgrades(played, r, most)
	results, err := New(f, tr).Of(changes)
	if err != nil {
		t.Fatal(err)
	}
	return changes, results
}

// What limits a job is found: a cable, cables that are equally busy, a tier, a NIC, or all together.
func TestAdvice(t *testing.T) {
	leafSpine := func(spines, trunk string) []string {
		return []string{"topology:", "  kind: leaf-spine", "  leaves: 2", "  spines: " + spines, "  trunk:",
			"    bandwidth: " + trunk, "    latency: 1us"}
	}
	across := [][2]int{{0, 2}, {1, 3}} // over the switches
	for name, tc := range map[string]struct {
		nodes int
		lines []string
		sends [][2]int
		want  []string // links of the advised upgrade
		gain  float64  // of it
		text  string   // in the advice
		alone []string // each of these alone changes nothing
	}{
		"cables in a row": {4, leafSpine("1", "50Gbps"), across, []string{"leaf0:spine0", "leaf1:spine0"}, -0.49,
			"all leaf-spine cables x2", []string{"leaf0:spine0", "leaf1:spine0"}},
		"one slow cable": {4, append(leafSpine("1", "400Gbps"), "links:", "  - match: leaf1:spine0", "    bandwidth: 50Gbps"),
			across, []string{"leaf1:spine0"}, -0.49, "leaf1:spine0 x2: -49", nil},
		"slow link between two NICs": {3, []string{"links:", "  - match: node1:node2", "    bandwidth: 20Gbps"},
			[][2]int{{1, 2}, {0, 1}}, []string{"node1:node2"}, -0.49, "node1:node2 x2: -49", nil},
		"incast": {4, nil, [][2]int{{0, 1}, {2, 1}, {3, 1}}, []string{"node1"}, -0.49, "NIC node1 x2: -49", nil},
		"NICs of two ends": {3, nil, [][2]int{{0, 1}}, []string{"node0", "node1"}, -0.49, "NIC node0, NIC node1 x2: -49",
			[]string{"node0", "node1"}},
		"NICs and cables": {2, leafSpine("1", "100Gbps"), [][2]int{{0, 1}},
			[]string{"leaf0:spine0", "leaf1:spine0", "node0", "node1"}, -0.47,
			"only all links x2 together bring -47.2 %, and no part of them brings anything", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := replaytest.Fabric(t, tc.nodes, tc.lines...)
			changes, results := upgrades(t, f, pairs(t, f, tc.sends...), 3)
			best, text := Advise(changes, results)
			if best < 0 || !strings.Contains(text, tc.text) {
				t.Fatalf("advice %d %q, want %q in it: %+v", best, text, tc.text, changes)
			}
			got := slices.Sorted(slices.Values(changes[best].Links))
			if gain := results[best].Gain(); !slices.Equal(got, tc.want) || gain > tc.gain || gain < tc.gain-0.02 {
				t.Errorf("%q %+.3f, want %q %+.3f", got, gain, tc.want, tc.gain)
			}
			for _, one := range tc.alone {
				i := slices.IndexFunc(changes, func(c Change) bool { return slices.Equal(c.Links, []string{one}) })
				if i < 0 || results[i].Gain() < -0.01 {
					t.Errorf("%s alone: %d in %+v", one, i, changes)
				}
			}
		})
	}
}

// The advice does not say of parts that were not tried that they bring nothing.
func TestAdviceWithoutParts(t *testing.T) {
	f := replaytest.Fabric(t, 2)
	const want = "all links x2: -49.0 %; no part of them was tried"
	if _, text := Advise(upgrades(t, f, pairs(t, f, [2]int{0, 1}, [2]int{1, 0}), 0)); text != want {
		t.Errorf("the advice is %q, want %q", text, want)
	}
}

// Short messages take the time of latencies: no upgrade of links is advised.
func TestAdviceAgainstUpgrades(t *testing.T) {
	f := replaytest.Fabric(t, 3, "endpoint:", "  overhead: 0s")
	tr := pairs(t, f, [2]int{0, 1})
	tr.Messages[0].Size = 8
	replaytest.Play(t, f, tr)
	best, text := Advise(upgrades(t, f, tr, 3))
	if best >= 0 || !strings.Contains(text, "no upgrade of links is worth it") ||
		!strings.Contains(text, "; all latencies x0.5: -") {
		t.Errorf("%d %q", best, text)
	}
	tr.Messages[0].Received, tr.Messages[0].Sent = false, false
	if best, text := Advise(upgrades(t, f, tr, 3)); best >= 0 || text != "" {
		t.Errorf("no call has ended, the advice is %d %q", best, text)
	}
}

// An upgrade changes both directions of a cable, and a link of two NICs once, whatever is upgraded with it.
func TestUpgradesChangeBothDirectionsOnce(t *testing.T) {
	f := replaytest.Fabric(t, 4, "nics_per_node: 2", "topology:", "  kind: leaf-spine", "  leaves: 2", "  spines: 2",
		"  trunk:", "    bandwidth: 50Gbps", "    latency: 1us", "links:", "  - match: node0.nic1:node3.nic0",
		"    bandwidth: 10Gbps")
	changes, _ := upgrades(t, f, pairs(t, f, [2]int{0, 4}, [2]int{1, 6}, [2]int{3, 5}, [2]int{6, 1}), 100)
	seen := map[Kind]bool{}
	for i := range changes {
		c := &changes[i]
		seen[c.Kind] = true
		after := c.apply(f)
		for h, hop := range f.Hops {
			back := slices.IndexFunc(f.Hops, func(x fabric.Hop) bool {
				return x.Kind == hop.Kind && x.Src == hop.Dst && x.Dst == hop.Src
			})
			before, now := hop.Spec, after.Hops[h].Spec
			if !c.IsUpgrade() {
				continue
			}
			if now.Bandwidth != before.Bandwidth && now.Bandwidth != Factor*before.Bandwidth {
				t.Errorf("%s: %s has %d b/s, before %d", c.Name, f.HopName(h), now.Bandwidth, before.Bandwidth)
			}
			if hop.Kind != link.TxPort && hop.Kind != link.RxPort && after.Hops[back].Spec != now {
				t.Errorf("%s: %s changes, and not the way back", c.Name, f.HopName(h))
			}
			if c.Kind == AllLinks && now.Bandwidth == before.Bandwidth {
				t.Errorf("%s: %s does not change", c.Name, f.HopName(h))
			}
		}
	}
	for _, k := range []Kind{OneCable, OneNIC, Together, Tier, AllLinks, Latency} {
		if !seen[k] {
			t.Errorf("no change of kind %q in %+v", k, changes)
		}
	}
}

// Units that are as busy as each other are tried together, and never a group of one or of all.
func TestTogether(t *testing.T) {
	for _, tc := range []struct{ busy, want []int64 }{
		{[]int64{100}, nil},
		{[]int64{100, 100}, nil},
		{[]int64{100, 99, 50, 50}, []int64{2}},
		{[]int64{100, 90, 80, 70, 60}, []int64{2, 4}},
		{[]int64{100, 90, 0, 0}, []int64{2}},
		{[]int64{100, 97, 93, 20}, []int64{2, 3}},
	} {
		x := tier{}
		for _, b := range tc.busy {
			x.units = append(x.units, unit{busy: b})
		}
		var got []int64
		for _, n := range x.together() {
			got = append(got, int64(n))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%d: %d together, want %d", tc.busy, got, tc.want)
		}
	}
}

// Tiers have the names of their switches without numbers.
func TestTierNames(t *testing.T) {
	trunk := []string{"  trunk:", "    bandwidth: 100Gbps", "    latency: 1us"}
	for _, tc := range []struct {
		shape []string
		want  []string
	}{
		{[]string{"topology:", "  kind: fat-tree", "  k: 4"}, []string{"all edge-agg cables", "all agg-core cables"}},
		{[]string{"topology:", "  kind: dragonfly", "  groups: 2", "  routers: 2"},
			[]string{"all router-router cables within a group", "all router-router cables"}},
		{[]string{"topology:", "  kind: wan", "  sites: 2"}, []string{"all site-site cables"}},
		{nil, nil},
	} {
		lines := tc.shape
		if lines != nil {
			lines = append(lines, trunk...)
		}
		f := replaytest.Fabric(t, 8, lines...)
		played, err := replay.Play(f, pairs(t, f, [2]int{0, 1}))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range tiersOf(unitsOf(played, &why.Report{})) {
			got = append(got, x.name)
		}
		if want := append([]string{"all NICs"}, tc.want...); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", tc.shape, got, want)
		}
	}
}

// The advice is the upgrade with the fewest cables of those that bring about as much as the best one.
func TestAdvisesTheSmallest(t *testing.T) {
	changes := []Change{
		{Name: "a x2", Kind: OneCable, Links: []string{"a"}},
		{Name: "all t x2", Kind: Tier, Links: []string{"a", "b", "c"}},
		{Name: "a, b x2", Kind: Together, Links: []string{"a", "b"}},
		{Name: "no losses", Kind: Losses, Links: []string{"a"}},
		{Name: "all links x2", Kind: AllLinks, Links: []string{"a", "b", "c", "d"}}, {Name: "latency", Kind: Latency},
	}
	for _, tc := range []struct {
		after [6]int64 // of 1000 before
		best  int
		text  string
	}{
		{[6]int64{900, 500, 540, 1000, 500, 990}, 2,
			"a, b x2: -46.0 %; all links x2 bring -50.0 %; each alone -10.0 % at best"},
		{[6]int64{540, 500, 530, 1000, 500, 990}, 0, "a x2: -46.0 %; all links x2 bring -50.0 %"},
		{[6]int64{900, 600, 900, 1000, 800, 700}, 1,
			"all t x2: -40.0 %; all links x2 bring -20.0 %; each alone -10.0 % at best; latency: -30.0 %"},
		{[6]int64{1000, 700, 900, 400, 500, 990}, 4,
			"only all links x2 together bring -50.0 %; of their parts, all t x2 bring most: -30.0 %; no losses: -60.0 %"},
		{[6]int64{1000, 1000, 1100, 1000, 995, 1000}, -1, "no upgrade of links is worth it: all links x2 bring -0.5 %"},
	} {
		var results []*Result
		for _, ns := range tc.after {
			results = append(results, &Result{Before: Sums{{Calls: 1, Ns: 1000}}, After: Sums{{Calls: 1, Ns: ns}},
				During: Sums{{Calls: 1, Ns: ns}}})
		}
		if best, text := Advise(changes, results); best != tc.best || text != tc.text {
			t.Errorf("%d: %d %q, want %d %q", tc.after, best, text, tc.best, tc.text)
		}
	}
}

// A link is critical where its own messages wait, and where those wait whose senders a full window or queue stops.
func TestCriticalTimes(t *testing.T) {
	r := &why.Report{Functions: []why.Function{{Parts: []why.Total{
		{Part: why.Part{Cause: why.Serialize, Link: "a:b", Ns: 1}}, {Part: why.Part{Cause: why.Queue, Link: "a:b", Ns: 2}},
		{Part: why.Part{Cause: why.Window, Congested: "a:b", Ns: 4}},
		{Part: why.Part{Cause: why.Paused, Link: "node0 tx", Congested: "a:b", Ns: 8}},
		{Part: why.Part{Cause: why.Paused, Link: "node1 tx", Ns: 16}}, {Part: why.Part{Cause: why.Window, Ns: 32}},
	}}}}
	if ns := criticalTimes(r); ns["a:b"] != 15 || len(ns) != 1 {
		t.Errorf("%v", ns)
	}
}
