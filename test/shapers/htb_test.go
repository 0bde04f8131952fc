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
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/test/measure"
)

// noise is how often a measurement may be repeated: whatever else runs on the machine
// takes from what is measured.
const noise = 5

// inLab is set where a kernel has all that is tested: see test/lab.
const inLab = "DDLEMU_LAB"

// startTrial brings up a fabric of nodes with a shaper for one test, unless parts of the
// kernel are missing.
func startTrial(t *testing.T, nodes int, rate units.Bandwidth, start func(nodes.Network) (shapers.Shaper, error), parts ...string) *measure.Fabric {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: network namespaces cannot be made")
	}
	if testing.Short() {
		t.Skip("-short: what is measured under the race detector means nothing")
	}
	kernel := &shapers.Kernel{}
	for _, part := range parts {
		if err := kernel.Probe(part); err != nil && os.Getenv(inLab) != "" {
			t.Fatalf("%s: %v", part, err)
		} else if err != nil {
			t.Skipf("%s: %v", part, err)
		}
	}
	tr, err := measure.Start(filepath.Join(t.TempDir(), "fabrics"), "t", func(c *configs.Fabric) {
		c.Nodes, c.Link.Bandwidth, c.Link.Latency = nodes, rate, 0
	}, start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// within measures until what comes is within a part of want.
func within(t *testing.T, what string, want, part float64, measure func() (float64, error)) {
	t.Helper()
	var got float64
	for range noise {
		var err error
		if got, err = measure(); err != nil {
			t.Fatal(err)
		}
		if math.Abs(got/want-1) <= part {
			t.Logf("%s: %.4g, asked for %.4g", what, got, want)
			return
		}
	}
	t.Errorf("%s: %.4g, asked for %.4g: off by %.1f %%", what, got, want, 100*(got/want-1))
}

func TestHTBRate(t *testing.T) {
	tr := startTrial(t, 2, units.Gbps, startHTB, "htb", shapers.BPF)
	f, err := tr.StartFlow(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rate := func() (float64, error) { return f.Rate(400 * time.Millisecond) }
	set := func(b units.Bandwidth) error { return tr.Shape(configs.LinkPatch{Bandwidth: &b}) }
	carried(t, 0.02, []units.Bandwidth{units.Gbps, 500 * units.Mbps, 200 * units.Mbps}, set, tr.Payload, rate)
	// A change, while the flow runs.
	for _, bps := range []uint64{100_000_000, 300_000_000} {
		b := units.Bandwidth(bps)
		if err := set(b); err != nil {
			t.Fatal(err)
		}
		// What was queued at the old rate is through by then.
		if _, err := f.Rate(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		within(t, b.String(), tr.Payload(bps), 0.02, rate)
	}
}

func TestHTBShares(t *testing.T) {
	tr := startTrial(t, 4, 200*units.Mbps, startHTB, "htb", shapers.BPF)
	// Three nodes send to one, one of them over two connections.
	var flows []*measure.Flow
	for _, src := range []int{0, 1, 1, 2} {
		f, err := tr.StartFlow(src, 3)
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
	// That node's connections together get what each of the others gets.
	within(t, "a third", tr.Payload(200_000_000)/3, 0.03, func() (float64, error) {
		err := measure()
		return rates[0], err
	})
	within(t, "a third for two", tr.Payload(200_000_000)/3, 0.03, func() (float64, error) {
		err := measure()
		return rates[1] + rates[2], err
	})
}

func TestHTBCounts(t *testing.T) {
	tr := startTrial(t, 2, 100*units.Mbps, startHTB, "htb", shapers.BPF)
	const n, size = 500, 1000
	took, err := tr.Datagrams(0, 1, n, size, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(took) != n {
		t.Fatalf("%d of %d datagrams came", len(took), n)
	}
	if err := tr.Shaper.Count(); err != nil {
		t.Fatal(err)
	}
	for _, hop := range []int{0, 3, tr.Fabric.Link(0, 1)} {
		c := tr.File.Hops()[hop].Counters
		// A few frames of ARP come on top.
		if c.Segments < n || c.Segments > n+8 || c.LineBytes < n*(size+28+38) || c.LineBytes > n*(size+28+38)+8*100 || c.Drops != 0 {
			t.Errorf("%s: counted %+v for %d datagrams of %d bytes", tr.Fabric.HopName(hop), c, n, size)
		}
	}
}

// meet lets two nodes find each other's addresses while nothing is lost: when the question
// or the answer is, the next one comes a second later, and what was sent until then is
// thrown away.
func meet(t *testing.T, tr *measure.Fabric) {
	t.Helper()
	if took, err := tr.Datagrams(0, 1, 1, 64, 0); err != nil || len(took) != 1 {
		t.Fatalf("%d of 1 datagram came over a link that loses none: %v", len(took), err)
	}
}

func TestHTBLoss(t *testing.T) {
	tr := startTrial(t, 2, units.Gbps, startHTB, "htb", shapers.BPF)
	meet(t, tr)
	if err := tr.Shape(configs.LinkPatch{Loss: &configs.Loss{P: 0.01}}); err != nil {
		t.Fatal(err)
	}
	lossy(t, tr)
	// Of what TCP sends in large pieces, packets are lost too, not pieces.
	if most := largest(t, tr); most != 1 {
		t.Errorf("pieces of up to %d packets are lost at once", most)
	}
	f, err := tr.StartFlow(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := linkCounters(t, tr)
	drops, passed := uint64(0), uint64(0)
	for range 20 { // a few of them on a machine that is slow
		if _, err := f.Rate(500 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		after := linkCounters(t, tr)
		if drops, passed = after.Drops-before.Drops, after.Segments-before.Segments; drops+passed > 5000 {
			break
		}
	}
	if part := float64(drops) / float64(drops+passed); part < 0.005 || part > 0.02 || drops+passed < 2000 {
		t.Errorf("TCP: %d of %d packets were lost, 1 %% was asked for", drops, drops+passed)
	}
	// Down is down at once, and up again.
	up := false
	if err := tr.Shape(configs.LinkPatch{Up: &up}); err != nil {
		t.Fatal(err)
	}
	if took, err := tr.Datagrams(0, 1, 10, 100, 0); err != nil || len(took) != 0 {
		t.Errorf("%d datagrams came over a link that is down: %v", len(took), err)
	}
	up = true
	if err := tr.Shape(configs.LinkPatch{Up: &up, Loss: &configs.Loss{}}); err != nil {
		t.Fatal(err)
	}
	if most := largest(t, tr); most != 65535 {
		t.Errorf("nothing is lost, and pieces are of up to %d packets", most)
	}
	if took, err := tr.Datagrams(0, 1, 10, 100, 0); err != nil || len(took) != 10 {
		t.Errorf("%d of 10 datagrams came over a link that is up again: %v", len(took), err)
	}
}

// largest is how many packets node 0 may hand over in one piece.
func largest(t *testing.T, tr *measure.Fabric) int {
	t.Helper()
	h, err := nodes.OpenNetlink(tr.Plan.Nodes[0].Namespace)
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

// lossy checks that the link from node 0 to 1 loses 1 % of datagrams, and that the
// counters say so.
func lossy(t *testing.T, tr *measure.Fabric) {
	t.Helper()
	const n = 20000
	before := linkCounters(t, tr)
	took, err := tr.Datagrams(0, 1, n, 200, 20*time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	after := linkCounters(t, tr)
	if lost := float64(n-len(took)) / n; math.Abs(lost-0.01) > 0.002 {
		t.Errorf("%.2f %% of the datagrams were lost, 1 %% was asked for", 100*lost)
	}
	// A few frames of ARP may be lost too.
	if d := int(after.Drops-before.Drops) - (n - len(took)); d < 0 || d > 4 {
		t.Errorf("%d of %d datagrams came, %d drops were counted", len(took), n, after.Drops-before.Drops)
	}
}

// linkCounters is what the link from node 0 to 1 has carried.
func linkCounters(t *testing.T, tr *measure.Fabric) link.Counters {
	t.Helper()
	if err := tr.Shaper.Count(); err != nil {
		t.Fatal(err)
	}
	return tr.File.Hops()[tr.Fabric.Link(0, 1)].Counters
}

func startHTB(w nodes.Network) (shapers.Shaper, error) { return tc.StartHTB(w) }
