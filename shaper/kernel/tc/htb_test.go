// SPDX-License-Identifier: Apache-2.0

package tc

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
	"github.com/ddlemu/ddlemu/shaper/kernel/probe"
	"github.com/ddlemu/ddlemu/shaper/kernel/trial"
	"github.com/ddlemu/ddlemu/shaper/kernel/world"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// noise is how often a measurement may be repeated: whatever else runs on the machine
// takes from what is measured.
const noise = 5

// start brings up a fabric of nodes with a shaper for one test, unless parts of the
// kernel are missing.
func startTrial(t *testing.T, nodes int, rate units.Bandwidth, start func(world.World) (*Shaper, error), parts ...string) *trial.Trial {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: network namespaces cannot be made")
	}
	kernel := probe.Kernel()
	for _, part := range parts {
		if err := kernel.Has(part); err != nil {
			t.Skipf("%s: %v", part, err)
		}
	}
	tr, err := trial.Start(filepath.Join(t.TempDir(), "fabrics"), "t", func(c *configs.Fabric) {
		c.Nodes, c.Link.Bandwidth, c.Link.Latency = nodes, rate, 0
	}, func(w world.World) (world.Shaper, error) { return start(w) })
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
	tr := startTrial(t, 2, units.Gbps, StartHTB, "htb")
	f, err := tr.NewFlow(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rate := func() (float64, error) { return f.Rate(400 * time.Millisecond) }
	within(t, "1 Gbit/s", tr.Payload(1e9), 0.02, rate)
	// A change, while the flow runs.
	for _, bps := range []uint64{100_000_000, 300_000_000} {
		b := units.Bandwidth(bps)
		if err := tr.Shape(configs.LinkPatch{Bandwidth: &b}); err != nil {
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
	tr := startTrial(t, 4, 200*units.Mbps, StartHTB, "htb")
	// Three nodes send to one, one of them over two connections.
	var flows []*trial.Flow
	for _, src := range []int{0, 1, 1, 2} {
		f, err := tr.NewFlow(src, 3)
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
	tr := startTrial(t, 2, 100*units.Mbps, StartHTB, "htb")
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
		if c.Segments < n || c.Segments > n+8 || c.Wire < n*(size+28+38) || c.Wire > n*(size+28+38)+8*100 || c.Drops != 0 {
			t.Errorf("%s: counted %+v for %d datagrams of %d bytes", tr.Fabric.HopName(hop), c, n, size)
		}
	}
}

func TestHTBRefuses(t *testing.T) {
	for name, s := range map[string]link.Spec{
		"latency": {Latency: time.Millisecond},
		"jitter":  {Jitter: link.Jitter{Kind: link.Uniform, Value: 1}},
		"loss":    {Loss: link.Loss{P: 0.1}},
		"down":    {Down: true},
	} {
		if err := HTBCan(s); !errors.Is(err, world.ErrCannot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := HTBCan(link.Spec{Bandwidth: 1e9}); err != nil {
		t.Error(err)
	}
}

func TestFrameRate(t *testing.T) {
	spec := link.Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}
	for _, c := range []struct {
		rate  uint64
		scale int
		want  uint64
	}{
		{1_000_000_000, 1, 123_049_415}, // 125e6 x 1514 / 1538
		{1_000_000_000, 10, 12_304_941},
		{0, 1, unlimited},
	} {
		spec.Bandwidth = c.rate
		if got, err := frameRate(spec, c.scale); err != nil || got != c.want {
			t.Errorf("%d at scale %d: %d bytes/s, want %d, %v", c.rate, c.scale, got, c.want, err)
		}
	}
	if got := nudged(2 << 32); got != 2<<32+1 {
		t.Errorf("nudged: %d", got)
	}
}
