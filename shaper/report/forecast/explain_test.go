// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// alltoallRows are forecasts of an all-to-all of 32 ranks that carries 62 GB/s after 12 us, from 8 MiB on.
func alltoallRows(doublings int) []emulate.Forecast {
	var rows []emulate.Forecast
	for i := range doublings {
		size := int64(8<<20) << i
		f := emulate.Forecast{Known: true, Waiting: 1, Case: bench.Case{Collective: nccl.AllToAll, Type: nccl.Float, Ranks: 32,
			Size: size, Count: size / 128}}
		f.BusiestHop = time.Duration(float64(size) / 62)
		f.Bound, f.Time = f.BusiestHop, f.BusiestHop+12*time.Microsecond
		f.LastRank = f.Time
		rows = append(rows, f)
	}
	return rows
}

// alltoallTable is a table whose times have us microseconds and a fraction more than the forecasts.
func alltoallTable(rows []emulate.Forecast, us func(i int) float64) string {
	var b strings.Builder
	for i, f := range rows {
		fmt.Fprintf(&b, "%d %d float none -1", f.Case.Size, f.Case.Count)
		for _, wrong := range []string{"0", "N/A"} {
			took := float64(f.Time)/1e3 + us(i)
			algbw := float64(f.Case.Size) / took / 1e3
			fmt.Fprintf(&b, " %.2f %.2f %.2f %s", took, algbw, algbw*31/32, wrong)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// A log that begins at large sizes does not show its fixed cost. If the smallest rows are slower by as many
// microseconds as larger ones take more, that is it; a slower link takes more for more bytes.
func TestFixedCostExplains(t *testing.T) {
	rows := alltoallRows(9)
	for _, tc := range []struct {
		name      string
		us        func(i int) float64
		explained int // times
		advice    string
	}{
		{"a fixed cost", func(int) float64 { return 45 }, 4,
			"; measure from 8 bytes on: small calls show the fixed cost"},
		{"a fixed cost and 1 % less bandwidth", func(i int) float64 { return 45 + float64(rows[i].Time)/1e5 }, 4,
			"; measure from 8 bytes on: small calls show the fixed cost"},
		{"half the bandwidth", func(i int) float64 { return float64(rows[i].Time) / 1e3 }, 0,
			"; try each pair of nodes with sendrecv, which has one flow in each direction: NCCL_ALGO has no part in sends and receives"},
		{"only small rows", func(i int) float64 { return []float64{45, 45, 0, 0, 0, 0, 0, 0, 0}[i] }, 0,
			"; try each pair of nodes with sendrecv"},
	} {
		log := readLog(t, alltoallTable(rows, tc.us))
		r := NewReport(rows, 32, log)
		n := 0
		for _, j := range r.Log {
			if strings.HasPrefix(j.Cause, "a fixed cost of about 4") &&
				strings.Contains(j.Cause, " us would explain it") && j.Word == testslog.Slower {
				n++
			}
		}
		if text := r.Summary[2]; n != tc.explained || !strings.Contains(text, tc.advice) {
			t.Errorf("%s: %d times explained, want %d: %s", tc.name, n, tc.explained, text)
		}
		if text := r.Summary[1]; !strings.Contains(text, "of what sends and receives give on this fabric") {
			t.Errorf("%s: %s", tc.name, text)
		}
	}
}

// One row at half its rate is a dip, of whose cause no algorithm is part.
func TestAdviceForDips(t *testing.T) {
	rows := alltoallRows(9)
	r := NewReport(rows, 32, readLog(t, alltoallTable(rows, func(i int) float64 {
		if i == 7 {
			return float64(rows[i].Time) / 1e3
		}
		return 0
	})))
	if text := r.Summary[2]; !strings.HasSuffix(text,
		"; measure it again: a dip that stays is often congestion, where several flows share a link or arrive at one NIC") {
		t.Error(text)
	}
}

func TestAdvice(t *testing.T) {
	slower := map[testslog.Word]int{testslog.Slower: 1}
	for c, want := range map[nccl.Collective]string{
		nccl.AllReduce: "try NCCL_ALGO=Ring", nccl.AllGather: "try NCCL_ALGO=Ring",
		nccl.Broadcast: "try each pair of nodes: NCCL has no other algorithm", nccl.SendRecv: "NCCL_ALGO has no part",
	} {
		r := Report{collective: c}
		if got := r.advice(slower); !strings.Contains(got, want) {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// nccl-tests 2.13.0 counted the elements that an all-to-all in place overwrites as wrong.
func TestOverwrittenInPlace(t *testing.T) {
	rows := alltoallRows(3)
	text := alltoallTable(rows, func(int) float64 { return 0 })
	for old, want := range map[string]int{"N/A": 0, " 0 ": 3} {
		r := NewReport(rows, 32,
			readLog(t, strings.ReplaceAll(text, old, strings.Replace(old, strings.TrimSpace(old), "77", 1))))
		wrong := 0
		for _, j := range r.Log {
			if j.Word == testslog.Wrong {
				wrong++
			}
		}
		if wrong != want {
			t.Errorf("77 for %q: %d wrong times, want %d", old, wrong, want)
		}
	}
}

// Before 2.13.12, nccl-tests did not make the shares of ranks multiples of 16 bytes.
func TestSizesOfOldTests(t *testing.T) {
	f := emulate.Forecast{Known: true, Case: bench.Case{Collective: nccl.AllGather, Type: nccl.Float, Ranks: 3, Size: 1048560,
		Count: 87380}}
	f.Time, f.BusiestHop = time.Millisecond, 800*time.Microsecond
	small := f
	small.Case.Size, small.Case.Count = 48, 4
	small.Time, small.BusiestHop = 20*time.Microsecond, time.Microsecond
	byCall := map[loggedCall]*emulate.Forecast{{1048560, nccl.Sum}: &f, {48, nccl.Sum}: &small}
	for size, want := range map[int64]*emulate.Forecast{1048560: &f, 1048572: &f, 1048548: nil, 24: &small, 60: nil, 0: nil} {
		if got := forecastOf(loggedCall{size, nccl.Sum}, byCall); got != want {
			t.Errorf("%d bytes: %+v", size, got)
		}
	}
	delete(byCall, loggedCall{48, nccl.Sum})
	if got := forecastOf(loggedCall{24, nccl.Sum}, byCall); got != nil {
		t.Errorf("24 bytes take as long as 1 MiB: %+v", got)
	}
}
