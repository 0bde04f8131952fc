// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// far is a link whose latency exceeds all other times by far.
func far(tr link.Transport) star {
	s := eth1(tr)
	s.latency = 20 * time.Millisecond
	return s
}

// Two ranks and a few bytes: the data goes there and back. With rdma, the next call's receives are posted, and known to
// the sender, one latency later.
func TestSmallAllReduceCountsLatencies(t *testing.T) {
	const lat = 20e6
	for _, tc := range []struct {
		name          string
		tr            link.Transport
		proto         Protocol
		bytes         uint64
		first, steady float64
	}{
		{"tcp simple", tcp(), Simple, 8, 2, 2},
		{"tcp ll", tcp(), LL, 8, 2, 2},
		{"tcp ll128", tcp(), LL128, 8, 2, 2},
		{"rdma simple", rdma(), Simple, 8, 3, 3},
		{"rdma ll, both chunks filled", rdma(), LL, 32, 3, 3},
		{"rdma ll128, both chunks filled", rdma(), LL128, 32, 3, 3},
		// 8 bytes fill one of the two chunks. LL does not wait for the empty one, so one rank is done after two
		// latencies and posts its receives early.
		{"rdma ll, one chunk empty", rdma(), LL, 8, 3, 2},
		{"rdma ll128, one chunk empty", rdma(), LL128, 8, 3, 2},
	} {
		e := simulate(t, decide(nccl.AllReduce, Ring, tc.proto, 2, 1, tc.bytes), far(tc.tr))
		// Besides the latencies, only a few packets are sent.
		for _, v := range []struct{ got, latencies float64 }{{e.First, tc.first}, {e.Time, tc.steady}} {
			if v.got < v.latencies*lat || v.got > v.latencies*lat+60e3 {
				t.Errorf("%s: %.4f ms, want %.0f latencies of 20 ms", tc.name, v.got/1e6, v.latencies)
			}
		}
	}
}

// The same, exact to the nanosecond.
func TestSmallAllReduceExact(t *testing.T) {
	const lat = 20_000_000
	s := far(tcp())
	f := s.build()
	path, _, err := f.Path(Conn{Src: 0, Dst: 1})
	if err != nil {
		t.Fatal(err)
	}
	empty, full := f.Params[path[0].Hop].Serialization(0), f.Params[path[0].Hop].Serialization(8)
	// Rank 1 sends its 8 bytes in the first of two slices. Rank 0 reduces and sends them back at once. The call ends
	// with the empty slice that follows them.
	want := float64(2*(lat+full) + empty)
	if e := simulate(t, decide(nccl.AllReduce, Ring, Simple, 2, 1, 8), s); e.First != want {
		t.Errorf("first call %.0f ns, want %.0f", e.First, want)
	}
}

