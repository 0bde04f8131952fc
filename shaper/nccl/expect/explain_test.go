// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

func drawTime(t *rapid.T) node.Time {
	ns := rapid.Int64Range(0, 3000)
	action := func(name string) node.Cost {
		return node.Cost{Step: float64(ns.Draw(t, name)), PerByte: float64(rapid.IntRange(0, 3).Draw(t, name)) / 16,
			Links: float64(rapid.IntRange(0, 2).Draw(t, name))}
	}
	return node.Time{Kernel: ns.Draw(t, "kernel"), Channels: ns.Draw(t, "channels"),
		Call: rapid.SampledFrom([]int64{0, 100, 20_000}).Draw(t, "call"), LL: action("LL"), LL128: action("LL128"),
		Simple: action("Simple"), Send: action("send"), NVLSCopy: action("copy"), NVLSHead: action("head")}
}

// drawNVLS makes a decision one by NVLS, or between nodes by NVLSTree.
func drawNVLS(t *rapid.T, d *plan.Decision, perNode int) {
	d.Ranks = perNode * rapid.IntRange(1, 3).Draw(t, "nodes")
	d.Coll, d.Algo, d.Proto, d.NVLSChannels, d.Root = nccl.AllReduce, plan.NVLS, plan.Simple, 16, 0
	if d.Ranks == perNode {
		return
	}
	d.Algo = plan.NVLSTree
	for h := range rapid.IntRange(1, perNode).Draw(t, "heads") {
		var ranks []int
		for n := 0; n < d.Ranks; n += perNode {
			ranks = append(ranks, n+h)
		}
		d.NVLSHeads = append(d.NVLSHeads, ranks)
	}
}

// drawExplained returns any call on any fabric. lossy: its links or queues lose packets.
func drawExplained(t *rapid.T) (d plan.Decision, f *Fabric, lossy bool) {
	d = drawDecision(t, 512<<10)
	d.Iterations = rapid.IntRange(1, 4).Draw(t, "calls")
	r := drawRepeating(t)
	impaired := rapid.IntRange(0, 3).Draw(t, "impaired")
	switch impaired {
	case 1:
		r.loss.P = 0.01
	case 2:
		r.jitter = link.Jitter{Kind: link.Uniform, Value: r.latency / 2}
	}
	r.tr.Overhead = rapid.SampledFrom([]int64{0, 0, 500}).Draw(t, "overhead")
	nodes := rapid.Bool().Draw(t, "node time")
	if nodes && rapid.IntRange(0, 3).Draw(t, "NVLS") == 0 {
		r.perNode = rapid.IntRange(2, 4).Draw(t, "per node")
		drawNVLS(t, &d, r.perNode)
	}
	f = r.build(t)
	f.InOrder = rapid.Bool().Draw(t, "in order")
	if nodes {
		addNodes(f, d.Ranks, drawTime(t), rapid.SampledFrom([]uint64{1, 50, 400}).Draw(t, "GB/s"))
		f.Nodes.NICLatency = rapid.Int64Range(0, r.latency.Nanoseconds()).Draw(t, "NIC")
		d.LocalTime = true
	}
	return d, f, impaired == 1 || r.policy == link.TailDrop && r.queue > 0
}

