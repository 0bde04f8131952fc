// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// localLatency is that from GPU to GPU, of both links together.
const localLatency = 400

// oneNode is a node whose GPUs have links of so many GB/s, on a virtual clock.
func oneNode(ranks int, t node.Time, rate uint64) *Fabric {
	tr := rdma()
	f := &Fabric{Transport: &tr, InOrder: true, Node: func(int) int { return 0 },
		Path: func(Conn) ([]link.PathHop, []int, error) { panic("all ranks are on one node") }}
	addNodes(f, ranks, t, rate)
	return f
}

// addNodes gives a fabric the time of nodes, whose GPUs have links of so many GB/s.
func addNodes(f *Fabric, ranks int, t node.Time, rate uint64) {
	first := len(f.Params)
	for range 2 * ranks {
		p, err := link.NewParams(link.Spec{Bandwidth: rate * 8e9, Latency: localLatency / 2 * time.Nanosecond,
			MTU: link.MaxMTU, QueuePolicy: link.Lossless}, 1)
		if err != nil {
			panic(err)
		}
		f.Params = append(f.Params, p)
	}
	f.Nodes = &Nodes{Time: t, Path: func(src, dst int, kind plan.Multicast) []link.PathHop {
		out, in := link.PathHop{Hop: first + 2*src}, link.PathHop{Hop: first + 2*dst + 1}
		switch kind {
		case plan.Reduces:
			return []link.PathHop{out}
		case plan.Broadcast:
			return []link.PathHop{in}
		}
		return []link.PathHop{out, in}
	}}
}

func timeOf(t *testing.T, d plan.Decision, f *Fabric) float64 {
	t.Helper()
	d.LocalTime = true
	e, err := Simulate(context.Background(), d, f)
	if err != nil {
		t.Fatal(err)
	}
	return e.First
}

// onOneChannel makes a decision one of sends and receives on one channel.
func onOneChannel(d plan.Decision) plan.Decision {
	d.P2PChannels, d.P2PChannelsPerPeer, d.P2PLLThreshold = 1, 1, -1
	return d
}

// The times of small calls are sums of steps and latencies along the longest chain of actions.
func TestNodeTimeOfSmallCalls(t *testing.T) {
	n := node.Time{Kernel: 5000, LL: node.Cost{Step: 700}, Simple: node.Cost{Step: 2000}, Send: node.Cost{Step: 900},
		NVLSCopy: node.Cost{Step: 1100}, NVLSHead: node.Cost{Step: 1300}}
	const ranks = 4
	for _, tc := range []struct {
		name        string
		d           plan.Decision
		steps, hops float64 // ns of the chain's actions, and its messages
	}{
		{"allgather ll", decide(nccl.AllGather, plan.Ring, plan.LL, ranks, 1, 64), ranks * 700, ranks - 1},
		{"allreduce ll", decide(nccl.AllReduce, plan.Ring, plan.LL, ranks, 1, 64), (2*ranks - 1) * 700, 2*ranks - 2},
		// A chunk has two slices, the second one empty: what a rank does itself takes longer than the chain.
		{"allgather simple", decide(nccl.AllGather, plan.Ring, plan.Simple, ranks, 1, 64), 2 * ranks * 2000, 0},
		{"sendrecv", onOneChannel(decide(nccl.SendRecv, plan.Ring, plan.Simple, ranks, 1, 64<<10)), 2 * 900, 1},
	} {
		want := 5000 + tc.steps + tc.hops*localLatency
		got := timeOf(t, tc.d, oneNode(ranks, n, 1000))
		if got < want || got > want+tc.hops*100 {
			t.Errorf("%s: %v ns, want %v", tc.name, got, want)
		}
	}
}

