// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fabric is a star of full-duplex NICs around an ideal switch: the paths that ddlemu's
// default topology has.
type fabric struct {
	net    *Network
	tx, rx []hop
	links  map[[2]int]hop
	flows  uint64
}

// hop is a hop of the network with its number and its parameters.
type hop struct {
	*Hop
	number int
	Params Params // of the start
	net    *Network
}

// change changes what is in force on the hop at time now.
func (h hop) change(now int64, change func(*Params)) {
	p := h.net.Params(h.number)
	change(&p)
	h.net.Change(h.number, p, now)
}

// setDown lets the hop go down, or come up, at time now.
func (h hop) setDown(now int64, down bool) { h.change(now, func(p *Params) { p.Down = down }) }

var tables = NewJitterTables(NormalTable())

// tester is what testing and rapid have in common.
type tester interface {
	Fatal(...any)
	Fatalf(string, ...any)
	Cleanup(func())
}

func newFabric(t tester, nodes int, port, wire Spec, k int, tr *Transport) *fabric {
	return newFabricWith(t, nodes, port, wire, k, tr, tables)
}

func newFabricWith(t tester, nodes int, port, wire Spec, k int, tr *Transport, tables *JitterTables) *fabric {
	prepare := func(s Spec) Params {
		p, err := NewParams(s, k)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	params := make([]Params, nodes*(nodes+1))
	for i := range params {
		params[i] = prepare(wire)
		if i < 2*nodes {
			params[i] = prepare(port)
		}
	}
	f := &fabric{net: NewNetwork(params, tr, tables, 7), links: map[[2]int]hop{}}
	t.Cleanup(f.net.Close)
	n := 0
	next := func() hop {
		h := hop{&f.net.Hops[n], n, f.net.Params(n), f.net}
		n++
		h.ID = uint32(n)
		return h
	}
	for range nodes {
		f.tx, f.rx = append(f.tx, next()), append(f.rx, next())
	}
	for a := range nodes {
		for b := range nodes {
			if a != b {
				f.links[[2]int{a, b}] = next()
			}
		}
	}
	return f
}

func (f *fabric) flow(a, b int) *Flow {
	f.flows++
	path := []PathHop{{Hop: f.tx[a].number}, {Hop: f.links[[2]int{a, b}].number, Private: true}, {Hop: f.rx[b].number}}
	back := []int{f.tx[b].number, f.links[[2]int{b, a}].number, f.rx[a].number}
	return f.net.NewFlow(f.flows, path, back)
}

func gigabit(latency time.Duration) (port, wire Spec) {
	port = Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}
	wire = port
	wire.Latency = latency
	return port, wire
}

func tcp() *Transport {
	return &Transport{Kind: TCP, SendBuffer: 4 << 20, Window: 6 << 20, RTO: 200e6, DownTimeout: 10e9}
}

func rdma() *Transport { return &Transport{Kind: RDMA, RTO: 67e6, DownTimeout: 500e6} }

// run advances the flows, always at the next time at which one of them can do
// something, until none can.
func run(now int64, flows ...*Flow) int64 {
	for {
		next := int64(Never)
		for _, f := range flows {
			next = min(next, f.Advance(now))
		}
		if next == Never {
			return now
		}
		if next <= now {
			panic(fmt.Sprintf("Advance(%d) asks for a call at %d", now, next))
		}
		now = next
	}
}

func TestIdleLatencyExact(t *testing.T) {
	const lat = 25_000
	port, wire := gigabit(lat)
	for _, tr := range []*Transport{tcp(), rdma()} {
		for _, k := range []int{1, 64} {
			for _, size := range []uint64{0, 1, 8, 1460, 1461} {
				f := newFabric(t, 2, port, wire, k, tr)
				fl := f.flow(0, 1)
				fl.Post(size, 1000)
				fl.Recv(500)
				run(0, fl)
				start, l := int64(1000), int64(lat*k)
				if tr.Kind == RDMA {
					start = 500 + l // the clear-to-send arrives after the post
				}
				due := start + f.tx[0].Params.Serialization(uint32(size)) + l
				sent := start
				if tr.Kind == RDMA {
					sent = due + l
				}
				if m := fl.Message(0); m.Due != due || m.Sent != sent {
					t.Errorf("transport %d k %d size %d: due %d sent %d, want %d and %d", tr.Kind, k, size, m.Due,
						m.Sent, due, sent)
				}
			}
		}
	}
}

