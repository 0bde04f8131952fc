// SPDX-License-Identifier: Apache-2.0

package nccllog

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// parse reads a log with these messages.
func parse(messages ...string) *Parser {
	p := &Parser{}
	for _, m := range messages {
		fmt.Fprintf(p, "host:12:34 [0] NCCL INFO %s\n", m)
	}
	return p
}

func TestLines(t *testing.T) {
	unknown := func(change func(*Comm)) *Comm {
		c := &Comm{CollChannels: Unknown, P2PChannels: Unknown, P2PChannelsPerPeer: Unknown}
		change(c)
		return c
	}
	cases := map[string]struct {
		message string
		want    *Comm
	}{
		"shape": {"comm 0x55d rank 1 nRanks 4 nNodes 2 localRanks 2 localRank 1 MNNVL 0", unknown(func(c *Comm) {
			c.Rank, c.Ranks, c.Nodes, c.LocalRanks, c.LocalRank = 1, 4, 2, 2, 1
		})},
		"channels": {"2 coll channels, 2 collnet channels, 16 nvls channels, 4 p2p channels, 3 p2p channels per peer",
			unknown(func(c *Comm) {
				c.CollChannels, c.NVLSChannels, c.P2PChannels, c.P2PChannelsPerPeer = 2, 16, 4, 3
			})},
		"head of nvls": {"NVLS Head  0:  3 11", unknown(func(c *Comm) { c.NVLSHeads = [][]int{{3, 11}} })},
		"ring of 2.22": {"Channel 00/02 :    0   1   2", unknown(func(c *Comm) { c.Rings = [][]int{{0, 1, 2}} })},
		"ring of 2.29": {"Channel 01/02 : 0 2 1", unknown(func(c *Comm) { c.Rings = [][]int{nil, {0, 2, 1}} })},
		"ring cut off": {"Channel 00/01 :  0  1  2...", unknown(func(c *Comm) { c.Rings = [][]int{{0, 1, 2}} })},
		"neighbours":   {"Ring 01 : 3 -> 0 -> 1", unknown(func(c *Comm) { c.Neighbours = []Neighbours{{}, {3, 1}} })},
		"trees": {"Trees [0] 1/-1/-1->0->-1 [1] 2/3/-1->0->4", unknown(func(c *Comm) {
			c.Trees = []TreeNode{{Up: -1, Down: []int{1}}, {Up: 4, Down: []int{2, 3}}}
		})},
		"trees cut off": {"Trees [0] 1/-1/-1->0->-1 [1] 2/3/-1->", unknown(func(c *Comm) {
			c.Trees = []TreeNode{{Up: -1, Down: []int{1}}}
		})},
		"sent over a network": {"Channel 03/1 : 0[0] -> 1[2] [send] via NET/Socket/0/Shared", unknown(func(c *Comm) {
			c.Connections = []Connection{{Channel: 3, Index: 1, From: 0, To: 1, Via: "NET/Socket/0/Shared"}}
		})},
		"received over a network": {"Channel 00/0 : 1[0] -> 0[0] [receive] via NET/goemu/0/GDRDMA(PCI)",
			unknown(func(c *Comm) {
				c.Connections = []Connection{{From: 1, To: 0, Receive: true, Via: "NET/goemu/0/GDRDMA(PCI)"}}
			})},
		"peer to peer": {"Channel 02/0 : 0[0] -> 1[1] via P2P/direct pointer/read", unknown(func(c *Comm) {
			c.Connections = []Connection{{Channel: 2, From: 0, To: 1, Via: "P2P/direct pointer"}}
		})},
		"peer to peer, IPC": {"Channel 02/0 : 0[0] -> 1[1] via P2P/IPC/read/CE", unknown(func(c *Comm) {
			c.Connections = []Connection{{Channel: 2, From: 0, To: 1, Via: "P2P/IPC/read/CE"}}
		})},
		"shared memory": {"Channel 01 : 2[0] -> 3[1] via SHM/direct/direct", unknown(func(c *Comm) {
			c.Connections = []Connection{{Channel: 1, From: 2, To: 3, Via: "SHM/direct/direct"}}
		})},
		"decision of 2.22": {"1048576 Bytes -> Algo 1 proto 2 time 131.250000", unknown(func(c *Comm) {
			c.Decisions = []Decision{{Bytes: 1 << 20, Algo: AlgoRing, Proto: ProtoSimple, ChannelLo: Unknown,
				ChannelHi: Unknown, PredictedUS: 131.25, Count: 1}}
		})},
		"decision of 2.29": {"AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}", unknown(func(c *Comm) {
			c.Decisions = []Decision{{Func: "AllReduce", Bytes: 8, Algo: AlgoTree, Proto: ProtoLL, ChannelHi: 3,
				Count: 1}}
		})},
		"spelling of 2.29": {"AllReduce: 8 Bytes -> Algo COLLNET_DIRECT proto SIMPLE channel{Lo..Hi}={1..1}",
			unknown(func(c *Comm) {
				c.Decisions = []Decision{{Func: "AllReduce", Bytes: 8, Algo: AlgoCollNetDirect, Proto: ProtoSimple,
					ChannelLo: 1, ChannelHi: 1, Count: 1}}
			})},
		"an algorithm that is not known": {"8 Bytes -> Algo 9 proto 0 time 1.0", unknown(func(c *Comm) {
			c.Decisions = []Decision{{Bytes: 8, Algo: "9", Proto: ProtoLL, ChannelLo: Unknown, ChannelHi: Unknown,
				PredictedUS: 1, Count: 1}}
		})},
	}
	for name, c := range cases {
		p := parse(c.message)
		if len(p.Log().Comms) != 1 {
			t.Errorf("%s: %d communicators", name, len(p.Log().Comms))
			continue
		}
		if diff := cmp.Diff(c.want, p.Comm()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Messages that look similar but are different.
func TestOtherLines(t *testing.T) {
	p := parse(
		"Channel 00 : 1 -> 0", "NVLS Trees : 0/1/2->0->-1 0/1/2->0->-1", "Connected all rings", "Ring 00 : 0 -> 1",
		"comm 0x1 rank 0 nRanks 2 cudaDev 0 busId 10 - Abort START", "AllReduce [Copy Engine]: 8 Bytes -> cudaMemcpy",
		"  Algorithm   |  Tree  |  Ring", "Bytes -> Algo 1", "99999999999999999999 Bytes -> Algo 1 proto 2 time 1",
		"Channel 999/0 : 0 1", "Trees [200] 1/-1/-1->0->-1",
	)
	_, _ = p.Write([]byte("no NCCL line\nhost NCCL TRACE 8 Bytes -> Algo 1 proto 2 time 1\n\n"))
	for _, c := range p.Log().Comms {
		if len(c.Rings)+len(c.Trees)+len(c.Decisions)+len(c.Connections)+len(c.Neighbours)+c.Ranks != 0 {
			t.Errorf("something was read: %+v", c)
		}
	}
}

func TestSeveralCommunicators(t *testing.T) {
	start := "ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 10 commId 0x2 - Init START"
	shape := "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"
	p := parse("NCCL version 2.22.3+cuda12.4", "Using network goemu", start, shape, "Channel 00/01 : 0 1",
		"Using network Socket", start, shape)
	if len(p.Log().Comms) != 2 || p.Log().Comms[0].Network != "goemu" || p.Comm().Network != "Socket" ||
		p.Comm().Rings != nil {
		t.Errorf("%+v", p.Log())
	}
	if p.Log().Version != "2.22.3" || p.Log().CUDA != "12.4" {
		t.Errorf("version %q, CUDA %q", p.Log().Version, p.Log().CUDA)
	}
	// Without the start message, and with the network printed after the shape.
	if p = parse(shape, shape); len(p.Log().Comms) != 2 {
		t.Errorf("%d communicators", len(p.Log().Comms))
	}
	if p = parse(start, "Using network goemu", shape); p.Comm().Network != "goemu" || p.Comm().Ranks != 2 {
		t.Errorf("%+v", p.Comm())
	}
}

// Lines that name no communicator belong to the selected one, those with an address to the communicator there.
func TestSelect(t *testing.T) {
	start := func(address string) string {
		return "[Rank 0] ncclCommInitRank comm " + address +
			" rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 10 commId 0x7" + address[2:] + " - Init START"
	}
	shape := func(address string, ranks int) string {
		return fmt.Sprintf("comm %s rank 0 nRanks %d nNodes 2 localRanks 1 localRank 0 MNNVL 0", address, ranks)
	}
	decision := "AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}"
	p := parse(start("0xa"), start("0xb"), shape("0xa", 4), shape("0xb", 2))
	comms := p.Log().Comms
	if len(comms) != 2 || comms[0].Ranks != 4 || comms[1].Ranks != 2 || comms[0].Address != "0xa" ||
		comms[1].ID != "0x7b" {
		t.Fatalf("%+v", p.Log())
	}
	p.Select(comms[0])
	write := func(messages ...string) {
		for _, m := range messages {
			_, _ = p.Write([]byte("x NCCL INFO " + m + "\n"))
		}
	}
	write(decision, "Channel 00/0 : 0[0] -> 1[1] [send] via NET/goemu/0")
	if len(comms[0].Decisions) != 1 || len(comms[0].Connections) != 1 || len(comms[1].Decisions) != 0 {
		t.Errorf("%+v, %+v", comms[0], comms[1])
	}
	write(start("0xa"), decision) // the address is used again
	if comms = p.Log().Comms; len(comms) != 3 || len(comms[2].Decisions) != 1 || len(comms[0].Decisions) != 1 {
		t.Fatalf("%+v", p.Log())
	}
	write(shape("0xa", 8))
	if comms[0].Ranks != 4 || comms[2].Ranks != 8 {
		t.Errorf("%+v, %+v", comms[0], comms[2])
	}
}

func TestTakeDecisions(t *testing.T) {
	line := func(bytes, proto int) string {
		return fmt.Sprintf("%d Bytes -> Algo 1 proto %d time 1.0", bytes, proto)
	}
	p := parse(line(8, 0), line(8, 0), line(8, 2))
	if got := p.TakeDecisions(); len(got) != 2 || got[0].Count != 2 || got[1].Proto != ProtoSimple {
		t.Errorf("%+v", got)
	}
	if got := p.TakeDecisions(); got != nil {
		t.Errorf("%+v", got)
	}
	_, _ = p.Write([]byte("x NCCL INFO " + line(8, 2) + "\n"))
	if got := p.TakeDecisions(); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("%+v", got)
	}
	if got := p.Comm().Decisions; len(got) != 2 || got[1].Count != 2 {
		t.Errorf("%+v", got)
	}
}

func TestLongLine(t *testing.T) {
	p := &Parser{}
	_, _ = p.Write([]byte("x NCCL INFO Using network " + strings.Repeat("y", 3*maxLine)))
	_, _ = p.Write([]byte("y\nx NCCL INFO Using network good\nx NCCL INFO Ring 00 : 0 -> 1 -> 2\n"))
	if c := p.Comm(); c == nil || c.Network != "good" || len(p.partial) != 0 {
		t.Errorf("%+v", c)
	}
}

// The log does not depend on how the text is split into writes. No text makes the reader fail or grow without limit.
func FuzzParser(f *testing.F) {
	f.Add([]byte("h:1:2 [0] NCCL INFO Channel 00/02 :    0   1\nh NCCL INFO Trees [0] 1/-1/-1->0->-1\n"), 7)
	f.Add([]byte("h NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"), 1)
	f.Add([]byte("h NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}\nh NCCL WARN a\n"), 3)
	f.Add([]byte("h NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\nh NCCL INFO Using network x\n"),
		100)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		var whole, parts Parser
		_, _ = whole.Write(text)
		if piece < 1 {
			piece = 1
		}
		for rest := text; len(rest) > 0; {
			n := min(piece, len(rest))
			_, _ = parts.Write(rest[:n])
			rest = rest[n:]
		}
		if diff := cmp.Diff(whole.Log(), parts.Log()); diff != "" {
			t.Error(diff)
		}
		if len(parts.partial) > maxLine {
			t.Errorf("%d bytes are kept", len(parts.partial))
		}
		_, _ = Combine(whole.Log().Comms)
		Transports(whole.Log().Comms)
	})
}

