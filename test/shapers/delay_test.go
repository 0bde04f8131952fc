// SPDX-License-Identifier: Apache-2.0

package shapers

import (
	"math"
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

// delaying are the shapers that add latency, and what they need. They are tested where
// a kernel has that: see test/lab.
var delaying = []struct {
	name  string
	start func(nodes.Network) (shapers.Shaper, error)
	parts []string
}{
	{"edt", func(w nodes.Network) (shapers.Shaper, error) { return tc.StartEDT(w) }, []string{"fq", shapers.BPF, shapers.DepartureTimes}},
	{"netem", func(w nodes.Network) (shapers.Shaper, error) { return tc.StartNetem(w) }, []string{"netem", "htb"}},
}

// eachDelaying runs a test with each of them.
func eachDelaying(t *testing.T, nodes int, rate units.Bandwidth, test func(t *testing.T, tr *measure.Fabric)) {
	for _, d := range delaying {
		t.Run(d.name, func(t *testing.T) { test(t, startTrial(t, nodes, rate, d.start, d.parts...)) })
	}
}

// tooLate is how much later than asked for a tenth of the packets may come, on an
// emulated processor that shares a real one: a timer and two changes of process.
const tooLate = 2 * time.Millisecond

func TestDelay(t *testing.T) {
	eachDelaying(t, 2, 100*units.Mbps, func(t *testing.T, tr *measure.Fabric) {
		for _, latency := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 100 * time.Microsecond} {
			if err := tr.Shape(configs.LinkPatch{Latency: &latency}); err != nil {
				t.Fatal(err)
			}
			var tenth time.Duration
			for range noise {
				// The first asks for addresses.
				took, err := tr.Datagrams(0, 1, 50, 64, 5*time.Millisecond)
				if err != nil || len(took) != 50 {
					t.Fatalf("%d of 50 datagrams came: %v", len(took), err)
				}
				slices.Sort(took)
				if took[0] < latency {
					t.Errorf("asked for %v: one came after %v", latency, took[0])
				}
				if tenth = took[5]; tenth < latency+tooLate {
					break
				}
			}
			if tenth >= latency+tooLate {
				t.Errorf("asked for %v: a tenth came after %v", latency, tenth)
			}
			t.Logf("asked for %v: a tenth came after %v", latency, tenth)
		}
	})
}

// ample is how many times a rate a machine must carry unshaped to be asked for it.
const ample = 4

