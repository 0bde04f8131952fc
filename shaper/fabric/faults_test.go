// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

func fault(at, lasts time.Duration, match string, p configs.LinkPatch) configs.Fault {
	return configs.Fault{At: at, For: lasts, LinkOverride: configs.LinkOverride{Match: match, LinkPatch: p}}
}

func TestPlannedChanges(t *testing.T) {
	const ms = time.Millisecond
	c := config(3, 1)
	half := fault(3*ms, 2*ms, "node0:node1", configs.LinkPatch{})
	half.Rate = 0.5
	c.Faults = []configs.Fault{half, fault(4*ms, 0, "node0>node1", configs.LinkPatch{Latency: ptr(9 * time.Microsecond)})}
	f := build(t, c)
	changes, err := f.PlannedChanges()
	if err != nil {
		t.Fatal(err)
	}
	there, back := f.Link(0, 1), f.Link(1, 0)
	for i, want := range []struct {
		at      time.Duration
		hop     int
		rate    units.Bandwidth
		latency time.Duration
	}{
		{3 * ms, there, 50 * units.Gbps, 5 * time.Microsecond},
		{3 * ms, back, 50 * units.Gbps, 5 * time.Microsecond},
		{4 * ms, there, 50 * units.Gbps, 9 * time.Microsecond},
		{5 * ms, there, 100 * units.Gbps, 9 * time.Microsecond},
		{5 * ms, back, 100 * units.Gbps, 5 * time.Microsecond},
	} {
		if i >= len(changes) {
			t.Fatalf("%d changes, want 5", len(changes))
		}
		got, l := changes[i], LinkOf(changes[i].Spec)
		if got.At != want.at || got.Hop != want.hop || l.Bandwidth != want.rate || l.Latency != want.latency {
			t.Errorf("change %d: at %v, hop %d, %v, %v; want %+v", i, got.At, got.Hop, l.Bandwidth, l.Latency, want)
		}
	}
}

func TestPlannedChangesRefused(t *testing.T) {
	down := configs.LinkPatch{Up: ptr(false)}
	for name, tc := range map[string]struct {
		bandwidth units.Bandwidth
		faults    []configs.Fault
		want      string
	}{
		"the same parameter at the same time": {units.Gbps,
			[]configs.Fault{fault(1, 10, "node0", down), fault(5, 10, "node0:node1", down)},
			"faults[1]: changes at 5ns what faults[0] has changed on node0:node1"},
		"a share of no rate": {units.Unlimited, []configs.Fault{{At: 1, Rate: 0.5,
			LinkOverride: configs.LinkOverride{Match: "node0:node1"}}}, "faults[0].rate: node0:node1 has no rate"},
		"too many changes": {units.Gbps, []configs.Fault{fault(1, 1, "*", down), fault(5, 1, "*", down),
			fault(9, 1, "*", down)}, "faults[1]: with the faults before it, links and ports change more than 65536 times"},
		"too much latency": {units.Gbps, []configs.Fault{{At: 1, AddLatency: configs.MaxLatency,
			LinkOverride: configs.LinkOverride{Match: "node0:node1"}}}, "faults[0].latency: "},
	} {
		c := config(2, 1)
		if name == "too many changes" {
			c = config(128, 1)
		}
		c.Link.Bandwidth, c.Faults = tc.bandwidth, tc.faults
		if _, err := New(&c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// After the last fault has ended, each hop is as before; each hop changes at the begins and ends of its faults alone.
func TestPropertyFaultsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config(rapid.IntRange(2, 4).Draw(t, "nodes"), rapid.IntRange(1, 2).Draw(t, "NICs"))
		at := time.Duration(0)
		times := map[time.Duration]bool{}
		for range rapid.IntRange(1, 6).Draw(t, "faults") {
			at += time.Duration(rapid.IntRange(1, 5).Draw(t, "wait"))
			x := fault(at, time.Duration(rapid.IntRange(1, 5).Draw(t, "length")),
				rapid.SampledFrom([]string{"node0", "node1", "node0:node1", "node1>node0", "*"}).Draw(t, "links"),
				configs.LinkPatch{})
			x.Rate = rapid.Float64Range(0.1, 0.9).Draw(t, "rate")
			times[x.At], times[x.End()] = true, true
			at = x.End()
			c.Faults = append(c.Faults, x)
		}
		f, err := New(&c)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := f.PlannedChanges()
		if err != nil {
			t.Fatal(err)
		}
		last := map[int]link.Spec{}
		for _, x := range changes {
			if before, ok := last[x.Hop]; ok && before == x.Spec || !times[x.At] {
				t.Errorf("a change of hop %d at %v changes nothing, or no fault begins or ends then", x.Hop, x.At)
			}
			last[x.Hop] = x.Spec
		}
		if len(last) == 0 {
			t.Error("no link is changed")
		}
		for hop, spec := range last {
			if spec != f.Hops[hop].Spec {
				t.Errorf("%s stays as a fault has made it", f.HopName(hop))
			}
		}
	})
}
