// SPDX-License-Identifier: Apache-2.0

package htsim

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Networks in the layout that csg-htsim 841d9e7 and uet-htsim 40ccb05 read: the values of their leaf_spine_tiny.topo
// and test.topo, with latencies of switches.
const (
	leafSpine = `# comment
Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 300
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 2000
Switch_Latency_ns 500
`
	threeTiers = `nodes 8
TIERS 3
Podsize 4
Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 10
Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Switch_Latency_ns 20
Bundle 1
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Switch_Latency_ns 40
Bundle 2
Queue_Down 1000000
`
)

func read(t *testing.T, text string, o found.Options) (*configs.Fabric, *found.Fabric) {
	t.Helper()
	out, err := Read(text, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Config.Validate(); err != nil {
		t.Fatal(err)
	}
	return &out.Config, out
}

// latency is the latency from one node to another over the switches of a fabric.
func latency(t *testing.T, f *configs.Fabric, from, to int) (all time.Duration, trunks int) {
	t.Helper()
	net, err := f.Net()
	if err != nil {
		t.Fatal(err)
	}
	all = f.Link.Latency
	for _, i := range net.Path(from, to) {
		all += net.Trunks[i].Latency
		trunks++
	}
	return all, trunks
}

// htsim adds links and switches of a path: 2 x (1000 + 2000) of links, 2 x 300 + 500 of switches.
func TestLeafSpine(t *testing.T) {
	f, _ := read(t, leafSpine, found.Options{})
	if f.Topology.Kind != "leaf-spine" || f.Topology.Leaves != 4 || f.Topology.Spines != 2 ||
		f.Link.Bandwidth != 100*units.Gbps || *f.Topology.Trunk.Bandwidth != 100*units.Gbps {
		t.Errorf("%+v", f.Topology)
	}
	if got, n := latency(t, f, 0, 1); got != 2300 || n != 0 {
		t.Errorf("on one switch %v", got)
	}
	if got, n := latency(t, f, 0, 31); got != 2*(1000+2000)+2*300+500 || n != 2 {
		t.Errorf("over %d links %v", n, got)
	}
}

func TestThreeTiers(t *testing.T) {
	f, out := read(t, threeTiers, found.Options{})
	net, err := f.Net()
	if err != nil {
		t.Fatal(err)
	}
	// 4 ToRs and 4 aggregation switches, 2 x 2 links in each of 2 pods; 4 cores, each aggregation switch on 2.
	if len(f.Topology.Switches) != 12 || len(net.Links) != 2*(8+8) {
		t.Errorf("%d switches, %d links", len(f.Topology.Switches), len(net.Links))
	}
	for _, tc := range []struct {
		to    int
		want  time.Duration
		links int
	}{{1, 2010, 0}, {2, 4000 + 2*10 + 20, 2}, {7, 6000 + 2*10 + 2*20 + 40, 4}} {
		if got, n := latency(t, f, 0, tc.to); got != tc.want || n != tc.links {
			t.Errorf("to node %d: %v over %d links, want %v over %d", tc.to, got, n, tc.want, tc.links)
		}
	}
	for i, l := range net.Links {
		if rate := net.Trunks[i].Bandwidth; rate != 200*units.Gbps {
			t.Errorf("%s to %s: %v, a bundle of 2 x 100 or one of 200", net.Switches[l.From], net.Switches[l.To], rate)
		}
	}
	joined := map[string]string{}
	for _, l := range net.Links {
		if to := net.Switches[l.To]; strings.HasPrefix(to, "core") {
			joined[to] += net.Switches[l.From] + " "
		}
	}
	for core, want := range map[string]string{"core0": "agg0 agg2 ", "core1": "agg1 agg3 ", "core2": "agg0 agg2 ",
		"core3": "agg1 agg3 "} {
		if joined[core] != want {
			t.Errorf("%s is joined to %s, want %s", core, joined[core], want)
		}
	}
	notes := strings.Join(out.Notes, "\n")
	if !strings.Contains(notes, "8 links beside another") ||
		!strings.Contains(notes, "Queue_Up and Queue_Down of 1 tier") {
		t.Errorf("%q", out.Notes)
	}
}

func TestRefused(t *testing.T) {
	for change, want := range map[string]string{
		"Nodes 32|Nodes 33":                                  "multiple",
		"Tiers 2|Tiers 4":                                    "line 3: 4 tiers",
		"Oversubscribed 4|Oversubscribed 2":                  "800 Gb/s down and 200 Gb/s up",
		"Radix_Down 4|Radix_Down 5":                          "do not fill",
		"Podsize 32|Podsize 16":                              "nothing joins the pods",
		"Downlink_Latency_ns 2000\n|":                        "tier 1 has no Downlink_Latency_ns",
		"Radix_Up 2|Radix_Sideways 2":                        "line 9",
		"Radix_Up 2|Radix_Up two":                            "must be a whole number",
		"Radix_Up 2|Radix_Up":                                "has no value",
		"Tier 1\n|":                                          "no section Tier 1",
		"Nodes 32|Nodes 3200000000":                          "line 2",
		"Downlink_speed_Gbps 100\nRadix_Down 8|Radix_Down 8": "-linkspeed",
	} {
		old, now, _ := strings.Cut(change, "|")
		text := strings.Replace(leafSpine, old, now, 1)
		if text == leafSpine {
			t.Fatalf("%q changes nothing", change)
		}
		_, err := Read(text, found.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", change, err, want)
		}
	}
}
