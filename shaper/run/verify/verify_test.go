// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// star is n nodes of 10 Gb/s and 5 us.
func star(n int) *configs.Fabric {
	c := configs.Default()
	c.Name, c.Nodes, c.TimeScale = "star", n, 4
	c.Link.Bandwidth, c.Link.Latency = 10*units.Gbps, 5*time.Microsecond
	c.Link.MTU, c.Link.Header, c.Link.Framing = 1500, 40, 38
	return &c
}

func with(c *configs.Fabric, change func(*configs.Fabric)) *configs.Fabric {
	change(c)
	return c
}

func leafSpine() *configs.Fabric {
	return with(star(8), func(c *configs.Fabric) {
		late := time.Microsecond
		c.Topology = configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Oversubscription: 4}
		c.Topology.Trunk.Latency = &late
	})
}

// queued gives all hops of a fabric, trunks included, a queue of 256 KiB.
func queued(policy string) func(*configs.Fabric) {
	return func(c *configs.Fabric) { c.Link.Queue = configs.Queue{Policy: policy, Bytes: 256 * units.KiB} }
}

// bursty is a fabric of two nodes with links that lose packets in bursts.
func bursty(recovery string) *configs.Fabric {
	return with(star(2), func(c *configs.Fabric) {
		c.Link.Latency, c.TimeScale = 20*time.Microsecond, 8
		c.Link.Loss = configs.Loss{GoodToBad: 0.002, BadToGood: 0.1, BadP: 1}
		c.Transport.Kind, c.Transport.Recovery, c.Transport.RTO = configs.RDMA, recovery, time.Millisecond
	})
}

func normal(d time.Duration) configs.Jitter {
	return configs.Jitter{Kind: configs.NormalJitter, Value: d}
}

// A fabric as asked for is VALID, and the figures are those of the formulas.
func TestSound(t *testing.T) {
	for name, c := range map[string]*configs.Fabric{
		"star":       star(4),
		"leaf-spine": leafSpine(),
		"fair":       with(leafSpine(), queued(configs.Fair)),
		"rdma": with(star(2), func(c *configs.Fabric) {
			c.Transport.Kind, c.Transport.RTO = configs.RDMA,
				time.Millisecond
		}),
		"jitter": with(star(3), func(c *configs.Fabric) { c.Link.Jitter = normal(500 * time.Nanosecond) }),
		"pareto": with(star(3), func(c *configs.Fabric) {
			c.Link.Jitter = configs.Jitter{Kind: configs.ParetoJitter, Value: time.Microsecond}
		}),
		"long":  with(star(2), func(c *configs.Fabric) { c.Link.Latency = 5 * time.Millisecond }),
		"hosts": with(star(2), func(c *configs.Fabric) { c.Host.PerMessage = 3 * time.Microsecond }),
		"lossy": with(star(3), func(c *configs.Fabric) {
			c.Link.Loss.P, c.TimeScale = 1e-3, 7 // makes latencies fractions of a ns
			c.Transport = configs.Transport{Kind: configs.TCP, SendBuffer: 4 << 20, Window: 4 << 20,
				RTO: 200 * time.Millisecond, Timeout: time.Second}
		}),
		"bursts, go-back-n":        bursty(configs.GoBackN),
		"bursts, selective-repeat": bursty(configs.SelectiveRepeat),
		"overhead":                 with(star(2), func(c *configs.Fabric) { c.Endpoint.Overhead = time.Microsecond }),
	} {
		t.Run(name, func(t *testing.T) {
			r := newFake(t, c, nil).measured(t)
			if r.Verdict != "VALID" {
				t.Fatalf("%s: %q", r.Verdict, r.Reasons)
			}
			for i := range r.Links {
				l := &r.Links[i]
				if c.Host.Any() || c.Link.Loss != (configs.Loss{}) {
					continue // losses slow streams down too
				}
				// A long path needs several connections, which begin with bursts.
				if off := math.Abs(l.Rate.Model/l.Rate.Asked - 1); off > 0.002 && (name != "long" || off > 0.02) {
					t.Errorf("%s: the model's rate is %.4g Gb/s, by formula %.4g", l.Name, l.Rate.Model/1e9,
						l.Rate.Asked/1e9)
				}
			}
			if name == "star" && len(r.Links) != c.Nodes*(c.Nodes-1) {
				t.Errorf("%d links measured", len(r.Links))
			}
			if name == "star" {
				for _, f := range r.Incast.Flows {
					if math.Abs(f.Share*3-1) > 0.03 {
						t.Errorf("incast: %s got %.3f of all, want a third", f.Name, f.Share)
					}
				}
			}
		})
	}
}

