// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Compared with schedules, NCCL's times are those of expect.
func TestCompareWithNCCL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	fabric := []string{"--profile", "ndr400", "--nodes", "4", "--clock", "virtual", "-b", "64K", "-e", "4M", "-f", "8"}
	out, err := ddlemu(ctx, t, folder(t), nil,
		append([]string{"schedule", "compare", "ring", "nccl", "--coll", "all_reduce", "--gpus", "4", "--json",
			"--quiet"}, fabric...)...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var c struct {
		Schedules []string `json:"schedules"`
		Rows      []struct {
			Size  int64      `json:"size"`
			Times []*float64 `json:"times_us"`
			Best  int        `json:"best"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatal(err)
	}
	out, err = ddlemu(ctx, t, folder(t), nil,
		append([]string{"expect", "allreduce", "--ranks", "4", "--datatype", "int32", "--json", "--quiet"},
			fabric...)...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var e struct {
		Rows []struct {
			Size int64    `json:"size"`
			Last *float64 `json:"last_rank_us"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(out, &e); err != nil {
		t.Fatal(err)
	}
	if len(c.Rows) != 3 || len(e.Rows) != 3 || len(c.Schedules) != 2 || c.Schedules[1] != "nccl" {
		t.Fatalf("%+v, %+v", c, e)
	}
	for i, row := range c.Rows {
		if row.Times[0] == nil || row.Times[1] == nil || e.Rows[i].Last == nil || row.Size != e.Rows[i].Size {
			t.Fatalf("%+v, %+v", row, e.Rows[i])
		}
		if got, want := *row.Times[1], *e.Rows[i].Last; math.Abs(got-want) > 0.001*want {
			t.Errorf("%d bytes: %.3f us, expect says %.3f", row.Size, got, want)
		}
		if other := *row.Times[1-row.Best]; *row.Times[row.Best] > other {
			t.Errorf("%d bytes: fastest is %d of %v and %v", row.Size, row.Best, *row.Times[0], *row.Times[1])
		}
	}
}

// viaP2P is a part of the output of schedule run --via p2p --json.
type viaP2P struct {
	NCCL string `json:"nccl"`
	Rows []struct {
		Wrong *uint64  `json:"wrong"`
		Diff  *float64 `json:"diff_percent"`
	} `json:"rows"`
	Verdict string `json:"verdict"`
}

// Real NCCL plays schedules as groups of sends and receives. Every element is right, and the time is the model's within
// what the order of connections that are ready at once makes of it.
func TestScheduleViaP2P(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ nccl, gpus, coll, kind, place string }{
		{"2.22", "2", "all_reduce", "chain:k=3", ""},
		{"2.29", "4", "all_reduce", "tree:k=2", "--nodes=2"},
		{"2.22", "8", "reduce_scatter", "allpairs", ""},
		{"2.29", "8", "all_gather", "ring:k=2", ""},
	} {
		t.Run(tc.coll+" "+tc.kind, func(t *testing.T) {
			args := []string{"schedule", "run", tc.kind, "--coll", tc.coll, "--gpus", tc.gpus, "--via", "p2p", "--nccl",
				tc.nccl}
			if tc.place != "" {
				args = append(args, tc.place)
			}
			got, err := runViaP2P(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != "VALID" || !strings.HasPrefix(got.NCCL, tc.nccl) {
				t.Errorf("verdict %s, NCCL %s", got.Verdict, got.NCCL)
			}
			for _, row := range got.Rows {
				if row.Wrong == nil || *row.Wrong != 0 || row.Diff == nil || math.Abs(*row.Diff) > 3 {
					t.Errorf("%+v: wrong %v, diff %v", row, row.Wrong, row.Diff)
				}
			}
		})
	}
}

// A sum that is left out gives wrong elements, which the ranks find.
func TestWrongViaP2P(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := ddlemu(ctx, t, folder(t), nil, "schedule", "make", "ring", "--coll", "all_reduce", "--gpus",
		"2").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "wrong.xml")
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), `type="rrcs"`, `type="rcs"`, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	got, err := runViaP2P(t, "schedule", "run", path, "--run-bad", "--via", "p2p")
	if err == nil || len(got.Rows) == 0 || got.Rows[0].Wrong == nil || *got.Rows[0].Wrong == 0 ||
		got.Verdict != "INVALID" {
		t.Errorf("%v, %+v", err, got)
	}
}

func runViaP2P(t *testing.T, args ...string) (got viaP2P, failed error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args = append(args, "--profile", "ndr400", "-b", "2M", "-e", "2M", "-n", "1", "--json", "--quiet")
	out, failed := ddlemu(ctx, t, folder(t), nil, args...).Output()
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %v: %s", failed, err, out)
	}
	return got, failed
}
