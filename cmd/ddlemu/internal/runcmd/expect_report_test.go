// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/report/forecast"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// broadcastRows are forecasts for two ranks at 10 Gb/s: a size whose root runs ahead, and a size that the model does
// not know.
func broadcastRows() []emulate.Forecast {
	c := bench.Case{
		Collective: nccl.Broadcast, Type: nccl.Float, Ranks: 2, Size: 1 << 20, Count: 1 << 18,
		Decision: &nccllog.Decision{Algo: nccllog.AlgoRing, Proto: nccllog.ProtoSimple},
	}
	first := emulate.Forecast{Case: c, Known: true, Bound: 884 * time.Microsecond, Waiting: 0.5}
	first.Time, first.LastRank, first.BusiestHop, first.Channels = 458*time.Microsecond, 890*time.Microsecond,
		884*time.Microsecond, 2
	first.Busiest = bench.BusyHop{Kind: "NIC", Name: "node0 tx", Share: 0.993, Alike: 1}
	c.Size, c.Count = 4<<20, 1<<20
	return []emulate.Forecast{first, {Case: c, Problem: "no rings", Bound: 3535 * time.Microsecond, Waiting: 0.5}}
}

// namedReport is a report for two ranks with NCCL 2.22.3 on a profile.
func namedReport(profile string, rows []emulate.Forecast, log *tables.Table) *forecast.Report {
	r := forecast.NewReport(rows, 2, log)
	r.NCCL, r.Profile, r.Nodes = "2.22.3", profile, 2
	return r
}

const aheadNote = `
expected is the mean over the ranks, as in nccl-tests, and bound is for the last rank:
others are done as soon as their data is in the buffers on the path.
`

// If a bound exceeds the expected time, the output explains why.
func TestExpectTable(t *testing.T) {
	var got strings.Builder
	r := namedReport("wan-metro", broadcastRows(), nil)
	r.GPUTime, r.NotIn = "none (add --gpu KIND --set node_time=on)", []string{"GPU and launch time (add --gpu KIND --set node_time=on)", "other traffic"}
	printForecast(&got, r, false)
	const want = `NCCL 2.22.3, 2 ranks on 2 nodes of wan-metro
GPU time: none (add --gpu KIND --set node_time=on)

   size    count  algo  proto   channels  expected us  busbw GB/s  last rank us  busiest hop us  bound us
1048576   262144  Ring  Simple         2       458.00        2.29        890.00          884.00    884.00
4194304  1048576  Ring  Simple         -            -           -             -               -   3535.00  no rings

busiest hop of 1048576 bytes: NIC node0 tx, occupied for 99 % of the time, as is 1 other
not in the numbers: GPU and launch time (add --gpu KIND --set node_time=on); other traffic
` + aheadNote
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Error(d)
	}
}

// A call that takes no time has no bandwidth.
func TestExpectOfNoTime(t *testing.T) {
	c := bench.Case{Collective: nccl.AllReduce, Type: nccl.Float, Ranks: 2, Size: 4, Count: 1}
	f := emulate.Forecast{Case: c, Known: true}
	f.Channels = 1
	var got strings.Builder
	r := forecast.NewReport([]emulate.Forecast{f}, 2, nil)
	printForecastRows(&got, r)
	const want = `size  count  algo  proto  channels  expected us  busbw GB/s  last rank us  busiest hop us  bound us
   4      1                      1            -           -             -               -         -
`
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Error(d)
	}
	if r.Rows[0].BusBW != nil || r.Rows[0].ExpectedUS == nil {
		t.Errorf("%+v: want an expected time, of 0, and no bandwidth", r.Rows[0])
	}
}

// A row at 99 % of the line rate is as expected, although the mean is lower. Every time of the log is in the report.
func TestExpectJudgesLog(t *testing.T) {
	const text = `1048576 262144 float none 0 890 1.18 1.18 0 480 2.18 2.18 0
1048576 262144 float none 0 890 1.18 1.18 77 890 11.8 11.8 0
1048576 262144 float none 0 3000 0.35 0.35 0 300 3.50 3.50 0
4194304 1048576 float none 0 3600 1.17 1.17 0 3600 1.17 1.17 0
2097152 524288 float none 0 1800 1.17 1.17 0 1800
`
	log, err := tables.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r := namedReport("wan-metro", broadcastRows(), log.Tables[0])
	want := []struct {
		word  string
		cause string
	}{
		{"as expected", ""}, {"as expected", ""},
		{"wrong", "77 wrong elements"}, {"contradictory", "algbw 11.80"},
		{"slower", "the links carried 30 % of"}, {"impossible", "the bytes alone take 884µs"},
		{"not judged", "no rings"}, {"not judged", "no rings"},
		{"not judged", "no call of 2 ranks has this size"},
	}
	if len(r.Log) != len(want) {
		t.Fatalf("%d times are judged, want %d: %+v", len(r.Log), len(want), r.Log)
	}
	for i, w := range want {
		if got := r.Log[i]; string(got.Word) != w.word || !strings.Contains(got.Cause, w.cause) ||
			(got.Cause == "") != (w.cause == "") {
			t.Errorf("time %d: %+v, want %s with %q", i, got, w.word, w.cause)
		}
	}
	if got := r.Failure(); got != "7 of 9 times not as expected, 1 row cut" {
		t.Errorf("--strict says %q", got)
	}
	var out strings.Builder
	r.NotIn = []string{"other traffic"}
	printForecast(&out, r, false)
	const below = `
busiest hop of 1048576 bytes: NIC node0 tx, occupied for 99 % of the time, as is 1 other
not in the model's times: other traffic
`
	const summary = `
note: no line of the log names the columns: the columns of nccl-tests since 2022 were taken (redop, root, time, algbw, busbw, #wrong)

fixed cost: not known, as no part of the log takes the same time for several sizes: all time counts as the network's
bandwidth: 3.5 GB/s busbw at 1048576 bytes, 153 % of what Ring Simple gives on this fabric: traffic went around the network, or the profile is not this cluster's
rows: 9 times: 2 as expected, 1 slower, 1 impossible, 1 wrong, 1 contradictory, 3 not judged; look at line 2 (1048576 bytes out of place, wrong), line 2 (1048576 bytes in place, contradictory), line 3 (1048576 bytes in place, impossible) and 3 more; measure again before anything else: wrong or edited rows prove nothing
`
	if want := "\n1 row cut:\nline 5: the row is cut before its in-place half ends\n" + below + aheadNote +
		summary; !strings.HasSuffix(out.String(), want) {
		t.Errorf("%s\nwant at its end %s", out.String(), want)
	}
}

