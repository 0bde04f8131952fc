// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

var tables = link.NewJitterTables(link.NormalTable())

// virtual is a model in virtual time, without a fabric's file.
type virtual struct {
	*model
	counts []link.Hop
	out    []arrival
}

// arrival is a packet that has passed the model.
type arrival struct {
	src, dst, packets int
	arrived, due      int64
}

func newVirtual(t interface{ Fatal(...any) }, change func(c *configs.Fabric)) *virtual {
	c, err := configs.Load(configs.Source{Profile: "eth1"})
	if err != nil {
		t.Fatal(err)
	}
	c.Datapath = configs.Kernel
	change(c)
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	v := &virtual{counts: make([]link.Hop, len(f.Hops))}
	v.model = newModel(f, 7, tables, func(i int) *link.Hop { return &v.counts[i] })
	for i, h := range f.Hops {
		p, err := link.NewParams(h.Spec, f.TimeScale())
		if err != nil {
			t.Fatal(err)
		}
		v.hops[i].params.Store(&p)
	}
	return v
}

// send adds a TCP packet with size bytes of payload, a GSO packet if it is more than 1460 bytes, at time at. It first
// processes all earlier events.
func (v *virtual) send(t interface{ Fatal(...any) }, src, dst, size int, at int64) {
	v.advanceTo(at - 1)
	s := sample{data: make([]byte, size)}
	if size > 1460 {
		s.gso = 1460
	}
	b := s.bytes()
	p := v.pool.get(len(b))
	copy(p.buf, b)
	h, err := parse(p.buf)
	if err != nil {
		t.Fatal(err)
	}
	p.headers, p.src, p.dst, p.arrived, p.class = h, src, dst, at, state.OtherFlow
	v.arrive(p)
}

// advanceTo processes all events until now, in order.
func (v *virtual) advanceTo(now int64) {
	for {
		next := min(v.crossing.next(), v.leaving.next())
		if next > now {
			return
		}
		v.advance(next)
		for v.leaving.next() <= next {
			p := v.leaving.pop()
			v.out = append(v.out, arrival{p.src, p.dst, p.headers.packets, p.arrived, p.due})
			v.pool.put(p)
		}
	}
}

func (v *virtual) all() []arrival { v.advanceTo(link.Never - 1); return v.out }

func TestLatencyExact(t *testing.T) {
	for _, k := range []int{1, 16} {
		for size, ns := range map[int]int64{0: 78 * 8, 1: 79 * 8, 1460: 1538 * 8, 14600: 15380 * 8} {
			v := newVirtual(t, func(c *configs.Fabric) { c.TimeScale = k })
			v.send(t, 0, 1, size, 1000)
			want := 1000 + int64(k)*(25_000+ns)
			if out := v.all(); len(out) != 1 || out[0].due != want {
				t.Errorf("%d bytes at scale %d: %+v, want due %d", size, k, out, want)
			}
		}
	}
}

// For one flow, the times equal those of link.Flow to the nanosecond.
func TestPropertyAsLinkFlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bandwidth := rapid.SampledFrom([]units.Bandwidth{0, 100 * units.Mbps, units.Gbps, 40 * units.Gbps}).Draw(t,
			"bandwidth")
		latency := time.Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "latency"))
		jitter := configs.Jitter{
			Kind: rapid.SampledFrom([]string{configs.NoJitter, configs.UniformJitter, configs.NormalJitter,
				configs.ParetoJitter}).Draw(t, "jitter"),
			Value: time.Duration(rapid.Int64Range(1, 100_000).Draw(t, "jitter value")),
		}
		if jitter.Kind == configs.NoJitter {
			jitter.Value = 0
		}
		slow := units.Bandwidth(0)
		if bandwidth != 0 && rapid.Bool().Draw(t, "slow link") {
			slow = bandwidth / 2
		}
		v := newVirtual(t, func(c *configs.Fabric) {
			c.Link.Bandwidth, c.Link.Latency, c.Link.Jitter = bandwidth, latency, jitter
			if slow != 0 {
				c.Links = append(c.Links,
					configs.LinkOverride{Match: "node0:node1", LinkPatch: configs.LinkPatch{Bandwidth: &slow}})
			}
		})
		flow := flowOver(t, v.model, 0, 1)
		at := int64(0)
		n := rapid.IntRange(1, 40).Draw(t, "packets")
		for range n {
			at += rapid.Int64Range(0, 30_000).Draw(t, "gap")
			// At most one segment, so that a message is one segment.
			size := rapid.IntRange(0, int(v.hops[v.fabric.Link(0, 1)].params.Load().Segment)).Draw(t, "size")
			v.send(t, 0, 1, size, at)
			flow.Post(uint64(size), at)
			flow.Recv(at)
		}
		for now := int64(0); now != link.Never; {
			now = flow.Advance(now)
		}
		out := v.all()
		if len(out) != n {
			t.Fatalf("%d packets arrived of %d", len(out), n)
		}
		for i, o := range out {
			if m := flow.Message(uint64(i)); m.Due != o.due {
				t.Fatalf("packet %d is due at %d, the message at %d", i, o.due, m.Due)
			}
		}
	})
}

