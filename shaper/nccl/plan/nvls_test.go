// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Both trees have one root, and every other node is a child of its parent. No node is inside both trees, unless their
// number is odd.
func TestDoubleTree(t *testing.T) {
	for nodes := 1; nodes <= 65; nodes++ {
		inside := map[int]int{}
		for tree := range 2 {
			roots, children := 0, 0
			for n := range nodes {
				up, down := doubleTree(nodes, n, tree)
				children += len(down)
				if len(down) == 2 {
					inside[n]++
				}
				if up < 0 {
					roots++
					continue
				}
				if _, of := doubleTree(nodes, up, tree); !slices.Contains(of, n) {
					t.Fatalf("%d nodes, tree %d: node %d is no child of its parent %d", nodes, tree, n, up)
				}
			}
			if roots != 1 || children != nodes-1 {
				t.Fatalf("%d nodes, tree %d: %d roots and %d children", nodes, tree, roots, children)
			}
		}
		for n, trees := range inside {
			if trees > 1 && nodes%2 == 0 {
				t.Errorf("%d nodes: node %d has two children in both trees", nodes, n)
			}
		}
	}
}

// nvlsCall is a call by NVLS or NVLSTree of nodes with so many ranks.
func nvlsCall(t *rapid.T, version int, algo Algorithm, coll nccl.Collective, nodes, perNode int, count uint64) *Call {
	d := &Decision{Version: version, Coll: coll, Algo: algo, Proto: Simple, Ranks: nodes * perNode, Count: count, ElemSize: 4,
		Channels: 8, NVLSChannels: 16}
	heads := rapid.IntRange(1, perNode).Draw(t, "heads")
	if nodes > 1 {
		for h := range heads {
			var ranks []int
			for n := range nodes {
				ranks = append(ranks, n*perNode+(perNode-1-h)) // any order
			}
			d.NVLSHeads = append(d.NVLSHeads, ranks)
		}
	}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := NewCall(d, func(r int) int { return r / perNode })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// All data of each rank goes to the heads once, and comes back once. Between nodes each head's part crosses each edge of
// its tree once in each direction.
func TestNVLSMovesAllOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, perNode := rapid.IntRange(1, 5).Draw(t, "nodes"), rapid.IntRange(2, 8).Draw(t, "ranks of a node")
		count := rapid.Uint64Range(1, 3<<20).Draw(t, "count")
		algo := NVLS
		if nodes > 1 {
			algo = NVLSTree
		}
		version := rapid.SampledFrom([]int{22203, 22907}).Draw(t, "version")
		p, err := nvlsCall(t, version, algo, nccl.AllReduce, nodes, perNode, count).Plan()
		if err != nil {
			t.Fatal(err)
		}
		var sent, received [Broadcast + 1]uint64 // by kind of connection
		for i := range p.Blocks {
			p.Blocks[i].Each(func(l *Loop, a *Action) {
				for _, n := range a.Send {
					sent[p.Conns[n].Multicast] += a.Bytes * uint64(l.Repeat)
				}
				for _, n := range a.Recv {
					received[p.Conns[n].Multicast] += a.BytesReceived() * uint64(l.Repeat)
				}
			})
		}
		bytes := 4 * count
		want := [Broadcast + 1]uint64{
			Unicast: 2 * uint64(nodes-1) * bytes, Reduces: uint64(nodes*perNode) * bytes,
			Broadcast: uint64(nodes*perNode) * bytes,
		}
		if sent != want || received != want {
			t.Errorf("sent %v and received %v bytes, want %v", sent, received, want)
		}
	})
}

// What the model knows no schedule for is refused.
func TestNVLSRefuses(t *testing.T) {
	for _, tc := range []struct {
		what string
		d    Decision
		node func(r int) int
	}{
		{"NVLS between nodes", Decision{Algo: NVLS, NVLSChannels: 16}, func(r int) int { return r / 2 }},
		{"heads are not known", Decision{Algo: NVLSTree, NVLSChannels: 16}, func(r int) int { return r / 2 }},
		{"a head without a rank on a node", Decision{Algo: NVLSTree, NVLSChannels: 16, NVLSHeads: [][]int{{0}}},
			func(r int) int { return r / 2 }},
		{"a head on another node", Decision{Algo: NVLSTree, NVLSChannels: 16, NVLSHeads: [][]int{{0, 1}}},
			func(r int) int { return r / 2 }},
		{"no channels", Decision{Algo: NVLSTree}, func(r int) int { return r / 2 }},
	} {
		d := tc.d
		d.Version, d.Coll, d.Proto, d.Ranks, d.Count, d.ElemSize, d.Channels = 22907, nccl.AllReduce, Simple, 4, 1024, 4, 8
		err := d.Validate()
		if err == nil {
			var c *Call
			if c, err = NewCall(&d, tc.node); err == nil {
				_, err = c.Plan()
			}
		}
		if err == nil {
			t.Errorf("%s: a plan was made", tc.what)
		}
	}
}

