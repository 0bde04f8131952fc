// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Extrapolated calls take as long as fully simulated ones, to half a percent; to one percent if the windows of two
// channels of a long path drift against each other.
func TestExtrapolationAgreesWithFullPlay(t *testing.T) {
	wan := star{bandwidth: 1e9, latency: 20 * time.Millisecond}
	ndr := star{bandwidth: 400e9, latency: 1500}
	eth := star{bandwidth: 1e9, latency: 25 * time.Microsecond}
	cases := []struct {
		s     star
		tr    link.Transport
		coll  nccl.Collective
		algo  plan.Algorithm
		proto plan.Protocol
		ranks int
		bytes uint64
	}{
		{eth, tcp(), nccl.AllReduce, plan.Ring, plan.Simple, 2, 1 << 30},
		{eth, tcp(), nccl.AllReduce, plan.Ring, plan.LL, 4, 256 << 20},
		{eth, rdma(), nccl.AllReduce, plan.Tree, plan.Simple, 4, 512 << 20},
		{eth, rdma(), nccl.AllToAll, plan.Ring, plan.Simple, 3, 300 << 20},
		{ndr, rdma(), nccl.AllReduce, plan.Ring, plan.LL, 4, 512 << 20},
		{eth, rdma(), nccl.AllGather, plan.PAT, plan.Simple, 4, 160 << 20},
		{wan, rdma(), nccl.AllReduce, plan.Ring, plan.Simple, 4, 512 << 20},
		{wan, rdma(), nccl.SendRecv, plan.Ring, plan.Simple, 4, 512 << 20},
	}
	if underRace {
		cases = cases[:1]
	}
	for _, tc := range cases {
		s := tc.s
		s.tr = tc.tr
		d := decide(tc.coll, tc.algo, tc.proto, tc.ranks, 2, tc.bytes+12345*4)
		d.P2PChannels, d.P2PChannelsPerPeer, d.Iterations, d.Version = 2, 2, minCalls, 22907
		full, cut := playBoth(t, d, s)
		for name, v := range map[string][2]float64{"first": {full.first, cut.first},
			"mean": {last(full.ranks), last(cut.ranks)}} {
			tolerance := 0.005
			if s.latency > time.Millisecond {
				tolerance = 0.01
			}
			if math.Abs(v[1]/v[0]-1) > tolerance {
				t.Errorf("%v %v/%v on %d ranks, %d bit/s and %v, transport %d, %s: %.3f ms in full, %.3f continued",
					tc.coll, tc.algo, tc.proto,
					tc.ranks, s.bandwidth, s.latency, tc.tr.Kind, name, v[0]/1e6, v[1]/1e6)
			}
		}
	}
}

// The root of a broadcast runs ahead until the buffers on the path are full, and so do the first ranks of a reduction.
// The first calls are therefore faster than the rest.
func TestRunningAheadEndsWithTheBuffers(t *testing.T) {
	for _, coll := range []nccl.Collective{nccl.Broadcast, nccl.Reduce} {
		for _, ranks := range []int{2, 4} {
			for _, bytes := range []uint64{64 << 10, 1 << 20, 4 << 20} {
				s := star{bandwidth: 10e9, latency: 25 * time.Microsecond, tr: tcp()}
				d := decide(coll, plan.Ring, plan.Simple, ranks, 2, bytes)
				d.Iterations = 20
				got := simulate(t, d, s)
				for r, want := range playAll(t, d, s) {
					if math.Abs(got.RankTime[r]-want) > 0.005*want {
						t.Errorf("%v of %d bytes on %d ranks: rank %d takes %.1f us, all calls played %.1f", coll,
							bytes, ranks, r, got.RankTime[r]/1e3, want/1e3)
					}
				}
			}
		}
	}
}

// playAll simulates every call of d and returns the mean time of a call on each rank.
func playAll(t *testing.T, d plan.Decision, s star) []float64 {
	t.Helper()
	return playAllOn(t, d, s.build())
}

// playAllOn is playAll on a fabric.
func playAllOn(t *testing.T, d plan.Decision, f *Fabric) []float64 {
	t.Helper()
	c, p, err := newSimulated(&d, f, choose())
	if err != nil {
		t.Fatal(err)
	}
	full, _, err := c.play(context.Background(), p, f, d.Iterations, &Estimate{transport: f.Transport})
	if err != nil {
		t.Fatal(err)
	}
	return full.ranks
}