// flowOver returns a flow of package link over the hops of m.
func flowOver(t *rapid.T, m *model, src, dst int) *link.Flow {
	params := make([]link.Params, len(m.hops))
	for i := range params {
		params[i] = *m.hops[i].params.Load()
	}
	tr := &link.Transport{Kind: link.TCP, SendBuffer: 1 << 40, Window: 1 << 40, RTO: 1e9, DownTimeout: 1e9}
	net := link.NewNetwork(params, tr, m.tables, m.seed)
	t.Cleanup(net.Close)
	return net.NewFlow(0, m.fabric.Path(src, dst), nil)
}

// Every packet arrives or is counted as dropped. Packets of a link arrive in order, none earlier than the latency and
// the serialization time permit. No port exceeds its rate.
func TestPropertyConservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 4).Draw(t, "nodes")
		lat := time.Duration(rapid.Int64Range(0, 200_000).Draw(t, "latency"))
		v := newVirtual(t, func(c *configs.Fabric) {
			c.Nodes, c.Link.Latency = nodes, lat
			if rapid.Bool().Draw(t, "lossy") {
				c.Link.Loss = configs.Loss{P: rapid.Float64Range(0, 1).Draw(t, "p"), BadP: 0.5, GoodToBad: 0.1,
					BadToGood: 0.3}
			}
			if rapid.Bool().Draw(t, "tail drop") {
				c.Link.Queue = configs.Queue{Policy: configs.TailDrop,
					Bytes: units.Size(rapid.IntRange(12_500, 50_000).Draw(t, "queue"))}
			}
		})
		in, at := 0, int64(0)
		for range rapid.IntRange(1, 100).Draw(t, "packets") {
			at += rapid.Int64Range(0, 20_000).Draw(t, "gap")
			src := rapid.IntRange(0, nodes-1).Draw(t, "src")
			dst := (src + rapid.IntRange(1, nodes-1).Draw(t, "dst")) % nodes
			size := rapid.IntRange(0, 30_000).Draw(t, "size")
			v.send(t, src, dst, size, at)
			in += max((size+1459)/1460, 1)
		}
		out, lost := 0, uint64(0)
		last := map[[2]int]int64{}
		for _, o := range v.all() {
			out += o.packets
			if o.due < last[[2]int{o.src, o.dst}] {
				t.Fatalf("a packet of NIC %d to %d is due at %d, the one before it at %d", o.src, o.dst, o.due,
					last[[2]int{o.src, o.dst}])
			}
			last[[2]int{o.src, o.dst}] = o.due
			if least := o.arrived + int64(lat) + 8*78; o.due < least {
				t.Fatalf("due at %d, earliest possible %d", o.due, least)
			}
		}
		for i := range v.counts {
			c := &v.counts[i].Counters
			lost += c.Drops
			if c.BusyNs > v.hops[i].nextFree && v.fabric.Hops[i].Kind != link.Link {
				t.Fatalf("%s was busy for %d ns by %d", v.fabric.HopName(i), c.BusyNs, v.hops[i].nextFree)
			}
			if c.LineBytes*8 > uint64(c.BusyNs) {
				t.Fatalf("%s carried %d bytes in %d ns, at 1 Gb/s", v.fabric.HopName(i), c.LineBytes, c.BusyNs)
			}
		}
		if in != out+int(lost) {
			t.Fatalf("%d packets sent, %d arrived, %d dropped", in, out, lost)
		}
		if v.pool.inUse != 0 {
			t.Fatalf("%d bytes are still in use", v.pool.inUse)
		}
	})
}

