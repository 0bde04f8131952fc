// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// network is a fabric on the kernel datapath in virtual time that may differ from the one asked for. Packets arrive one
// by one at its rate.
type network struct {
	asked, real *Model
	hops        []state.HopStatus
	now         int64
	random      *rand.Rand

	late    func(n int) int64    // lateness of packet n of a stream, ns
	lose    func(n, of int) bool // whether packet n of a stream is lost, with of streams at once
	part    float64              // fraction of the rate that all-to-all streams get
	shaper  string               // what the shaper reports as late
	words   []string
	changed bool
}

func (f *network) Hops() []state.HopStatus {
	all := append([]state.HopStatus(nil), f.hops...)
	if f.changed && f.now > 0 {
		all[1].Spec.Latency++
	}
	return all
}
func (f *network) Findings() []verdict.Finding { return jobFindings(f.words) }
func (f *network) Others() int                 { return 0 }
func (f *network) Late() string                { return f.shaper }

func (f *network) Send(_ context.Context, streams []Stream, d, _ time.Duration) ([]Packets, error) {
	f.now += 1e9
	start := f.now
	var flows []Flow
	for _, s := range streams {
		flows = append(flows, Flow{Src: s.Src, Dst: s.Dst})
	}
	var all []Packets
	for i, rate := range f.real.fair(flows) {
		if f.part > 0 && len(streams) == len(f.real.fab.Hops)-2*f.real.fab.NICs() {
			rate *= f.part
		}
		all = append(all, f.stream(streams[i], len(streams), start, int64(d), rate))
	}
	f.now += int64(d)
	return all, nil
}

func (f *network) stream(s Stream, of int, start, d int64, rate float64) (p Packets) {
	path := f.real.pathOf(s.Src, s.Dst)
	size := float64(f.real.fab.Config.Link.MTU - f.real.fab.Config.Link.Header)
	latencies := []float64{float64(path.latency)}
	if len(path.jitter) > 0 {
		latencies = f.real.askedLatencies(&path)
	}
	for n := 0; s.Most == 0 || n < s.Most; n++ {
		sent := start + int64(n)*int64(s.Spacing)
		left := sent
		if s.Spacing == 0 {
			left = start + int64(float64(n+1)*size/rate)
			sent = max(start, left-int64(float64(s.Window)*size/rate))
		}
		if sent-start >= d {
			break
		}
		at := left + int64(latencies[f.random.IntN(len(latencies))])*int64(f.real.scale)
		if f.late != nil {
			at += f.late(n)
		}
		if f.random.Float64() < configs.Loss(f.real.fab.Hops[path.hops[1]].Spec.Loss).Mean() || f.lose != nil &&
			f.lose(n, of) {
			at = 0
		}
		p.Sent, p.Arrived, p.Seen = append(p.Sent, sent), append(p.Arrived, at), append(p.Seen, at)
	}
	return p
}

// newNetwork is a network with a shaper that carries the fabric c after change.
func newNetwork(t *testing.T, shaper string, c *configs.Fabric, change func(*configs.Fabric)) *network {
	t.Helper()
	is := *c
	if change != nil {
		change(&is)
	}
	f := &network{asked: model(t, c), real: model(t, &is), random: rand.New(rand.NewPCG(1, 2))}
	f.asked.shaper, f.real.shaper = shaper, shaper
	for i, h := range f.asked.fab.Hops {
		f.hops = append(f.hops, state.HopStatus{Index: i, Spec: h.Spec})
	}
	return f
}