func TestBulkTakesPayloadRate(t *testing.T) {
	port, wire := gigabit(0)
	f := newFabric(t, 2, port, wire, 1, tcp())
	fl := f.flow(0, 1)
	const size = 64 << 20
	fl.Post(size, 0)
	fl.Recv(0)
	run(0, fl)
	want := float64(size) * 8 * 1538 / 1460 // ns at 1 bit per ns
	if got := float64(fl.Message(0).Due); got < want || got > want*1.001 {
		t.Errorf("64 MiB took %.0f ns, want %.0f to 0.1 %% more", got, want)
	}
}

func TestTCPWindowBoundsThroughput(t *testing.T) {
	port, wire := gigabit(10 * time.Millisecond)
	for _, tc := range []struct{ sendBuffer, window uint64 }{{256 << 10, 1 << 30}, {1 << 30, 256 << 10}} {
		tr := tcp()
		tr.SendBuffer, tr.Window = tc.sendBuffer, tc.window
		f := newFabric(t, 2, port, wire, 1, tr)
		fl := f.flow(0, 1)
		fl.Post(16<<20, 0)
		fl.Recv(0)
		run(0, fl)
		// One buffer per round trip, plus the serialization time of the segment that opens it.
		want := float64(16<<20) / float64(256<<10) * 20e6
		if got := float64(fl.Message(0).Due); got < want*0.95 || got > want*1.1 {
			t.Errorf("%+v: 16 MiB took %.1f ms, want about %.1f", tc, got/1e6, want/1e6)
		}
	}
}

func TestTCPCompletesWhenBufferTakesIt(t *testing.T) {
	port, wire := gigabit(time.Millisecond)
	tr := tcp()
	tr.SendBuffer = 1 << 20
	f := newFabric(t, 2, port, wire, 1, tr)
	fl := f.flow(0, 1)
	for i := range int64(3) {
		fl.Post(1<<20, i)
		fl.Recv(0)
	}
	run(0, fl)
	if m := fl.Message(0); m.Sent != 0 {
		t.Errorf("first MiB: sent at %d, want 0", m.Sent)
	}
	for i := uint64(1); i < 3; i++ {
		// The send buffer accepts byte k of the next message when byte k of the previous one is acknowledged.
		if m, p := fl.Message(i), fl.Message(i-1); m.Sent != p.Due+1e6 {
			t.Errorf("message %d: sent at %d, want %d", i, m.Sent, p.Due+1e6)
		}
	}
}

func TestRDMAWaitsForReceiver(t *testing.T) {
	port, wire := gigabit(time.Millisecond)
	f := newFabric(t, 2, port, wire, 1, rdma())
	fl := f.flow(0, 1)
	fl.Post(8, 0)
	if next := fl.Advance(1e9); next != Never {
		t.Fatalf("a send without irecv has a next step at %d", next)
	}
	fl.Recv(2e9)
	run(2e9, fl)
	if got, want := fl.Message(0).Due, int64(2e9+1e6+1e6)+f.tx[0].Params.Serialization(8); got != want {
		t.Errorf("due %d, want %d", got, want)
	}
}

func TestGapBoundsMessageRate(t *testing.T) {
	port, wire := gigabit(0)
	tr := tcp()
	tr.Gap = 5000
	f := newFabric(t, 2, port, wire, 1, tr)
	fl := f.flow(0, 1)
	for range 100 {
		fl.Post(8, 0)
		fl.Recv(0)
	}
	run(0, fl)
	if got := fl.Message(99).Due - fl.Message(0).Due; got != 99*5000 {
		t.Errorf("100 messages took %d ns between the first and the last, want %d", got, 99*5000)
	}
}

