// SPDX-License-Identifier: Apache-2.0

package shapers

import (
	"slices"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/test/measure"
)

// delaying are the shapers that add latency, and the features of the kernel that they need.
var delaying = []struct {
	name     string
	start    func(nodes.Network) (shapers.Shaper, error)
	features []string
}{
	{"edt", func(w nodes.Network) (shapers.Shaper, error) { return tc.StartEDT(w) },
		[]string{"fq", shapers.BPF, shapers.DepartureTimes}},
	{"netem", func(w nodes.Network) (shapers.Shaper, error) { return tc.StartNetem(w) }, []string{"netem", "htb"}},
}

// forEachDelaying runs a test with each of them.
func forEachDelaying(t *testing.T, nodes int, rate units.Bandwidth, test func(t *testing.T, fab *measure.Running)) {
	for _, d := range delaying {
		t.Run(d.name, func(t *testing.T) { test(t, startFabric(t, nodes, rate, d.start, d.features...)) })
	}
}

// maxLate is the lateness that the fastest tenth of the packets may have. An emulated processor that shares a real one
// needs that for a timer and two context switches.
const maxLate = 2 * time.Millisecond

func TestDelay(t *testing.T) {
	forEachDelaying(t, 2, 100*units.Mbps, func(t *testing.T, fab *measure.Running) {
		for _, latency := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Microsecond} {
			if err := fab.Shape(configs.LinkPatch{Latency: &latency}); err != nil {
				t.Fatal(err)
			}
			var tenth time.Duration
			for range attempts {
				// The first datagram is delayed by ARP.
				flight, err := fab.Datagrams(0, 1, 50, 64, 5*time.Millisecond)
				if err != nil || len(flight) != 50 {
					t.Fatalf("%d of 50 datagrams arrived: %v", len(flight), err)
				}
				slices.Sort(flight)
				if flight[0] < latency {
					t.Errorf("latency %v: a datagram arrived after %v", latency, flight[0])
				}
				if tenth = flight[5]; tenth < latency+maxLate {
					break
				}
			}
			if tenth >= latency+maxLate {
				t.Errorf("latency %v: a tenth arrived after %v", latency, tenth)
			}
			t.Logf("latency %v: a tenth arrived after %v", latency, tenth)
		}
	})
}

// headroom is how many times a rate this machine must carry without a limit, so that the rate is tested.
const headroom = 4