func last(ranks []float64) float64 {
	m := 0.0
	for _, v := range ranks {
		m = max(m, v)
	}
	return m
}

// playBoth simulates d in full and as Simulate does.
func playBoth(t *testing.T, d plan.Decision, s star) (full, cut timing) {
	t.Helper()
	f := s.build()
	e := &Estimate{transport: f.Transport}
	c, p, err := newSimulated(&d, f, choose())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.addTraffic(p, f); err != nil {
		t.Fatal(err)
	}
	if full, err = c.times(context.Background(), p, f, e, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	if cut, err = c.times(context.Background(), p, f, e, maxSteps); err != nil {
		t.Fatal(err)
	}
	if !e.Extrapolated {
		t.Fatalf("%v %v/%v of %d bytes was played in full", d.Coll, d.Algo, d.Proto, d.Count*d.ElemSize)
	}
	return full, cut
}

// Two ranks per node halve the bytes on the network: one connection per channel and direction between the nodes.
func TestTwoByTwo(t *testing.T) {
	const size = 16 << 20
	s := eth1(tcp())
	s.perNode = 2
	d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 4, 2, size)
	e := simulate(t, d, s)
	if want := s.payload(2.0 * 3 / 4 * size); e.Time < want || e.Time > want*1.02 {
		t.Errorf("ring 2x2: %.2f ms, want %.2f to 2 %% more", e.Time/1e6, want/1e6)
	}
	for _, tr := range e.Traffic {
		if tr.Src/2 == tr.Dst/2 {
			t.Errorf("traffic within a node: %+v", tr)
		}
	}
	if len(e.Traffic) != 4 {
		t.Errorf("%d connections between nodes, want 2 per channel", len(e.Traffic))
	}
	// A chain over the nodes: 1-0-2-3. Data goes up and down at the same time.
	for c := range d.Trees {
		d.Trees[c] = []plan.Links{{Up: -1, Down: []int{1, 2, -1}}, {Up: 0}, {Up: 0, Down: []int{3}}, {Up: 2}}
	}
	d.Algo = plan.Tree
	e = simulate(t, d, s)
	// Data goes down as soon as the first chunk of each channel has come up.
	if want := s.payload(size + 2*(512<<10)); math.Abs(e.Time/want-1) > 0.01 {
		t.Errorf("tree 2x2: %.2f ms, want %.2f", e.Time/1e6, want/1e6)
	}
}

func TestNothingToDo(t *testing.T) {
	s := eth1(tcp())
	s.perNode = 2
	for name, d := range map[string]plan.Decision{
		"one rank": decide(nccl.AllReduce, plan.Ring, plan.Simple, 1, 1, 1<<20),
		"one node": decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 2, 1<<20),
		"no data":  decide(nccl.AllReduce, plan.Ring, plan.Simple, 4, 2, 0),
	} {
		if e := simulate(t, d, s); e.Time != 0 || len(e.Traffic) != 0 {
			t.Errorf("%s: %.0f ns, %d connections", name, e.Time, len(e.Traffic))
		}
	}
}

// Jitter and loss make calls differ. Time is the mean of the simulated calls.
func TestImpairmentsAreDrawn(t *testing.T) {
	s := eth1(rdma())
	d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 1<<20)
	d.Iterations = 20
	clean := simulate(t, d, s)
	s.loss.P = 0.001
	lossy := simulate(t, d, s)
	if lossy.Time < clean.Time*1.01 {
		t.Errorf("%.0f us with a packet in 1000 lost, %.0f without", lossy.Time/1e3, clean.Time/1e3)
	}
	s.loss.P = 0
	s.jitter = link.Jitter{Kind: link.Pareto, Value: 10 * time.Microsecond}
	if jittery := simulate(t, d, s); jittery.Time <= clean.Time {
		t.Errorf("%.0f us with jitter, %.0f without", jittery.Time/1e3, clean.Time/1e3)
	}
}