func TestEqualFlowsShareEqually(t *testing.T) {
	port, wire := gigabit(25 * time.Microsecond)
	for _, tc := range []struct {
		name string
		ends func(i int) (int, int)
	}{
		{"one sender's port", func(i int) (int, int) { return 0, 1 + i%4 }},
		{"incast", func(i int) (int, int) { return 1 + i%4, 0 }},
		{"one link", func(i int) (int, int) { return 0, 1 }},
	} {
		for _, n := range []int{2, 3, 4, 8} {
			f := newFabric(t, 5, port, wire, 1, rdma())
			flows := make([]*Flow, n)
			for i := range flows {
				flows[i] = f.flow(tc.ends(i))
				for range 64 {
					flows[i].Post(1<<20, 0)
					flows[i].Recv(0)
				}
			}
			end := int64(500e6 * 8 / 8) // half a second: every flow still has work
			for now := int64(0); now < end; now += 2000 {
				for _, fl := range flows {
					fl.Advance(now)
				}
			}
			total := uint64(0)
			for _, fl := range flows {
				total += fl.Arrived()
			}
			for i, fl := range flows {
				share := float64(fl.Arrived()) / float64(total) * float64(n)
				if share < 0.98 || share > 1.02 {
					t.Errorf("%s, %d flows: flow %d got %.3f of its share", tc.name, n, i, share)
				}
			}
			if got, want := float64(total), 0.5e9/8*1460/1538; got < want*0.98 || got > want {
				t.Errorf("%s, %d flows: %.0f bytes in 0.5 s, want %.0f", tc.name, n, got, want)
			}
		}
	}
}

// script is a random job: messages on flows, with the times of their posts and irecvs.
type script struct {
	nodes int
	tr    *Transport
	k     int
	port  Spec
	wire  Spec
	ends  [][2]int
	posts [][]post
}

type post struct {
	size        uint64
	send, recv_ int64
}

