// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// Calls that the first rank has begun before the measured part of the job are of the warm-up.
func TestWarmup(t *testing.T) {
	two := twoRanks()
	for rank := range two {
		for seq, begun := range []int64{4, 100} {
			two[rank].Tasks = append(two[rank].Tasks, ledger.Task{Func: ledger.Unknown, Comm: 1, Seq: uint32(seq), Ranks: 2,
				Rank: int32(rank), Begun: begun + int64(rank)})
		}
	}
	dir := write(t, two[0], two[1])
	for _, tc := range []struct {
		from int64 // 0: nothing is noted
		want []bool
	}{{0, []bool{false, false}}, {4, []bool{false, false}}, {5, []bool{true, false}}, {100, []bool{true, false}},
		{101, []bool{true, true}}} {
		if tc.from > 0 {
			if err := ledger.WriteMeasured(dir, tc.from); err != nil {
				t.Fatal(err)
			}
		}
		tr, n := load(t, dir), 0
		if len(tr.Calls) != len(tc.want) {
			t.Fatalf("%d calls: %+v", len(tr.Calls), tr.Calls)
		}
		for i, want := range tc.want {
			if want {
				n++
			}
			if tr.Calls[i].Warmup != want {
				t.Errorf("measured from %d: call %d, of warm-up %v", tc.from, i, !want)
			}
		}
		if tr.Warmups() != n {
			t.Errorf("measured from %d: %d calls of warm-up, want %d", tc.from, tr.Warmups(), n)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "measured-from"), []byte("soon"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("an end of the warm-up that is no number is taken")
	}
	if err := ledger.Clear(dir); err != nil {
		t.Fatal(err)
	}
	if from, err := ledger.ReadMeasured(dir); from != 0 || err != nil {
		t.Errorf("after Clear: %d, %v", from, err)
	}
}
