// SPDX-License-Identifier: Apache-2.0

package events

import (
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// The sender of a long message waits for a receiver that computes first: its computation is on the path.
func TestPartsOfALateReceiver(t *testing.T) {
	const late, bytes, latency = 3_000_000, 4 << 20, 25_000
	params, err := link.NewParams(link.Spec{Bandwidth: 10e9, Latency: latency * time.Nanosecond, MTU: 9000}, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &player.Fabric{Params: []link.Params{params, params}, InOrder: true,
		Transport: &link.Transport{Kind: link.RDMA, RTO: 67e6, DownTimeout: 500e6},
		Node:      func(rank int) int { return rank },
		Path: func(c player.Conn) ([]link.PathHop, []int, error) {
			return []link.PathHop{{Hop: c.Src}}, []int{c.Dst}, nil
		}}
	d := plan.Decision{Version: 22203, Coll: nccl.SendRecv, Ranks: 2, Channels: 1, P2PChannels: 1,
		P2PChannelsPerPeer: 1, ElemSize: 4}
	j := &plan.Job{Comms: []plan.Comm{{Ranks: []int{0, 1}, P2P: d}}, Ranks: [][]plan.Item{
		{{Kind: plan.Exchange, Sends: map[int]uint64{1: bytes}}},
		{{Nanos: late}, {Kind: plan.Exchange, Recvs: map[int]uint64{0: bytes}}},
	}}
	net := link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed)
	defer net.Close()
	net.KeepHopRecords()
	s, err := newJobSim(j, f, net)
	if err != nil {
		t.Fatal(err)
	}
	s.explain(f)
	if err := s.play(t.Context(), func() bool { return s.ranks[0].ended+s.ranks[1].ended == 3 }); err != nil {
		t.Fatal(err)
	}
	spent := s.causes.spent()[1]
	if spent[player.Computing] != late || spent[player.Unexplained] != 0 || spent[player.Latency] < 2*latency ||
		spent.Sum() != s.now {
		t.Errorf("%d ns: %v", s.now, spent)
	}
}