func drawScript(t *rapid.T, maxFlows int, lossy bool) script {
	s := script{nodes: rapid.IntRange(2, 4).Draw(t, "nodes"), k: rapid.SampledFrom([]int{1, 3, 64}).Draw(t, "k")}
	s.port = Spec{
		Bandwidth: rapid.SampledFrom([]uint64{1e8, 1e9, 25e9, 400e9}).Draw(t, "bw"),
		MTU:       rapid.SampledFrom([]uint32{1500, 4096, 9000}).Draw(t, "mtu"), Header: 40, Framing: 38,
	}
	s.wire = s.port
	s.wire.Latency = time.Duration(rapid.Int64Range(0, 100_000).Draw(t, "lat"))
	s.wire.Jitter = Jitter{Kind: JitterKind(rapid.Uint32Range(0, 3).Draw(t, "jitter")),
		Value: time.Duration(rapid.Int64Range(0, 20_000).Draw(t, "jv"))}
	if rapid.Bool().Draw(t, "slow link") {
		s.wire.Bandwidth = s.port.Bandwidth / rapid.SampledFrom([]uint64{2, 100}).Draw(t, "times")
	}
	s.tr = tcp()
	if rapid.Bool().Draw(t, "rdma") {
		s.tr = rdma()
		s.tr.SelectiveRepeat = rapid.Bool().Draw(t, "sr")
	} else {
		s.tr.SendBuffer = rapid.Uint64Range(4096, 16<<20).Draw(t, "sndbuf")
		s.tr.Window = rapid.Uint64Range(4096, 16<<20).Draw(t, "window")
		s.tr.Congestion, s.tr.Second = Congestion(rapid.Uint32Range(0, 2).Draw(t, "congestion")), int64(s.k)*1e9
	}
	if s.tr.Kind == TCP && s.tr.Congestion != NoCongestion {
		s.wire.QueueBytes, s.wire.QueuePolicy = rapid.SampledFrom([]uint64{0, 1 << 16, 1 << 18}).Draw(t, "queue"),
			TailDrop
		s.wire.ECN = rapid.SampledFrom([]uint64{0, 1 << 15}).Draw(t, "ecn")
	}
	if lossy {
		s.wire.Loss = Loss{P: rapid.Float64Range(0, 0.05).Draw(t, "p")}
		if rapid.Bool().Draw(t, "bursts") {
			s.wire.Loss.GoodToBad, s.wire.Loss.BadToGood, s.wire.Loss.BadP = 0.01, 0.3, 0.5
		}
	}
	sizes := []uint64{0, 1, 8, 127, 1460, 4096, 65536, 100_000, 300_000}
	if s.tr.Kind == TCP && s.tr.Congestion != NoCongestion {
		sizes = append(sizes, 2_000_000) // for a window to open and close
	}
	for range rapid.IntRange(1, maxFlows).Draw(t, "flows") {
		a := rapid.IntRange(0, s.nodes-1).Draw(t, "a")
		b := (a + rapid.IntRange(1, s.nodes-1).Draw(t, "b")) % s.nodes
		s.ends = append(s.ends, [2]int{a, b})
		var ps []post
		send, recv := int64(0), int64(0)
		for range rapid.IntRange(1, 12).Draw(t, "messages") {
			send += rapid.Int64Range(0, 200_000).Draw(t, "dt")
			recv += rapid.Int64Range(0, 200_000).Draw(t, "dr")
			size := rapid.SampledFrom(sizes).Draw(t, "size")
			ps = append(ps, post{size, send, recv})
		}
		s.posts = append(s.posts, ps)
	}
	return s
}

// play runs the script with the given poll times. Between its own events a flow
// is polled whenever poll says: poll(flow, from, next) returns the time of the
// next look at a flow that could step at next, at or after from.
func (s *script) play(t tester, poll func(flow int, now, next int64) int64) (*fabric, []*Flow) {
	f := newFabric(t, s.nodes, s.port, s.wire, s.k, s.tr)
	n := len(s.ends)
	flows := make([]*Flow, n)
	sent, recvd, look := make([]int, n), make([]int, n), make([]int64, n)
	for i, e := range s.ends {
		flows[i] = f.flow(e[0], e[1])
	}
	for {
		best, who := int64(Never), -1
		for i := range flows {
			at := look[i]
			if sent[i] < len(s.posts[i]) {
				at = min(at, s.posts[i][sent[i]].send)
			}
			if recvd[i] < len(s.posts[i]) {
				at = min(at, s.posts[i][recvd[i]].recv_)
			}
			if at < best {
				best, who = at, i
			}
		}
		if who < 0 {
			return f, flows
		}
		fl := flows[who]
		for sent[who] < len(s.posts[who]) && s.posts[who][sent[who]].send <= best {
			p := s.posts[who][sent[who]]
			fl.Post(p.size, p.send)
			sent[who]++
		}
		for recvd[who] < len(s.posts[who]) && s.posts[who][recvd[who]].recv_ <= best {
			fl.Recv(s.posts[who][recvd[who]].recv_)
			recvd[who]++
		}
		look[who] = Never
		if next := fl.Advance(best); next != Never {
			look[who] = max(best+1, poll(who, best, next))
		}
	}
}

func onTime(_ int, _, next int64) int64 { return next }

func TestPropertyConservationAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScript(t, 6, true)
		s.arrivesInOrder(t)
	})
}

