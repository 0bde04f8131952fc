// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

func config(nodes, nics int) configs.Fabric {
	c := configs.Default()
	c.Nodes, c.NICsPerNode = nodes, nics
	c.Link.Bandwidth, c.Link.Latency = 100*units.Gbps, 5*time.Microsecond
	return c
}

func build(t testing.TB, c configs.Fabric) *Fabric {
	t.Helper()
	f, err := New(&c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func ptr[T any](v T) *T { return &v }

func TestHopsAndPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nics := rapid.IntRange(1, 4).Draw(t, "nics")
		c := config(rapid.IntRange(1, 8).Draw(t, "nodes"), nics)
		f, err := New(&c)
		if err != nil {
			t.Fatal(err)
		}
		used := map[int]bool{}
		for src := range f.NICs() {
			for dst := range f.NICs() {
				if f.NodeOfNIC(src) == f.NodeOfNIC(dst) {
					continue
				}
				path := f.Path(src, dst)
				got := [3]Hop{f.Hops[path[0].Hop], f.Hops[path[1].Hop], f.Hops[path[2].Hop]}
				for i := range got {
					used[path[i].Hop] = true
					got[i].Spec = link.Spec{}
				}
				want := [3]Hop{{Kind: link.TxPort, Src: src, Dst: src}, {Kind: link.Link, Src: src, Dst: dst},
					{Kind: link.RxPort, Src: dst, Dst: dst}}
				if got != want {
					t.Fatalf("path %d to %d: %v, want %v", src, dst, got, want)
				}
				if path[0].Private || !path[1].Private || path[2].Private {
					t.Fatalf("path %d to %d: %v; want the link alone private", src, dst, path)
				}
			}
		}
		if c.Nodes > 1 && len(used) != len(f.Hops) {
			t.Fatalf("%d of %d hops are on a path", len(used), len(f.Hops))
		}
	})
}

func TestLinkWithinNodePanics(t *testing.T) {
	f := build(t, config(2, 2))
	defer func() {
		if recover() == nil {
			t.Error("a link within a node was returned")
		}
	}()
	f.Link(0, 1)
}

// A file may hold no more hops than a path can name.
func TestLargestFabricsFit(t *testing.T) {
	for _, size := range [][2]int{{255, 1}, {128, 2}, {64, 4}, {8, 32}} {
		if f := build(t, config(size[0], size[1])); len(f.Hops) > 1<<16 {
			t.Errorf("%d nodes x %d NICs: %d hops, want at most 65536", size[0], size[1], len(f.Hops))
		}
	}
}