// Logs of real NCCL: 4 ranks on 2 nodes, five collectives of three sizes each, over NCCL's own socket transport.
func TestRealLogs(t *testing.T) {
	for version, want := range map[string]struct {
		full      string
		decisions []Decision // of AllReduce
	}{
		"2.22": {"2.22.3", []Decision{
			{Bytes: 8, Algo: AlgoTree, Proto: ProtoLL, ChannelLo: Unknown, ChannelHi: Unknown, PredictedUS: 18.827536,
				Count: 2},
			{Bytes: 65536, Algo: AlgoRing, Proto: ProtoLL, ChannelLo: Unknown, ChannelHi: Unknown,
				PredictedUS: 185.239975, Count: 2},
			{Bytes: 4194304, Algo: AlgoRing, Proto: ProtoSimple, ChannelLo: Unknown, ChannelHi: Unknown,
				PredictedUS: 5349.839355, Count: 2},
		}},
		"2.29": {"2.29.7", []Decision{
			{Func: "AllReduce", Bytes: 8, Algo: AlgoTree, Proto: ProtoLL, Count: 2},
			{Func: "AllReduce", Bytes: 65536, Algo: AlgoTree, Proto: ProtoSimple, ChannelHi: 1, Count: 2},
			{Func: "AllReduce", Bytes: 4194304, Algo: AlgoRing, Proto: ProtoSimple, ChannelHi: 1, Count: 2},
		}},
	} {
		comms := make([]*Comm, 4)
		for rank := range comms {
			text, err := os.ReadFile(fmt.Sprintf("testdata/2x2-%s/rank%d.log", version, rank))
			if err != nil {
				t.Fatal(err)
			}
			var p Parser
			_, _ = p.Write(text)
			comms[rank] = p.Comm()
			if rank == 0 && p.Log().Version != want.full {
				t.Errorf("version %q, want %q", p.Log().Version, want.full)
			}
		}
		topology, err := Combine(comms)
		if err != nil {
			t.Fatal(err)
		}
		ring := []int{0, 1, 2, 3}
		wantTopology := &Topology{
			Thresholds: map[Kernel]int{
				{AlgoTree, ProtoLL}: 8, {AlgoTree, ProtoLL128}: 8, {AlgoTree, ProtoSimple}: 64,
				{AlgoRing, ProtoLL}: 32, {AlgoRing, ProtoLL128}: 8, {AlgoRing, ProtoSimple}: 64,
			},
			Ranks: 4, Nodes: 2, Network: "Socket", CollChannels: 2, P2PChannels: 2,
			P2PChannelsPerPeer: topology.P2PChannelsPerPeer,
			Rings:              [][]int{ring, ring},
			Trees: [][]TreeNode{
				{{Up: -1, Down: []int{1, 2}}, {Up: 0}, {Up: 0, Down: []int{3}}, {Up: 2}},
				{{Up: 2, Down: []int{1}}, {Up: 0}, {Up: -1, Down: []int{3, 0}}, {Up: 2}},
			},
		}
		if diff := cmp.Diff(wantTopology, topology); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		if got := comms[0].Decisions; len(got) < 12 {
			t.Errorf("%s: %d decisions", version, len(got))
		} else if diff := cmp.Diff(want.decisions, got[:3]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		transports := Transports(comms)
		if transports["NET/Socket"] < 4 || transports["P2P/IPC"] < 4 || len(transports) != 2 {
			t.Errorf("%s: transports %v", version, transports)
		}
	}
}

func TestThresholds(t *testing.T) {
	var p Parser
	if _, err := p.Write([]byte("h:1:1 [0] NCCL INFO threadThresholds 8/9/64 | 32/10/0 | 512 | 512\n")); err != nil {
		t.Fatal(err)
	}
	want := map[Kernel]int{
		{AlgoTree, ProtoLL}: 8, {AlgoTree, ProtoLL128}: 9, {AlgoTree, ProtoSimple}: 64,
		{AlgoRing, ProtoLL}: 32, {AlgoRing, ProtoLL128}: 10, {AlgoRing, ProtoSimple}: 0,
	}
	if diff := cmp.Diff(want, p.Comm().Thresholds); diff != "" {
		t.Error(diff)
	}
}

// The tuning table has the threads of each algorithm and protocol.
func TestThreads(t *testing.T) {
	const log = `h:1:1 [0] NCCL INFO   Algorithm   |                            Tree                  |                            Ring                  |
h:1:1 [0] NCCL INFO   Protocol    |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |
h:1:1 [0] NCCL INFO  Max NThreads |            512 |            640 |            512 |            511 |            639 |            256 |
h:1:1 [0] NCCL INFO   Algorithm   |                    CollNetChain                  |
h:1:1 [0] NCCL INFO  Max NThreads |              1 |              2 |              3 |
h:1:1 [0] NCCL INFO  Max NThreads |              7 |              8 |
`
	var p Parser
	if _, err := p.Write([]byte(log)); err != nil {
		t.Fatal(err)
	}
	want := map[Kernel]int{
		{AlgoTree, ProtoLL}: 512, {AlgoTree, ProtoLL128}: 640, {AlgoTree, ProtoSimple}: 512,
		{AlgoRing, ProtoLL}: 511, {AlgoRing, ProtoLL128}: 639, {AlgoRing, ProtoSimple}: 256,
		{AlgoCollNetChain, ProtoLL}: 1, {AlgoCollNetChain, ProtoLL128}: 2, {AlgoCollNetChain, ProtoSimple}: 3,
	}
	if diff := cmp.Diff(want, p.Comm().Threads); diff != "" {
		t.Errorf("threads (-want +got):\n%s", diff)
	}
}

// The tuning table has the latency of each collective with each algorithm and protocol.
func TestLatencies(t *testing.T) {
	const log = `h:1:1 [0] NCCL INFO   Algorithm   |                            Tree                  |                            Ring                  |
h:1:1 [0] NCCL INFO   Protocol    |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |
h:1:1 [0] NCCL INFO     AllGather |     0.0/   0.0 |     0.0/   0.0 |     0.0/   0.0 |    12.5/  52.0 |    23.0/   0.0 |    31.6/ 128.0 |
h:1:1 [0] NCCL INFO     AllReduce |    20.4/  12.4 |    35.9/   0.0 |   116.8/  47.2 |    24.2/  26.0 |    38.6/   0.0 |    80.8/  64.0 |
h:1:1 [0] NCCL INFO       Whatnot |    20.4/  12.4 |    35.9/   0.0 |   116.8/  47.2 |    24.2/  26.0 |    38.6/   0.0 |    80.8/  64.0 |
h:1:1 [0] NCCL INFO   Algorithm   |                             PAT                  |
h:1:1 [0] NCCL INFO     AllGather |     1.0/   0.0 |     2.0/   0.0 |    14.5/   9.0 |
h:1:1 [0] NCCL INFO        Reduce |     1.0/   0.0 |     2.0/   0.0 |
`
	var p Parser
	if _, err := p.Write([]byte(log)); err != nil {
		t.Fatal(err)
	}
	want := map[nccl.Collective]map[Kernel]float64{
		nccl.AllGather: {
			{AlgoTree, ProtoLL}: 0, {AlgoTree, ProtoLL128}: 0, {AlgoTree, ProtoSimple}: 0,
			{AlgoRing, ProtoLL}: 12.5, {AlgoRing, ProtoLL128}: 23, {AlgoRing, ProtoSimple}: 31.6,
			{AlgoPAT, ProtoLL}: 1, {AlgoPAT, ProtoLL128}: 2, {AlgoPAT, ProtoSimple}: 14.5,
		},
		nccl.AllReduce: {
			{AlgoTree, ProtoLL}: 20.4, {AlgoTree, ProtoLL128}: 35.9, {AlgoTree, ProtoSimple}: 116.8,
			{AlgoRing, ProtoLL}: 24.2, {AlgoRing, ProtoLL128}: 38.6, {AlgoRing, ProtoSimple}: 80.8,
		},
	}
	if diff := cmp.Diff(want, p.Comm().LatencyUS); diff != "" {
		t.Errorf("latencies (-want +got):\n%s", diff)
	}
}