// A message crosses the links of a node while a kernel writes it, and arrives one latency after the later of both ends.
func TestNodeTimeOfAMessageThatIsWritten(t *testing.T) {
	const bytes = 64 << 10
	n := node.Time{Kernel: 5000, Send: node.Cost{Step: 900, PerByte: 0.02}}
	action := n.Send.Step + n.Send.PerByte*bytes
	for _, rate := range []uint64{20, 1000} { // the links, and the kernel, take longer
		want := 5000 + max(action, bytes/float64(rate)) + localLatency + action
		d := onOneChannel(decide(nccl.SendRecv, plan.Ring, plan.Simple, 2, 1, bytes))
		if got := timeOf(t, d, oneNode(2, n, rate)); math.Abs(got-want) > 10 {
			t.Errorf("links of %d GB/s: %v ns, want %v", rate, got, want)
		}
	}
}

// With NVLS each rank copies its data, the heads reduce and broadcast, and each rank copies the result.
func TestNodeTimeOfNVLS(t *testing.T) {
	n := node.Time{Kernel: 5000, NVLSCopy: node.Cost{Step: 1100}, NVLSHead: node.Cost{Step: 1300}}
	d := decide(nccl.AllReduce, plan.NVLS, plan.Simple, 4, 1, 64)
	d.NVLSChannels = 16
	want := 5000.0 + 1100 + localLatency/2 + 1300 + localLatency/2 + 1100
	if got := timeOf(t, d, oneNode(4, n, 1000)); math.Abs(got-want) > 10 {
		t.Errorf("%v ns, want %v", got, want)
	}
	// Of a large call each GPU's links carry the data once out and once in, at the same time.
	d = decide(nccl.AllReduce, plan.NVLS, plan.Simple, 4, 16, 256<<20)
	d.NVLSChannels = 16
	bytes := float64(256 << 20)
	if got, want := timeOf(t, d, oneNode(4, n, 100)), bytes*3/4/100; got < want || got > 1.15*want {
		t.Errorf("256 MiB at 100 GB/s: %v us, at least %v and little more", got/1e3, want/1e3)
	}
}

// With NVLSTree the copies on a channel cost something else on the nodes that have a parent: NCCL gives them fewer warps.
func TestNodeTimeOfNVLSTree(t *testing.T) {
	d := decide(nccl.AllReduce, plan.NVLSTree, plan.Simple, 4, 1, 64<<10)
	d.NVLSChannels = 16
	d.NVLSHeads = [][]int{{0, 2}, {1, 3}}
	perNode := func(r int) int { return r / 2 }
	call, err := plan.NewCall(&d, perNode)
	if err != nil {
		t.Fatal(err)
	}
	p, err := call.Plan()
	if err != nil {
		t.Fatal(err)
	}
	roles := make([]map[plan.Role]bool, 4)
	for _, b := range p.Blocks {
		if b.Channel > 0 {
			continue
		}
		for _, batch := range b.Batches {
			for _, prog := range batch {
				for _, loop := range prog {
					if roles[b.Rank] == nil {
						roles[b.Rank] = map[plan.Role]bool{}
					}
					roles[b.Rank][loop.Role] = true
				}
			}
		}
	}
	if roles[0][plan.NVLSTreeCopy] == roles[2][plan.NVLSTreeCopy] || roles[0][plan.NVLSCopy] == roles[2][plan.NVLSCopy] {
		t.Errorf("one of the two nodes has a parent on channel 0, and copies with fewer warps: %v", roles)
	}
}

// A host thread that needs longer for a call than the kernel limits the calls.
func TestNodeTimeOfTheHost(t *testing.T) {
	n := node.Time{Kernel: 5000, Call: 50_000, LL: node.Cost{Step: 700}}
	d := decide(nccl.AllGather, plan.Ring, plan.LL, 4, 1, 64)
	d.Iterations, d.LocalTime = 20, true
	e, err := Simulate(context.Background(), d, oneNode(4, n, 1000))
	if err != nil {
		t.Fatal(err)
	}
	if want := 50_000 + (5000+4*700+3*localLatency)/20.0; math.Abs(e.Time-want) > 10 {
		t.Errorf("%v ns, want %v", e.Time, want)
	}
}