// An NVLink domain has at most 32 heads, also if it has more GPUs. All ranks scatter to them and gather from them.
func TestHeadsOfALargeDomain(t *testing.T) {
	for ranks, want := range map[int]int{8: 8, 32: 32, 72: 32} {
		d := Decision{Version: 22907, Coll: nccl.AllReduce, Algo: NVLS, Proto: Simple, Ranks: ranks, Count: 1 << 20,
			ElemSize: 4, Channels: 8, NVLSChannels: 8}
		c, err := NewCall(&d, func(int) int { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Plan()
		if err != nil {
			t.Fatal(err)
		}
		heads, sends := map[int]bool{}, map[int]bool{}
		for _, b := range p.Blocks {
			b.Each(func(loop *Loop, _ *Action) {
				if loop.Role == NVLSHead {
					heads[b.Rank] = true
				} else {
					sends[b.Rank] = true
				}
			})
		}
		if len(heads) != want || len(sends) != ranks {
			t.Errorf("%d ranks: %d heads, %d ranks with data", ranks, len(heads), len(sends))
		}
	}
}

// The sizes of chunks are those of calcCollChunking of 2.22.3 and 2.29.7, by hand: 8 heads, all bytes of one channel.
func TestChunksOfNVLS(t *testing.T) {
	const k = 1 << 10
	for _, tc := range []struct {
		algo               Algorithm
		nodes              int
		chunk, tree, buffs int // bytes; 0: default
		bytes, want        uint64
	}{
		{NVLS, 1, 0, 0, 0, 64 * 8 * 128 * k, 128 * k},
		{NVLS, 1, 0, 0, 0, 64*8*128*k - 1, 64 * k},
		{NVLS, 1, 256 * k, 0, 0, 64 * 8 * 256 * k, 256 * k},
		{NVLS, 1, 256 * k, 0, 1 << 20, 64 * 8 * 256 * k, 128 * k}, // the ring's buffers bound it
		{NVLS, 1, 16 * k, 0, 0, 1, 16 * k},
		{NVLSTree, 2, 0, 0, 0, 4 * 8 * 128 * k, 128 * k},
		{NVLSTree, 2, 0, 0, 1 << 20, 1 << 40, 128 * k},
		{NVLSTree, 4, 0, 0, 0, 1 << 40, 64 * k},
		{NVLSTree, 4, 512 * k, 512 * k, 0, 32 * 8 * 512 * k, 512 * k},
		{NVLSTree, 4, 512 * k, 512 * k, 0, 32*8*512*k - 1, 256 * k},
		{NVLSTree, 2, 512 * k, 512 * k, 0, 16*8*256*k - 1, 128 * k},
		{NVLSTree, 2, 512 * k, 256 * k, 0, 1 << 40, 256 * k},
		{NVLSTree, 2, 128 * k, 512 * k, 0, 1 << 40, 128 * k},
		{NVLSTree, 2, 512 * k, 0, 0, 1, 32 * k},
	} {
		d := &Decision{Version: 22907, Coll: nccl.AllReduce, Algo: tc.algo, Proto: Simple, Ranks: 8 * tc.nodes, Count: 1,
			ElemSize: 4, Channels: 8, NVLSChannels: 16, BuffSize: tc.buffs, NVLSChunkSize: tc.chunk,
			NVLSTreeChunkSize: tc.tree, NVLSHeads: make([][]int, 8)}
		c, err := NewCall(d, func(r int) int { return r / 8 })
		if err != nil {
			t.Fatal(err)
		}
		if got := c.nvlsChunk(tc.bytes); got != tc.want {
			t.Errorf("%+v: chunks of %d bytes", tc, got)
		}
	}
}
