// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// withNodes adds what a node takes to the rows of a forecast.
func withNodes(rows []emulate.Forecast) []emulate.Forecast {
	for i := range rows {
		f := &rows[i]
		f.NodeTime, f.Time, f.LastRank = "h100-sxm", f.Time+28*time.Microsecond, f.LastRank+28*time.Microsecond
		f.Limit = bench.Limit{By: bench.Launch, Share: 0.6}
		high := 1.35
		if f.Case.Size > 64<<20 {
			high = 1.2
		}
		f.Interval = intervals.Interval{Tables: 5, Low: 0.8, High: high, Alone: high, Step: 1.5}
	}
	return rows
}

// With the time of nodes no fixed cost is fitted. Each row has the interval of its size class: here small rows up to 35 %,
// large ones up to 20 %.
func TestNodeTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rows := withNodes(rows16(t))
	for _, tc := range []struct {
		factor               float64
		small, large         testslog.Word
		smallCause, inReport string
	}{
		{1, testslog.AsExpected, testslog.AsExpected, "",
			"small calls: 30.8 us; nodes with h100-sxm take 25 to 42 us (38 times"},
		{1.25, testslog.AsExpected, testslog.Slower, "", "38.5 us; nodes with h100-sxm take 25 to 42 us"},
		{1.4, testslog.Slower, testslog.Slower, "more than the model, in which the limit is launch, 60 %",
			": a slow launch or host"},
		{0.7, testslog.FasterTree, testslog.FasterTree, "", ": another version or algorithm of NCCL"},
	} {
		times := modelTimes(rows, 0, 0, random)
		for i := range times {
			for k := range times[i] {
				times[i][k] *= tc.factor
			}
		}
		r := NewReport(rows, 16, readLog(t, tableOf(rows, times)))
		small, large := &r.Log[0], &r.Log[len(r.Log)-1]
		if tc.small == testslog.FasterTree {
			tc.small = testslog.Faster // the model has trees there
		}
		if small.Word != tc.small || large.Word != tc.large || !strings.Contains(small.Cause, tc.smallCause) {
			t.Errorf("%v times the model: %s (%s), %s", tc.factor, small.Word, small.Cause, large.Word)
		}
		if r.Fixed != nil || r.NodeTime != "h100-sxm" || !strings.Contains(r.Summary[0], tc.inReport) {
			t.Errorf("%v times the model: %+v, %s", tc.factor, r.Fixed, r.Summary[0])
		}
		if small.Limit == nil || small.Limit.By != bench.Launch || r.Rows[0].Limit == nil {
			t.Errorf("limits: %+v, %+v", small.Limit, r.Rows[0].Limit)
		}
	}
}