// Every fault is found and named.
func TestFaults(t *testing.T) {
	eth10, err := configs.Profile("eth10")
	if err != nil {
		t.Fatal(err)
	}
	tcpLossy := func(p float64) func(*configs.Fabric) {
		return func(c *configs.Fabric) { c.Link.Loss.P, c.Transport = p, eth10.Transport }
	}
	jitter := func(kind string, d time.Duration) func(*configs.Fabric) {
		return func(c *configs.Fabric) {
			c.Link.Jitter, c.Link.Latency = configs.Jitter{Kind: kind, Value: d}, 100*time.Microsecond
		}
	}
	for name, tc := range map[string]struct {
		c      *configs.Fabric
		change func(*configs.Fabric)
		spoil  func(*fake)
		says   string
	}{
		"rate 1.5 % low": {star(4), func(c *configs.Fabric) { c.Link.Bandwidth = 9850 * units.Mbps }, nil,
			"node3:node2: rate"},
		"rate 1.5 % high": {star(4), func(c *configs.Fabric) { c.Link.Bandwidth = 10150 * units.Mbps }, nil,
			"node3:node2: rate"},
		"latency 1.2 us up": {star(4), func(c *configs.Fabric) { c.Link.Latency += 1200 * time.Nanosecond }, nil,
			"node1:node0: latency p50"},
		"latency down": {star(4), func(c *configs.Fabric) { c.Link.Latency -= 1200 * time.Nanosecond }, nil,
			"node1:node0: latency p50"},
		"a trunk is slow": {leafSpine(), func(c *configs.Fabric) {
			rate := 9 * units.Gbps
			c.Links = append(c.Links,
				configs.LinkOverride{Match: "leaf0>spine0", LinkPatch: configs.LinkPatch{Bandwidth: &rate}})
		}, nil, "node0:node4: rate"},
		"not fair": {with(leafSpine(), queued(configs.Fair)), queued(configs.Lossless), nil,
			"incast, node4:node0: "},
		"one in 50 late": {star(2), nil,
			func(f *fake) { f.late = func(n int) int64 { return int64((n+1)%50/49) * 24_000 } }, "us late (p99"},
		"twice the losses": {with(star(2), tcpLossy(0.002)), tcpLossy(0.004), nil, "packets were lost"},
		"no losses":        {with(star(2), tcpLossy(0.002)), tcpLossy(0), nil, "packets were lost"},
		"twice the bursts": {bursty(configs.GoBackN), func(c *configs.Fabric) { c.Link.Loss.GoodToBad *= 2 }, nil,
			"packets were lost"},
		"bursts five times": {bursty(configs.SelectiveRepeat),
			func(c *configs.Fabric) { c.Link.Loss.GoodToBad *= 5 }, nil, "packets were lost"},
		"more jitter": {with(star(2), jitter(configs.NormalJitter, 15*time.Microsecond)),
			jitter(configs.NormalJitter, 35*time.Microsecond), nil, "not distributed as the jitter"},
		"another jitter": {with(star(2), jitter(configs.NormalJitter, 15*time.Microsecond)),
			jitter(configs.ParetoJitter, 15*time.Microsecond), nil, "not distributed as the jitter"},
		"another job": {star(2), nil, func(f *fake) { f.others = 2 },
			"2 ranks of another job on the fabric"},
		"a rank of another":      {star(2), nil, func(f *fake) { f.others = 1 }, "1 rank of another job on the fabric"},
		"the engine's own words": {star(2), nil, func(f *fake) { f.words = []string{"a rank died"} }, "a rank died"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, tc.c, tc.change)
			if tc.spoil != nil {
				tc.spoil(f)
			}
			r := f.measured(t)
			wantInvalid(t, r, tc.says)
		})
	}
}