// carried checks that what is measured comes within a part of want at the largest of the
// rates that are set of which this machine carries far more without a limit: what an
// emulated processor cannot carry is slower than asked for, whatever the shaper.
func carried(t *testing.T, part float64, rates []units.Bandwidth, set func(units.Bandwidth) error, want func(bps uint64) float64, measure func() (float64, error)) {
	t.Helper()
	at := func(b units.Bandwidth) float64 {
		if err := set(b); err != nil {
			t.Fatal(err)
		}
		// What was queued before, and slow start.
		if _, err := measure(); err != nil {
			t.Fatal(err)
		}
		got, err := measure()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	most := at(units.Unlimited)
	t.Logf("without a limit: %.4g", most)
	for range noise {
		for _, b := range rates {
			asked := want(uint64(b))
			if most < ample*asked {
				continue
			}
			got := at(b)
			if math.Abs(got/asked-1) <= part {
				t.Logf("%v: %.4g, asked for %.4g", b, got, asked)
				return
			}
			t.Logf("%v: %.4g, asked for %.4g: once more", b, got, asked)
			break
		}
		most = at(units.Unlimited)
		t.Logf("without a limit: %.4g", most)
	}
	t.Error("no rate was kept")
}

func TestDelayedRate(t *testing.T) {
	eachDelaying(t, 2, 100*units.Mbps, func(t *testing.T, tr *measure.Fabric) {
		latency := 5 * time.Millisecond
		if err := tr.Shape(configs.LinkPatch{Latency: &latency}); err != nil {
			t.Fatal(err)
		}
		f, err := tr.StartFlow(0, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		// The running flow has the new rate, and loses nothing by that.
		set := func(b units.Bandwidth) error { return tr.Shape(configs.LinkPatch{Bandwidth: &b}) }
		carried(t, 0.05, []units.Bandwidth{100 * units.Mbps, 20 * units.Mbps, 5 * units.Mbps, units.Mbps}, set, tr.Payload,
			func() (float64, error) { return f.Rate(time.Second) })
		if c := linkCounters(t, tr); c.Drops != 0 {
			t.Errorf("%d packets were dropped", c.Drops)
		}
	})
}

func TestDelayedLoss(t *testing.T) {
	eachDelaying(t, 2, units.Gbps, func(t *testing.T, tr *measure.Fabric) {
		meet(t, tr)
		latency := time.Millisecond
		if err := tr.Shape(configs.LinkPatch{Latency: &latency, Loss: &configs.Loss{P: 0.1}}); err != nil {
			t.Fatal(err)
		}
		const n = 3000
		took, err := tr.Datagrams(0, 1, n, 200, 200*time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		// 4 standard deviations of 300 in 3000.
		if lost := n - len(took); lost < 300-66 || lost > 300+66 {
			t.Errorf("%d of %d were lost, a tenth was asked for", lost, n)
		}
	})
}

// Jitter spreads packets as asked for, and lets none overtake another.
func TestDelayedJitter(t *testing.T) {
	for _, kind := range []string{configs.UniformJitter, configs.NormalJitter, configs.ParetoJitter} {
		eachDelaying(t, 2, units.Gbps, func(t *testing.T, tr *measure.Fabric) {
			latency := 30 * time.Millisecond
			if err := tr.Shape(configs.LinkPatch{Latency: &latency, Jitter: &configs.Jitter{Kind: kind, Value: 10 * time.Millisecond}}); err != nil {
				t.Fatal(err)
			}
			// Asking for an address takes two ways more.
			if _, err := tr.Datagrams(0, 1, 1, 64, 0); err != nil {
				t.Fatal(err)
			}
			const n, gap = 60, 25 * time.Millisecond
			took, err := tr.Datagrams(0, 1, n, 64, gap)
			if err != nil || len(took) != n {
				t.Fatalf("%d of %d datagrams came: %v", len(took), n, err)
			}
			slices.Sort(took)
			t.Logf("%s: %v to %v, half after %v", kind, took[0], took[n-1], took[n/2])
			if spread := took[n-1] - took[0]; spread < 10*time.Millisecond {
				t.Errorf("%s of 10ms: all came within %v", kind, spread)
			}
			if m := took[n/2]; m < 25*time.Millisecond || m > 60*time.Millisecond {
				t.Errorf("%s of 10ms around 30ms: half came after %v", kind, m)
			}
		})
	}
}

// Several nodes send to one: each gets its share, and edt records how late packets are.
func TestDelayedShares(t *testing.T) {
	eachDelaying(t, 3, 60*units.Mbps, func(t *testing.T, tr *measure.Fabric) {
		latency := 2 * time.Millisecond
		if err := tr.Shape(configs.LinkPatch{Latency: &latency}); err != nil {
			t.Fatal(err)
		}
		var flows []*measure.Flow
		for src := range 2 {
			f, err := tr.StartFlow(src, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			flows = append(flows, f)
		}
		set := func(b units.Bandwidth) error { return tr.Shape(configs.LinkPatch{Bandwidth: &b}) }
		carried(t, 0.05, []units.Bandwidth{60 * units.Mbps, 10 * units.Mbps, 5 * units.Mbps, units.Mbps}, set, tr.Payload, func() (float64, error) {
			other := make(chan float64)
			go func() {
				r, _ := flows[1].Rate(time.Second)
				other <- r
			}()
			r, err := flows[0].Rate(time.Second)
			return r + <-other, err
		})
		if err := tr.Shaper.Count(); err != nil {
			t.Fatal(err)
		}
		hops := tr.File.Hops()
		if a, b := hops[tr.Fabric.Link(0, 2)].Counters, hops[5].Counters; a.Bytes == 0 || b.Bytes <= a.Bytes {
			t.Errorf("counted %+v on one link, %+v on the port it leads to", a, b)
		}
		for _, job := range tr.File.Jobs() {
			c := job.Cells()[tr.Fabric.Link(0, 2)]
			late, messages := c.Size[0].SumLate+c.Size[1].SumLate, c.Size[0].Messages+c.Size[1].Messages
			if messages == 0 || c.ModelBusy == 0 {
				t.Fatalf("no lateness was recorded: %+v", c)
			}
			t.Logf("%d packets were %v late on average", messages, time.Duration(late/int64(messages)))
		}
	})
}