// The mean of a few calls is within Spread for other random draws too, and Spread is no larger than necessary.
func TestSpreadCoversOtherDraws(t *testing.T) {
	const runs = 400
	s := star{bandwidth: 100e9, latency: 15 * time.Microsecond,
		jitter: link.Jitter{Kind: link.Normal, Value: 3 * time.Microsecond}, tr: rdma()}
	for _, calls := range []int{5, 20, 80} {
		d := decide(nccl.AllReduce, plan.Tree, plan.LL, 2, 1, 8)
		d.Iterations = calls
		s.seed = 0
		e := simulate(t, d, s)
		outside, squares := 0, 0.0
		for i := range runs {
			s.seed = uint64(1000 + i)
			off := last(playAll(t, d, s))/e.Time - 1
			squares += off * off / runs
			if math.Abs(off) > e.Spread {
				outside++
			}
		}
		if outside > runs/100 || e.Spread > 6*math.Sqrt(squares) {
			t.Errorf("%d calls: %d of %d runs are more than %.1f %% off, the standard deviation is %.1f %%", calls,
				outside, runs, 100*e.Spread, 100*math.Sqrt(squares))
		}
	}
}

func TestRefusals(t *testing.T) {
	ok := func() plan.Decision { return decide(nccl.AllReduce, plan.Ring, plan.Simple, 4, 2, 1<<20) }
	s := eth1(tcp())
	for _, tc := range []struct {
		change func(d *plan.Decision)
		want   string
	}{
		{func(d *plan.Decision) { d.Version = 22105 }, "NCCL version 2.21.5: the model knows 2.22.3 to 2.30"},
		{func(d *plan.Decision) { d.Algo = plan.NVLS }, "0 channels for nvls"},
		{func(d *plan.Decision) { d.Algo, d.NVLSChannels = plan.NVLS, 16 }, "all_reduce by nvls/simple"},
		{func(d *plan.Decision) { d.Algo = plan.CollNetChain }, "all_reduce by collnetchain/simple"},
		{func(d *plan.Decision) { d.Coll, d.Algo = nccl.Broadcast, plan.Tree }, "broadcast by tree/simple"},
		{func(d *plan.Decision) { d.Coll, d.Algo, d.Version = nccl.AllGather, plan.PAT, 22505 },
			"all_gather by pat/simple on NCCL 2.25.5"},
		{func(d *plan.Decision) { d.UsedChannels = 3 }, "NCCL used 3 channels, its rules give 2"},
		{func(d *plan.Decision) { d.Ranks = 0 }, "ranks 0"},
		{func(d *plan.Decision) { d.ElemSize = 3 }, "element size 3"},
		{func(d *plan.Decision) { d.Root = 4 }, "root 4: must be 0 to 3"},
		{func(d *plan.Decision) { d.Channels = 3 }, "2 rings for 3 channels"},
		{func(d *plan.Decision) { d.Rings[1] = []int{0, 1, 2, 2} }, "ring of channel 1 [0 1 2 2]"},
		{func(d *plan.Decision) { d.Rings[1] = []int{0, 1, 2} }, "ring of channel 1 [0 1 2]"},
		{func(d *plan.Decision) { d.Algo = plan.Tree; d.Trees[0][3].Up = 2 }, "tree of channel 0: rank 3"},
		{func(d *plan.Decision) { d.Algo = plan.Tree; d.Trees[1][2].Up = -1 }, "ranks 0 and 2: two roots"},
		{func(d *plan.Decision) { d.Count = 1 << 63 }, "too large"},
		{func(d *plan.Decision) { d.BuffSize = 64 }, "too small for one chunk"},
		{func(d *plan.Decision) { d.Iterations = -1 }, "iterations -1"},
		{func(d *plan.Decision) { d.Coll = nccl.AllToAll }, "0 p2p channels"},
		{func(d *plan.Decision) { d.Coll, d.P2PChannels, d.P2PChannelsPerPeer = nccl.SendRecv, 4, 3 }, "powers of two"},
		{func(d *plan.Decision) {
			d.Coll, d.Version, d.P2PChannels, d.P2PChannelsPerPeer = nccl.SendRecv, 22803, 4, 2
		}, "2.28.3"},
		{func(d *plan.Decision) { d.ChunkSize = -1 }, "must not be negative"},
		{func(d *plan.Decision) {
			d.Coll, d.P2PChannels, d.P2PChannelsPerPeer, d.ChunkSize = nccl.SendRecv, 2, 2, 256<<10
		}, "sendrecv: NCCL_CHUNK_SIZE=262144 makes messages of 262144 bytes, and NCCL's buffers hold 131072"},
		{func(d *plan.Decision) {
			d.Coll, d.P2PChannels, d.P2PChannelsPerPeer, d.ChunkSize = nccl.SendRecv, 2, 2, 256<<10
			d.P2PLL, d.P2PLLThreshold = true, 1<<30
		}, "hold 32768: NCCL fails; make it smaller, or NCCL_LL_BUFFSIZE larger"},
	} {
		d := ok()
		tc.change(&d)
		_, err := Simulate(context.Background(), d, s.build())
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want one with %q", err, tc.want)
		}
	}
}