// twoNodes is oneNode with each rank on a node of its own, behind ports of 100 GB/s.
func twoNodes(n Nodes) *Fabric {
	f := oneNode(2, node.Time{}, 100)
	f.Nodes, f.Node = &n, func(r int) int { return r }
	f.Path = func(c Conn) ([]link.PathHop, []int, error) {
		return []link.PathHop{{Hop: 2 * c.Src}, {Hop: 2*c.Dst + 1}}, []int{2 * c.Dst, 2*c.Src + 1}, nil
	}
	return f
}

// clearToSend is about how long a receive takes to be known to the sender, in ns. What a kernel or a rendezvous takes may
// pass at the same time.
const clearToSend = 220

// Sends between nodes have a cost of their own; without one, that of sends.
func TestNodeTimeOfSendsBetweenNodes(t *testing.T) {
	d := onOneChannel(decide(nccl.SendRecv, plan.Ring, plan.Simple, 2, 1, 1<<10))
	base := timeOf(t, d, twoNodes(Nodes{}))
	send := node.Cost{Step: 1000}
	for _, tc := range []struct {
		name string
		time node.Time
		want float64 // ns of both actions
	}{
		{"none", node.Time{Send: send}, 2000},
		{"own", node.Time{Send: send, SendNet: node.SendCost{Action: node.Cost{Step: 7000}}}, 14_000},
		{"for a channel", node.Time{SendNet: node.SendCost{Action: node.Cost{Step: 7000}, PerChannel: 800}}, 15_600},
		{"start of the send", node.Time{SendNet: node.SendCost{Action: node.Cost{Step: 7000}, Start: 9000}}, 23_000},
		{"rate", node.Time{SendNet: node.SendCost{Action: node.Cost{PerByte: 0.1}}}, 2 * 0.1 * (1 << 10)},
	} {
		if got := timeOf(t, d, twoNodes(Nodes{Time: tc.time})) - base; got > tc.want+20 || got < tc.want-2*clearToSend {
			t.Errorf("%s: %v ns more than without, want %v", tc.name, got, tc.want)
		}
	}
	within := timeOf(t, d, oneNode(2, node.Time{Send: send, SendNet: node.SendCost{Action: node.Cost{Step: 7000}}}, 100))
	if want := timeOf(t, d, oneNode(2, node.Time{Send: send}, 100)); within != want {
		t.Errorf("within a node: %v ns, %v without a cost between nodes", within, want)
	}
}

// Only the first batch of sends of a channel begins later. On one channel 8 of 9 peers are in the first batch.
func TestNodeTimeOfTheStartOfSends(t *testing.T) {
	f := func(start int64) *Fabric {
		n := Nodes{Time: node.Time{SendNet: node.SendCost{Action: node.Cost{Step: 100_000}, Start: start}}}
		f := oneNode(10, node.Time{}, 100)
		f.Nodes, f.Node = &n, func(r int) int { return r }
		f.Path = twoNodes(n).Path
		return f
	}
	for _, ranks := range []int{8, 10} { // one batch, and two
		d := onOneChannel(decide(nccl.AllToAll, plan.Ring, plan.Simple, ranks, 1, 1<<10))
		base := timeOf(t, d, f(0))
		if got := timeOf(t, d, f(30_000)) - base; math.Abs(got-30_000) > clearToSend {
			t.Errorf("%d ranks: %v ns later, want the start of one send", ranks, got)
		}
	}
}

// A message above the limit is later by the rendezvous, as often as messages follow each other on the critical path.
func TestNodeTimeOfRendezvous(t *testing.T) {
	const rendezvous = 7500
	d := decide(nccl.AllReduce, plan.Ring, plan.LL, 2, 1, 1<<10) // two messages of 1 KiB with flags, one after the other
	n := Nodes{Time: node.Time{LL: node.Cost{Step: 100}}}
	base := timeOf(t, d, twoNodes(n))
	for eager, want := range map[uint64]float64{1023: 2 * rendezvous, 1024: 0, 0: 2 * rendezvous} {
		n.Rendezvous, n.Eager = rendezvous, eager
		if got := timeOf(t, d, twoNodes(n)) - base; got > want+20 || got < want-2*clearToSend {
			t.Errorf("eager up to %d: %v ns more than without, want %v", eager, got, want)
		}
	}
}

