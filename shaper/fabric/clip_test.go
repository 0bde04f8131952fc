// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// How much longer the latency is in the mean is what the model's draws come to.
func TestClipped(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		latency time.Duration
		jitter  configs.Jitter
		clipped bool
	}{
		{5 * us, configs.Jitter{Kind: configs.NoJitter}, false},
		{5 * us, configs.Jitter{Kind: configs.UniformJitter, Value: 5 * us}, false},
		{5 * us, configs.Jitter{Kind: configs.UniformJitter, Value: 6 * us}, true},
		{5 * us, configs.Jitter{Kind: configs.UniformJitter, Value: 50 * us}, true},
		{9 * us, configs.Jitter{Kind: configs.NormalJitter, Value: 3 * us}, false},
		{9 * us, configs.Jitter{Kind: configs.NormalJitter, Value: 10 * us}, true},
		{0, configs.Jitter{Kind: configs.NormalJitter, Value: us}, true},
		{us, configs.Jitter{Kind: configs.ParetoJitter, Value: 50 * us}, false},
		{9 * us, configs.Jitter{Kind: configs.TableJitter, Value: 9 * us}, false},
		{9 * us, configs.Jitter{Kind: configs.TableJitter, Value: 20 * us}, true},
	} {
		f := config(2, 1)
		f.JitterTable = []float64{-1, 0, 3}
		f.Link.Latency, f.Link.Jitter = c.latency, c.jitter
		fab := build(t, f)
		spec := fab.Hops[fab.Link(0, 1)].Spec
		got := fab.clippedBy(spec)
		if want := drawnLonger(t, fab, spec); math.Abs(float64(got-want)) > 0.01*float64(c.jitter.Value) {
			t.Errorf("%v, %v: %v longer, drawn %v", c.latency, c.jitter, got, want)
		}
		text := strings.Join(fab.Clipped(fab.All()), "\n")
		if c.clipped != (text != "") || c.clipped &&
			!strings.HasPrefix(text, "link node0:node1 (and 1 other): the jitter "+c.jitter.String()) {
			t.Errorf("%v, %v: said %q", c.latency, c.jitter, text)
		}
		if lines := fab.Clipped(nil); lines != nil {
			t.Errorf("of no hop it is said that %q", lines)
		}
	}
}

// A reordering by more than the latency gives a line, with one for the jitter if that is too large as well.
func TestClippedReorder(t *testing.T) {
	const us = time.Microsecond
	large := configs.Jitter{Kind: configs.NormalJitter, Value: 10 * us}
	for _, c := range []struct {
		reorder configs.Reorder
		jitter  configs.Jitter
		want    []string
	}{
		{configs.Reorder{}, configs.Jitter{Kind: configs.NoJitter}, nil},
		{configs.Reorder{Share: 0.01, Early: 5 * us}, configs.Jitter{Kind: configs.NoJitter}, nil},
		{configs.Reorder{Share: 0.01, Early: 6 * us}, configs.Jitter{Kind: configs.NoJitter},
			[]string{"the reordering by 6µs is more than the latency of 5µs: "}},
		{configs.Reorder{Share: 0.01, Early: 6 * us}, large,
			[]string{"the reordering by 6µs ", "the jitter normal:10µs "}},
	} {
		f := config(2, 1)
		f.Link.Latency, f.Link.Reorder, f.Link.Jitter = 5*us, c.reorder, c.jitter
		fab := build(t, f)
		got := fab.Clipped(fab.All())
		same := slices.EqualFunc(got, c.want, func(line, want string) bool {
			return strings.HasPrefix(line, "link node0:node1 (and 1 other): "+want)
		})
		if !same {
			t.Errorf("%v, %v: said %q, want %q", c.reorder, c.jitter, got, c.want)
		}
	}
}

// drawnLonger is how far the mean of the latencies that the model draws is above that of
// the draws without a bound.
func drawnLonger(t *testing.T, f *Fabric, s link.Spec) time.Duration {
	t.Helper()
	p, err := link.NewParams(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	far := p
	far.Latency += int64(time.Hour)
	tables := f.JitterTables()
	const n = 100_000
	sum := int64(0)
	for i := range uint64(n) {
		sum += p.Delay(1, 0, 0, i, tables) - (far.Delay(1, 0, 0, i, tables) - int64(time.Hour))
	}
	return time.Duration(sum / n)
}

func TestFasterThanPorts(t *testing.T) {
	rate := func(match string, b units.Bandwidth) configs.LinkOverride {
		return configs.LinkOverride{Match: match, LinkPatch: configs.LinkPatch{Bandwidth: &b}}
	}
	for _, c := range []struct {
		name  string
		links []configs.LinkOverride
		want  string
	}{
		{"none", nil, ""},
		{"slower", []configs.LinkOverride{rate("node0:node1", units.Mbps)}, ""},
		{"one direction", []configs.LinkOverride{rate("node1>node2", 200*units.Gbps)},
			"link node1:node2: its bandwidth is 200Gbps, but port node1 tx has 100Gbps: "},
		{"unlimited", []configs.LinkOverride{rate("node0:node1", units.Unlimited)},
			"link node0:node1 (and 1 other): its bandwidth is unlimited, but port node0 tx has 100Gbps: "},
		{"a node as a whole", []configs.LinkOverride{rate("node0", 200*units.Gbps)}, ""},
		{"a slower node", []configs.LinkOverride{rate("node0", units.Gbps)}, ""},
		{"a slower node's link", []configs.LinkOverride{rate("node0", units.Gbps), rate("node1>node0", 2*units.Gbps)},
			"link node1:node0: its bandwidth is 2Gbps, but port node0 rx has 1Gbps: "},
	} {
		f := config(3, 1)
		f.Link.Bandwidth = 100 * units.Gbps
		f.Links = c.links
		if got := build(t, f).FasterThanPorts(); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