// A packet that is lost several times arrives seconds later. Meanwhile the segments behind it fill the table, so the
// next one leaves a serialization time after it has arrived.
func TestTableFullOfSegmentsBehindALoss(t *testing.T) {
	for _, tc := range []struct {
		latency            time.Duration
		ecn                uint64
		sendBuffer, window uint64
		sizes              []uint64
	}{
		{0, 1 << 15, 12_648_478, 7_948_961,
			[]uint64{300_000, 2_000_000, 127, 1460, 300_000, 100_000, 300_000, 8, 300_000, 4096, 100_000, 300_000}},
		{26_729, 0, 15_806_981, 6_555_206,
			[]uint64{300_000, 65536, 300_000, 4096, 300_000, 4096, 65536, 300_000, 8, 2_000_000, 8, 300_000}},
	} {
		s := script{nodes: 2, tr: tcp(), k: 3, port: Spec{Bandwidth: 1e8, MTU: 1500, Header: 40, Framing: 38},
			ends: [][2]int{{0, 1}}, posts: make([][]post, 1)}
		s.wire = s.port
		s.wire.Latency, s.wire.Loss, s.wire.QueuePolicy, s.wire.ECN = tc.latency, Loss{P: 0.05}, TailDrop, tc.ecn
		s.tr.SendBuffer, s.tr.Window = tc.sendBuffer, tc.window
		s.tr.Congestion, s.tr.Second = Cubic, int64(s.k)*1e9
		for _, size := range tc.sizes {
			s.posts[0] = append(s.posts[0], post{size: size})
		}
		s.arrivesInOrder(t)
	}
}

// arrivesInOrder plays the script. All its messages arrive, in order and not before light gets there.
func (s *script) arrivesInOrder(t tester) {
	f, flows := s.play(t, onTime)
	var posted, arrived uint64
	for i, fl := range flows {
		last := int64(-1)
		for j, p := range s.posts[i] {
			m := fl.Message(uint64(j))
			posted += p.size
			if m.Due == Never || m.Sent == Never {
				t.Fatalf("flow %d message %d never arrived: %+v", i, j, m)
			}
			if m.Due < last {
				t.Fatalf("flow %d message %d is due at %d, before its predecessor at %d", i, j, m.Due, last)
			}
			least := p.send + f.tx[0].Params.Serialization(uint32(min(p.size, MaxSegment)))
			if s.wire.Jitter.Kind == NoJitter {
				least += int64(s.wire.Latency) * int64(s.k)
			}
			if m.Due < least {
				t.Fatalf("flow %d message %d posted at %d is due at %d, before light gets there at %d", i, j,
					p.send, m.Due, least)
			}
			if m.Distortion != 0 {
				t.Fatalf("flow %d message %d: distortion %d with every step taken in time", i, j, m.Distortion)
			}
			last = m.Due
		}
		arrived += fl.Arrived()
		if fl.Stalls() != 0 || fl.Broken() {
			t.Fatalf("flow %d stalled %d times, broken %v", i, fl.Stalls(), fl.Broken())
		}
	}
	if arrived != posted {
		t.Fatalf("%d bytes posted, %d arrived", posted, arrived)
	}
	for e, h := range f.links {
		in, out := f.tx[e[0]].Counters, h.Counters
		if in.Bytes < out.Bytes {
			t.Fatalf("link %v carried %d bytes, more than the %d its port sent", e, out.Bytes, in.Bytes)
		}
	}
}

func TestPropertyRateNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScript(t, 6, false)
		f, _ := s.play(t, onTime)
		for _, h := range append(append([]hop{}, f.tx...), f.rx...) {
			c := h.Counters
			if c.Segments == 0 {
				continue
			}
			// The hop is a single server: it cannot have been busy for longer than
			// until it is free, and carries at most its rate while busy.
			if c.BusyNs > h.NextFree {
				t.Fatalf("busy for %d ns by %d", c.BusyNs, h.NextFree)
			}
			most := float64(c.BusyNs) * float64(s.port.Bandwidth) / 8e9 / float64(s.k)
			if float64(c.LineBytes) > most*(1+1e-9) {
				t.Fatalf("%d wire bytes in %d busy ns at %d bit/s", c.LineBytes, c.BusyNs, s.port.Bandwidth)
			}
		}
	})
}

