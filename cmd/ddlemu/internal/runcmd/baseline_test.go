// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// compared are the flags of a comparison with a baseline file, which is loaded.
func compared(t *testing.T, args ...string) (*baselineFile, error) {
	t.Helper()
	var b baselineFile
	fs := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	b.addFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &b, b.load(baseline.Bench)
}

// rowOf is a row of 8 bytes whose halves take so many µs.
func rowOf(out, in int) bench.Row {
	of := func(us int) bench.Measurement { return bench.Measurement{Time: time.Duration(us) * time.Microsecond} }
	inPlace := of(in)
	inPlace.InPlace = true
	return bench.Row{Size: 8, Type: nccl.Float, Op: "sum", Root: -1, OutOfPlace: of(out), InPlace: &inPlace}
}

// printed prints a run of these rows.
func printed(t *testing.T, p bench.Printer, v verdict.Verdict, rows ...bench.Row) {
	t.Helper()
	err := p.Begin(bench.Header{Profile: "eth10", Clock: "virtual", Ranks: 2})
	for _, r := range rows {
		err = errors.Join(err, p.Row(r))
	}
	if err := errors.Join(err, p.End(bench.NewSummary(bench.Result{Rows: rows}, v, ""))); err != nil {
		t.Fatal(err)
	}
}

// A run is compared with the file that an earlier one has printed: in the table, in JSON, in CSV, in JUnit and by the
// exit status.
func TestBaselineOfBench(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.json")
	var before bytes.Buffer
	printed(t, printer.NewJSON(&before), verdict.New(nil), rowOf(100, 100), rowOf(100, 100))
	if err := os.WriteFile(path, before.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	const slow = "8 bytes float sum in place, time 2: 103 us, 100 us in the baseline (+3.0 %)"
	for _, tc := range []struct {
		tolerance string
		status    int
		slower    bool
	}{{"2%", cli.ExitSlower, true}, {"3%", cli.ExitOK, false}} {
		for format, printer := range map[string]func(*bytes.Buffer) bench.Printer{
			"text": func(w *bytes.Buffer) bench.Printer { return printer.NewText(w) },
			"json": func(w *bytes.Buffer) bench.Printer { return printer.NewJSON(w) },
			"csv":  func(w *bytes.Buffer) bench.Printer { return printer.NewCSV(w) },
		} {
			b, err := compared(t, "--baseline="+path, "--require=baseline="+tc.tolerance)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			rows := []bench.Row{rowOf(100, 100), rowOf(90, 103)}
			printed(t, b.printer(printer(&out)), verdict.New(nil), rows...)
			slower, faster := "# slower: "+slow+"\n", "# faster: 8 bytes float sum out of place, time 2: 90 us"
			if format == "json" {
				slower, faster = `"baseline_us": 100,`+"\n        \"percent\": 3.0", `"what": "8 bytes float sum out of place, time 2"`
			}
			if got := strings.Contains(out.String(), slower); got != tc.slower || !strings.Contains(out.String(), faster) {
				t.Errorf("%s with %s: %v, want %v, and %q\n%s", format, tc.tolerance, got, tc.slower, faster, out.String())
			}
			if err := b.judge(); cli.ExitStatus(err) != tc.status {
				t.Errorf("%s: %v, want status %d", tc.tolerance, err, tc.status)
			}
			cfg := bench.Config{Collective: nccl.AllReduce, Ranks: 2, Sizes: []int64{8}, Types: []nccl.DataType{nccl.Float},
				Ops: []nccl.RedOp{nccl.Sum}, Cycles: 2}
			o := &emulate.Outcome{Result: bench.Result{Rows: rows}, Verdict: verdict.New(nil)}
			second := "all_reduce 8 bytes float sum cycle 2:"
			if tc.slower {
				second += " failure baseline " + slow
			}
			suite := benchSuite(cfg, &bench.Header{}, o, &judges{&thresholds{}, b.result}, nil)
			expectCases(t, written(t, suite), "all_reduce 8 bytes float sum cycle 1:", second)
		}
	}

	// The times of a run that is INVALID say nothing: they are not compared.
	b, err := compared(t, "--baseline="+path)
	if err != nil {
		t.Fatal(err)
	}
	invalid := verdict.New(nil)
	invalid.Add(verdict.Finding{Cause: verdict.CauseHost, Text: "late"})
	var out bytes.Buffer
	printed(t, b.printer(printer.NewText(&out)), invalid, rowOf(900, 900))
	if strings.Contains(out.String(), "baseline") || b.judge() != nil {
		t.Errorf("%v\n%s", b.judge(), out.String())
	}
}

// What is no baseline is refused before anything is run.
func TestBaselineIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for args, want := range map[string]string{
		"--baseline=" + filepath.Join(dir, "none"):                                        "no such file",
		"--baseline=" + write("text", "# ddlemu"):                                         "it is not the JSON of one run",
		"--baseline=" + write("expect", `{"profile": "a", "rows": [{"expected_us": 1}]}`): "of ddlemu expect, not of ddlemu bench",
		"--baseline=" + write("bad", `{"header": {}, "rows": [], "verdict": "INVALID"}`):  "its verdict is INVALID",
		"--require=baseline=1%": "is for --baseline",
	} {
		if _, err := compared(t, args); err == nil || cli.ExitStatus(err) != cli.ExitInput ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if b, err := compared(t); err != nil || b.printer(nil) != nil || b.judge() != nil {
		t.Errorf("without a baseline: %+v, %v", b, err)
	}
}
