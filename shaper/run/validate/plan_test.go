// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

func rowsOf(times ...time.Duration) []testslog.Row {
	var rows []testslog.Row
	for i, d := range times {
		rows = append(rows, testslog.Row{Size: 4 << i, OutOfPlace: testslog.Half{Time: d}})
	}
	return rows
}

func TestRowsOfLikeTimesRunTogether(t *testing.T) {
	rows := rowsOf(10, 12, 80, 81, 600, 9000)
	want := [][]testslog.Row{rows[:3], rows[3:5], rows[5:]}
	if diff := cmp.Diff(want, groups(rows)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestRowsThatDoNotFitAreLeftOut(t *testing.T) {
	rows := []testslog.Row{{Size: 1 << 20}, {Size: 1 << 30}}
	kept, out := fit(rows, 2, 7<<30)
	if len(kept) != 1 || len(out) != 1 || out[0].Size != 1<<30 ||
		out[0].Reason != "the buffers of 2 ranks take 4.0 GiB, half of what is available is 3.5 GiB" {
		t.Errorf("kept %v, left out %v", kept, out)
	}
	for _, memory := range []uint64{0, 8 << 30} {
		if kept, out := fit(rows, 2, memory); len(kept) != 2 || out != nil {
			t.Errorf("%d bytes: kept %v, left out %v", memory, kept, out)
		}
	}
}

func TestGroupsHaveTimeForTheirIterations(t *testing.T) {
	for _, tc := range []struct {
		k           int
		rows        []testslog.Row
		kept, iters int
	}{
		{1, rowsOf(time.Millisecond), 1, mostIters},
		// 6 s per iteration: 10 in a minute, one of them a warm-up
		{100, rowsOf(20*time.Millisecond, 40*time.Millisecond), 2, 9},
		{100, rowsOf(300*time.Millisecond, 600*time.Millisecond), 2, leastIters},
		// three iterations of 110 s are too long
		{100, rowsOf(300*time.Millisecond, 800*time.Millisecond), 1, leastIters},
		{1000, rowsOf(time.Second), 0, 0},
	} {
		kept, iters, out := shorten(tc.rows, tc.k, times{groupTime, longestTime})
		if len(kept) != tc.kept || iters != tc.iters || len(kept)+len(out) != len(tc.rows) {
			t.Errorf("%v at %d: kept %v with %d iterations, left out %v", tc.rows, tc.k, kept, iters, out)
		}
	}
}

func TestLargestScale(t *testing.T) {
	for _, tc := range []struct {
		rows []testslog.Row
		k    int
		want int
	}{
		{rowsOf(10*time.Millisecond, 20*time.Millisecond), 8, 256}, // five iterations of 7.68 s fit into a minute
		{rowsOf(10*time.Millisecond, 20*time.Millisecond), 512, 512},
		{rowsOf(time.Microsecond), 1, 1024},
		{rowsOf(20 * time.Second), 3, 3},
	} {
		if got := largestScale(tc.rows, tc.k, groupTime); got != tc.want {
			t.Errorf("%v, %d at least: %d, want %d", tc.rows, tc.k, got, tc.want)
		}
	}
}

func TestMessage(t *testing.T) {
	table := tables.Table{Collective: nccl.AllReduce, Ranks: 2,
		Env: []string{"NCCL_ALGO=Ring", "NCCL_PROTO=Simple", "NCCL_MAX_NCHANNELS=2"}}
	for size, want := range map[int64]uint32{4: 0, 1 << 20: 128 << 10, 8 << 20: 1 << 20, 1 << 40: 1 << 20} {
		if got := message(&table, size); got != want {
			t.Errorf("%d bytes: messages of %d, want %d", size, got, want)
		}
	}
	for i := range table.Env {
		other := table
		other.Env = slices.Delete(slices.Clone(table.Env), i, i+1)
		if got := message(&other, 8<<20); got != 0 {
			t.Errorf("%v: messages of %d, want no answer", other.Env, got)
		}
	}
}
