// SPDX-License-Identifier: Apache-2.0

package astrasim

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/units"
)

// yml is a file in the layout of astra-sim 518bd51, examples/network/analytical and inputs/network.
func yml(topology, npus, bandwidth, latency string) string {
	return "# Analytical Network Input File\ntopology: [ " + topology + " ]\nnpus_count: [ " + npus +
		" ]\nbandwidth: [ " + bandwidth + " ]  # GB/s\nlatency: [ " + latency + " ]  # ns\n"
}

// pair is what a flow from node 0 to another has alone: the least rate, and the latency.
func pair(t *testing.T, f *configs.Fabric, to int) (units.Bandwidth, time.Duration) {
	t.Helper()
	rate, latency := f.Link.Bandwidth, f.Link.Latency
	for _, l := range f.Links {
		rate = min(rate, *l.Bandwidth)
	}
	net, err := f.Net()
	if err != nil {
		t.Fatal(err)
	}
	if net != nil {
		for _, i := range net.Path(0, to*f.NICsPerNode) {
			rate, latency = min(rate, net.Trunks[i].Bandwidth), latency+net.Trunks[i].Latency
		}
	}
	return rate, latency
}

// ASTRA-sim's rule for a message (congestion_unaware/BasicTopology.cpp): hops x latency, and the bytes at the
// bandwidth of a link, with 2^30 bytes in a GB.
func TestRatesAndLatencies(t *testing.T) {
	const gb = 8 << 30 // bits
	for name, tc := range map[string]struct {
		text    string
		nodes   int
		to      int
		rate    units.Bandwidth
		latency time.Duration
		port    units.Bandwidth // of a NIC
	}{
		"HGX-H100-validated.yml": {yml("Switch", "8", "400.0", "936.25"), 8, 7, 400 * gb, 1873, 400 * gb},
		"Ring_8npus.yml, next":   {yml("Ring", "8", "50.0", "500.0"), 8, 1, 50 * gb, 500, 100 * gb},
		"Ring_8npus.yml, far":    {yml("Ring", "8", "50.0", "500.0"), 8, 4, 50 * gb, 2000, 100 * gb},
		"FullyConnected":         {yml("FullyConnected", "16", "50.0", "500.0"), 16, 9, 50 * gb, 500, 15 * 50 * gb},
		"hgx_h100_16gpu.yml": {yml("Switch, Ring", "8, 2", "400, 50", "936.25, 1000"), 2, 1, 50 * gb, 1000,
			50 * gb},
		"two switches":       {yml("Ring, Switch", "4, 8", "400, 25", "1, 700"), 8, 5, 25 * gb, 1400, 25 * gb},
		"torus, dimension 1": {yml("Ring, Ring", "4, 4", "80, 80", "1000, 1000"), 16, 1, 80 * gb, 1000, 320 * gb},
		"torus, dimension 2": {yml("Ring, Ring", "4, 4", "80, 80", "1000, 1000"), 16, 8, 80 * gb, 2000, 320 * gb},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Read(tc.text, found.Options{})
			if err != nil {
				t.Fatal(err)
			}
			f := &out.Config
			if err := f.Validate(); err != nil {
				t.Fatal(err)
			}
			rate, latency := pair(t, f, tc.to)
			if f.Nodes != tc.nodes || rate != tc.rate || latency != tc.latency || f.Link.Bandwidth != tc.port {
				t.Errorf("%d nodes, %v, %v, NIC %v; want %d, %v, %v, %v", f.Nodes, rate, latency, f.Link.Bandwidth,
					tc.nodes, tc.rate, tc.latency, tc.port)
			}
			if f.Link.PayloadRate()*8 != float64(f.Link.Bandwidth) {
				t.Error("packets take a part of the rate")
			}
			if !strings.Contains(strings.Join(out.Notes, "\n"), "2^30") {
				t.Errorf("%q", out.Notes)
			}
		})
	}
}

// The layout of README.md of astra-network-analytical 1.0.
func TestVersion1(t *testing.T) {
	const text = `{"topology-name": "Hierarchical", "topologies-per-dim": ["Switch"], "dimension-type": ["P"], "dimensions-count": 1,
"units-count": [8], "links-count": [2], "link-latency": [500], "link-bandwidth": [12.5], "nic-latency": [100], "router-latency": [30],
"hbm-latency": [500], "hbm-bandwidth": [370], "hbm-scale": [0]}`
	out, err := ReadJSON(text, found.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// 2 links of 12.5 x 10^9 bytes/s; NIC, link, router, link, NIC.
	if l := out.Config.Link; l.Bandwidth != 200*units.Gbps || l.Latency != 100+500+30+500+100 || out.Config.Nodes != 8 {
		t.Errorf("%v %v", l.Bandwidth, l.Latency)
	}
	for change, want := range map[string]string{
		`"Switch"|"Ring"`:                       "router-latency of 30",
		`"Switch"|"Torus"`:                      `dimension 1 is "Torus"`,
		`"links-count": [2]|"links-count": [0]`: "must be a multiple of 1",
		// Times 100 Gb/s this is 0 modulo 2^64.
		`"links-count": [2]|"links-count": [1441151880758558720]`: "a fabric has at most",
		`[500], "link|[500, 1], "link`:                            "2 latencies",
	} {
		old, now, _ := strings.Cut(change, "|")
		if _, err := ReadJSON(strings.Replace(text, old, now, 1), found.Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", change, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{yml("Ring, FullyConnected, Switch", "2, 8, 4", "200, 100, 50", "50, 500, 2000"), "3 dimensions"},
		{yml("Switch, Ring", "8, 4", "400, 50", "1, 1"), "Ring of 4 nodes for each of 8 NICs"},
		{yml("Ring, Ring", "4, 4", "400, 50", "1, 1"), "different bandwidth or latency"},
		{yml("Ring", "4", "tbd", "1"), `"tbd" GB/s`},
		{yml("Ring", "1", "1", "1"), `"1" NPUs`},
		{yml("Ring", "4", "1", "-1"), "nanoseconds"},
		{yml("Ring", "4, 2", "1", "1"), "2 NPU counts"},
		{yml("Mesh", "4", "1", "1"), `"Mesh"`},
		{yml("Switch", "300", "1", "1"), "at most 256"},
		{"topology: Ring\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]\n", "line 1: topology must be a list"},
		{"topology: [Ring]\nnpus_count: [4]\nlatency: [1]\n", "has no bandwidth"},
		{"topology: [\n", "is not YAML"},
	} {
		_, err := Read(tc.text, found.Options{})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
	if _, err := Read(yml("Ring", "8", "1", "1"), found.Options{Nodes: 4}); err == nil {
		t.Error("half a ring")
	}
	if out, err := Read(yml("Switch", "8", "1", "1"), found.Options{Nodes: 4}); err != nil || out.Config.Nodes != 4 {
		t.Errorf("half of a switch: %v", err)
	}
}