func TestExpectStrictIsContent(t *testing.T) {
	log, err := tables.Read(strings.NewReader("1048576 262144 float none 0 890 1.18 1.18 0 440 2.38 2.38 N/A\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := namedReport("wan-metro", broadcastRows(), log.Tables[0]).Failure(); got != "" {
		t.Errorf("--strict says %q", got)
	}
}

// If a log has several operators, each row is judged by the calls of its operator.
func TestExpectJudgesByOperator(t *testing.T) {
	var rows []emulate.Forecast
	for i, op := range []nccl.RedOp{nccl.Sum, nccl.Max} {
		f := emulate.Forecast{Known: true, Waiting: 1, Case: bench.Case{Collective: nccl.AllReduce, Type: nccl.Float,
			Op: op, Ranks: 2, Size: 1 << 20, Count: 1 << 18}}
		f.Time = time.Duration(i+1) * time.Millisecond
		f.LastRank = f.Time
		rows = append(rows, f)
	}
	log, err := tables.Read(
		strings.NewReader(
			"1048576 262144 float max -1 2000 0.52 0.52 0\n1048576 262144 float sum -1 2000 0.52 0.52 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := namedReport("eth10", rows, log.Tables[0])
	if len(r.Log) != 2 || r.Log[0].Word != "as expected" || r.Log[1].Word != "slower" {
		t.Errorf("max of 2 ms where that is expected, sum where 1 ms is: %+v", r.Log)
	}
	if r.Rows[0].RedOp != "sum" || r.Rows[1].RedOp != "max" || r.Rows[0].Type != "float" {
		t.Errorf("%+v", r.Rows)
	}
}

// The busiest hop of each row is named if there are few, else that of the largest.
func TestBusiestHops(t *testing.T) {
	for rows, want := range map[int][]int64{1: {1}, 3: {1, 2, 3}, 4: {4}} {
		var all []emulate.Forecast
		for i := range rows {
			f := broadcastRows()[0]
			f.Case.Size = int64(i + 1)
			all = append(all, f)
		}
		var got []int64
		for _, row := range forecast.NewReport(all, 2, nil).Busiest() {
			got = append(got, row.Size)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d rows: %v, want %v", rows, got, want)
		}
	}
}

// Without a collective, the table that is judged is the first whose collective the log names or shows.
func TestLogSaysTheCollective(t *testing.T) {
	const row = " 262144 float none -1 890 1.18 1.18 0 480 2.18 2.18 0\n"
	const reduces = " 262144 float sum -1 890 1.18 1.18 0 480 2.18 2.18 0\n"
	for _, tc := range []struct {
		text, given string
		want        nccl.Collective
		fails       string
	}{
		{text: "# Collective test starting: all_gather_perf\n1048576" + row, want: nccl.AllGather},
		{text: "# Collective test starting: all_gather_perf\n1048576" + row +
			"# Collective test starting: all_reduce_perf\n1048576" + reduces, want: nccl.AllGather},
		{text: "# Collective test starting: all_gather_perf\n1048576" + row +
			"# Collective test starting: all_reduce_perf\n1048576" + reduces, given: "allreduce", want: nccl.AllReduce},
		{text: "1048576" + reduces, fails: "name the collective"},
	} {
		log, err := tables.Read(strings.NewReader(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		var o expectOptions
		given, _ := nccl.ParseCollective(tc.given)
		logs, err := o.tablesOf(log, given, tc.given != "")
		switch {
		case tc.fails != "":
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%q: %v, want an error with %q", tc.text, err, tc.fails)
			}
		case err != nil || len(logs) != 1 || logs[0].Collective != tc.want:
			t.Errorf("%q: %v, %v, want %v", tc.text, logs, err, tc.want)
		}
	}
}