// Whatever is called, on whatever nodes and links: each ns of the calls has a cause, and the calls take as long as
// Simulate says.
func TestPropertyPartsSumToTheTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, f, lossy := drawExplained(t)
		e, err := Explain(context.Background(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		for p, impossible := range map[Part]bool{player.Unexplained: true, player.Computing: true,
			player.Losses: !lossy, player.Window: f.Transport.Kind == link.RDMA, player.Launch: f.Nodes == nil,
			player.NVLSHead: d.Algo != plan.NVLS && d.Algo != plan.NVLSTree} {
			if impossible && e.Spent[p] != 0 {
				t.Fatalf("%d of %d ns are %s: %v", e.Spent[p], e.Spent.Sum(), p, onParts(&e.Spent))
			}
		}
		if !f.InOrder || e.Calls != d.Iterations || lossy {
			return
		}
		want, err := Simulate(context.Background(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(e.Spent.Sum()) / float64(e.Calls); want.Spread == 0 && got != want.played {
			t.Fatalf("the parts of a call are %v ns, it takes %v", got, want.played)
		}
	})
}

// onParts are the parts that are above 0.
func onParts(s *player.Spent) map[Part]int64 {
	out := map[Part]int64{}
	for p, ns := range s {
		if ns > 0 {
			out[Part(p)] = ns
		}
	}
	return out
}

func explained(t *testing.T, d plan.Decision, f *Fabric) *Explanation {
	t.Helper()
	d.LocalTime = f.Nodes != nil
	e, err := Explain(context.Background(), d, f)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The parts of small calls are the steps and latencies of the longest chain of actions.
func TestPartsOfSmallCalls(t *testing.T) {
	const ranks = 4
	n := node.Time{Kernel: 5000, Call: 300, LL: node.Cost{Step: 700}, Send: node.Cost{Step: 900},
		NVLSCopy: node.Cost{Step: 1100}, NVLSHead: node.Cost{Step: 1300}}
	nvls := decide(nccl.AllReduce, plan.NVLS, plan.Simple, ranks, 1, 64)
	nvls.NVLSChannels = 16
	for _, tc := range []struct {
		name string
		d    plan.Decision
		want map[Part]int64
	}{
		{"allreduce ll", decide(nccl.AllReduce, plan.Ring, plan.LL, ranks, 1, 64),
			map[Part]int64{player.LL: (2*ranks - 1) * 700, player.LocalLatency: (2*ranks - 2) * localLatency}},
		{"sendrecv", onOneChannel(decide(nccl.SendRecv, plan.Ring, plan.Simple, ranks, 1, 4096)),
			map[Part]int64{player.Send: 2 * 900, player.LocalLatency: localLatency}},
		{"nvls", nvls,
			map[Part]int64{player.NVLSCopy: 2 * 1100, player.NVLSHead: 1300, player.NVLSLatency: localLatency}},
	} {
		e := explained(t, tc.d, oneNode(ranks, n, 1000))
		tc.want[player.Calling], tc.want[player.Launch] = 300, 5000
		for p, ns := range onParts(&e.Spent) {
			small := slices.Contains([]Part{player.LocalSerialize, player.NVLSSerialize, player.LocalQueue,
				player.NVLSQueue}, p)
			if got := ns - tc.want[p]; got < 0 || got > 0 && !small || small && got > 20 {
				t.Errorf("%s: %s %d ns, want %d", tc.name, p, ns, tc.want[p])
			}
		}
		for p, want := range tc.want {
			if e.Spent[p] != want {
				t.Errorf("%s: %s %d ns, want %d", tc.name, p, e.Spent[p], want)
			}
		}
	}
}

// Between nodes a small call has the hosts' work, the NICs and the latency in each message.
func TestPartsBetweenNodes(t *testing.T) {
	const perMessage, nics, steps = 1500, 700, 3 // of 2 ranks: 2 messages one after the other
	s := eth1(rdma())
	s.bandwidth, s.tr.Host = 400e9, link.Host{PerMessage: perMessage}
	f := s.build()
	f.InOrder = true
	addNodes(f, 2, node.Time{Kernel: 30_000, LL: node.Cost{Step: 800}}, 400)
	f.Nodes.NICLatency = nics
	for n := range 2 {
		f.Params[2*n].Latency += nics
	}
	e := explained(t, decide(nccl.AllReduce, plan.Ring, plan.LL, 2, 1, 8), f)
	want := map[Part]int64{player.Launch: 30_000, player.LL: 800 * steps, player.Proxy: 2 * 2 * perMessage,
		player.NIC: 2 * nics, player.Latency: 2 * s.latency.Nanoseconds()}
	for p := range Part(len(e.Spent)) {
		if got := e.Spent[p]; got != want[p] && p != player.Serialize {
			t.Errorf("%s: %d ns, want %d", p, got, want[p])
		}
	}
	if e.Spent[player.Serialize] > 20 || e.Spent[player.Serialize] == 0 {
		t.Errorf("%d ns for the bytes of small messages", e.Spent[player.Serialize])
	}
}

// Of a large call over a slow link nearly all time is that of its bytes, or of the wait behind those of its own earlier
// messages. A message that waits behind those of another connection waits in a queue.
func TestPartsOfLargeCalls(t *testing.T) {
	for _, tr := range []link.Transport{rdma(), tcp()} {
		s := eth1(tr)
		f := s.build()
		e := explained(t, decide(nccl.Broadcast, plan.Ring, plan.Simple, 2, 1, 2<<20), f)
		bytes := e.Spent[player.Serialize] + e.Spent[player.Queue]
		if float64(bytes) < 0.95*s.payload(2<<20) || bytes > e.Spent.Sum() {
			t.Errorf("%d of %d ns are bytes and queues: %v", bytes, e.Spent.Sum(), onParts(&e.Spent))
		}
	}
	s := eth1(rdma())
	f := s.build()
	f.InOrder = true
	one := explained(t, decide(nccl.Broadcast, plan.Ring, plan.LL, 2, 1, 1<<10), f)
	six := decide(nccl.Broadcast, plan.Ring, plan.LL, 2, 6, 6<<10)
	six.MaxChannels = 6
	all := explained(t, six, f)
	if one.Spent[player.Queue] != 0 || all.Spent[player.Queue] < 4*one.Spent[player.Serialize] {
		t.Errorf("one message: %v; 6 on 6 channels: %v", onParts(&one.Spent), onParts(&all.Spent))
	}
}

// If a call takes long, fewer are played, and the parts are those of the calls that were.
func TestPartsOfFewerCalls(t *testing.T) {
	s := eth1(rdma())
	f := s.build()
	d := decide(nccl.AllReduce, plan.Ring, plan.LL, 8, 4, 8<<20)
	d.Iterations = 1000
	e := explained(t, d, f)
	if e.Calls < 1 || e.Calls >= d.Iterations {
		t.Errorf("%d of %d calls", e.Calls, d.Iterations)
	}
	d.Iterations = e.Calls
	if again := explained(t, d, f); again.Calls != e.Calls || again.Spent.Sum() > e.Spent.Sum() {
		t.Errorf("%+v, then %+v", e, again)
	}
}

// At a slow port a segment waits for those before it, or before the path if the port's queue is short: that is the time
// of the message's bytes.
func TestPartsOfASlowPort(t *testing.T) {
	for _, queue := range []uint64{0, 4 << 10} {
		s, slow := eth1(rdma()), eth1(rdma())
		s.bandwidth = 100e9
		f := s.build()
		port, err := link.NewParams(link.Spec{Bandwidth: slow.bandwidth, MTU: 1500, Header: 40, Framing: 38,
			QueuePolicy: link.Lossless, QueueBytes: queue}, 1)
		if err != nil {
			t.Fatal(err)
		}
		f.Params[1] = port // into node 0, the root
		e := explained(t, onOneChannel(decide(nccl.Gather, plan.Ring, plan.Simple, 2, 1, 32<<10)), f)
		got, want := float64(e.Spent[player.Serialize]), slow.payload(32<<10)
		if float64(e.Spent[player.Queue]) > 0.1*want || got < 0.9*want {
			t.Errorf("queue of %d bytes: %v, want %.0f ns for the bytes", queue, onParts(&e.Spent), want)
		}
	}
}
