// SPDX-License-Identifier: Apache-2.0

package shapers

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/test/measure"
	"github.com/ddlemu/ddlemu/test/needs"
)

// attempts is how often a measurement may be repeated, because other load on the machine disturbs it.
const attempts = 5

// labEnv is set by test/lab, on kernels that have all features: there, a missing feature is a failure.
const labEnv = "DDLEMU_LAB"

// startFabric brings up a fabric with a shaper for one test. It skips the test if the kernel lacks a feature.
func startFabric(t *testing.T, nodes int, rate units.Bandwidth, start func(nodes.Network) (shapers.Shaper, error),
	features ...string) *measure.Running {
	t.Helper()
	needs.Root(t, "a network namespace")
	if testing.Short() {
		t.Skip("-short: the race detector makes packets too slow to measure")
	}
	kernel := &shapers.Kernel{}
	for _, feature := range features {
		if err := kernel.Probe(feature); err != nil && os.Getenv(labEnv) != "" {
			t.Fatalf("%s: %v", feature, err)
		} else if err != nil {
			t.Skipf("%s: %v", feature, err)
		}
	}
	fab, err := measure.Start(filepath.Join(t.TempDir(), "fabrics"), "t", func(c *configs.Fabric) {
		c.Nodes, c.Link.Bandwidth, c.Link.Latency = nodes, rate, 0
	}, start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fab.Close(); err != nil {
			t.Error(err)
		}
	})
	return fab
}

// within measures until enough results differ from want by at most a relative tolerance.
func within(t *testing.T, what string, want, tolerance float64, rate func() (float64, error)) {
	t.Helper()
	measure.Repeat(t, what, func() (measure.Result, error) {
		got, err := rate()
		return measure.Rate(got, want, tolerance), err
	})
}