// A single flow's times do not depend on when it is polled.
func TestPropertyPollsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScript(t, 1, true)
		_, want := s.play(t, onTime)
		lag := rapid.Int64Range(1, 3_000_000).Draw(t, "lag")
		salt := rapid.Uint64().Draw(t, "salt")
		n := uint64(0)
		_, got := s.play(t, func(_ int, _, next int64) int64 {
			n++
			return next + int64(Draw(salt, 0, 0, 0, n)%uint64(lag))
		})
		for j := range s.posts[0] {
			a, b := want[0].Message(uint64(j)), got[0].Message(uint64(j))
			if a.Due != b.Due || a.Sent != b.Sent {
				t.Fatalf("message %d: due %d sent %d when polled in time, %d and %d when polled late", j, a.Due, a.Sent,
					b.Due, b.Sent)
			}
		}
	})
}

// A flow that arrives at a hop later does not delay one that arrives earlier: node 0 receives
// the same from node 1 whether or not node 2 sends from further away.
func TestLaterArrivalDelaysNobody(t *testing.T) {
	port, wire := gigabit(10 * time.Microsecond)
	due := func(second bool) int64 {
		f := newFabric(t, 3, port, wire, 1, tcp())
		far := wire
		far.Latency = 5 * time.Millisecond
		p, _ := NewParams(far, 1)
		f.net.Change(f.links[[2]int{2, 0}].number, p, 0)
		a, b := f.flow(1, 0), f.flow(2, 0)
		flows := []*Flow{a}
		if second {
			b.Post(1<<20, 0)
			b.Recv(0)
			flows = []*Flow{b, a}
		}
		a.Post(100_000, 1000)
		a.Recv(0)
		run(0, flows...)
		return a.Message(0).Due
	}
	if alone, shared := due(false), due(true); alone != shared {
		t.Errorf("due at %d alone, at %d with a flow that arrives 4 ms later", alone, shared)
	}
}

func TestLateStepsAreBounded(t *testing.T) {
	port, wire := gigabit(25 * time.Microsecond)
	f := newFabric(t, 3, port, wire, 1, tcp())
	a, b := f.flow(0, 1), f.flow(0, 2)
	for _, fl := range []*Flow{a, b} {
		fl.Post(1<<20, 0)
		fl.Recv(0)
	}
	// b is polled all the time, a only after 3 ms: b had the port to itself.
	for now := int64(0); now < 3e6; now += 1000 {
		b.Advance(now)
	}
	run(3e6, a, b)
	m := a.Message(0)
	if m.Distortion < 2_900_000 || m.Distortion > 3_100_000 {
		t.Errorf("distortion %d ns, want about the 3 ms for which nobody polled", m.Distortion)
	}
}

func TestLosslessQueueHoldsUpstream(t *testing.T) {
	port, wire := gigabit(0)
	port.QueueBytes = 64 << 10
	wire.QueueBytes = 64 << 10
	f := newFabric(t, 3, port, wire, 1, rdma())
	a, b := f.flow(0, 2), f.flow(1, 2)
	for _, fl := range []*Flow{a, b} {
		fl.Post(8<<20, 0)
		fl.Recv(0)
	}
	now := int64(0)
	for ; now < 20e6; now += 1000 {
		a.Advance(now)
		b.Advance(now)
	}
	// Two senders at full rate into one port: without back-pressure each would have
	// sent 20 ms worth, with it half of that plus the queue.
	for i, h := range f.tx[:2] {
		half := 20e6 / 8 / 2.0
		if got := float64(h.Counters.LineBytes); got < half*0.95 || got > half+3*64<<10 {
			t.Errorf("port %d sent %.0f wire bytes in 20 ms, want %.0f and a queue", i, got, half)
		}
	}
}

