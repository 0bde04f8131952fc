// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"math"
	"math/bits"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
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
		proto         plan.Protocol
		bytes         uint64
		first, steady float64
	}{
		{"tcp simple", tcp(), plan.Simple, 8, 2, 2},
		{"tcp ll", tcp(), plan.LL, 8, 2, 2},
		{"tcp ll128", tcp(), plan.LL128, 8, 2, 2},
		{"rdma simple", rdma(), plan.Simple, 8, 3, 3},
		{"rdma ll, both chunks filled", rdma(), plan.LL, 32, 3, 3},
		{"rdma ll128, both chunks filled", rdma(), plan.LL128, 32, 3, 3},
		// 8 bytes fill one of the two chunks. LL does not wait for the empty one, so one rank is done after two
		// latencies and posts its receives early.
		{"rdma ll, one chunk empty", rdma(), plan.LL, 8, 3, 2},
		{"rdma ll128, one chunk empty", rdma(), plan.LL128, 8, 3, 2},
	} {
		e := simulate(t, decide(nccl.AllReduce, plan.Ring, tc.proto, 2, 1, tc.bytes), far(tc.tr))
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
	if e := simulate(t, decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 8), s); e.First != want {
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
	if e := simulate(t, decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 8), s); e.First != want {
		t.Errorf("first call %.0f ns, want %.0f", e.First, want)
	}
}

func TestLargeRingTakesPayloadRate(t *testing.T) {
	const whole = 32 << 20
	const size = float64(whole)
	transports, protos := []link.Transport{tcp(), rdma()}, []plan.Protocol{plan.Simple, plan.LL, plan.LL128}
	if underRace {
		transports, protos = transports[:1], protos[:1]
	}
	for _, tc := range []struct {
		coll  nccl.Collective
		ranks int
		count func(n float64) float64 // bytes through a port for n ranks
		bytes func(n uint64) uint64   // count of the call
	}{
		{nccl.AllReduce, 2, func(n float64) float64 { return 2 * (n - 1) / n * size },
			func(uint64) uint64 { return whole }},
		{nccl.AllReduce, 4, func(n float64) float64 { return 2 * (n - 1) / n * size },
			func(uint64) uint64 { return whole }},
		{nccl.AllGather, 4, func(n float64) float64 { return (n - 1) / n * size },
			func(n uint64) uint64 { return whole / n }},
		{nccl.ReduceScatter, 4, func(n float64) float64 { return (n - 1) / n * size },
			func(n uint64) uint64 { return whole / n }},
		{nccl.Broadcast, 4, func(float64) float64 { return size }, func(uint64) uint64 { return whole }},
		{nccl.Reduce, 4, func(float64) float64 { return size }, func(uint64) uint64 { return whole }},
	} {
		for _, tr := range transports {
			for _, proto := range protos {
				s := eth1(tr)
				d := decide(tc.coll, plan.Ring, proto, tc.ranks, 2, tc.bytes(uint64(tc.ranks)))
				d.Iterations = minCalls
				e := simulate(t, d, s)
				overhead := map[plan.Protocol]float64{plan.Simple: 1, plan.LL: 2, plan.LL128: 16.0 / 15}[proto]
				want := s.payload(tc.count(float64(tc.ranks)) * overhead)
				if e.Time < want*0.999 || e.Time > want*1.03 {
					t.Errorf("%v %v, %d ranks, transport %d: %.2f ms, want %.2f to 3 %% more", tc.coll, proto, tc.ranks,
						tr.Kind, e.Time/1e6, want/1e6)
				}
				if e.played < e.Bound {
					t.Errorf("%v %v, %d ranks: %.0f ns, below the bound of %.0f", tc.coll, proto, tc.ranks, e.played,
						e.Bound)
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
		e := simulate(t, decide(nccl.Broadcast, plan.Ring, plan.Simple, 2, channels, size), s)
		// A slot of 512 KiB is free again one round trip after it was sent. The next irecv into it is posted when it
		// arrives, and known to the sender one latency later, at the same time.
		want := float64(size) / float64(channels) / (4 << 20) * 100e6
		if math.Abs(e.First/want-1) > 0.05 {
			t.Errorf("%d channels: %.0f ms, want %.0f: 4 MiB per channel and round trip", channels, e.First/1e6,
				want/1e6)
		}
	}
}

// The chain of a broadcast is a pipeline: each further rank adds one slice and one latency.
func TestBroadcastIsAPipeline(t *testing.T) {
	s := eth1(tcp())
	const size = 8 << 20
	times := map[int]float64{}
	for n := 2; n <= 4; n++ {
		times[n] = simulate(t, decide(nccl.Broadcast, plan.Ring, plan.Simple, n, 1, size), s).First
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
			d := decide(coll, plan.PAT, plan.Simple, ranks, 1, 64)
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
			e, err := Simulate(t.Context(), decide(nccl.AllReduce, plan.Ring, plan.LL, 2, 1, 1024), f)
			if err != nil || e.First != 0 || e.Time != 0 {
				t.Errorf("%+v, in order %t: %+v, %v", tr, inOrder, e, err)
			}
		}
	}
}

// sends is a decision for a collective that is made of sends and receives.
func sends(coll nccl.Collective, version, ranks, channels int, share uint64) plan.Decision {
	d := decide(coll, plan.Ring, plan.Simple, ranks, channels, share)
	d.Version, d.P2PChannels, d.P2PChannelsPerPeer = version, channels, channels
	return d
}

// A few bytes reach the root, or come from there, in one latency, and all ranks of a hypercube in as many as their
// numbers have bits. With rdma the receives, which are all posted at the start, must be known first.
func TestSmallSendsCountLatencies(t *testing.T) {
	const lat = 20e6
	for _, version := range []int{22203, 22907} {
		for _, ranks := range []int{2, 4, 8, 16} {
			for coll, hops := range map[nccl.Collective]int{nccl.Gather: 1, nccl.Scatter: 1,
				nccl.HyperCube: bits.Len(uint(ranks)) - 1} {
				for _, tr := range []link.Transport{tcp(), rdma()} {
					want := float64(hops)
					if tr.Kind == link.RDMA {
						want++
					}
					d := sends(coll, version, ranks, 32, 8) // each message has a channel for itself
					d.Root = ranks - 1
					if e := simulate(t, d, far(tr)); e.First < want*lat || e.First > want*lat+60e3 {
						t.Errorf("%v on %d ranks, version %d, transport %d: %.4f ms, want %.0f latencies", coll, ranks,
							version, tr.Kind, e.First/1e6, want)
					}
				}
			}
		}
	}
}

// The shares of all other ranks go through one port of the root, and with the hypercube through each rank's.
func TestLargeSendsTakePayloadRate(t *testing.T) {
	for _, version := range []int{22203, 22907} {
		for _, ranks := range []int{2, 4, 5, 8} {
			for _, coll := range []nccl.Collective{nccl.Gather, nccl.Scatter, nccl.HyperCube} {
				if coll.CheckRanks(ranks) != nil {
					continue
				}
				for _, tr := range []link.Transport{tcp(), rdma()} {
					s := eth1(tr)
					share := lighter(4 << 20)
					d := sends(coll, version, ranks, 4, share)
					d.Root, d.Iterations = 1, minCalls
					want := s.payload(float64(ranks-1) * float64(share))
					if e := simulate(t, d, s); e.Time < want*0.999 || e.Time > want*1.03 {
						t.Errorf("%v on %d ranks, version %d, transport %d: %.2f ms, want %.2f to 3 %% more", coll,
							ranks, version, tr.Kind, e.Time/1e6, want/1e6)
					}
				}
			}
		}
	}
}