// What a channel moves is limited by the channel's rate, what a GPU moves by its links.
func TestNodeTimeOfRates(t *testing.T) {
	const bytes = 16 << 20 // of each rank
	for _, tc := range []struct {
		name     string
		channels int
		perByte  float64
		want     float64 // ns
	}{
		{"channel", 1, 0.1, 4 * bytes * 0.1}, // a rank moves 4 chunks in its 4 actions
		{"links", 16, 0.01, 3 * bytes / 100.0},
	} {
		n := node.Time{Simple: node.Cost{PerByte: tc.perByte}}
		d := decide(nccl.AllGather, plan.Ring, plan.Simple, 4, tc.channels, bytes)
		if got := timeOf(t, d, oneNode(4, n, 100)); got < tc.want || got > 1.1*tc.want {
			t.Errorf("%s: %v us, at least %v and little more", tc.name, got/1e3, tc.want/1e3)
		}
	}
}

// The load of a link within a node has all bytes that a message occupies there.
func TestNodeTimeOfLoads(t *testing.T) {
	d := decide(nccl.AllGather, plan.Ring, plan.LL128, 4, 1, 64<<10)
	d.LocalTime = true
	busiest := func(occupies float64) float64 {
		e, err := Simulate(context.Background(), d, oneNode(4, node.Time{LL128: node.Cost{Step: 1, Links: occupies}}, 100))
		if err != nil {
			t.Fatal(err)
		}
		return e.Bound
	}
	if one, more := busiest(1), busiest(1.5); math.Abs(more/one-1.5) > 1e-3 {
		t.Errorf("the busiest link is busy for %v ns, and for %v where a byte occupies 1.5", one, more)
	}
}