func TestTailDropCostsARoundTrip(t *testing.T) {
	port, wire := gigabit(time.Millisecond)
	port.QueueBytes, port.QueuePolicy = 16<<10, TailDrop
	f := newFabric(t, 3, port, wire, 1, tcp())
	a, b := f.flow(0, 2), f.flow(1, 2)
	for _, fl := range []*Flow{a, b} {
		fl.Post(200_000, 0)
		fl.Recv(0)
	}
	run(0, a, b)
	if f.rx[2].Counters.Drops == 0 {
		t.Error("two senders into a port with a 16 KiB queue: no drop")
	}
	if a.Arrived() != 200_000 || b.Arrived() != 200_000 {
		t.Errorf("%d and %d bytes arrived, want all 200000", a.Arrived(), b.Arrived())
	}
}

func TestDownBreaksAfterTimeout(t *testing.T) {
	port, wire := gigabit(time.Millisecond)
	f := newFabric(t, 2, port, wire, 1, rdma())
	fl := f.flow(0, 1)
	h := f.links[[2]int{0, 1}]
	h.setDown(0, true)
	fl.Post(8, 0)
	fl.Recv(0)
	fl.Advance(400e6)
	if fl.Broken() {
		t.Fatal("broken after 400 ms, timeout 500 ms")
	}
	h.setDown(450e6, false)
	run(450e6, fl)
	if m := fl.Message(0); m.Due < 451e6 || m.Due > 452e6 {
		t.Errorf("due at %d, want 1 ms after the link came up at 450 ms", m.Due)
	}
	fl.Post(8, 500e6)
	fl.Recv(500e6)
	h.setDown(500e6, true)
	fl.Advance(600e6)
	fl.Advance(2e9)
	if !fl.Broken() {
		t.Error("not broken 1.5 s after the post, timeout 500 ms")
	}
}

// A sender that was stopped for longer than the timeout meets a link that has just gone down: it waits for the timeout.
func TestDownTimeoutBeginsWhenTheLinkGoesDown(t *testing.T) {
	port, wire := gigabit(time.Millisecond)
	f := newFabric(t, 2, port, wire, 1, rdma())
	fl := f.flow(0, 1)
	h := f.links[[2]int{0, 1}]
	fl.Post(8, 0)
	fl.Recv(0)
	h.setDown(10e9, true)
	fl.Advance(10.4e9)
	if fl.Broken() {
		t.Error("broken 400 ms after the link went down, timeout 500 ms")
	}
	fl.Advance(10.6e9)
	if !fl.Broken() {
		t.Error("not broken 600 ms after the link went down, timeout 500 ms")
	}
}

// A flow whose link is down starts when the link is up. Two flows share the port of their node, and one of them also a
// trunk that is down for a while. Every step is made in time, so the wait for the trunk is no distortion of either.
func TestWaitForALinkIsNoDistortion(t *testing.T) {
	port, wire := gigabit(10 * time.Microsecond)
	for _, shared := range []bool{false, true} {
		f := newFabric(t, 3, port, wire, 1, tcp())
		trunk := f.links[[2]int{0, 1}]
		through := func() *Flow { // both flows over the trunk occupy it, so it is not private
			f.flows++
			return f.net.NewFlow(f.flows, []PathHop{{Hop: f.tx[0].number}, {Hop: trunk.number}, {Hop: f.rx[1].number}},
				[]int{f.tx[1].number, f.links[[2]int{1, 0}].number, f.rx[0].number})
		}
		flows := []*Flow{through()}
		if shared {
			flows = append(flows, through(), f.flow(0, 2))
		}
		trunk.setDown(0, true)
		for _, fl := range flows {
			for range 4 {
				fl.Post(1<<20, 1000)
				fl.Recv(1000)
			}
		}
		const up = 100_300_000 // not when a flow looks whether the trunk is up
		now := int64(1000)
		for now < up {
			next := int64(Never)
			for _, fl := range flows {
				next = min(next, fl.Advance(now))
			}
			now = min(next, up)
		}
		trunk.setDown(up, false)
		run(up, flows...)
		for i, fl := range flows {
			for j := range uint64(4) {
				m := fl.Message(j)
				if m.Distortion != 0 {
					t.Errorf("shared %v, flow %d message %d: distortion %d with every step made in time", shared, i, j,
						m.Distortion)
				}
				if i != 2 && m.Due < up {
					t.Errorf("shared %v, flow %d message %d: due at %d, the trunk came up at %d", shared, i, j, m.Due, int64(up))
				}
			}
		}
	}
}

