// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// all are the ranks 0 to n-1.
func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// spmd is a job whose ranks all have the same items, in one communicator.
func spmd(ranks int, calls []plan.Decision, items ...plan.Item) *plan.Job {
	j := &plan.Job{Comms: []plan.Comm{{Ranks: all(ranks)}}}
	for _, d := range calls {
		j.Comms[0].Calls = append(j.Comms[0].Calls, plan.Alone(d))
	}
	for range ranks {
		j.Ranks = append(j.Ranks, items)
	}
	return j
}

// inOrder is a star whose connections go in a fixed order, so that times are exact.
func inOrder(tr link.Transport) *Fabric {
	f := star{bandwidth: 10e9, latency: 25 * time.Microsecond, tr: tr}.build()
	f.InOrder = true
	return f
}

// End is when the last item ends.
func (e *JobEstimate) End() (end int64) {
	for _, spans := range e.Spans {
		for _, s := range spans {
			end = max(end, s.End)
		}
	}
	return end
}

func simulateJob(t *testing.T, j *plan.Job, f *Fabric) *JobEstimate {
	t.Helper()
	of := *f
	of.Path = func(c Conn) ([]link.PathHop, []int, error) {
		ranks := j.Comms[c.Comm].Ranks
		c.Src, c.Dst = ranks[c.Src], ranks[c.Dst]
		return f.Path(c)
	}
	e, err := SimulateJob(context.Background(), j, &of)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// jobDecisions are calls of every algorithm and protocol that differ in how they use a connection's buffer.
func jobDecisions() map[string]plan.Decision {
	return map[string]plan.Decision{
		"ring, Simple":  decide(nccl.AllReduce, plan.Ring, plan.Simple, 4, 2, 3<<20),
		"ring, LL":      decide(nccl.AllReduce, plan.Ring, plan.LL, 4, 2, 40<<10),
		"tree, LL128":   decide(nccl.AllReduce, plan.Tree, plan.LL128, 4, 2, 300<<10),
		"broadcast":     decide(nccl.Broadcast, plan.Ring, plan.Simple, 4, 2, 1<<20),
		"reduceScatter": decide(nccl.ReduceScatter, plan.Ring, plan.Simple, 4, 1, 1<<20),
	}
}

// Calls back to back take as long as Simulate says, on every rank.
func TestJobOfOneCallRepeated(t *testing.T) {
	for name, d := range jobDecisions() {
		for _, tr := range []link.Transport{tcp(), rdma()} {
			f := inOrder(tr)
			d.Iterations = 6
			want, err := Simulate(context.Background(), d, f)
			if err != nil {
				t.Fatal(err)
			}
			var items []plan.Item
			for range d.Iterations {
				items = append(items, plan.Item{Kind: plan.Collective})
			}
			got := simulateJob(t, spmd(4, []plan.Decision{d}, items...), f)
			for r, spans := range got.Spans {
				if mean := float64(spans[5].End) / 6; mean != want.RankTime[r] {
					t.Errorf("%s, %v: rank %d takes %v ns per call in a job, %v alone", name, tr.Kind, r, mean,
						want.RankTime[r])
				}
			}
		}
	}
}

// A call after a computation takes as long as the first call, without the latency of the receivers' clear-to-send: NCCL
// posts the receives when the host launches the call. A computation on another stream does not delay a call.
func TestJobComputes(t *testing.T) {
	const ms = 1_000_000
	d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 4, 2, 3<<20)
	d.Iterations = 1
	f := inOrder(rdma())
	want, err := Simulate(context.Background(), d, f)
	if err != nil {
		t.Fatal(err)
	}
	call := int64(want.First)
	back := simulateJob(t, spmd(4, []plan.Decision{d}, plan.Item{Kind: plan.Collective}, plan.Item{Kind: plan.Collective}), f)
	second := back.Spans[0][1].End // on one stream
	ahead := call - (25 * time.Microsecond).Nanoseconds()
	for _, tc := range []struct {
		name  string
		items []plan.Item
		ends  []int64
	}{
		{"one stream", []plan.Item{{Nanos: 5 * ms}, {Kind: plan.Collective}, {Nanos: ms}},
			[]int64{5 * ms, 5*ms + ahead, 6*ms + ahead}},
		{"two streams", []plan.Item{{Nanos: 5 * ms}, {Kind: plan.Collective, Stream: 1}}, []int64{5 * ms, call}},
		{"waits for the other stream", []plan.Item{{Nanos: 5 * ms}, {Kind: plan.Collective, Stream: 1, After: []int{0}}},
			[]int64{5 * ms, 5*ms + ahead}},
		{"the host waits", []plan.Item{{Nanos: 5 * ms}, {Kind: plan.HostWait, After: []int{0}}, {Kind: plan.Collective, Stream: 1}},
			[]int64{5 * ms, 5 * ms, 5*ms + call}},
		{"calls of a communicator on two streams", []plan.Item{{Kind: plan.Collective, Stream: 1}, {Kind: plan.Collective, Stream: 2},
			{Stream: 2}}, []int64{call, second, second}},
	} {
		e := simulateJob(t, spmd(4, []plan.Decision{d}, tc.items...), f)
		for i, end := range tc.ends {
			if e.Spans[0][i].End != end {
				t.Errorf("%s: item %d ends at %d, want %d", tc.name, i, e.Spans[0][i].End, end)
			}
		}
	}
}