func TestHTBRate(t *testing.T) {
	fab := startFabric(t, 2, units.Gbps, startHTB, "htb", shapers.BPF)
	f, err := fab.StartFlow(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rate := func() (float64, error) { return f.Rate(400 * time.Millisecond) }
	set := func(b units.Bandwidth) error { return fab.Shape(configs.LinkPatch{Bandwidth: &b}) }
	checkRate(t, 0.02, []units.Bandwidth{units.Gbps, 500 * units.Mbps, 200 * units.Mbps}, set, fab.Payload, rate)
	// Changes while the flow runs.
	for _, bps := range []uint64{100_000_000, 300_000_000} {
		b := units.Bandwidth(bps)
		if err := set(b); err != nil {
			t.Fatal(err)
		}
		// Packets that were queued at the old rate have left after that.
		if _, err := f.Rate(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		within(t, b.String(), fab.Payload(bps), 0.02, rate)
	}
}

func TestHTBShares(t *testing.T) {
	fab := startFabric(t, 4, 200*units.Mbps, startHTB, "htb", shapers.BPF)
	// Three nodes send to one, one of them over two connections.
	var flows []*measure.Flow
	for _, src := range []int{0, 1, 1, 2} {
		f, err := fab.StartFlow(src, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		flows = append(flows, f)
	}
	rates := make([]float64, len(flows))
	errs := make([]error, len(flows))
	measure := func() error {
		var all sync.WaitGroup
		for i, f := range flows {
			all.Go(func() { rates[i], errs[i] = f.Rate(600 * time.Millisecond) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	// The two connections of one node together get the share of one node.
	within(t, "a third", fab.Payload(200_000_000)/3, 0.03, func() (float64, error) {
		err := measure()
		return rates[0], err
	})
	within(t, "a third for two", fab.Payload(200_000_000)/3, 0.03, func() (float64, error) {
		err := measure()
		return rates[1] + rates[2], err
	})
}

func TestHTBCounts(t *testing.T) {
	fab := startFabric(t, 2, 100*units.Mbps, startHTB, "htb", shapers.BPF)
	const n, size = 500, 1000
	flight, err := fab.Datagrams(0, 1, n, size, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(flight) != n {
		t.Fatalf("%d of %d datagrams arrived", len(flight), n)
	}
	if err := fab.Shaper.Count(); err != nil {
		t.Fatal(err)
	}
	for _, hop := range []int{0, 3, fab.Fabric.Link(0, 1)} {
		c := fab.File.Hops()[hop].Counters
		// The counters include a few frames of ARP.
		if c.Segments < n || c.Segments > n+8 || c.LineBytes < n*(size+28+38) || c.LineBytes > n*(size+28+38)+8*100 ||
			c.Drops != 0 {
			t.Errorf("%s: counted %+v for %d datagrams of %d bytes", fab.Fabric.HopName(hop), c, n, size)
		}
	}
}

// resolveAddresses makes two nodes resolve each other's addresses while no packet is lost. If a request or a reply of
// ARP is lost, the next request is sent a second later, and the kernel drops datagrams until then.
func resolveAddresses(t *testing.T, fab *measure.Running) {
	t.Helper()
	if flight, err := fab.Datagrams(0, 1, 1, 64, 0); err != nil || len(flight) != 1 {
		t.Fatalf("%d of 1 datagram arrived over a link without loss: %v", len(flight), err)
	}
}

func TestHTBLoss(t *testing.T) {
	fab := startFabric(t, 2, units.Gbps, startHTB, "htb", shapers.BPF)
	resolveAddresses(t, fab)
	if err := fab.Shape(configs.LinkPatch{Loss: &configs.Loss{P: 0.01}}); err != nil {
		t.Fatal(err)
	}
	checkLoss(t, fab)
	// TCP loses single packets, not whole GSO packets.
	if n := maxGSOSegments(t, fab); n != 1 {
		t.Errorf("GSO packets have up to %d packets, want 1", n)
	}
	f, err := fab.StartFlow(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := linkCounters(t, fab)
	drops, passed := uint64(0), uint64(0)
	for range 20 { // a slow machine needs several
		if _, err := f.Rate(500 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		after := linkCounters(t, fab)
		if drops, passed = after.Drops-before.Drops, after.Segments-before.Segments; drops+passed > 5000 {
			break
		}
	}
	if share := float64(drops) / float64(drops+passed); share < 0.005 || share > 0.02 || drops+passed < 2000 {
		t.Errorf("TCP: %d of %d packets were lost, want 1 %%", drops, drops+passed)
	}
	// A link can be set down and up again.
	up := false
	if err := fab.Shape(configs.LinkPatch{Up: &up}); err != nil {
		t.Fatal(err)
	}
	if flight, err := fab.Datagrams(0, 1, 10, 100, 0); err != nil || len(flight) != 0 {
		t.Errorf("%d datagrams arrived over a link that is down: %v", len(flight), err)
	}
	up = true
	if err := fab.Shape(configs.LinkPatch{Up: &up, Loss: &configs.Loss{}}); err != nil {
		t.Fatal(err)
	}
	if n := maxGSOSegments(t, fab); n != 65535 {
		t.Errorf("without loss, GSO packets have up to %d packets, want 65535", n)
	}
	if flight, err := fab.Datagrams(0, 1, 10, 100, 0); err != nil || len(flight) != 10 {
		t.Errorf("%d of 10 datagrams arrived over a link that is up again: %v", len(flight), err)
	}
}

// maxGSOSegments returns how many packets a GSO packet of node 0 may have.
func maxGSOSegments(t *testing.T, fab *measure.Running) int {
	t.Helper()
	h, err := nodes.OpenNetlink(fab.Plan.Nodes[0].Namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	l, err := h.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	return int(l.Attrs().GSOMaxSegs)
}

// checkLoss checks that the link from node 0 to 1 loses 1 % of datagrams, and that the counters agree.
func checkLoss(t *testing.T, fab *measure.Running) {
	t.Helper()
	const n = 20000
	before := linkCounters(t, fab)
	flight, err := fab.Datagrams(0, 1, n, 200, 20*time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	after := linkCounters(t, fab)
	if lost := float64(n-len(flight)) / n; math.Abs(lost-0.01) > 0.002 {
		t.Errorf("%.2f %% of the datagrams were lost, want 1 %%", 100*lost)
	}
	// The counters may include a few lost frames of ARP.
	if d := int(after.Drops-before.Drops) - (n - len(flight)); d < 0 || d > 4 {
		t.Errorf("%d of %d datagrams arrived, %d drops were counted", len(flight), n, after.Drops-before.Drops)
	}
}

// linkCounters returns the counters of the link from node 0 to 1.
func linkCounters(t *testing.T, fab *measure.Running) link.Counters {
	t.Helper()
	if err := fab.Shaper.Count(); err != nil {
		t.Fatal(err)
	}
	return fab.File.Hops()[fab.Fabric.Link(0, 1)].Counters
}

func startHTB(w nodes.Network) (shapers.Shaper, error) { return tc.StartHTB(w) }