func TestNames(t *testing.T) {
	one, two := build(t, config(2, 1)), build(t, config(2, 2))
	for _, c := range []struct{ got, want string }{
		{one.HopName(0), "node0 tx"},
		{one.HopName(3), "node1 rx"},
		{one.HopName(one.Link(0, 1)), "node0:node1"},
		{two.HopName(two.Link(2, 1)), "node1.nic0:node0.nic1"},
		{two.HopName(2), "node0.nic1 tx"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if n := two.NIC(1, 1); n != 3 {
		t.Errorf("NIC 1 of node 1 is %d, want 3", n)
	}
}

func TestSelect(t *testing.T) {
	f := build(t, config(3, 2))
	for pattern, want := range map[string][]string{
		"node0.nic0:node1.nic1": {"node0.nic0:node1.nic1", "node1.nic1:node0.nic0"},
		"node0.nic0>node1.nic1": {"node0.nic0:node1.nic1"},
		"node0 > 1": {"node0.nic0:node1.nic0", "node0.nic0:node1.nic1",
			"node0.nic1:node1.nic0", "node0.nic1:node1.nic1"},
		"node2.nic1": {"node2.nic1 tx", "node2.nic1 rx", "node0.nic0:node2.nic1", "node0.nic1:node2.nic1",
			"node1.nic0:node2.nic1", "node1.nic1:node2.nic1", "node2.nic1:node0.nic0", "node2.nic1:node0.nic1",
			"node2.nic1:node1.nic0", "node2.nic1:node1.nic1"},
		"*.nic1>node0.nic1": {"node1.nic1:node0.nic1", "node2.nic1:node0.nic1"},
	} {
		hops, err := f.Select(pattern)
		if err != nil {
			t.Errorf("Select(%q): %v", pattern, err)
			continue
		}
		var got []string
		for _, h := range hops {
			got = append(got, f.HopName(h))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Select(%q) (-want +got):\n%s", pattern, d)
		}
	}
	if all, err := f.Select("*"); err != nil || len(all) != len(f.Hops) {
		t.Errorf("Select(*) = %d hops, %v; want all %d", len(all), err, len(f.Hops))
	}
	for pattern, why := range map[string]string{
		"": "does not name", "node0:node0": "within a node", "node3": "node 0 to 2", "node0.nic2": "NIC 0 to 1",
		"rack1": "does not name", "node0:node1:node2": "does not name", "node-1": "does not name",
		"node0.1": "does not name",
	} {
		if _, err := f.Select(pattern); err == nil || !strings.Contains(err.Error(), why) || !configs.IsUserError(err) {
			t.Errorf("Select(%q): %v; want a user's error with %q", pattern, err, why)
		}
	}
	if _, err := build(t, config(1, 1)).Select("*>*"); err == nil {
		t.Error("a link was found in a fabric of one node")
	}
}

func TestOverridesApplyInOrder(t *testing.T) {
	c := config(3, 1)
	c.Links = []configs.LinkOverride{
		{Match: "node0", LinkPatch: configs.LinkPatch{Bandwidth: ptr(10 * units.Gbps), Latency: ptr(time.Millisecond)}},
		{Match: "node0>node1", LinkPatch: configs.LinkPatch{Latency: ptr(2 * time.Millisecond), Up: ptr(false)}},
	}
	f := build(t, c)
	for _, w := range []struct {
		hop       int
		bandwidth units.Bandwidth
		latency   time.Duration
		down      bool
	}{
		{0, 10 * units.Gbps, 0, false},
		{1, 10 * units.Gbps, 0, false},
		{2, 100 * units.Gbps, 0, false},
		{f.Link(0, 1), 10 * units.Gbps, 2 * time.Millisecond, true},
		{f.Link(1, 0), 10 * units.Gbps, time.Millisecond, false},
		{f.Link(1, 2), 100 * units.Gbps, 5 * time.Microsecond, false},
	} {
		s := f.Hops[w.hop].Spec
		if s.Bandwidth != uint64(w.bandwidth) || s.Latency != w.latency || s.Down != w.down {
			t.Errorf("%s: %+v; want %+v", f.HopName(w.hop), s, w)
		}
	}
}

func TestPortsTakeOnlyWhatPortsHave(t *testing.T) {
	f := build(t, config(2, 1))
	patch := configs.LinkPatch{
		Bandwidth: ptr(units.Gbps), Latency: ptr(time.Second), Jitter: &configs.Jitter{Kind: configs.NormalJitter,
			Value: 5},
		Loss: &configs.Loss{P: 0.5}, Queue: &configs.Queue{Bytes: units.MiB, Policy: configs.TailDrop},
		MTU: ptr(1500), Header: ptr(40), Framing: ptr(38), Up: ptr(false),
	}
	changed, err := f.Shape("*", patch)
	if err != nil || len(changed) != len(f.Hops) {
		t.Fatalf("Shape changed %v, %v; want all %d hops", changed, err, len(f.Hops))
	}
	tx := link.Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}
	rx := tx
	rx.QueueBytes, rx.QueuePolicy = 1<<20, link.TailDrop
	if d := cmp.Diff([]link.Spec{tx, rx}, []link.Spec{f.Hops[0].Spec, f.Hops[1].Spec}); d != "" {
		t.Errorf("ports (-want +got):\n%s", d)
	}
	want := rx
	want.Latency, want.Down = time.Second, true
	want.Jitter, want.Loss = link.Jitter{Kind: link.Normal, Value: 5}, link.Loss{P: 0.5}
	if d := cmp.Diff(want, f.Hops[f.Link(0, 1)].Spec); d != "" {
		t.Errorf("link (-want +got):\n%s", d)
	}
	if changed, err := f.Shape("*", patch); err != nil || len(changed) != 0 {
		t.Errorf("the same again changed %v, %v; want nothing", changed, err)
	}
}

func TestShapeIsAllOrNothing(t *testing.T) {
	c := config(3, 1)
	c.Links = []configs.LinkOverride{
		{Match: "node1>node2", LinkPatch: configs.LinkPatch{MTU: ptr(9000), Header: ptr(8000)}}}
	f := build(t, c)
	before := slices.Clone(f.Hops)
	// Good for every link but the last, whose header is above this MTU.
	if _, err := f.Shape("*", configs.LinkPatch{MTU: ptr(1500)}); err == nil {
		t.Fatal("an MTU below a link's header was accepted")
	}
	if d := cmp.Diff(before, f.Hops); d != "" {
		t.Errorf("a refused change changed hops:\n%s", d)
	}
	if _, err := f.Shape("*",
		configs.LinkPatch{Jitter: &configs.Jitter{Kind: configs.TableJitter, Value: 1}}); err == nil {
		t.Error("jitter of a table was accepted without a table")
	}
}

// What the kernel datapath cannot have is refused of a change as it is of a file.
func TestShapeOnKernelRefuses(t *testing.T) {
	c := config(2, 1)
	c.Datapath, c.Transport = configs.Kernel, configs.DefaultTransport(configs.TCP)
	f := build(t, c)
	for want, p := range map[string]configs.LinkPatch{
		"ecn: given for the datapath kernel":        {ECN: ptr(64 * units.KiB)},
		"queue: fair given for the datapath kernel": {Queue: &configs.Queue{Policy: configs.Fair}},
		"mtu: 9000, others have ":                   {MTU: ptr(9000)},
	} {
		if _, err := f.Shape("*", p); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Overrides may be right one by one and wrong together.
func TestNewRefusesOverridesThatClash(t *testing.T) {
	c := config(2, 1)
	c.Links = []configs.LinkOverride{
		{Match: "*", LinkPatch: configs.LinkPatch{Header: ptr(2000)}},
		{Match: "node0", LinkPatch: configs.LinkPatch{MTU: ptr(1500)}},
	}
	_, err := New(&c)
	var e *configs.Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Error(), "links[1]: header: 2000") {
		t.Errorf("got %v; want an error about the header in links[1]", err)
	}
	c.Nodes = 0
	if _, err := New(&c); !configs.IsUserError(err) {
		t.Errorf("no nodes: %v; want a user's error", err)
	}
}

func TestSpecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := config(2, 1).Link
		l.Bandwidth = units.Bandwidth(rapid.Uint64Range(uint64(configs.MinBandwidth),
			uint64(configs.MaxBandwidth)).Draw(t, "bandwidth"))
		l.Latency = time.Duration(rapid.Int64Range(0, int64(configs.MaxLatency)).Draw(t, "latency"))
		l.Jitter.Kind = rapid.SampledFrom([]string{"none", "uniform", "normal", "pareto", "table"}).Draw(t, "kind")
		l.Queue = configs.Queue{Bytes: units.Size(rapid.Int64Range(1<<16, 1<<30).Draw(t, "queue")),
			Policy: rapid.SampledFrom([]string{"lossless", "taildrop", "fair"}).Draw(t, "policy")}
		l.Loss = configs.Loss{P: rapid.Float64Range(0, 1).Draw(t, "p"), BadP: 1, GoodToBad: 0.1, BadToGood: 0.2}
		l.Up = rapid.Bool().Draw(t, "up")
		if got := LinkOf(Spec(l)); got != l {
			t.Fatalf("%+v comes back as %+v", l, got)
		}
	})
}