func (f *network) measured(t *testing.T) *Report {
	t.Helper()
	r, err := MeasurePackets(t.Context(), f.asked, f, Options{Time: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lan is n nodes of 100 Mb/s and 10 ms on the kernel datapath.
func lan(n int) *configs.Fabric {
	return with(star(n), func(c *configs.Fabric) {
		c.Datapath, c.TimeScale, c.Transport = configs.Kernel, 1, configs.DefaultTransport(configs.TCP)
		c.Link.Bandwidth, c.Link.Latency = 100*units.Mbps, 10*time.Millisecond
	})
}

func lossy(p float64) func(*configs.Fabric) {
	return func(c *configs.Fabric) { c.Link.Loss.P = p }
}

func jittery(kind string) func(*configs.Fabric) {
	return func(c *configs.Fabric) { c.Link.Jitter = configs.Jitter{Kind: kind, Value: time.Millisecond} }
}

// A kernel fabric as asked for is VALID, and its figures are those of the formulas.
func TestSoundPackets(t *testing.T) {
	for name, tc := range map[string]struct {
		shaper     string
		c          *configs.Fabric
		rate, late float64 // Gb/s and us asked of node0:node1
	}{
		// 0.1 x 1460 / 1538; 8 bytes after 28 of headers and 38 of framing take 5.92 us.
		"wire":   {configs.WireShaper, lan(4), 0.0949285, 10005.92},
		"netem":  {configs.NetemShaper, lan(3), 0.0949285, 10000},
		"scaled": {configs.WireShaper, with(lan(3), func(c *configs.Fabric) { c.TimeScale = 16 }), 0.0949285, 10005.92},
		"lossy":  {configs.WireShaper, with(lan(3), lossy(0.02)), 0.0949285, 10005.92},
		"jitter": {configs.EDTShaper, with(lan(3), jittery(configs.NormalJitter)), 0.0949285, 10005.92},
		"slow link": {configs.HTBShaper, with(lan(3), func(c *configs.Fabric) {
			slow := 20 * units.Mbps
			c.Link.Latency = 0
			c.Links = append(c.Links,
				configs.LinkOverride{Match: "node0>node1", LinkPatch: configs.LinkPatch{Bandwidth: &slow}})
		}), 0.0189857, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newNetwork(t, tc.shaper, tc.c, nil).measured(t)
			if r.Verdict != "VALID" {
				t.Fatalf("%s: %q", r.Verdict, r.Reasons)
			}
			l := &r.Links[0]
			if math.Abs(l.Rate.Asked/1e9/tc.rate-1) > 1e-5 || math.Abs(l.Latency.Asked-tc.late) > 0.02 {
				t.Errorf("%s is asked for %.6f Gb/s and %.3f us, want %.6f and %.3f", l.Name, l.Rate.Asked/1e9,
					l.Latency.Asked, tc.rate, tc.late)
			}
			if name == "lossy" && math.Abs(l.Rate.Model/l.Rate.Asked-0.98) > 1e-9 {
				t.Errorf("of %.4g Gb/s %.4g are to come through 2 %% of losses", l.Rate.Asked/1e9, l.Rate.Model/1e9)
			}
		})
	}
}

// Every fault of a kernel fabric is found and named.
func TestPacketFaults(t *testing.T) {
	slower := func(part float64) func(*configs.Fabric) {
		return func(c *configs.Fabric) { c.Link.Bandwidth = units.Bandwidth(part * float64(100*units.Mbps)) }
	}
	later := func(d time.Duration) func(*configs.Fabric) { return func(c *configs.Fabric) { c.Link.Latency += d } }
	for name, tc := range map[string]struct {
		shaper string
		c      *configs.Fabric
		change func(*configs.Fabric)
		spoil  func(*network)
		says   string
	}{
		"rate 1.5 % low":  {configs.WireShaper, lan(3), slower(0.985), nil, "node2:node1: rate"},
		"rate 1.5 % high": {configs.WireShaper, lan(3), slower(1.015), nil, "node2:node1: rate"},
		"latency 250 us up": {configs.WireShaper, lan(3), later(250 * time.Microsecond), nil,
			"node1:node0: latency p50"},
		"latency 250 us down": {configs.NetemShaper, lan(3), later(-250 * time.Microsecond), nil,
			"node1:node0: latency p50"},
		"one in 50 late": {configs.WireShaper, lan(2), nil, func(f *network) {
			f.late = func(n int) int64 { return int64((n+1)%50/49) * 600_000 }
		}, "node1:node0: messages come 6"},
		"htb fits 150 us": {configs.HTBShaper, with(lan(2), func(c *configs.Fabric) { c.Link.Latency = 0 }),
			later(150 * time.Microsecond), nil, "latency p50 150 us, asked 0: +150 us (limit 100)"},
		"losses":    {configs.WireShaper, lan(2), lossy(0.001), nil, "packets were lost, 0 were expected"},
		"no losses": {configs.WireShaper, with(lan(2), lossy(0.01)), lossy(0), nil, "0 of"},
		"single packets lost": {configs.WireShaper, lan(2), nil, func(f *network) {
			f.lose = func(n, _ int) bool { return n == 7 }
		}, "node0:node1: 1 of 100 packets were lost"},
		"lost where all send": {configs.WireShaper, lan(3), nil, func(f *network) {
			f.lose = func(n, of int) bool { return of == 6 && n == 50 }
		}, "all to all: 6 packets were lost, although no loss was asked for"},
		"more jitter": {configs.WireShaper, with(lan(2), jittery(configs.NormalJitter)), func(c *configs.Fabric) {
			c.Link.Jitter = configs.Jitter{Kind: configs.NormalJitter, Value: 5 * time.Millisecond}
		}, nil, "not distributed as the jitter"},
		"another jitter": {configs.WireShaper, with(lan(2), jittery(configs.UniformJitter)),
			jittery(configs.ParetoJitter), nil, "not distributed as the jitter"},
		"too much for all": {configs.WireShaper, lan(4), nil, func(f *network) { f.part = 0.9 },
			"all to all: 0.3417 Gb/s together, the model's 0.3797: -10.0 % (limit 2 %); node"},
		"the shaper's lateness": {configs.WireShaper, lan(3), nil,
			func(f *network) { f.shaper = "node0:node1, it was" }, "all to all: the shaper is late: node0:node1"},
		"the shaper's words": {configs.WireShaper, lan(2), nil, func(f *network) { f.words = []string{"no room"} },
			"no room"},
		"changed meanwhile": {configs.WireShaper, lan(2), nil, func(f *network) { f.changed = true },
			"was changed while it was measured"},
		"nothing comes": {configs.WireShaper, lan(2), nil,
			func(f *network) { f.lose = func(int, int) bool { return true } },
			"node0:node1: fewer than 8 messages arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newNetwork(t, tc.shaper, tc.c, tc.change)
			if tc.spoil != nil {
				tc.spoil(f)
			}
			r := f.measured(t)
			wantInvalid(t, r, tc.says)
		})
	}
}

// Max-min fair shares, calculated by hand.
func TestFair(t *testing.T) {
	c := with(lan(3), func(c *configs.Fabric) {
		slow := 10 * units.Mbps
		c.Links = append(c.Links,
			configs.LinkOverride{Match: "node0>node1", LinkPatch: configs.LinkPatch{Bandwidth: &slow}})
	})
	flows := []Flow{{Src: 0, Dst: 1}, {Src: 0, Dst: 2}, {Src: 1, Dst: 2}, {Src: 2, Dst: 1}}
	// The slow link gives 0.1. Two flows share node2's port by halves, which is less than what node0 has for its
	// second flow. The last flow gets the rest of node1's port.
	want := []float64{0.1, 0.5, 0.5, 0.9}
	for i, got := range model(t, c).fair(flows) {
		if unit := 0.0125 * 1460 / 1538; math.Abs(got/unit-want[i]) > 1e-9 {
			t.Errorf("flow %d gets %.3f of a port, want %.1f", i, got/unit, want[i])
		}
	}
}

// Shares are judged if a discipline guarantees them. The limit for all flows together is larger if their rates depend
// on the order of arrival.
func TestPacketPromises(t *testing.T) {
	slow := 10 * units.Mbps
	unlike := with(lan(3), func(c *configs.Fabric) {
		c.Links = append(c.Links, configs.LinkOverride{Match: "node0", LinkPatch: configs.LinkPatch{Bandwidth: &slow}})
	})
	dropping := with(lan(3), func(c *configs.Fabric) {
		c.Link.Queue = configs.Queue{Policy: configs.TailDrop, Bytes: 64 << 10}
	})
	flows, pair := []Flow{{Src: 1, Dst: 0}, {Src: 2, Dst: 0}}, []Flow{{Src: 1, Dst: 0}, {Src: 1, Dst: 0}}
	for name, tc := range map[string]struct {
		shaper string
		c      *configs.Fabric
		flows  []Flow
		each   bool
		most   float64
	}{
		"netem":         {configs.NetemShaper, unlike, flows, true, maxTotalOff},
		"one pair":      {configs.NetemShaper, lan(3), pair, false, maxTotalOff},
		"wire":          {configs.WireShaper, lan(3), flows, false, maxTotalOff},
		"wire, unlike":  {configs.WireShaper, unlike, flows, false, maxUnfairOff},
		"lossy":         {configs.NetemShaper, with(lan(3), lossy(0.01)), flows, false, maxLossyOff},
		"htb, taildrop": {configs.HTBShaper, dropping, flows, false, maxLossyOff},
	} {
		f := newNetwork(t, tc.shaper, tc.c, nil)
		x := &packets{measurement: &measurement{Model: f.asked}}
		if each, most := x.promised(tc.flows); each != tc.each || most != tc.most {
			t.Errorf("%s: %t and %v, want %t and %v", name, each, most, tc.each, tc.most)
		}
	}
}

// A burst is smaller than a segment, which a NIC moves as a whole.
func TestBurst(t *testing.T) {
	for rate, want := range map[units.Bandwidth]int{100 * units.Mbps: 1, units.Gbps: 7, 10 * units.Gbps: 43} {
		f := newNetwork(t, configs.HTBShaper, with(lan(2), func(c *configs.Fabric) { c.Link.Bandwidth = rate }), nil)
		x := &packets{measurement: &measurement{Model: f.asked}, size: 1472, payload: 1460}
		path := f.asked.pathOf(0, 1)
		if got := x.burst(&path); got != want || got > 1 && got*1472+42 >= path.segment {
			t.Errorf("at %v %d of 1472 bytes at once, want %d; a segment is %d", rate, got, want, path.segment)
		}
	}
}

// A pause does not lower the rate if later packets catch up.
func TestSteady(t *testing.T) {
	const gap = 1000
	for name, tc := range map[string]struct {
		late func(n int) int64
		want float64
	}{
		"steady":         {func(int) int64 { return 0 }, 1},
		"late at last":   {func(n int) int64 { return int64(max(n-290, 0)) * 3 * gap }, 1},
		"late at first":  {func(n int) int64 { return int64(max(150-n, 0)) * gap / 2 }, 1},
		"lost by a rest": {func(n int) int64 { return int64(n/150) * 60 * gap }, 0.8},
	} {
		var p Packets
		for n := range 300 {
			p.Arrived = append(p.Arrived, int64(n+1)*gap+tc.late(n))
		}
		if got := p.rate(1.0/gap) * gap; math.Abs(got-tc.want) > 0.03 {
			t.Errorf("%s: %.3f of the rate, want %.2f", name, got, tc.want)
		}
	}
}