// A rank that comes late makes the others wait, and nothing else.
func TestJobWithALateRank(t *testing.T) {
	d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 4, 1, 1<<20)
	d.Iterations = 1
	for _, tr := range []link.Transport{tcp(), rdma()} {
		f := inOrder(tr)
		alone, err := Simulate(context.Background(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		j := spmd(4, []plan.Decision{d}, plan.Item{Nanos: 1}, plan.Item{Kind: plan.Collective})
		late := []plan.Item{{Nanos: 50_000_000}, {Kind: plan.Collective}}
		j.Ranks[2] = late
		e := simulateJob(t, j, f)
		if got := float64(e.End() - 50_000_000); got > alone.First || got < 0.5*alone.First {
			t.Errorf("%v: the call takes %v ns after the late rank, want at most %v", tr.Kind, got, alone.First)
		}
	}
}

// Two communicators on the same links take as long as their bytes need. On links of their own they do not meet.
func TestJobOfTwoCommunicators(t *testing.T) {
	const bytes = 16 << 20
	d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, bytes)
	d.Iterations = 1
	f := inOrder(rdma())
	alone, err := Simulate(context.Background(), d, f)
	if err != nil {
		t.Fatal(err)
	}
	job := func(a, b []int) *plan.Job {
		j := &plan.Job{Comms: []plan.Comm{{Ranks: a, Calls: []plan.Group{plan.Alone(d)}},
			{Ranks: b, Calls: []plan.Group{plan.Alone(d)}}}, Ranks: make([][]plan.Item, 4)}
		for comm, ranks := range [][]int{a, b} {
			for _, r := range ranks {
				j.Ranks[r] = append(j.Ranks[r], plan.Item{Kind: plan.Collective, Comm: comm, Stream: comm})
			}
		}
		return j
	}
	if apart := simulateJob(t, job([]int{0, 1}, []int{2, 3}), f); float64(apart.End()) != alone.First {
		t.Errorf("on links of their own: %d ns, want %v", apart.End(), alone.First)
	}
	both := float64(simulateJob(t, job([]int{0, 1}, []int{0, 1}), f).End())
	if math.Abs(both-2*alone.First) > 0.02*both {
		t.Errorf("on the same links: %v ns, want twice %v", both, alone.First)
	}
}