// checkRate sets the largest of rates for which this machine has the headroom, and checks that the measured value
// differs from want by at most a relative tolerance. A slow machine, such as an emulated one, cannot carry the higher
// rates with any shaper.
func checkRate(t *testing.T, tolerance float64, rates []units.Bandwidth, set func(units.Bandwidth) error,
	want func(bps uint64) float64, rate func() (float64, error)) {
	t.Helper()
	measureAt := func(b units.Bandwidth) float64 {
		if err := set(b); err != nil {
			t.Fatal(err)
		}
		// The first measurement has packets that were queued before, and slow start.
		if _, err := rate(); err != nil {
			t.Fatal(err)
		}
		got, err := rate()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	unlimited := measureAt(units.Unlimited)
	t.Logf("without a limit: %.4g", unlimited)
	for _, b := range rates {
		if unlimited >= headroom*want(uint64(b)) {
			measureAt(b)
			within(t, b.String(), want(uint64(b)), tolerance, rate)
			return
		}
	}
	t.Errorf("without a limit, this machine carries %.4g bit/s: too little to test a rate", unlimited)
}

func TestDelayedRate(t *testing.T) {
	forEachDelaying(t, 2, 100*units.Mbps, func(t *testing.T, fab *measure.Running) {
		latency := 5 * time.Millisecond
		if err := fab.Shape(configs.LinkPatch{Latency: &latency}); err != nil {
			t.Fatal(err)
		}
		f, err := fab.StartFlow(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		// The running flow gets the new rate, and no packet is lost.
		set := func(b units.Bandwidth) error { return fab.Shape(configs.LinkPatch{Bandwidth: &b}) }
		checkRate(t, 0.05, []units.Bandwidth{100 * units.Mbps, 20 * units.Mbps, 5 * units.Mbps, units.Mbps}, set,
			fab.Payload,
			func() (float64, error) { return f.Rate(time.Second) })
		if c := linkCounters(t, fab); c.Drops != 0 {
			t.Errorf("%d packets were dropped", c.Drops)
		}
	})
}

func TestDelayedLoss(t *testing.T) {
	forEachDelaying(t, 2, units.Gbps, func(t *testing.T, fab *measure.Running) {
		resolveAddresses(t, fab)
		latency := time.Millisecond
		if err := fab.Shape(configs.LinkPatch{Latency: &latency, Loss: &configs.Loss{P: 0.1}}); err != nil {
			t.Fatal(err)
		}
		const n = 3000
		flight, err := fab.Datagrams(0, 1, n, 200, 200*time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		// 4 standard deviations of 300 in 3000.
		if lost := n - len(flight); lost < 300-66 || lost > 300+66 {
			t.Errorf("%d of %d were lost, want a tenth", lost, n)
		}
	})
}

// Jitter varies the latency of packets, and their order stays the same.
func TestDelayedJitter(t *testing.T) {
	for _, kind := range []string{configs.UniformJitter, configs.NormalJitter, configs.ParetoJitter} {
		forEachDelaying(t, 2, units.Gbps, func(t *testing.T, fab *measure.Running) {
			latency := 30 * time.Millisecond
			if err := fab.Shape(configs.LinkPatch{Latency: &latency,
				Jitter: &configs.Jitter{Kind: kind, Value: 10 * time.Millisecond}}); err != nil {
				t.Fatal(err)
			}
			// The first datagram is delayed by ARP.
			if _, err := fab.Datagrams(0, 1, 1, 64, 0); err != nil {
				t.Fatal(err)
			}
			const n, gap = 60, 25 * time.Millisecond
			flight, err := fab.Datagrams(0, 1, n, 64, gap)
			if err != nil || len(flight) != n {
				t.Fatalf("%d of %d datagrams arrived: %v", len(flight), n, err)
			}
			slices.Sort(flight)
			t.Logf("%s: %v to %v, half after %v", kind, flight[0], flight[n-1], flight[n/2])
			if spread := flight[n-1] - flight[0]; spread < 10*time.Millisecond {
				t.Errorf("%s of 10ms: all arrived within %v", kind, spread)
			}
			if m := flight[n/2]; m < 25*time.Millisecond || m > 60*time.Millisecond {
				t.Errorf("%s of 10ms around 30ms: half arrived after %v", kind, m)
			}
		})
	}
}

// Two nodes send to one and get equal shares. edt records the lateness of packets.
func TestDelayedShares(t *testing.T) {
	forEachDelaying(t, 3, 60*units.Mbps, func(t *testing.T, fab *measure.Running) {
		latency := 2 * time.Millisecond
		if err := fab.Shape(configs.LinkPatch{Latency: &latency}); err != nil {
			t.Fatal(err)
		}
		var flows []*measure.Flow
		for src := range 2 {
			f, err := fab.StartFlow(src, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			flows = append(flows, f)
		}
		set := func(b units.Bandwidth) error { return fab.Shape(configs.LinkPatch{Bandwidth: &b}) }
		checkRate(t, 0.05, []units.Bandwidth{60 * units.Mbps, 10 * units.Mbps, 5 * units.Mbps, units.Mbps}, set,
			fab.Payload, func() (float64, error) {
				second := make(chan float64)
				go func() {
					r, _ := flows[1].Rate(time.Second)
					second <- r
				}()
				r, err := flows[0].Rate(time.Second)
				return r + <-second, err
			})
		if err := fab.Shaper.Count(); err != nil {
			t.Fatal(err)
		}
		hops := fab.File.Hops()
		if a, b := hops[fab.Fabric.Link(0, 2)].Counters, hops[5].Counters; a.Bytes == 0 || b.Bytes <= a.Bytes {
			t.Errorf("counted %+v on one link, %+v on its receive port", a, b)
		}
		for _, job := range fab.File.Jobs() {
			c := job.LinkStats()[fab.Fabric.Link(0, 2)]
			late, messages := c.Size[0].SumLate+c.Size[1].SumLate, c.Size[0].Messages+c.Size[1].Messages
			if messages == 0 || c.ModelBusy == 0 {
				t.Fatalf("no lateness was recorded: %+v", c)
			}
			t.Logf("%d packets were %v late on average", messages, time.Duration(late/int64(messages)))
		}
	})
}