// Hosts store and forward each message at both ends, one after another: the empty slice after the last 8 bytes waits
// for them at the receiver.
func TestSmallAllReduceWithHosts(t *testing.T) {
	const lat, work = 20_000_000, 100_000
	s := far(tcp())
	s.tr.Host.PerMessage = work
	f := s.build()
	path, _, err := f.Path(Conn{Src: 0, Dst: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := float64(2*(work+f.Params[path[0].Hop].Serialization(8)+lat+work) + work)
	if e := simulate(t, decide(nccl.AllReduce, Ring, Simple, 2, 1, 8), s); e.First != want {
		t.Errorf("first call %.0f ns, want %.0f", e.First, want)
	}
}

func TestLargeRingTakesPayloadRate(t *testing.T) {
	const whole = 32 << 20
	const size = float64(whole)
	transports, protos := []link.Transport{tcp(), rdma()}, []Protocol{Simple, LL, LL128}
	if underRace {
		transports, protos = transports[:1], protos[:1]
	}
	for _, tc := range []struct {
		coll  nccl.Collective
		ranks int
		count func(n float64) float64 // bytes through a port for n ranks
		bytes func(n uint64) uint64   // count of the call
	}{
		{nccl.AllReduce, 2, func(n float64) float64 { return 2 * (n - 1) / n * size }, func(uint64) uint64 { return whole }},
		{nccl.AllReduce, 4, func(n float64) float64 { return 2 * (n - 1) / n * size }, func(uint64) uint64 { return whole }},
		{nccl.AllGather, 4, func(n float64) float64 { return (n - 1) / n * size }, func(n uint64) uint64 { return whole / n }},
		{nccl.ReduceScatter, 4, func(n float64) float64 { return (n - 1) / n * size }, func(n uint64) uint64 { return whole / n }},
		{nccl.Broadcast, 4, func(float64) float64 { return size }, func(uint64) uint64 { return whole }},
		{nccl.Reduce, 4, func(float64) float64 { return size }, func(uint64) uint64 { return whole }},
	} {
		for _, tr := range transports {
			for _, proto := range protos {
				s := eth1(tr)
				d := decide(tc.coll, Ring, proto, tc.ranks, 2, tc.bytes(uint64(tc.ranks)))
				d.Iterations = minCalls
				e := simulate(t, d, s)
				overhead := map[Protocol]float64{Simple: 1, LL: 2, LL128: 16.0 / 15}[proto]
				want := s.payload(tc.count(float64(tc.ranks)) * overhead)
				if e.Time < want*0.999 || e.Time > want*1.03 {
					t.Errorf("%v %v, %d ranks, transport %d: %.2f ms, want %.2f to 3 %% more", tc.coll, proto, tc.ranks, tr.Kind, e.Time/1e6, want/1e6)
				}
				if e.played < e.Bound {
					t.Errorf("%v %v, %d ranks: %.0f ns, below the bound of %.0f", tc.coll, proto, tc.ranks, e.played, e.Bound)
				}
			}
		}
	}
}

// On a long path a channel has at most its buffer in flight.
func TestWindowBoundsLongPath(t *testing.T) {
	s := star{bandwidth: 100e9, latency: 50 * time.Millisecond, tr: rdma()}
	const size = 128 << 20
	for _, channels := range []int{1, 2} {
		e := simulate(t, decide(nccl.Broadcast, Ring, Simple, 2, channels, size), s)
		// A slot of 512 KiB is free again one round trip after it was sent. The next irecv into it is posted when it
		// arrives, and known to the sender one latency later, at the same time.
		want := float64(size) / float64(channels) / (4 << 20) * 100e6
		if math.Abs(e.First/want-1) > 0.05 {
			t.Errorf("%d channels: %.0f ms, want %.0f: 4 MiB per channel and round trip", channels, e.First/1e6, want/1e6)
		}
	}
}

// The chain of a broadcast is a pipeline: each further rank adds one slice and one latency.
func TestBroadcastIsAPipeline(t *testing.T) {
	s := eth1(tcp())
	const size = 8 << 20
	times := map[int]float64{}
	for n := 2; n <= 4; n++ {
		times[n] = simulate(t, decide(nccl.Broadcast, Ring, Simple, n, 1, size), s).First
	}
	slice := s.payload(512<<10) + 25e3
	for n := 3; n <= 4; n++ {
		if got := times[n] - times[n-1]; math.Abs(got/slice-1) > 0.01 {
			t.Errorf("rank %d adds %.1f us, want a slice and a latency, %.1f", n, got/1e3, slice/1e3)
		}
	}
}

// PAT reaches all ranks in as many latencies as the number of ranks has bits, and moves no more bytes than the ring.
func TestPATCountsLatencies(t *testing.T) {
	const lat = 20e6
	for _, coll := range []nccl.Collective{nccl.AllGather, nccl.ReduceScatter} {
		for ranks, hops := range map[int]float64{2: 1, 3: 2, 4: 2, 5: 3, 8: 3} {
			d := decide(coll, PAT, Simple, ranks, 1, 64)
			d.Version = 22907
			if e := simulate(t, d, far(tcp())); e.First < hops*lat || e.First > hops*lat+60e3 {
				t.Errorf("%v on %d ranks: %.4f ms, want %.0f latencies", coll, ranks, e.First/1e6, hops)
			}
			d.Count, d.Iterations = lighter(16<<20)/4, minCalls
			s := eth1(tcp())
			want := s.payload(float64(ranks-1) * float64(lighter(16<<20)))
			if e := simulate(t, d, s); e.Time < want || e.Time > want*1.05 {
				t.Errorf("%v on %d ranks: %.2f ms, want %.2f to 5 %% more", coll, ranks, e.Time/1e6, want/1e6)
			}
		}
	}
}

// On links without limits nothing takes time, also when a virtual clock gives the connections their turns.
func TestNoTime(t *testing.T) {
	for _, tr := range []link.Transport{tcp(), rdma()} {
		s := eth1(tr)
		s.latency, s.bandwidth = 0, uint64(units.Unlimited)
		for _, inOrder := range []bool{false, true} {
			f := s.build()
			f.InOrder = inOrder
			e, err := Simulate(t.Context(), decide(nccl.AllReduce, Ring, LL, 2, 1, 1024), f)
			if err != nil || e.First != 0 || e.Time != 0 {
				t.Errorf("%+v, in order %t: %+v, %v", tr, inOrder, e, err)
			}
		}
	}
}
