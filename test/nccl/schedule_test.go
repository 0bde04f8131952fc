// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"
)

// Compared with schedules, NCCL's times are those of expect.
func TestCompareWithNCCL(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	fabric := []string{"--profile", "ndr400", "--nodes", "4", "--clock", "virtual", "-b", "64K", "-e", "4M", "-f", "8"}
	out, err := ddlemu(ctx, t, folder(t), nil, append([]string{"schedule", "compare", "ring", "nccl", "--coll", "all_reduce", "--gpus", "4", "--json", "--quiet"}, fabric...)...).Output()
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
	out, err = ddlemu(ctx, t, folder(t), nil, append([]string{"expect", "allreduce", "--ranks", "4", "--datatype", "int32", "--json", "--quiet"}, fabric...)...).Output()
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