// Packets that arrive faster than the rate leave at the rate.
func TestRate(t *testing.T) {
	v := newVirtual(t, func(*configs.Fabric) {})
	for range 1000 {
		v.send(t, 0, 1, 1460, 0)
	}
	out := v.all()
	for i, o := range out {
		if want := 25_000 + int64(i+1)*1538*8; o.due != want {
			t.Fatalf("packet %d is due at %d, want %d", i, o.due, want)
		}
	}
}

// A port serves packets of several senders in the order of arrival, and drops those that find a full queue.
func TestTailDrop(t *testing.T) {
	v := newVirtual(t, func(c *configs.Fabric) {
		c.Nodes, c.Link.Queue = 3, configs.Queue{Policy: configs.TailDrop, Bytes: 15380}
	})
	for i := range 100 {
		v.send(t, 0, 2, 1460, int64(i)*1538*8)
		v.send(t, 1, 2, 1460, int64(i)*1538*8)
	}
	out := len(v.all())
	// 100 packets leave while 200 arrive. 10 are in the queue, and one is being sent.
	if out < 110 || out > 112 {
		t.Errorf("%d of 200 packets arrived, want 111", out)
	}
	if drops := v.counts[2*2+1].Counters.Drops; int(drops) != 200-out {
		t.Errorf("%d drops counted, %d packets are missing", drops, 200-out)
	}
}

func TestDown(t *testing.T) {
	v := newVirtual(t, func(*configs.Fabric) {})
	l := v.fabric.Link(0, 1)
	up := v.hops[l].params.Load()
	down := *up
	down.Down = true
	v.send(t, 0, 1, 100, 0)
	v.hops[l].params.Store(&down)
	v.send(t, 0, 1, 100, 1000)
	v.hops[l].params.Store(up)
	v.send(t, 0, 1, 100, 1_000_000)
	if out := v.all(); len(out) != 2 || v.counts[l].Counters.Drops != 1 {
		t.Errorf("%d packets arrived, %d were dropped; want the one in flight and the one sent later", len(out),
			v.counts[l].Counters.Drops)
	}
}

func TestBroadcast(t *testing.T) {
	v := newVirtual(t, func(c *configs.Fabric) { c.Nodes, c.NICsPerNode = 3, 2 })
	v.send(t, 2, broadcast, 100, 0)
	got := map[int]bool{}
	for _, o := range v.all() {
		got[o.dst] = true
	}
	if len(got) != 4 || got[2] || got[3] {
		t.Errorf("NIC 2 of node 1 reached %v, want those of nodes 0 and 2", got)
	}
	if v.pool.inUse != 0 {
		t.Errorf("%d bytes are still in use", v.pool.inUse)
	}
	if c := &v.counts[2*2]; c.Counters.Segments != 1 {
		t.Errorf("the send port sent %d packets, want 1", c.Counters.Segments)
	}
}

// One of 100 packets is lost, also of the packets of GSO packets.
func TestLossPerPacket(t *testing.T) {
	v := newVirtual(t, func(c *configs.Fabric) { c.Link.Loss = configs.Loss{P: 0.01} })
	const large, each = 20_000, 8
	for i := range large {
		v.send(t, 0, 1, each*1460, int64(i)*100_000)
	}
	out, complete := 0, 0.0
	for _, o := range v.all() {
		out += o.packets
		if o.packets == each {
			complete++
		}
	}
	if p := math.Pow(0.99, each); math.Abs(complete-large*p) > 4*math.Sqrt(large*p*(1-p)) {
		t.Errorf("%.0f of %d GSO packets arrived complete, want %.1f %%", complete, large, 100*p)
	}
	lost, n := float64(large*each-out), float64(large*each)
	if sigma := math.Sqrt(n * 0.01 * 0.99); math.Abs(lost-n*0.01) > 4*sigma {
		t.Errorf("%.0f of %.0f packets are lost, want 1 %%", lost, n)
	}
}