// The verdict names the link and the cause: this host if what was measured is too slow, otherwise the model or another
// job.
func TestCauses(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*configs.Fabric)
		spoil   func(*fake)
		cause   verdict.Cause
		summary string
		link    string
	}{
		"late": {nil, func(f *fake) { f.late = func(n int) int64 { return int64((n+1)%50/49) * 24_000 } },
			verdict.CauseHost, "host busy: 9 runnable on 2 cores; node", "node"},
		"too fast": {func(c *configs.Fabric) { c.Link.Bandwidth = 10150 * units.Mbps }, nil, verdict.CauseModel,
			"model: node", "node"},
		"another job": {nil, func(f *fake) { f.others = 2 }, verdict.CauseFabric, "fabric: 2 ranks of another job", ""},
		"died": {nil,
			func(f *fake) { f.words = []string{"a rank died"}; f.late = func(int) int64 { return 1e6 } },
			verdict.CauseJob, "job: a rank died", "node"},
	} {
		f := newFake(t, star(3), tc.change)
		if tc.spoil != nil {
			tc.spoil(f)
		}
		r, err := Measure(t.Context(), f.asked, f,
			Options{Time: time.Second, Load: func() *verdict.Load { return &verdict.Load{Runnable: 9, Cores: 2} }})
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != "INVALID" || r.Cause != tc.cause || !strings.HasPrefix(r.Summary, tc.summary) ||
			len(r.Findings) != len(r.Reasons) || !strings.HasPrefix(r.Findings[0].Link, tc.link) ||
			(tc.link == "") != (r.Findings[0].Link == "") {
			t.Errorf("%s: %s, cause %s: %s; %+v", name, r.Verdict, r.Cause, r.Summary, r.Findings)
		}
	}
}

// A process that is descheduled for a quarter of the time measures the fabric correctly, and notes it.
func TestDescheduled(t *testing.T) {
	f := newFake(t, star(3), nil)
	f.descheduled = 3e6
	r := f.measured(t)
	if r.Verdict != "VALID" || !strings.Contains(strings.Join(r.Notes, "\n"), "did not always get a processor") {
		t.Errorf("%s %q, notes %q", r.Verdict, r.Reasons, r.Notes)
	}
}

// If there is no time for all links, every hop is still measured.
func TestSample(t *testing.T) {
	c := with(star(24), func(c *configs.Fabric) {
		slow := units.Gbps
		c.Links = append(c.Links,
			configs.LinkOverride{Match: "node3>node17", LinkPatch: configs.LinkPatch{Bandwidth: &slow}})
	})
	m := model(t, c)
	all, _ := m.paths()
	some := m.sample(all, 60)
	if len(some) < 24 || len(some) > 60 {
		t.Fatalf("%d of %d paths", len(some), len(all))
	}
	seen, special := map[int]bool{}, false
	for _, path := range some {
		for _, h := range path.hops {
			seen[h] = true
		}
		special = special || path.src == 3 && path.dst == 17
	}
	for port := range 2 * m.fab.NICs() {
		if !seen[port] {
			t.Errorf("%s is not measured", m.fab.HopName(port))
		}
	}
	if !special {
		t.Error("the link that is unlike all others is not measured")
	}
}

// Paths that are measured at once share no hop, and each is in one group.
func TestGroups(t *testing.T) {
	m := model(t, leafSpine())
	all, _ := m.paths()
	n := 0
	for _, g := range groups(all, 1) {
		hops := map[int]bool{}
		for _, path := range g.paths {
			n++
			for _, h := range path.hops {
				if hops[h] {
					t.Errorf("%s is shared", m.fab.HopName(h))
				}
				hops[h] = true
			}
		}
		if len(g.paths) > 1 && g.rate > 1 {
			t.Errorf("a group of %d paths asks for %.2f bytes per ns", len(g.paths), g.rate)
		}
	}
	if n != len(all) {
		t.Errorf("%d of %d paths are in groups", n, len(all))
	}
}

