// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

func eth1(t *testing.T) *fabric.Fabric {
	t.Helper()
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The bytes over each cut are known even if the expected time is not.
func TestLeast(t *testing.T) {
	f := eth1(t)
	times := New(f, func(rank int) int { return rank / 2 }, func(string) string { return "" })
	for _, c := range []bench.Case{
		{Collective: nccl.AllReduce, Type: nccl.Float, Ranks: 4, Count: 100, Launches: 3},
		{Collective: nccl.Broadcast, Type: nccl.Float, Ranks: 4, Count: 10, Launches: 1, Root: 3},
	} {
		if _, known := times.Of(context.Background(), c); known || times.Problem == "" {
			t.Errorf("%v has an expected time without NCCL's log", c.Collective)
		}
	}
	want := []job.Traffic{{Out: 1200, In: 1240}, {Out: 1240, In: 1200}}
	for node, w := range want {
		if got := times.Least()[node]; got != w {
			t.Errorf("node%d: %+v, want %+v", node, got, w)
		}
	}
}

// A row about which nothing is known has a specific reason.
func TestProblem(t *testing.T) {
	f := eth1(t)
	for _, tc := range []struct {
		count int64
		top   *nccllog.Topology
		want  string
	}{
		{0, &nccllog.Topology{}, "a call of 0 elements sends nothing"},
		{1, &nccllog.Topology{}, "NCCL's log does not tell its decision"},
		{0, nil, "NCCL's log does not tell the rings"},
	} {
		times := New(f, func(rank int) int { return rank }, func(string) string { return "" })
		c := bench.Case{Collective: nccl.AllReduce, Type: nccl.Float, Ranks: 2, Count: tc.count, Topology: tc.top,
			NCCL: "2.22.3"}
		if _, known := times.Of(t.Context(), c); known || !strings.Contains(times.Problem, tc.want) {
			t.Errorf("%d elements: %q, want %q", tc.count, times.Problem, tc.want)
		}
	}
}

// NCCL is not called for a gather or scatter of 0 elements. A hypercube sends messages without bytes.
func TestNoElements(t *testing.T) {
	f := eth1(t)
	for coll, known := range map[nccl.Collective]bool{nccl.Gather: false, nccl.Scatter: false, nccl.HyperCube: true,
		nccl.AllToAll: true} {
		times := New(f, func(rank int) int { return rank }, func(string) string { return "" })
		top := &nccllog.Topology{P2PChannels: 2, P2PChannelsPerPeer: 2}
		e, got := times.Of(t.Context(), bench.Case{Collective: coll, Type: nccl.Float, Ranks: 2, Iters: 1,
			Topology: top, NCCL: "2.22.3"})
		if got != known || known != (e.Time > 0) {
			t.Errorf("%v: %v, %v, %q", coll, e.Time, got, times.Problem)
		}
	}
}

// Each reason is kept once. A row that moves nothing needs no time.
func TestProblems(t *testing.T) {
	f := eth1(t)
	times := New(f, func(rank int) int { return rank }, func(string) string { return "" })
	call := bench.Case{Collective: nccl.AllReduce, Type: nccl.Float, Ranks: 2, NCCL: "2.22.3",
		Topology: &nccllog.Topology{}}
	nothing, chosen, unseen := call, call, call
	chosen.Count, unseen.Count = 1, 1
	chosen.Decision, unseen.Topology = &nccllog.Decision{Algo: "Star"}, nil
	for _, c := range []bench.Case{nothing, chosen, unseen, unseen, nothing} {
		times.Of(t.Context(), c)
	}
	if p := times.Problems; len(p) != 2 || !strings.Contains(p[0], "Star") ||
		!strings.Contains(p[1], "unset NCCL_DEBUG") {
		t.Errorf("%q", p)
	}
}

// Ranks that receive nothing from another node, or from outside the root's zone, need not wait for the bytes that
// cross.
func TestWaiting(t *testing.T) {
	flat, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	flat.Nodes = 4
	leaves, err := configs.Load(configs.Source{File: "../../../../configs/examples/leaf-spine.yaml",
		Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		config  *configs.Fabric
		perNode int
		coll    nccl.Collective
		root    int
		want    float64
	}{
		{flat, 1, nccl.AllReduce, -1, 1},
		{flat, 1, nccl.Broadcast, 0, 0.75},
		{flat, 2, nccl.Broadcast, 3, 0.75},
		{flat, 2, nccl.Reduce, 3, 0.125},
		{flat, 2, nccl.Gather, 3, 0.125},
		{flat, 2, nccl.Scatter, 3, 0.125}, // the last one
		{flat, 1, nccl.HyperCube, -1, 1},
		{flat, 1, nccl.SendRecv, -1, 1},
		{flat, 2, nccl.SendRecv, -1, 0.5},
		{leaves, 1, nccl.Broadcast, 0, 0.5}, // the ranks of the other leaf
	} {
		f, err := fabric.New(tc.config)
		if err != nil {
			t.Fatal(err)
		}
		times := New(f, func(rank int) int { return rank / tc.perNode }, func(string) string { return "" })
		c := bench.Case{Collective: tc.coll, Type: nccl.Float, Ranks: tc.config.Nodes * tc.perNode, Count: 1000,
			Root: tc.root}
		if got := times.Waiting(c); got != tc.want {
			t.Errorf("%v among %d nodes of %d: %v wait, want %v", tc.coll, tc.config.Nodes, tc.perNode, got, tc.want)
		}
	}
}

// The bytes that must cross between two leaves take longer over the uplinks than the bytes of a node over its port.
func TestBoundOfLeaves(t *testing.T) {
	c, err := configs.Load(configs.Source{File: "../../../../configs/examples/leaf-spine.yaml",
		Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	times := New(f, func(rank int) int { return rank }, func(string) string { return "" })
	const count = 1 << 20
	payload := f.Config.Link.PayloadRate()
	for coll, want := range map[nccl.Collective]float64{
		nccl.AllReduce: 4 * count / (payload * 3 / 4),         // leaf1's uplinks: 5 and 2.5 Gb/s of the NICs' 10
		nccl.AllToAll:  4 * 4 * 4 * count / (payload * 3 / 4), // each of 4 ranks sends to each of the other 4
		// the port of a rank, which gets the shares of the others
		nccl.HyperCube: 4 * 7 * count / payload,
		nccl.Gather:    4 * 7 * count / payload, // the root's port
		nccl.Scatter:   4 * 7 * count / payload,
	} {
		got := times.Bound(bench.Case{Collective: coll, Type: nccl.Float, Ranks: 8, Count: count, Root: -1}).Seconds()
		if math.Abs(got/want-1) > 1e-6 {
			t.Errorf("%v: at least %v s, want %v", coll, got, want)
		}
	}
}