// A send port's queue is limited to 1 s of its rate.
func TestPortQueueLimit(t *testing.T) {
	v := newVirtual(t, func(c *configs.Fabric) { c.Link.Bandwidth = units.Mbps })
	for range 1000 {
		v.send(t, 0, 1, 1460, 0)
	}
	if out := len(v.all()); out < 80 || out > 84 { // 1 s of the rate, and the packet that is being sent
		t.Errorf("%d of 1000 packets arrived, want those of 1 s at 1 Mb/s", out)
	}
}

// Packets that are dropped for lack of memory are counted separately from the model's losses.
func TestDropForMemory(t *testing.T) {
	v := newVirtual(t, func(c *configs.Fabric) { c.Nodes, c.Link.Loss = 4, configs.Loss{P: 0.5} })
	b := sample{gso: 1000, data: make([]byte, 50_000)}.bytes()
	for _, dst := range []int{1, broadcast} {
		p := v.pool.get(len(b))
		copy(p.buf, b)
		p.headers, _ = parse(p.buf)
		p.src, p.dst = 0, dst
		v.pool.inUse += maxInUse
		before := v.noMemory.Load()
		v.arrive(p)
		v.pool.inUse -= maxInUse
		if v.noMemory.Load() == before {
			t.Errorf("to %d: the drops were not counted", dst)
		}
	}
	dropped, out := uint64(0), 0
	for _, o := range v.all() {
		out += o.packets
	}
	for i := range v.counts {
		dropped += v.counts[i].Counters.Drops
	}
	if dropped+uint64(out) != 50+3*50 || v.pool.inUse != 0 {
		t.Errorf("%d packets arrived, %d dropped, %d bytes in use; want 200 packets together, and 0 bytes", out,
			dropped, v.pool.inUse)
	}
}

// All work for one packet except the system calls.
func BenchmarkPacket(b *testing.B) {
	v := newVirtual(b, func(c *configs.Fabric) { c.Link.Bandwidth = 10 * units.Gbps })
	large := sample{gso: 1460, data: make([]byte, 8*1460)}.bytes()
	table := &flows{}
	now := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		p := v.pool.get(len(large))
		if cap(p.buf) != largeBuffer {
			b.Fatal("not a large buffer")
		}
		copy(p.buf, large[:vnetLen+etherLen+40]) // the kernel writes the data
		var err error
		if p.headers, err = parse(p.buf); err != nil {
			b.Fatal(err)
		}
		p.src, p.dst, p.arrived = 0, 1, now
		p.class = table.classOf(p)
		v.arrive(p)
		now += 12_000
		v.advance(now)
		for v.leaving.next() <= now {
			v.pool.put(v.leaving.pop())
		}
	}
}

// A share of the packets arrives early, also of the packets of GSO packets.
func TestReorder(t *testing.T) {
	const n, share = 4000, 0.05
	for _, size := range []int{1460, 14600} {
		v := newVirtual(t, func(c *configs.Fabric) {
			c.Shaper = configs.WireShaper
			c.Link.Latency, c.Link.Reorder = time.Millisecond,
				configs.Reorder{Share: share, Early: 500 * time.Microsecond}
		})
		packets := size / 1460
		for i := range n / packets {
			v.send(t, 0, 1, size, int64(i*packets)*13_000)
		}
		overtook, total := 0, 0
		for _, o := range v.all() { // in the order in which they come out
			total += o.packets
			if o.due-o.arrived < int64(time.Millisecond) {
				overtook += o.packets
			}
		}
		if want := share * n; total != n || math.Abs(float64(overtook)-want) > 4*math.Sqrt(want) {
			t.Errorf("packets of %d bytes: %d of %d are early, want %.0f", size, overtook, total, want)
		}
	}
}