// Sends and receives by hand take as long as SendRecv and AllToAll.
func TestJobOfSendsAndReceives(t *testing.T) {
	const ranks, bytes = 5, 700 << 10
	f := inOrder(rdma())
	d := decide(nccl.SendRecv, plan.Ring, plan.Simple, ranks, 1, bytes)
	d.P2PChannels, d.P2PChannelsPerPeer, d.Iterations = 4, 2, 3
	for _, coll := range []nccl.Collective{nccl.SendRecv, nccl.AllToAll} {
		d.Coll = coll
		want, err := Simulate(context.Background(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		j := &plan.Job{Comms: []plan.Comm{{Ranks: all(ranks), P2P: d}}}
		for r := range ranks {
			it := plan.Item{Kind: plan.Exchange, Sends: map[int]uint64{}, Recvs: map[int]uint64{}}
			for peer := range ranks {
				if coll == nccl.AllToAll || peer == (r+1)%ranks {
					it.Sends[peer] = bytes
				}
				if coll == nccl.AllToAll || peer == (r+ranks-1)%ranks {
					it.Recvs[peer] = bytes
				}
			}
			j.Ranks = append(j.Ranks, []plan.Item{it, it, it})
		}
		e := simulateJob(t, j, f)
		for r, spans := range e.Spans {
			if got := float64(spans[2].End) / 3; got != want.RankTime[r] {
				t.Errorf("%v: rank %d takes %v ns, want %v", coll, r, got, want.RankTime[r])
			}
		}
	}
}

// A pipeline: each rank receives, computes and sends on. The last one ends after all computations and messages.
func TestJobOfAPipeline(t *testing.T) {
	const ranks, ms, bytes = 4, 1_000_000, 1 << 20
	f := inOrder(rdma())
	d := decide(nccl.SendRecv, plan.Ring, plan.Simple, 2, 1, bytes)
	d.P2PChannels, d.P2PChannelsPerPeer = 1, 1
	j := &plan.Job{Comms: []plan.Comm{{Ranks: all(ranks), P2P: d}}}
	for r := range ranks {
		var items []plan.Item
		if r > 0 {
			items = append(items, plan.Item{Kind: plan.Exchange, Recvs: map[int]uint64{r - 1: bytes}})
		}
		items = append(items, plan.Item{Nanos: ms})
		if r < ranks-1 {
			items = append(items, plan.Item{Kind: plan.Exchange, Sends: map[int]uint64{r + 1: bytes}})
		}
		j.Ranks = append(j.Ranks, items)
	}
	e := simulateJob(t, j, f)
	one := e.Spans[1][0].End - ms // the first message, sent after a computation
	if got, want := e.End(), int64(ranks*ms)+(ranks-1)*one; got != want || one <= 0 {
		t.Errorf("ends at %d, want %d: computations and messages of %d", got, want, one)
	}
}

func TestJobRefusals(t *testing.T) {
	d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 1<<20)
	p2p := d
	p2p.P2PChannels, p2p.P2PChannelsPerPeer = 1, 1
	world := func(items ...[]plan.Item) *plan.Job {
		return &plan.Job{Comms: []plan.Comm{{Ranks: all(2), Calls: []plan.Group{plan.Alone(d)}, P2P: p2p}}, Ranks: items}
	}
	for name, tc := range map[string]struct {
		job  *plan.Job
		want string
	}{
		"a rank does not call": {world([]plan.Item{{Kind: plan.Collective}}, nil), "rank 0 is in item 0"},
		"nobody sends": {world([]plan.Item{{Kind: plan.Exchange, Recvs: map[int]uint64{1: 8}}}, nil),
			"rank 0 is in item 0"},
		"after itself":         {world([]plan.Item{{After: []int{0}}}, nil), "rank 0, item 0: waits for item 0"},
		"no such communicator": {world([]plan.Item{{Kind: plan.Collective, Comm: 1}}, nil), "communicator 1: there are 1"},
		"no such call":         {world([]plan.Item{{Kind: plan.Collective, Call: 1}}, nil), "call 1: communicator 0 has 1"},
		"a rank that is not in it": {world(nil, nil, []plan.Item{{Kind: plan.Collective}}),
			"communicator 0 does not have this rank"},
		"a peer that is not in it": {world([]plan.Item{{Kind: plan.Exchange, Sends: map[int]uint64{2: 8}}}),
			"sends to rank 2 of 2"},
		"negative computation":      {world([]plan.Item{{Nanos: -1}}), "computes for -1 ns"},
		"no kind":                   {world([]plan.Item{{Kind: 9}}), "kind 9: unknown"},
		"the host waits for itself": {world([]plan.Item{{Kind: plan.HostWait, After: []int{3}}}), "waits for item 3"},
	} {
		f := inOrder(rdma())
		if _, err := SimulateJob(context.Background(), tc.job, f); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// A hypercube takes as long as its exchanges do in a job, call by call and rank by rank.
func TestHypercubeIsItsExchanges(t *testing.T) {
	const ranks, calls = 16, 5
	for _, tr := range []link.Transport{tcp(), rdma()} {
		// With 64 KiB a rank may be two exchanges ahead of others, which have posted their receives before.
		for _, share := range []uint64{0, 64, 64 << 10} {
			f := inOrder(tr)
			d := sends(nccl.HyperCube, 22907, ranks, 8, share)
			d.Iterations = calls
			want, err := Simulate(context.Background(), d, f)
			if err != nil {
				t.Fatal(err)
			}
			j := &plan.Job{Comms: []plan.Comm{{Ranks: all(ranks), P2P: d}}}
			for r := range ranks {
				var items []plan.Item
				for range calls {
					for distance := 1; distance < ranks; distance *= 2 {
						bytes := map[int]uint64{r ^ distance: d.Count * d.ElemSize * uint64(distance)}
						items = append(items, plan.Item{Kind: plan.Exchange, Sends: bytes, Recvs: bytes})
					}
				}
				j.Ranks = append(j.Ranks, items)
			}
			got := simulateJob(t, j, f)
			for r, spans := range got.Spans {
				if mean := float64(spans[len(spans)-1].End) / calls; mean != want.RankTime[r] || mean <= 0 {
					t.Errorf("%d bytes, %v: rank %d takes %v ns per call in a job, %v as one", share, tr.Kind, r, mean,
						want.RankTime[r])
				}
			}
		}
	}
}

// A job is told of the exchanges: they are several calls of NCCL.
func TestJobRefusesHypercube(t *testing.T) {
	j := spmd(4, []plan.Decision{sends(nccl.HyperCube, 22907, 4, 4, 64)}, plan.Item{Kind: plan.Collective})
	if _, err := SimulateJob(context.Background(), j, inOrder(tcp())); err == nil ||
		!strings.Contains(err.Error(), "give its exchanges") {
		t.Errorf("%v", err)
	}
}

// A link at half of its rate from 3 ms on: a broadcast that takes 6 ms alone takes 9 ms, and its start is as before.
func TestJobMeetsAPlannedChange(t *testing.T) {
	d := decide(nccl.Broadcast, plan.Ring, plan.Simple, 2, 1, 6<<20)
	end := func(changes func(f *Fabric) []sim.Change) float64 {
		f := star{bandwidth: 8e9 * (1 << 20) / 1e6, tr: rdma()}.build() // 1 MiB in 1 ms
		f.InOrder = true
		f.Changes = changes(f)
		return float64(simulateJob(t, spmd(2, []plan.Decision{d}, plan.Item{Kind: plan.Collective}), f).End()) / 1e6
	}
	half := func(f *Fabric, at int64) (out []sim.Change) {
		for hop := range f.Params {
			p := f.Params[hop]
			p.NsNum *= 2
			out = append(out, sim.Change{Time: at, Hop: hop, Params: p})
		}
		return out
	}
	alone := end(func(*Fabric) []sim.Change { return nil })
	for at, want := range map[int64]float64{3e6: 2*alone - 3, 0: 2 * alone, 1e9: alone} {
		got := end(func(f *Fabric) []sim.Change { return half(f, at) })
		if math.Abs(got-want) > 0.15 {
			t.Errorf("half of the rate from %d ns on: %.3f ms, want %.3f (%.3f without)", at, got, want, alone)
		}
	}
	f := star{bandwidth: 8e9, tr: rdma()}.build()
	f.Changes = half(f, 3e6)
	if _, err := Simulate(t.Context(), d, f); err == nil || !strings.Contains(err.Error(), "times of a job") {
		t.Errorf("a call alone: %v", err)
	}
}
