// SPDX-License-Identifier: Apache-2.0

package events

import (
	"slices"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// The choice point of the loop draws which channel of a kernel begins first: by another seed another channel is the
// first on the link. In the order of a virtual clock it is always the first channel.
func TestOrderOfChannels(t *testing.T) {
	const channels, seeds = 4, 16
	drawn := map[int]bool{}
	for seed := range uint64(seeds) {
		got := firstChannel(t, channels, seed, false)
		if again := firstChannel(t, channels, seed, false); again != got {
			t.Errorf("by seed %d channel %d is first, then channel %d", seed, got, again)
		}
		drawn[got] = true
		if got := firstChannel(t, channels, seed, true); got != 0 {
			t.Errorf("in order, channel %d is first by seed %d", got, seed)
		}
	}
	if len(drawn) != channels {
		t.Errorf("by %d seeds only channels %v are first", seeds, drawn)
	}
}

// firstChannel is the channel whose message is the first on the link out of rank 0, in a broadcast from there.
func firstChannel(t *testing.T, channels int, seed uint64, inOrder bool) int {
	t.Helper()
	params, err := link.NewParams(link.Spec{Bandwidth: 10e9, Latency: 25 * time.Microsecond, MTU: 9000}, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &player.Fabric{Params: []link.Params{params, params}, InOrder: inOrder,
		Transport: &link.Transport{Kind: link.TCP, Second: 1e9, RTO: 200e6, DownTimeout: 1e9, SendBuffer: 1 << 20,
			Window: 1 << 20},
		Node: func(rank int) int { return rank },
		Path: func(c player.Conn) ([]link.PathHop, []int, error) {
			return []link.PathHop{{Hop: c.Src}}, []int{c.Dst}, nil
		}}
	call, err := plan.NewCall(&plan.Decision{Version: 22203, Coll: nccl.Broadcast, Algo: plan.Ring, Proto: plan.Simple,
		Ranks: 2, Channels: channels, Rings: slices.Repeat([][]int{{0, 1}}, channels), Count: 1 << 20, ElemSize: 4},
		f.Node)
	if err != nil {
		t.Fatal(err)
	}
	p, err := call.Plan()
	if err != nil {
		t.Fatal(err)
	}
	net := link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed)
	defer net.Close()
	net.KeepHopRecords()
	s, err := newCalls(&player.Calls{Plan: p, Ranks: 2, Fabric: f, Order: seed, Launched: 1}, net)
	if err != nil {
		t.Fatal(err)
	}
	first := -1
	s.loop.Watch = func(r *link.HopRecord) {
		if first < 0 {
			first = s.conns[slices.IndexFunc(s.conns, func(c conn) bool {
				return c.Flow != nil && c.Flow.Number() == int(r.Flow)
			})].channel
		}
	}
	if err := s.play(t.Context(), func() bool { return s.haveEnded(1) }); err != nil {
		t.Fatal(err)
	}
	return first
}