func TestDownLinkIsAnError(t *testing.T) {
	s := eth1(rdma())
	f := s.build()
	path, _, _ := f.Path(Conn{Src: 0, Dst: 1})
	f.Params[path[1].Hop].Down = true
	_, err := Simulate(context.Background(), decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 8), f)
	if err == nil || !strings.Contains(err.Error(), "the link is down") {
		t.Errorf("error %v", err)
	}
}

// With a loss of all packets, Simulate ends only with its context.
func TestEndsWithItsContext(t *testing.T) {
	s := eth1(rdma())
	f := s.build()
	path, _, _ := f.Path(Conn{Src: 0, Dst: 1})
	f.Params[path[1].Hop].Loss.P = math.MaxUint64
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Simulate(ctx, decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 8), f); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// In the order of a virtual clock a call is simulated in full where another one is continued: there the result is
// exact. With random numbers it is not, and of two simulations at least the spread is known.
func TestLongCallsInOrder(t *testing.T) {
	s := star{bandwidth: 10e9, latency: 25 * time.Microsecond, tr: rdma()}
	d := decide(nccl.AllToAll, plan.Ring, plan.Simple, 4, 2, 8<<20)
	d.P2PChannels, d.P2PChannelsPerPeer, d.Iterations = 2, 2, 200
	for _, jitter := range []time.Duration{0, 5 * time.Microsecond} {
		if s.jitter = (link.Jitter{}); jitter > 0 {
			s.jitter = link.Jitter{Kind: link.Uniform, Value: jitter}
		}
		f := s.build()
		f.InOrder = true
		e, err := Simulate(context.Background(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		if random := jitter > 0; e.Extrapolated != random || (e.Spread > 0) != random {
			t.Errorf("jitter %v: extrapolated %v, spread %g", jitter, e.Extrapolated, e.Spread)
		}
	}
}

// On a path that holds more segments than the link model keeps, there is no time, and no explanation of one.
func TestLongPathIsRefused(t *testing.T) {
	s := eth1(tcp())
	s.latency, s.tr.SendBuffer, s.tr.Window = time.Second, 256<<20, 256<<20
	f := s.build()
	d := decide(nccl.Broadcast, plan.Ring, plan.Simple, 2, 1, 128<<20)
	_, err := Simulate(context.Background(), d, f)
	_, why := Explain(context.Background(), d, f)
	for _, err := range []error{err, why} {
		if err == nil || !strings.Contains(err.Error(), "a path holds more segments") {
			t.Errorf("%v", err)
		}
	}
}

// Calls that are cut short may seem to be faster than their busiest hop: then no rank that waits for all others is.
func TestNoRankIsFasterThanTheBusiestHop(t *testing.T) {
	for _, tc := range []struct {
		coll         nccl.Collective
		extrapolated bool
		want         []float64
	}{
		{nccl.AllReduce, true, []float64{100, 100}},
		{nccl.AllGather, true, []float64{100, 100}},
		{nccl.Broadcast, true, []float64{70, 90}},
		{nccl.SendRecv, true, []float64{70, 90}},
		{nccl.AllReduce, false, []float64{70, 90}}, // exact: a rank may end before the last message of that hop
	} {
		e := &Estimate{RankTime: []float64{70, 90}, Bound: 100, played: 90, Extrapolated: tc.extrapolated}
		e.notBelowBound(tc.coll)
		if e.Time != 100 || !slices.Equal(e.RankTime, tc.want) {
			t.Errorf("%v, extrapolated %v: %v and ranks %v, want 100 and %v", tc.coll, tc.extrapolated, e.Time, e.RankTime,
				tc.want)
		}
	}
}