// No parameter of a link is forgotten on the path to the link model and back.
func TestSpecHasEveryParameter(t *testing.T) {
	var l configs.Link
	fill(reflect.ValueOf(&l).Elem())
	l.Jitter.Kind, l.Queue.Policy, l.Up = configs.TableJitter, configs.Fair, false
	notZero(t, l, "Up") // its inverse Down is not 0
	s := Spec(l)
	notZero(t, s)
	if got := LinkOf(s); got != l {
		t.Errorf("%+v comes back as %+v", l, got)
	}
}

// fill sets every number in v to 1.
func fill(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.TypeFor[int]().ConvertibleTo(v.Type()) && v.Kind() != reflect.String:
		v.Set(reflect.ValueOf(1).Convert(v.Type()))
	}
}

// notZero checks that every field of v has a value, except those named.
func notZero(t *testing.T, v any, except ...string) {
	t.Helper()
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		if reflect.ValueOf(v).FieldByIndex(f.Index).IsZero() && !slices.Contains(except, f.Name) {
			t.Errorf("%T has no %s", v, f.Name)
		}
	}
}

// Every link that configs accepts, the link model must accept.
func TestModelTakesEveryProfile(t *testing.T) {
	all, err := configs.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		f := build(t, *c)
		for i, h := range f.Hops {
			if _, err := link.NewParams(h.Spec, configs.MaxTimeScale); err != nil {
				t.Fatalf("profile %s, %s: %v", c.Name, f.HopName(i), err)
			}
		}
	}
}

func TestModelTakesEveryValidLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := configs.Link{
			Bandwidth: rapid.SampledFrom([]units.Bandwidth{units.Unlimited, configs.MinBandwidth,
				configs.MaxBandwidth}).Draw(t, "bandwidth"),
			Latency: rapid.SampledFrom([]time.Duration{0, configs.MaxLatency}).Draw(t, "latency"),
			Jitter: configs.Jitter{Kind: configs.UniformJitter,
				Value: rapid.SampledFrom([]time.Duration{1, configs.MaxLatency}).Draw(t, "jitter")},
			Queue: configs.Queue{Policy: configs.Lossless,
				Bytes: rapid.SampledFrom([]units.Size{0, configs.MaxQueue}).Draw(t, "queue")},
			ECN:     rapid.SampledFrom([]units.Size{0, configs.MaxQueue - 1}).Draw(t, "ecn"),
			MTU:     rapid.SampledFrom([]int{configs.MinMTU, configs.MaxMTU}).Draw(t, "mtu"),
			Framing: rapid.SampledFrom([]int{0, configs.MaxMTU}).Draw(t, "framing"),
		}
		l.Header = rapid.SampledFrom([]int{0, l.MTU - 1}).Draw(t, "header")
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		if _, err := link.NewParams(Spec(l),
			rapid.SampledFrom([]int{1, configs.MaxTimeScale}).Draw(t, "k")); err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
	})
}

func TestTransport(t *testing.T) {
	c := config(2, 1)
	c.Endpoint = configs.Endpoint{Overhead: 200, Gap: 5}
	c.Transport.Recovery = configs.SelectiveRepeat
	c.Transport.RTO = time.Millisecond
	want := link.Transport{Kind: link.RDMA, SelectiveRepeat: true, Second: 1e9, RTO: 1e6, DownTimeout: 7e6,
		Overhead: 200, Gap: 5}
	if got := build(t, c).Transport(); got != want {
		t.Errorf("rdma: %+v, want %+v", got, want)
	}
	c.Transport = configs.DefaultTransport(configs.TCP)
	c.Transport.Congestion = configs.Cubic
	c.Host = configs.Host{PerMessage: 7500, Copy: 26400 * units.Mbps} // 3.3 GB/s
	want = link.Transport{
		Kind: link.TCP, SendBuffer: 4 << 20, Window: 6 << 20, Congestion: link.Cubic, Second: 1e9, RTO: 2e8,
		DownTimeout: 924.6e9, Overhead: 200, Gap: 5,
		Host: link.Host{PerMessage: 7500, NsNum: 10, NsDen: 33},
	}
	if got := build(t, c).Transport(); got != want {
		t.Errorf("tcp: %+v, want %+v", got, want)
	}
}

func TestJitterTable(t *testing.T) {
	c := config(2, 1)
	if build(t, c).JitterTable() != nil {
		t.Error("a table without quantiles")
	}
	c.JitterTable = []float64{-1, 0, 3}
	table := build(t, c).JitterTable()
	for i, got := range table {
		p := (float64(i) + 0.5) / link.JitterTableSize
		want := -1 + 2*p
		if p > 0.5 {
			want = 6*p - 3
		}
		if math.Abs(float64(got)/(1<<16)-want) > 1e-4 {
			t.Fatalf("quantile %v is %v, want %v", p, float64(got)/(1<<16), want)
		}
	}
}