// A flow with less than its share is found although the sum is right.
func TestShares(t *testing.T) {
	s := &Shared{Model: 9e9, Got: 9e9, Flows: []SharedFlow{{Name: "a", Error: 2.9}, {Name: "b", Error: -3.1}}}
	for each, want := range map[bool]int{true: 1, false: 0} {
		var f finder
		if f.shared("incast", s, each, maxTotalOff); len(f.found) != want || want == 1 &&
			!strings.Contains(f.found[0].Text, "incast, b:") {
			t.Errorf("shares promised %t: %q", each, f.words())
		}
	}
	// If all together are too slow, the host is the cause of both.
	for together, want := range map[float64]verdict.Cause{0: verdict.CauseModel, -2.1: verdict.CauseHost,
		2.1: verdict.CauseModel} {
		s.Error = together
		var f finder
		f.shared("incast", s, true, maxTotalOff)
		if share := f.found[len(f.found)-1]; !strings.Contains(share.Text, "incast, b:") || share.Cause != want {
			t.Errorf("together %g %%: cause %s: %s", together, share.Cause, share.Text)
		}
	}
	s.Error = -2.1
	var f finder
	if f.shared("incast", s, false, maxTotalOff); len(f.found) != 1 {
		t.Errorf("together 2.1 %% low: %q", f.words())
	}
}

func TestNeeded(t *testing.T) {
	for _, tc := range []struct {
		scale int
		slow  []float64
		want  int
	}{{1, []float64{1}, 0}, {1, []float64{1.03}, 2}, {8, []float64{1, 3}, 32}, {512, []float64{2}, 0},
		{512, []float64{1.5}, 1024}} {
		var found []finding
		for _, s := range tc.slow {
			found = append(found, finding{slowdown: s})
		}
		if got := needed(tc.scale, found); got != tc.want {
			t.Errorf("at %d, too slow by %v: %d, want %d", tc.scale, tc.slow, got, tc.want)
		}
	}
}

// With losses that a long timer recovers, everything is judged except the rate.
func TestLossesThatATimerRecovers(t *testing.T) {
	for _, seed := range []uint64{2, 5, 37, 48, 49, 53, 56, 60} {
		c := with(star(2), func(c *configs.Fabric) {
			c.Seed, c.TimeScale, c.Link.Loss.P = seed, 32, 0.03
			c.Transport.Kind, c.Transport.RTO = configs.RDMA, 67*time.Millisecond
		})
		r := newFake(t, c, nil).measured(t)
		if r.Verdict != "VALID" || r.Needed != 0 {
			t.Errorf("seed %d: %s %q", seed, r.Verdict, r.Reasons)
		}
		for _, s := range []*Shared{r.Together, r.Incast} {
			sum := 0.0
			for _, f := range s.Flows {
				sum += f.Got
			}
			if s.Judged || math.Abs(sum-s.Got) > 0.01*s.Got {
				t.Errorf("seed %d: flows of %.3g Gb/s, %.3g together, judged %v", seed, sum/1e9, s.Got/1e9, s.Judged)
			}
		}
	}
}

// The limit of a rate is larger if losses stop several connections, and a note says so. It is not if one connection
// fills the path.
func TestRateLimitWithLosses(t *testing.T) {
	eth10, err := configs.Profile("eth10")
	if err != nil {
		t.Fatal(err)
	}
	for latency, open := range map[time.Duration]bool{10 * time.Microsecond: false, 5 * time.Millisecond: true} {
		r := newFake(t, with(star(2), func(c *configs.Fabric) {
			c.Link.Loss.P, c.Link.Latency, c.Transport = 1e-3, latency, eth10.Transport
		}), nil).measured(t)
		if r.Verdict != "VALID" {
			t.Errorf("%v: %q", latency, r.Reasons)
		}
		for _, l := range r.Links {
			said := strings.Contains(strings.Join(r.Notes, "\n"), l.Name+": with ")
			if want := lossTolerance(l.Loss); open && l.Rate.Limit != want || !open && l.Rate.Limit != 1 ||
				said != (open && want > 10) {
				t.Errorf("%v: %s: %d connections, %.0f losses: limit %.1f %%, notes %q", latency, l.Name,
					l.Rate.Connections, l.Loss.Asked, l.Rate.Limit, r.Notes)
			}
		}
	}
	for losses, want := range map[float64]float64{0: 350, 49: 50, 1225: 10, 1e6: 10} {
		if got := lossTolerance(&Loss{Asked: losses}); math.Abs(got-want) > 1e-9 {
			t.Errorf("%g losses: %g %%, want %g", losses, got, want)
		}
	}
}