// Small messages fill the table of messages before they fill the buffers. A round trip later
// the table has free entries again, and the flow's next step is at that time.
func TestManySmallMessagesWithinARoundTrip(t *testing.T) {
	port, wire := gigabit(200 * time.Millisecond)
	f := newFabric(t, 2, port, wire, 1, tcp())
	fl := f.flow(0, 1)
	for i := range int64(MaxMessages) {
		if _, ok := fl.Post(8, i); !ok {
			t.Fatalf("no room for message %d", i)
		}
		fl.Recv(i)
	}
	end := run(0, fl)
	if acked := fl.Message(MaxMessages/2).Due + 200e6; end < acked {
		t.Errorf("nothing is left to do at %d, the first half is acknowledged at %d", end, acked)
	}
	for range MaxMessages {
		fl.Take()
	}
	if _, ok := fl.Post(8, end); !ok {
		t.Error("no room after all messages were acknowledged")
	}
}

// A flow whose buffer has more segments than the flow keeps, on a slow or long link, arrives
// completely, at the rate of the slowest hop or of one buffer per round trip.
func TestFullBuffersGoOn(t *testing.T) {
	const size, slow = 512 << 10, 1e8
	for _, tc := range []struct {
		name     string
		port     uint64 // bits/s; the link's are slow
		latency  time.Duration
		buffer   uint64
		mtu      uint32
		messages int
		stalls   bool
		trips    float64 // that it takes; 0 if it takes what its bytes take
	}{
		{name: "slow link between fast ports", port: 10e9, latency: 25 * time.Microsecond, buffer: 4 << 20, mtu: 1500,
			messages: 32},
		{name: "large packets", port: 10e9, latency: 25 * time.Microsecond, buffer: 4 << 20, mtu: 9000, messages: 32},
		// Four buffers, the last of which takes its time and one way.
		{name: "long", port: slow, latency: 500 * time.Millisecond, buffer: 4 << 20, mtu: 1500, messages: 32,
			trips: 3 + 0.35 + 0.5},
		{name: "more than a flow holds", port: 10e9, latency: time.Millisecond, buffer: 256 << 20, mtu: 1500,
			messages: 512, stalls: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			port := Spec{Bandwidth: tc.port, MTU: tc.mtu, Header: 40, Framing: 38}
			wire := port
			wire.Bandwidth, wire.Latency = slow, tc.latency
			fl := newFabric(t, 2, port, wire, 1, &Transport{Kind: TCP, SendBuffer: tc.buffer, Window: tc.buffer,
				RTO: 200e6, DownTimeout: 10e9}).flow(0, 1)
			for range tc.messages {
				fl.Post(size, 0)
				fl.Recv(0)
			}
			run(0, fl)
			m := fl.Message(uint64(tc.messages - 1))
			if m.Due == Never || m.Sent == Never {
				t.Fatalf("%d of %d bytes arrived", fl.Arrived(), tc.messages*size)
			}
			want := tc.trips * 2 * tc.latency.Seconds()
			if want == 0 {
				want = float64(tc.messages) * size * 8 / slow * float64(tc.mtu+38) / float64(tc.mtu-40)
			}
			if got := float64(m.Due) / 1e9; math.Abs(got/want-1) > 0.01 {
				t.Errorf("took %.3f s, want %.3f", got, want)
			}
			if (fl.Stalls() > 0) != tc.stalls {
				t.Errorf("%d stalls", fl.Stalls())
			}
		})
	}
}