func TestProps(t *testing.T) {
	c := config(3, 2)
	c.Endpoint.Overhead, c.NCCL.Latency.OfLink = 250*time.Nanosecond, true
	c.Links = []configs.LinkOverride{
		{Match: "node1.nic1", LinkPatch: configs.LinkPatch{Bandwidth: ptr(units.Bandwidth(2_500_999_999))}},
		{Match: "node0.nic0>node2.nic0", LinkPatch: configs.LinkPatch{Latency: ptr(20 * time.Microsecond)}},
	}
	f := build(t, c)
	guids := map[uint64]bool{0: true}
	for n := range f.NICs() {
		p := f.Props(n)
		want := NICProps{Name: []string{"goemu0", "goemu1"}[n%2], GUID: p.GUID, Port: 1, SpeedMbps: 100_000,
			LatencyUs: 5.5}
		switch n {
		case 0:
			want.LatencyUs = 20.5
		case 3:
			want.SpeedMbps = 2500
		}
		if p != want || guids[p.GUID] {
			t.Errorf("NIC %d: %+v, want %+v with a unique GUID", n, p, want)
		}
		guids[p.GUID] = true
	}
	c = config(1, 1)
	c.Link.Bandwidth, c.Link.Latency = units.Unlimited, 0
	if p := build(t, c).Props(0); p.SpeedMbps != UnlimitedSpeed || p.LatencyUs != 0 {
		t.Errorf("unlimited: %+v", p)
	}
}

func TestTimeScale(t *testing.T) {
	c := config(2, 1)
	if k := build(t, c).TimeScale(); k != 1 {
		t.Errorf("time scale not given: %d, want 1", k)
	}
	c.TimeScale = 8
	if k := build(t, c).TimeScale(); k != 8 {
		t.Errorf("got %d, want 8", k)
	}
}

// NCCL sees what the net of the real cluster would tell it, whatever the links do.
func TestPropsOfTheNet(t *testing.T) {
	for _, tc := range []struct {
		name      string
		transport string
		shown     configs.NCCL
		want      NICProps
	}{
		{"NET/IB", configs.RDMA, configs.NCCL{}, NICProps{Port: 1, SpeedMbps: 100_000}},
		{"NET/Socket", configs.TCP, configs.NCCL{}, NICProps{Port: 0, SpeedMbps: 100_000}},
		{"aws-ofi-nccl", configs.RDMA,
			configs.NCCL{Net: configs.OFIRDMA, Latency: configs.ShownLatency{Time: 75 * time.Microsecond},
				Speed: 25 * units.Gbps},
			NICProps{Port: 1, SpeedMbps: 25_000, LatencyUs: 75}},
		{"the link's latency", configs.TCP, configs.NCCL{Latency: configs.ShownLatency{OfLink: true}},
			NICProps{Port: 0, SpeedMbps: 100_000, LatencyUs: 5}},
	} {
		c := config(2, 1)
		c.Transport, c.NCCL = configs.DefaultTransport(tc.transport), tc.shown
		got := build(t, c).Props(0)
		tc.want.Name, tc.want.GUID = got.Name, got.GUID
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// A NIC that is down is not shown to NCCL. A path that is down is no NIC that is down.
func TestListedNICs(t *testing.T) {
	for _, tc := range []struct {
		down        []string
		nodes, nics int
		want        [][]int // of each node
	}{
		{nil, 2, 2, [][]int{{0, 1}, {0, 1}}},
		{[]string{"node1.nic1"}, 2, 2, [][]int{{0, 1}, {0}}},
		{[]string{"*.nic0"}, 3, 2, [][]int{{1}, {1}, {1}}},
		{[]string{"node1.nic1>*"}, 2, 2, [][]int{{0, 1}, {0, 1}}},
		{[]string{"node0:node1"}, 2, 2, [][]int{{0, 1}, {0, 1}}},
		{[]string{"node0:node1"}, 2, 1, [][]int{{0}, {0}}},
		{[]string{"node2.nic0", "node2.nic2"}, 3, 3, [][]int{{0, 1, 2}, {0, 1, 2}, {1}}},
	} {
		c := config(tc.nodes, tc.nics)
		for _, match := range tc.down {
			c.Links = append(c.Links, configs.LinkOverride{Match: match, LinkPatch: configs.LinkPatch{Up: ptr(false)}})
		}
		f := build(t, c)
		for node, want := range tc.want {
			if d := cmp.Diff(want, f.ListedNICs(node)); d != "" {
				t.Errorf("%q down, node%d (-want +got):\n%s", tc.down, node, d)
			}
		}
	}
}