// A link that carries nothing is found, with losses or without.
func TestLossyLinkThatCarriesNothing(t *testing.T) {
	c := with(star(2), func(c *configs.Fabric) {
		c.Link.Loss.P, c.Transport.Kind, c.Transport.RTO = 1e-3, configs.RDMA, time.Millisecond
	})
	f := newFake(t, c, nil)
	f.lose = true
	wantInvalid(t, f.measured(t), "messages arrived; the rate asked for is")
}

// Each flow is judged where its share is robust; with losses only the sum is, by a larger limit.
func TestPromised(t *testing.T) {
	in := []Flow{{Src: 1}, {Src: 2}}
	for _, tc := range []struct {
		name  string
		c     *configs.Fabric
		flows []Flow
		each  bool
		most  float64
	}{
		{"star", with(star(4), queued(configs.Lossless)), []Flow{{Dst: 1}, {Dst: 2}}, true, maxTotalOff},
		{"switches", with(leafSpine(), queued(configs.Lossless)), in, false, maxTotalOff},
		{"switches, fair", with(leafSpine(), queued(configs.Fair)), []Flow{{Dst: 1}, {Dst: 2}}, true, maxTotalOff},
		{"losses", with(leafSpine(), func(c *configs.Fabric) { c.Link.Loss.P = 0.01 }), in, false, maxLossyOff},
	} {
		x := &messages{&measurement{Model: model(t, tc.c)}, nil}
		if each, most := x.promised(tc.flows); each != tc.each || most != tc.most {
			t.Errorf("%s: each %v, together within %.2f", tc.name, each, most)
		}
	}
}

// A fabric may be so slow in real time that no --time is enough. Slow is called before the measurement.
func TestSlowFabricIsReported(t *testing.T) {
	const latency = 400 * time.Millisecond // 1.6 s of real time
	for _, c := range []struct {
		latency, time, least time.Duration
	}{
		{latency: 10 * time.Microsecond, time: time.Second},
		{latency: latency, time: time.Hour},
		// One stream on each of two links, all to all, and incast.
		{latency: latency, time: time.Minute, least: 4 * fillRounds * 2 * 4 * latency},
	} {
		f := newFake(t, with(star(2), func(s *configs.Fabric) { s.Link.Latency = c.latency }), nil)
		told := time.Duration(0)
		r, err := Measure(t.Context(), f.asked, f, Options{Time: c.time, Slow: func(least time.Duration) {
			if f.now != 0 {
				t.Error("told after something was sent")
			}
			told = least
		}})
		if err != nil {
			t.Fatal(err)
		}
		if (told > 0) != (c.least > 0) || told < c.least || told > c.least*3/2 {
			t.Errorf("latency %v in %v: told %v, want %v to half as much remeasure", c.latency, c.time, told, c.least)
		}
		if took := time.Duration(f.now); c.least > 0 && (took < told || took > 3*told) {
			t.Errorf("told %v, took %v (%s)", told, took, r.Verdict)
		}
	}
}

// Several flows of one link have different names.
func TestFlowsHaveNames(t *testing.T) {
	m := model(t, star(3))
	got := m.names([]Flow{{Src: 1, Dst: 0}, {Src: 2, Dst: 0}, {Src: 1, Dst: 0}})
	if want := []string{"node1:node0 (flow 1)", "node2:node0", "node1:node0 (flow 2)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
