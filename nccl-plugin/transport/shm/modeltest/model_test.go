// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

func TestLayoutIsTheSameInGoAndC(t *testing.T) {
	got := map[string]uintptr{}
	for _, o := range Layout() {
		got[o.Name] = o.At
	}
	if d := cmp.Diff(state.Offsets(), got); d != "" {
		t.Errorf("offsets in Go (-) and C (+) differ:\n%s", d)
	}
}

// star builds the same fabric twice: in a file for C, and as hops for Go. Between the
// link and the receiving port of each pair are those of the trunks, which all share.
func star(t *rapid.T, nodes int, port, wire link.Spec, trunks []link.Spec, k int, tr link.Transport) (*state.File, []*link.Hop, map[[2]int][]int) {
	spec := state.Spec{
		Name: "m", Nodes: nodes, GPUsPerNode: 1, NICsPerNode: 1, TimeScale: k, Seed: 7, Transport: tr, Table: link.NormalTable(),
	}
	add := func(kind uint32, src, dst int, s link.Spec) int {
		spec.Hops = append(spec.Hops, state.HopSpec{Kind: kind, Src: uint32(src), Dst: uint32(dst), Spec: s})
		return len(spec.Hops) - 1
	}
	paths := map[[2]int][]int{}
	for i := range nodes {
		add(state.TxPort, i, i, port)
		add(state.RxPort, i, i, port)
	}
	var shared []int
	for i, s := range trunks {
		shared = append(shared, add(state.Trunk, i, i+1, s))
	}
	for a := range nodes {
		for b := range nodes {
			if a == b {
				continue
			}
			p := slices.Concat([]int{2 * a, add(state.Link, a, b, wire)}, shared, []int{2*b + 1})
			paths[[2]int{a, b}] = p
			way := state.PathSpec{Src: a, Dst: b}
			for i, hop := range p {
				way.Hops = append(way.Hops, state.PathStep{Hop: hop, Private: i == 1})
			}
			spec.Paths = append(spec.Paths, way)
		}
	}
	path, err := os.MkdirTemp("", "ddlemu-model")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(path)
	d, err := state.OpenDir(path, os.Getuid(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f, err := d.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	hops := make([]*link.Hop, len(spec.Hops))
	for i, h := range spec.Hops {
		p, err := link.NewParams(h.Spec, k)
		if err != nil {
			t.Fatal(err)
		}
		hops[i] = &link.Hop{ID: uint32(i), Params: &p}
	}
	return f, hops, paths
}

// flowInGo is the flow from a to b over the hops of star.
func flowInGo(id uint64, a, b int, hops []*link.Hop, paths map[[2]int][]int, tr *link.Transport, tables *[3]*link.JitterTable) *link.Flow {
	p, q := paths[[2]int{a, b}], paths[[2]int{b, a}]
	var way []link.PathHop
	var back []*link.Hop
	for i := range p {
		way, back = append(way, link.PathHop{Hop: hops[p[i]], Private: i == 1}), append(back, hops[q[i]])
	}
	return link.NewFlow(id, 7, way, back, tr, tables)
}

// Messages that take no room in the buffers fill the bookkeeping within a round trip.
// The model in C forgets them by the same times as the one in Go.
func TestManySmallMessagesWithinARoundTrip(t *testing.T) {
	wire := link.Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38, Latency: 200 * time.Millisecond}
	tr := link.Transport{Kind: link.TCP, SendBuffer: 1 << 20, Window: 1 << 20, RTO: 200e6, DownTimeout: 1e9}
	rapid.Check(t, func(t *rapid.T) {
		f, hops, paths := star(t, 2, wire, wire, nil, 1, tr)
		defer f.Close()
		c := New(f, 1, 0, 1)
		defer c.Free()
		g := flowInGo(1, 0, 1, hops, paths, &tr, nil)
		apart := rapid.Int64Range(0, 1e6).Draw(t, "apart")
		for i := range int64(link.MaxMessages) {
			c.Recv(i * apart)
			g.Recv(i * apart)
			c.Post(8, i*apart)
			g.Post(8, i*apart)
		}
		for now := int64(0); now != link.Never; {
			next := g.Advance(now)
			if got := c.Advance(now); got != next {
				t.Fatalf("at %d: next step at %d in C, %d in Go", now, got, next)
			}
			now = next
		}
		for range uint64(link.MaxMessages) {
			g.Take()
		}
		room := uint64(0)
		for i := uint64(0); ; i++ {
			if _, ok := g.Post(8, link.MaxMessages*apart+1e12); !ok {
				room = i
				break
			}
		}
		if room == 0 || c.Forgotten() != room {
			t.Errorf("%d messages forgotten in C, %d in Go", c.Forgotten(), room)
		}
	})
}

// Long flows with a congestion window, which meet at one port and lose packets on the way
// and to its queue, go through slow start, recovery and time-outs by the same times in C
// and in Go.
func TestPropertyCongestionInCIsThatInGo(t *testing.T) {
	tables := &[3]*link.JitterTable{link.NormalTable(), link.ParetoTable(), link.NormalTable()}
	seen := map[string]uint64{}
	rapid.Check(t, func(t *rapid.T) {
		port := link.Spec{
			Bandwidth: rapid.SampledFrom([]uint64{1e9, 40e9}).Draw(t, "bw"), MTU: rapid.SampledFrom([]uint32{1500, 9000}).Draw(t, "mtu"), Header: 40, Framing: 38,
			QueueBytes: rapid.SampledFrom([]uint64{65536, 1 << 20}).Draw(t, "queue"), QueuePolicy: link.TailDrop,
			ECN: rapid.SampledFrom([]uint64{0, 40_000}).Draw(t, "ecn"),
		}
		wire := port
		wire.Latency = time.Duration(rapid.Int64Range(10e3, 20e6).Draw(t, "lat"))
		wire.Jitter = link.Jitter{Kind: link.Uniform, Value: wire.Latency / 10}
		wire.Loss.P = rapid.SampledFrom([]float64{0, 1e-3, 0.05}).Draw(t, "p")
		tr := link.Transport{
			Kind: link.TCP, Congestion: link.Congestion(rapid.Uint32Range(1, 2).Draw(t, "congestion")), Second: 1e9,
			SendBuffer: 8 << 20, Window: 8 << 20, RTO: rapid.Int64Range(1e6, 200e6).Draw(t, "rto"), DownTimeout: 3e6,
		}
		k := rapid.SampledFrom([]int{1, 7}).Draw(t, "k")
		f, hops, paths := star(t, 3, port, wire, nil, k, tr)
		defer f.Close()
		scaled := f.Fixed().Transport
		var inC []*Flow
		var inGo []*link.Flow
		for i := range 3 {
			src, dst := []int{0, 1, 1}[i], 2
			c := New(f, uint64(i+1), src, dst)
			defer c.Free()
			g := flowInGo(uint64(i+1), src, dst, hops, paths, &scaled, tables)
			for range 20 {
				size := rapid.SampledFrom([]uint64{8, 100_000, 4 << 20}).Draw(t, "size")
				c.Recv(0)
				g.Recv(0)
				c.Post(size, 0)
				g.Post(size, 0)
			}
			inC, inGo = append(inC, c), append(inGo, g)
		}
		next := make([]int64, 3)
		for range 3000 {
			i := slices.Index(next, slices.Min(next))
			if next[i] == link.Never {
				break
			}
			c, g := inC[i].Advance(next[i]), inGo[i].Advance(next[i])
			if c != g {
				t.Fatalf("flow %d at %d: next step at %d in C, %d in Go", i, next[i], c, g)
			}
			next[i] = g
		}
		for i, h := range f.Hops() {
			if d := cmp.Diff(hops[i].Counters, h.Counters); d != "" {
				t.Fatalf("hop %d: counters in Go (-) and C (+):\n%s", i, d)
			}
			seen["drops"] += h.Counters.Drops
			seen["marks"] += h.Counters.Marks
		}
	})
	for _, what := range []string{"drops", "marks"} {
		if seen[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
}

// The model in C gives the same times as the one in Go, step by step, for random
// fabrics, messages, losses, jitter and polls.
func TestPropertyModelInCIsTheModelInGo(t *testing.T) {
	tables := &[3]*link.JitterTable{link.NormalTable(), link.ParetoTable(), link.NormalTable()}
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom([]int{1, 3, 64, 1024}).Draw(t, "k")
		port := link.Spec{
			Bandwidth: rapid.SampledFrom([]uint64{0, 1e6, 1e9, 123456789, 400e9, 10e12}).Draw(t, "bw"),
			MTU:       rapid.SampledFrom([]uint32{256, 1500, 4096, 65536}).Draw(t, "mtu"), Header: 40, Framing: 38,
			QueueBytes: rapid.SampledFrom([]uint64{0, 20_000, 1 << 20}).Draw(t, "queue"), QueuePolicy: link.Policy(rapid.Uint32Range(0, uint32(link.Fair)).Draw(t, "policy")),
		}
		wire := port
		wire.Latency = time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "lat"))
		wire.Jitter = link.Jitter{Kind: link.JitterKind(rapid.Uint32Range(0, 4).Draw(t, "jitter")), Value: time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "jv"))}
		wire.Down = rapid.IntRange(0, 9).Draw(t, "down") == 0
		if rapid.Bool().Draw(t, "slow link") && port.Bandwidth > 2e6 {
			wire.Bandwidth /= 2
		}
		if rapid.Bool().Draw(t, "lossy") {
			wire.Loss = link.Loss{P: rapid.Float64Range(0, 0.1).Draw(t, "p")}
			if rapid.Bool().Draw(t, "bursts") {
				wire.Loss.GoodToBad, wire.Loss.BadToGood, wire.Loss.BadP = 0.01, 0.3, 0.5
			}
		}
		tr := link.Transport{
			Kind: link.TransportKind(rapid.Uint32Range(0, 1).Draw(t, "rdma")), SelectiveRepeat: rapid.Bool().Draw(t, "sr"),
			SendBuffer: rapid.Uint64Range(1, 1<<20).Draw(t, "sndbuf"), Window: rapid.Uint64Range(1, 1<<20).Draw(t, "window"),
			RTO: 67e6, DownTimeout: 3e6, Overhead: rapid.Int64Range(0, 2000).Draw(t, "o"), Gap: rapid.Int64Range(0, 2000).Draw(t, "g"),
		}
		if rapid.Bool().Draw(t, "host") {
			h, err := link.NewHost(time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "per message")), rapid.SampledFrom([]uint64{0, 1e6, 123_456_789, 26.4e9, 10e12}).Draw(t, "copy"))
			if err != nil {
				t.Fatal(err)
			}
			tr.Host = h
		}
		if rapid.Bool().Draw(t, "congestion control") {
			tr.Congestion, tr.Second = link.Congestion(rapid.Uint32Range(1, 2).Draw(t, "congestion")), 1e9
		}
		port.ECN = rapid.SampledFrom([]uint64{0, 1, 10_000}).Draw(t, "ecn")
		wire.ECN = port.ECN
		trunks := make([]link.Spec, rapid.IntRange(0, link.MaxHops-3).Draw(t, "trunks"))
		for i := range trunks {
			trunks[i] = wire
			trunks[i].Latency = time.Duration(rapid.Int64Range(0, 1e5).Draw(t, "trunk lat"))
			if rapid.Bool().Draw(t, "fast trunk") && port.Bandwidth < 5e12 {
				trunks[i].Bandwidth *= 2
			}
		}
		f, hops, paths := star(t, 3, port, wire, trunks, k, tr)
		defer f.Close()
		scaled := f.Fixed().Transport
		var inC []*Flow
		var inGo []*link.Flow
		for i := range rapid.IntRange(1, 4).Draw(t, "flows") {
			a := rapid.IntRange(0, 2).Draw(t, "a")
			b := (a + rapid.IntRange(1, 2).Draw(t, "b")) % 3
			c := New(f, uint64(i+1), a, b)
			defer c.Free()
			inC = append(inC, c)
			inGo = append(inGo, flowInGo(uint64(i+1), a, b, hops, paths, &scaled, tables))
		}
		now := int64(0)
		posted := make([]uint64, len(inC))
		for range rapid.IntRange(10, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, len(inC)-1).Draw(t, "flow")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				size := rapid.SampledFrom([]uint64{0, 1, 8, 1460, 65536, 100_000, 1 << 20}).Draw(t, "size")
				inC[i].Post(size, now)
				inGo[i].Post(size, now)
				posted[i]++
			case 1:
				inC[i].Recv(now)
				inGo[i].Recv(now)
			default:
				now += rapid.Int64Range(0, 1<<rapid.IntRange(1, 24).Draw(t, "bits")).Draw(t, "dt")
			}
			if c, g := inC[i].Advance(now), inGo[i].Advance(now); c != g {
				t.Fatalf("flow %d at %d: next step at %d in C, %d in Go", i, now, c, g)
			}
		}
		for i := range inC {
			if c, g := inC[i].Arrived(), inGo[i].Arrived(); c != g || inC[i].Stalls() != inGo[i].Stalls {
				t.Fatalf("flow %d: %d bytes arrived in C, %d in Go; %d and %d stalls", i, c, g, inC[i].Stalls(), inGo[i].Stalls)
			}
			for j := range posted[i] {
				c, g := inC[i].Message(j), inGo[i].Message(j)
				if c.Due != g.Due || c.Sent != g.Sent || c.Distortion != g.Distortion {
					t.Fatalf("flow %d message %d: due %d sent %d distortion %d in C, %d %d %d in Go", i, j, c.Due, c.Sent, c.Distortion, g.Due, g.Sent, g.Distortion)
				}
			}
		}
		for i, h := range f.Hops() {
			if d := cmp.Diff(hops[i].Counters, h.Counters); d != "" {
				t.Fatalf("hop %d: counters in Go (-) and C (+):\n%s", i, d)
			}
		}
	})
}

// Bursts of more losses than one packet has numbers for draws are the same in C and in Go.
func TestLongBursts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		port := link.Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}
		wire := port
		wire.Loss = link.Loss{GoodToBad: 0.01, BadToGood: rapid.SampledFrom([]float64{1e-3, 3e-4}).Draw(t, "r"), BadP: 1}
		tr := link.Transport{Kind: link.RDMA, RTO: 67e6, DownTimeout: 3e6}
		f, hops, paths := star(t, 2, port, wire, nil, 1, tr)
		defer f.Close()
		id := rapid.Uint64Range(1, 1000).Draw(t, "flow")
		c, g := New(f, id, 0, 1), flowInGo(id, 0, 1, hops, paths, &tr, nil)
		defer c.Free()
		c.Recv(0)
		g.Recv(0)
		c.Post(1<<18, 0)
		g.Post(1<<18, 0)
		for now := int64(0); now != link.Never; {
			next := g.Advance(now)
			if got := c.Advance(now); got != next {
				t.Fatalf("at %d: next step at %d in C, %d in Go", now, got, next)
			}
			now = next
		}
	})
}
