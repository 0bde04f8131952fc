// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"slices"
	"strings"
	"testing"
)

// The counts that nccl-tests prints for these sizes.
func TestCounts(t *testing.T) {
	cases := []struct {
		c     Collective
		bytes int64
		t     DataType
		ranks int
		want  Counts
		size  int64
	}{
		{AllReduce, 8, Float, 2, Counts{2, 2, 2}, 8},
		{AllReduce, 7, Float, 2, Counts{1, 1, 1}, 4},
		{AllReduce, 1 << 20, Half, 8, Counts{524288, 524288, 524288}, 1 << 20},
		{AllGather, 8, Float, 2, Counts{0, 0, 0}, 0},
		{AllGather, 32, Float, 2, Counts{4, 4, 8}, 32},
		{AllGather, 1 << 20, Float, 3, Counts{87380, 87380, 262140}, 1048560},
		{ReduceScatter, 1 << 20, Double, 4, Counts{32768, 131072, 32768}, 1 << 20},
		{ReduceScatter, 100, Int8, 3, Counts{32, 96, 32}, 96},
		{Broadcast, 1000, Int64, 5, Counts{125, 125, 125}, 1000},
		{Reduce, 1000, BFloat16, 5, Counts{500, 500, 500}, 1000},
		{SendRecv, 4096, Uint32, 4, Counts{1024, 1024, 1024}, 4096},
		{AllToAll, 4096, Uint32, 4, Counts{256, 1024, 1024}, 4096},
		{AllToAll, 100, Uint64, 4, Counts{2, 8, 8}, 64},
		{Gather, 1000, Half, 3, Counts{160, 160, 480}, 960},
		{Scatter, 1000, Half, 3, Counts{160, 480, 160}, 960},
		{HyperCube, 1 << 20, Float, 4, Counts{65536, 65536, 262144}, 1 << 20},
		{HyperCube, 48, Int8, 4, Counts{0, 0, 0}, 0},
	}
	for _, c := range cases {
		got := c.c.Counts(c.bytes, c.t, c.ranks)
		if got != c.want || got.Bytes(c.t) != c.size {
			t.Errorf("%v of %d bytes of %v on %d ranks: %+v size %d, want %+v size %d", c.c, c.bytes, c.t, c.ranks, got,
				got.Bytes(c.t), c.want, c.size)
		}
	}
}

func TestParseNames(t *testing.T) {
	for _, name := range []string{"all_reduce", "allreduce", "AllReduce", "all_reduce_perf", "all-reduce"} {
		if c, err := ParseCollective(name); err != nil || c != AllReduce {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	for _, name := range []string{"", "allredude", "all"} {
		if _, err := ParseCollective(name); err == nil || !strings.Contains(err.Error(), "all_gather") {
			t.Errorf("%q: the error %v does not offer the names", name, err)
		}
	}
	for _, name := range Collectives() {
		if c, err := ParseCollective(name); err != nil || c.String() != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	if types, err := ParseDataTypes("all"); err != nil || len(types) != 10 {
		t.Errorf("%v, %v", types, err)
	}
	if types, err := ParseDataTypes("bfloat16"); err != nil || !slices.Equal(types, []DataType{BFloat16}) {
		t.Errorf("%v, %v", types, err)
	}
	if ops, err := ParseRedOps("avg"); err != nil || !slices.Equal(ops, []RedOp{Avg}) {
		t.Errorf("%v, %v", ops, err)
	}
	if _, err := ParseRedOps("mulsum"); err == nil {
		t.Error("mulsum is no operator here")
	}
	if got := Collective(99).String() + DataType(-1).String() +
		RedOp(7).String(); got != "Collective(99)DataType(-1)RedOp(7)" {
		t.Error(got)
	}
}

// nccl-tests skips a hypercube among other numbers of ranks.
func TestCheckRanks(t *testing.T) {
	for ranks, fits := range map[int]bool{-2: false, 0: false, 1: true, 2: true, 3: false, 4: true, 6: false, 96: false,
		128: true} {
		if err := HyperCube.CheckRanks(ranks); (err == nil) != fits {
			t.Errorf("%d ranks: %v", ranks, err)
		}
		if err := AllGather.CheckRanks(ranks); err != nil {
			t.Error(err)
		}
	}
}

func TestDiscards(t *testing.T) {
	for c := AllReduce; c.Known(); c++ {
		sends := c == SendRecv || c == AllToAll || c == HyperCube
		if c.Discards(0) == sends || c.Discards(1) {
			t.Errorf("%v: discards 0 elements %v, 1 element %v", c, c.Discards(0), c.Discards(1))
		}
	}
}

func TestVersionText(t *testing.T) {
	for number, want := range map[int]string{22203: "2.22.3", 22907: "2.29.7", 2403: "2.4.3", 30001: "3.0.1"} {
		if got := VersionText(number); got != want {
			t.Errorf("%d is %s, want %s", number, got, want)
		}
	}
}
