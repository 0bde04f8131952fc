// SPDX-License-Identifier: Apache-2.0

package printer

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sample() (bench.Header, []bench.Row, bench.Summary) {
	header := bench.Header{
		Collective: "all_reduce", NCCL: "2.22.3", NCCLLib: "libnccl.so.2", CUDA: "soft", Profile: "eth1",
		Datapath: "shm",
		Clock:    configs.RealClock, TimeScale: 0.5, Ranks: 2, Nodes: 2, Warmup: 1, Iters: 3, Check: true,
		Notes: []string{"decisions: host view"},
	}
	decision := &nccllog.Decision{Algo: nccllog.AlgoRing, Proto: nccllog.ProtoSimple}
	half := func(inPlace bool, d, expected time.Duration, wrong int64) bench.Measurement {
		m := bench.Measurement{
			InPlace: inPlace, Time: d, TimeMin: d - 100, TimeMax: d + 100, Wall: d, Device: d - 50, Checked: true,
			Wrong:    wrong,
			Decision: decision, Case: bench.Case{Iters: 3, Launches: 4},
		}
		m.AlgBW = 262144 * 4 / float64(d.Nanoseconds())
		m.BusBW = m.AlgBW // of two ranks
		if expected > 0 {
			m.Known, m.Expected, m.Spread = true, expected, 1
			m.Diff = 100 * (float64(d)/float64(expected) - 1)
			m.Off = math.Abs(m.Diff) > bench.OffPercent+m.Spread
		}
		return m
	}
	first := half(true, 9200*time.Microsecond, 8848*time.Microsecond, 0)
	second := half(true, 21, 0, 123456789)
	unchecked := half(false, 12345678*time.Microsecond, 0, 0)
	unchecked.Checked, unchecked.Decision = false, nil
	first.Channels, second.Channels = 2, 1
	rows := []bench.Row{
		{Size: 1 << 20, Count: 1 << 18, Type: nccl.Float, Op: "sum", Root: -1, InPlace: &first,
			OutOfPlace: half(false, 8850*time.Microsecond, 8848*time.Microsecond, 0)},
		{Size: 8, Count: 2, Type: nccl.BFloat16, Op: "none", Root: 1, OutOfPlace: half(false, 53200, 50000, 3),
			InPlace: &second},
		{Size: 1 << 30, Count: 1 << 30, Type: nccl.Int8, Op: "none", Root: -1, OutOfPlace: unchecked},
	}
	rows[0].OutOfPlace.Channels = 2
	rows[1].OutOfPlace.Spread, rows[1].OutOfPlace.Extrapolated = 12.34, true
	v := verdict.New(&verdict.Load{Runnable: 5, Cores: 2})
	v.Notes = []string{"queues were full"}
	v.Add(verdict.Finding{Cause: verdict.CauseJob, Row: "8 bytes out of place", Text: "3 elements are wrong"})
	v.Add(verdict.Finding{Cause: verdict.CauseHost, Link: "node0:node1", Over: 2, Text: "messages were late",
		Figure: "lateness p99 9us, wanted 5us"})
	return header, rows, bench.Summary{
		Wrong: 3, AvgBusBW: 0.118, Verdict: v, Lines: v.Lines(""),
		Budget: &bench.BudgetSummary{Seconds: 120, Text: "budget 2m: rows above 1G dropped", Dropped: []int64{2 << 30}},
	}
}

func printed(t *testing.T, make func(w *strings.Builder) bench.Printer) string {
	t.Helper()
	header, rows, summary := sample()
	var b strings.Builder
	p := make(&b)
	if err := p.Begin(header); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := p.Row(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.End(summary); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPrinters(t *testing.T) {
	for name, make := range map[string]func(w *strings.Builder) bench.Printer{
		"table.txt": func(w *strings.Builder) bench.Printer { return NewText(w) },
		"rows.csv":  func(w *strings.Builder) bench.Printer { return NewCSV(w) },
		"rows.json": func(w *strings.Builder) bench.Printer { return NewJSON(w) },
	} {
		got := printed(t, make)
		path := "testdata/golden/" + name
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A row has nccl-tests' thirteen columns and then four of ddlemu, whatever the values.
func TestTextColumns(t *testing.T) {
	for _, line := range strings.Split(printed(t, func(w *strings.Builder) bench.Printer { return NewText(w) }), "\n") {
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "verdict") {
			continue
		}
		if fields := strings.Fields(line); len(fields) != 17 {
			t.Errorf("%d columns: %q", len(fields), line)
		}
	}
}

// JSON names that other programs depend on.
func TestJSONNames(t *testing.T) {
	var document map[string]any
	text := printed(t, func(w *strings.Builder) bench.Printer { return NewJSON(w) })
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	rows := document["rows"].([]any)
	if len(rows) != 5 {
		t.Errorf("%d rows, want one per measurement: 5", len(rows))
	}
	has := func(object any, names ...string) {
		for _, name := range names {
			if _, found := object.(map[string]any)[name]; !found {
				t.Errorf("there is no %q in %v", name, object)
			}
		}
	}
	has(document, "header", "rows", "verdict", "reasons")
	has(document["header"], "nccl", "cuda", "profile", "datapath", "time_scale", "ranks", "nodes")
	for _, row := range rows {
		has(row, "size", "count", "type", "redop", "inplace", "time_us", "algbw_gbs", "busbw_gbs", "wrong",
			"expected_us", "channels")
	}
}

func TestJSONWithoutRows(t *testing.T) {
	var b strings.Builder
	p := NewJSON(&b)
	if err := errors.Join(p.Begin(bench.Header{}), p.End(bench.Summary{})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"rows": []`, `"reasons": []`, `"notes": []`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %s in %s", want, b.String())
		}
	}
}

func TestCSVReads(t *testing.T) {
	reader := csv.NewReader(strings.NewReader(printed(t, func(w *strings.Builder) bench.Printer { return NewCSV(w) })))
	reader.Comment = '#'
	lines, err := reader.ReadAll()
	if err != nil || len(lines) != 6 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the pipe is closed") }

func TestPrinterErrors(t *testing.T) {
	header, rows, summary := sample()
	for name, p := range map[string]bench.Printer{"text": NewText(brokenWriter{}), "csv": NewCSV(brokenWriter{}),
		"json": NewJSON(brokenWriter{})} {
		if err := errors.Join(p.Begin(header), p.Row(rows[0]), p.End(summary)); err == nil {
			t.Errorf("%s: a failed write was not reported", name)
		}
	}
}

func TestFit(t *testing.T) {
	cases := []struct {
		width int
		value float64
		want  string
	}{
		{7, 12.345, "12.35"}, {7, 12345.678, "12345.7"}, {7, 1234567.8, "1234568"}, {7, 123456789, "1.2e+08"},
		{6, 0, "0.00"},
		{6, 1234.5, "1234.5"},
	}
	for _, c := range cases {
		if got := fit(c.width, c.value); got != c.want {
			t.Errorf("%g in %d: %q, want %q", c.value, c.width, got, c.want)
		}
	}
}
