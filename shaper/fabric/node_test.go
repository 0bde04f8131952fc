// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
)

// Messages over PCI Express pass what leaves and enters a PCI switch or a CPU.
func TestPathsOverPCIe(t *testing.T) {
	kind, err := configs.BuiltInGPU("l40s")
	if err != nil {
		t.Fatal(err)
	}
	kind.PCIe.GPUs, kind.CPU.GPUs = 2, 4
	kind.Time.Links = configs.LinkTime{Rate: 160 * units.Gbps, Latency: 1000, Switch: 40 * units.Gbps, CPU: 8 * units.Gbps}
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	c.GPU, c.GPUsPerNode, c.NodeTime, c.TimedNodes = kind, 8, true, true
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		src, dst int
		want     []string
	}{
		{"one switch", 0, 1, []string{"node0/gpu0:out", "node0/gpu1:in"}},
		{"one CPU", 1, 2, []string{"node0/gpu1:out", "node0/pci0:out", "node0/pci1:in", "node0/gpu2:in"}},
		{"CPUs", 3, 4, []string{"node0/gpu3:out", "node0/pci1:out", "node0/pci2:in", "node0/cpu0:out", "node0/cpu1:in",
			"node0/gpu4:in"}},
		{"second node", 15, 8, []string{"node1/gpu7:out", "node1/pci3:out", "node1/pci0:in", "node1/cpu1:out",
			"node1/cpu0:in", "node1/gpu0:in"}},
	} {
		var got []string
		for _, h := range f.GPUPath(tc.src, tc.dst, Through) {
			got = append(got, f.HopName(h.Hop))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	rates := map[link.HopKind]uint64{}
	for _, h := range f.Hops[f.FirstGPULink():] {
		rates[h.Kind] = h.Spec.Bandwidth
	}
	links := kind.Time.Links
	want := map[link.HopKind]uint64{link.GPUOut: uint64(links.Rate), link.GPUIn: uint64(links.Rate),
		link.PCIOut: uint64(links.Switch), link.PCIIn: uint64(links.Switch),
		link.CPUOut: uint64(links.CPU), link.CPUIn: uint64(links.CPU)}
	if diff := cmp.Diff(want, rates); diff != "" {
		t.Errorf("rates (-want +got):\n%s", diff)
	}
	// What two GPUs of a switch share does not matter to them, and NVLinks do not pass it.
	var none [node.MostGPUGroups]node.GPUGroup
	if f.Config.GPUsPerNode = 2; f.GPUGroups() != none {
		t.Error("2 GPUs on a switch pass it")
	}
	f.Config.GPUsPerNode = 8
	kind.NVLink = configs.NVLink{Links: 4, Rate: 8 * units.Gbps, Connection: configs.SwitchedNVLink}
	if f.GPUGroups() != none {
		t.Error("messages over NVLink pass PCI switches")
	}
}

// timed is h100-sxm on ndr400, whose nodes cost time.
func timed(t *testing.T) *configs.Fabric {
	t.Helper()
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	if c.GPU, err = configs.BuiltInGPU("h100-sxm"); err != nil {
		t.Fatal(err)
	}
	c.GPUsPerNode, c.NodeTime = 8, true
	return c
}

// A fabric that gets the time of its nodes later, as calculated times do, is the same as one that is made with it, also
// after a change of its links.
func TestWithNodeTime(t *testing.T) {
	c := timed(t)
	shape := func(f *Fabric) *Fabric {
		rate, up := units.Gbps, false
		for pattern, patch := range map[string]configs.LinkPatch{"node0": {Bandwidth: &rate}, "node0:node1": {Up: &up}} {
			if _, err := f.Shape(pattern, patch); err != nil {
				t.Fatal(err)
			}
		}
		return f
	}
	build := func() *Fabric {
		f, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	plain := shape(build())
	hops := len(plain.Hops)
	later, err := plain.WithNodeTime()
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.Hops) != hops || plain.Hops[0].Spec.Latency != 0 || plain.Config.TimedNodes {
		t.Error("it changed the fabric that it was made of")
	}
	c.TimedNodes = true
	made := shape(build())
	if same, err := made.WithNodeTime(); same != made || err != nil {
		t.Errorf("of one that is timed: another one, %v", err)
	}
	if diff := cmp.Diff(made.Hops, later.Hops); diff != "" {
		t.Errorf("hops (-made with it +got it later):\n%s", diff)
	}
	if diff := cmp.Diff(made.Transport(), later.Transport()); diff != "" {
		t.Errorf("transport (-made with it +got it later):\n%s", diff)
	}
	net := c.GPU.Time.Net
	if got := made.Hops[0].Spec.Latency; got != net.Latency || net.Latency == 0 {
		t.Errorf("a port has a latency of %v, want %v", got, net.Latency)
	}
	if got := made.Transport().Host.PerMessage; got != int64(c.Host.PerMessage+net.PerMessage) || net.PerMessage == 0 {
		t.Errorf("a message takes the host %d ns", got)
	}
	c.NodeTime, c.TimedNodes = false, false
	off := build()
	if same, err := off.WithNodeTime(); same != off || err != nil {
		t.Errorf("nodes that cost nothing: another fabric, %v", err)
	}
}

// Two times that are each within their limits may be too much together.
func TestHostAndProxyTogether(t *testing.T) {
	c := timed(t)
	for _, late := range []bool{false, true} {
		c.Host.PerMessage, c.TimedNodes = configs.MaxLatency-c.GPU.Time.Net.PerMessage, !late
		build := func() error {
			f, err := New(c)
			if err == nil && late {
				_, err = f.WithNodeTime()
			}
			return err
		}
		if err := build(); err != nil {
			t.Errorf("at the limit: %v", err)
		}
		c.Host.PerMessage += time.Nanosecond
		if err := build(); err == nil || !strings.Contains(err.Error(), "10.000000001s together: must be at most 10s") {
			t.Errorf("above the limit: %v", err)
		}
	}
}

// Where NVLinks connect some pairs only, messages between the others pass GPUs that are connected with both, and a pair
// has a part of the rate by its links.
func TestPathsOverGraph(t *testing.T) {
	kind, err := configs.BuiltInGPU("v100")
	if err != nil {
		t.Fatal(err)
	}
	kind.Time.Links.Rate = 6 * units.Gbps
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	c.GPU, c.GPUsPerNode, c.NodeTime = kind, 8, true
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckNodeTime(); err != nil {
		t.Fatal(err)
	}
	links := f.GPULinks()
	for _, tc := range []struct {
		src, dst int
		way      []int // GPUs of the fabric
		gbps     int   // of the first of them
	}{
		{0, 3, []int{0, 3}, 2}, {3, 1, []int{3, 1}, 1}, {0, 7, []int{0, 3, 7}, 2}, {8, 15, []int{8, 11, 15}, 2},
		{14, 8, []int{14, 10, 8}, 1},
	} {
		way, path := []int{tc.src}, f.GPUPath(tc.src, tc.dst, Through)
		for _, h := range path {
			hop := links[h.Hop-f.FirstGPULink()]
			if hop.Kind != link.GPULink || hop.Src != way[len(way)-1] {
				t.Fatalf("%d to %d: %+v after %v", tc.src, tc.dst, hop, way)
			}
			way = append(way, hop.Dst)
		}
		if diff := cmp.Diff(tc.way, way); diff != "" {
			t.Errorf("%d to %d (-want +got):\n%s", tc.src, tc.dst, diff)
		}
		if got := links[path[0].Hop-f.FirstGPULink()].Spec.Bandwidth; got != uint64(tc.gbps)*uint64(units.Gbps) {
			t.Errorf("%d to %d: %d bit/s, want %d Gb/s", tc.src, tc.dst, got, tc.gbps)
		}
	}
	kind.NVLink.Graph = kind.NVLink.Graph[:5] // GPU 7 has none
	if err := f.CheckNodeTime(); err == nil {
		t.Error("GPUs that no NVLinks connect: no error")
	}
}

// Without a number of GPUs, each node of a fabric whose nodes cost time has one: its links are made, and ranks are placed
// by it.
func TestOneGPUPerNodeIfNotGiven(t *testing.T) {
	c := timed(t)
	c.GPUsPerNode, c.TimedNodes = 0, true
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.GPULinks()); f.Config.GPUsPerNode != 1 || n != 2*c.Nodes || c.GPUsPerNode != 0 {
		t.Errorf("%d GPUs per node, %d links within %d nodes", f.Config.GPUsPerNode, n, c.Nodes)
	}
}