// A long call, of which some loops and calls are simulated, takes as long as one that is simulated in full, to 0.1 %.
func TestNodeTimeOfLongCalls(t *testing.T) {
	const ranks, perNode = 8, 4
	n := node.Time{Kernel: 6000, Channels: 700, Call: 4000, LL: node.Cost{Step: 700, PerByte: 0.02},
		LL128: node.Cost{Step: 1600, PerByte: 0.03, Links: 1.2}, Simple: node.Cost{Step: 2500, PerByte: 0.03},
		Send: node.Cost{Step: 900, PerByte: 0.025}, NVLSCopy: node.Cost{Step: 1100, PerByte: 0.02},
		NVLSHead: node.Cost{Step: 1300, PerByte: 0.05}}
	for _, tc := range []struct {
		coll    nccl.Collective
		algo    plan.Algorithm
		proto   plan.Protocol
		perNode int
		bytes   uint64
	}{
		{nccl.AllReduce, plan.Ring, plan.Simple, ranks, 1 << 30},
		{nccl.AllReduce, plan.NVLS, plan.Simple, ranks, 256 << 20},
		{nccl.AllToAll, plan.Ring, plan.Simple, ranks, 256 << 20},
		{nccl.AllReduce, plan.Ring, plan.LL128, perNode, 256 << 20},
		{nccl.AllReduce, plan.Tree, plan.Simple, perNode, 256 << 20},
		{nccl.AllReduce, plan.NVLSTree, plan.Simple, perNode, 256 << 20},
		{nccl.Broadcast, plan.Ring, plan.Simple, perNode, 1 << 30},
	} {
		s := star{perNode: tc.perNode, bandwidth: 400e9, latency: 1500, tr: rdma(),
			jitter: link.Jitter{Kind: link.Normal, Value: 60}}
		f := s.build()
		f.InOrder = true
		addNodes(f, ranks, n, 300)
		d := decide(tc.coll, tc.algo, tc.proto, ranks, 4, lighter(tc.bytes)+12345*4)
		d.P2PChannels, d.P2PChannelsPerPeer, d.NVLSChannels, d.LocalTime, d.Iterations = 4, 4, 4, true, 4
		if tc.algo == plan.NVLSTree {
			d.NVLSHeads = [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}}
		}
		got, err := Simulate(t.Context(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		full := playAllOn(t, d, f)
		if !got.Extrapolated || math.Abs(got.played/last(full)-1) > nodePrecision {
			t.Errorf("%s, %d ranks on a node: %.3f us, in full %.3f, extrapolated %v", d.Name(), tc.perNode, got.played/1e3,
				last(full)/1e3, got.Extrapolated)
		}
	}
}

// Ranks whose neighbours are on their node run ahead of the others until the buffers between them are full: their first
// calls are faster. Such calls are all simulated.
func TestNodeTimeOfRanksThatRunAhead(t *testing.T) {
	const ranks = 16
	d := decide(nccl.SendRecv, plan.Ring, plan.Simple, ranks, 8, 72<<20)
	d.P2PChannels, d.P2PChannelsPerPeer, d.P2PChunkSize, d.LocalTime, d.Iterations = 8, 8, 512<<10, true, 4
	s := star{perNode: ranks / 2, bandwidth: 400e9, latency: 1500, tr: rdma()}
	f := s.build()
	f.InOrder = true
	addNodes(f, ranks, node.Time{Kernel: 6000, Send: node.Cost{Step: 2500, PerByte: 0.02}}, 600)
	got, err := Simulate(t.Context(), d, f)
	if err != nil {
		t.Fatal(err)
	}
	for r, want := range playAllOn(t, d, f) {
		if math.Abs(got.RankTime[r]/want-1) > nodePrecision {
			t.Errorf("rank %d takes %.3f us, in full %.3f", r, got.RankTime[r]/1e3, want/1e3)
		}
	}
}

// A communicator of 6 + 6 ranks of 2 nodes with 8 GPUs takes by NVLSTree what one of 2 nodes with 6 GPUs takes: its
// messages cross the links of the GPUs that its ranks have.
func TestNVLSInSomeRanks(t *testing.T) {
	const members = 6
	n := node.Time{Kernel: 5000, Simple: node.Cost{Step: 2000}, NVLSCopy: node.Cost{Step: 1100},
		NVLSHead: node.Cost{Step: 1300}}
	d := decide(nccl.AllReduce, plan.NVLSTree, plan.Simple, 2*members, 16, 1<<20)
	d.NVLSChannels = 16
	for h := range members {
		d.NVLSHeads = append(d.NVLSHeads, []int{h, members + h})
	}
	times, used := map[int]int64{}, map[int]bool{}
	for _, perNode := range []int{members, 8} {
		f := oneNode(2*perNode, n, 100)
		gpuPath := f.Nodes.Path
		f.Nodes.Path = func(src, dst int, kind plan.Multicast) []link.PathHop {
			if src/perNode != dst/perNode || src%perNode >= members || dst%perNode >= members {
				t.Errorf("%d GPUs per node: a message from GPU %d to %d", perNode, src, dst)
			}
			used[src], used[dst] = true, true
			return gpuPath(src, dst, kind)
		}
		f.Node = func(r int) int { return r / perNode }
		// The NICs are links like those of GPUs.
		first := len(f.Params)
		f.Params = append(f.Params, f.Params...)
		f.Path = func(c Conn) ([]link.PathHop, []int, error) {
			return []link.PathHop{{Hop: first + 2*c.Src}, {Hop: first + 2*c.Dst + 1}},
				[]int{first + 2*c.Dst, first + 2*c.Src + 1}, nil
		}
		j := &plan.Job{Comms: []plan.Comm{{Calls: []plan.Group{plan.Alone(d)}}}, Ranks: make([][]plan.Item, 2*perNode)}
		for r := range 2 * perNode {
			if r%perNode < members {
				j.Comms[0].Ranks = append(j.Comms[0].Ranks, r)
				j.Ranks[r] = []plan.Item{{Kind: plan.Collective}}
			}
		}
		times[perNode] = simulateJob(t, j, f).End()
	}
	if times[members] == 0 || times[8] != times[members] || !used[13] {
		t.Errorf("%d ns on 2 x 8 GPUs, %d ns on 2 x %d", times[8], times[members], members)
	}
}
