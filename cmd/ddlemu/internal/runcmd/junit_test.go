// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit/junittest"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// written writes s as --junit does and returns the suite in the file.
func written(t *testing.T, s junit.Suite) junittest.Suite {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.xml")
	j := junitFile{path: path}
	if err := errors.Join(j.begin(), j.write(s)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := junittest.Parse(t, string(text)).Suites[0]
	if got.Properties["ddlemu"] != cli.Version() {
		t.Errorf("properties %v have no version of ddlemu", got.Properties)
	}
	return got
}

// told are the cases as "name: kind type message".
func told(s junittest.Suite) (out []string) {
	for _, c := range s.Cases {
		out = append(out, strings.TrimRight(fmt.Sprintf("%s: %s %s %s", c.Name, c.Kind, c.Type, c.Message), " "))
	}
	return out
}

func expectCases(t *testing.T, s junittest.Suite, want ...string) {
	t.Helper()
	got := told(s)
	if len(got) != len(want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) || strings.HasSuffix(want[i], ":") && got[i] != want[i] {
			t.Errorf("got  %q\nwant %q", got[i], want[i])
		}
	}
}

func TestBenchSuite(t *testing.T) {
	b := bench.Config{Collective: nccl.AllReduce, Ranks: 2, Sizes: []int64{8, 16}, Types: []nccl.DataType{nccl.Float},
		Ops: []nccl.RedOp{nccl.Sum, nccl.Max}, Cycles: 2}
	row := func(size int64, op nccl.RedOp, us int) bench.Row {
		return bench.Row{Size: size, Type: nccl.Float, Op: op.String(),
			OutOfPlace: bench.Measurement{Time: time.Duration(us) * time.Microsecond}}
	}
	h := &bench.Header{Profile: "ndr400", NCCL: "2.22.3", Nodes: 2, TimeScale: 8} // of a repetition that was stopped
	out := &emulate.Outcome{Scale: 4, Verdict: verdict.New(nil)}
	out.Result.Rows = []bench.Row{row(8, nccl.Sum, 3), row(16, nccl.Sum, 4), row(16, nccl.Sum, 9), row(8, nccl.Max, 3)}
	limits, err := asked(t, "--require=time=5us")
	if err != nil {
		t.Fatal(err)
	}

	// A row in the middle was left out, and the run ended before the last three.
	s := written(t, benchSuite(b, h, out, &judges{limits: limits}, context.Canceled))
	expectCases(t, s, "all_reduce 8 bytes float sum cycle 1:", "all_reduce 16 bytes float sum cycle 1:",
		"all_reduce 8 bytes float sum cycle 2: skipped  not measured",
		"all_reduce 16 bytes float sum cycle 2: failure time 16 bytes out of place: it took 9µs",
		"all_reduce 8 bytes float max cycle 1:",
		"all_reduce 16 bytes float max cycle 1: skipped", "all_reduce 8 bytes float max cycle 2: skipped",
		"all_reduce 16 bytes float max cycle 2: skipped", "run: error run interrupted")
	if s.Cases[0].Time != 3e-6 || s.Cases[0].Class != "bench.all_reduce" {
		t.Errorf("%+v", s.Cases[0])
	}
	for name, want := range map[string]string{"profile": "ndr400", "nccl": "2.22.3", "ranks": "2", "nodes": "2",
		"time_scale": "4", "verdict": "VALID"} {
		if s.Properties[name] != want {
			t.Errorf("property %s is %q, want %q", name, s.Properties[name], want)
		}
	}

	// If the verdict is INVALID, no row fails because of its time: nobody knows it.
	out.Verdict = verdict.New(&verdict.Load{Runnable: 9, Cores: 2})
	out.Verdict.Add(verdict.Finding{Cause: verdict.CauseHost, Text: "node0:node1 was late"})
	rows := out.Result.Rows
	rows[1].OutOfPlace.Wrong, rows[1].OutOfPlace.Mismatch = 3, "rank 1 has 7"
	b.Ops, b.Cycles = b.Ops[:1], 1
	out.Result.Rows = rows[:2]
	s = written(t, benchSuite(b, h, out, &judges{limits: limits}, nil))
	expectCases(t, s,
		"all_reduce 8 bytes float sum: error host INVALID: host busy: 9 runnable on 2 cores; node0:node1 was late",
		"all_reduce 16 bytes float sum: failure wrong 3 wrong elements: rank 1 has 7")
	if s.Properties["cause"] != "host" || s.Properties["summary"] != out.Verdict.Summary {
		t.Errorf("%v", s.Properties)
	}

	// A budget was spent: what was measured is there, and the run is not green.
	out.Result.Rows, out.Verdict = rows[:1], verdict.New(nil)
	out.Verdict.Stop("the budget of 2s was spent: 1 of 2 rows measured")
	expectCases(t, written(t, benchSuite(b, h, out, &judges{limits: limits}, nil)), "all_reduce 8 bytes float sum:",
		"all_reduce 16 bytes float sum: skipped",
		"run: error incomplete the budget of 2s was spent")
}

// A report of a run that failed before its first row is not green.
func TestSuitesOfFailures(t *testing.T) {
	failed := errors.New("init: rank 3:\n it ended")
	b := bench.Config{Collective: nccl.AllGather, Ranks: 2, Sizes: []int64{64}}
	expectCases(t, written(t, benchSuite(b, &bench.Header{}, &emulate.Outcome{}, &judges{limits: &thresholds{}}, failed)),
		"all_gather 64 bytes float: skipped", "run: error run init: rank 3: it ended")
	expectCases(t, written(t, verifySuite("eth1", nil, failed)), "run: error run init")
	expectCases(t, written(t, validateSuite("t.csv", nil, failed)), "run: error run init")
}

func TestVerifySuite(t *testing.T) {
	r := &verify.Report{
		Fabric: "eth1", Verdict: "INVALID", Cause: verdict.CauseJob, Summary: "job: a rank died",
		Links: []verify.Link{{Name: "node0:node1"},
			{Name: "node1:node0", Problems: []string{"node1:node0: rate low", "node1:node0: late"}}},
		Together: &verify.Shared{}, Incast: &verify.Shared{Problems: []string{"incast: too fast"}},
		Reasons: []string{"node1:node0: rate low", "node1:node0: late", "incast: too fast", "a rank died"},
		Findings: []verdict.Finding{{Cause: verdict.CauseHost, Text: "node1:node0: rate low"},
			{Cause: verdict.CauseHost, Text: "node1:node0: late"},
			{Cause: verdict.CauseModel, Text: "incast: too fast"}, {Cause: verdict.CauseJob, Text: "a rank died"}},
	}
	s := written(t, verifySuite("eth1", r, nil))
	expectCases(t, s, "node0:node1:", "node1:node0: error host INVALID: node1:node0: rate low", "all to all:",
		"incast: error model INVALID: incast", "fabric: error job INVALID: a rank died")
	if s.Properties["fabric"] != "eth1" || s.Properties["cause"] != "job" ||
		s.Cases[1].Text != "node1:node0: rate low\nnode1:node0: late" {
		t.Errorf("%+v", s)
	}
	r.Reasons, r.Links, r.Incast = nil, r.Links[:1], nil
	expectCases(t, written(t, verifySuite("eth1", r, nil)), "node0:node1:", "all to all:", "fabric:")

	r.Together, r.Verdict, r.Reasons = nil, verdict.Incomplete, []string{"interrupted: 1 of 2 links measured"}
	expectCases(t, written(t, verifySuite("eth1", r, context.Canceled)), "node0:node1:", "run: error run interrupted")
}

func TestValidateSuite(t *testing.T) {
	r := &validate.Report{
		Profile: "t4-efa", NCCL: "2.22.3", Lines: []validate.Line{
			{Size: 4, Published: 65.7, Emulated: 66, Within: true, Limit: 15}, {Size: 8, Published: 60, Expected: 90,
				Error: 50, Limit: 15},
		},
		LeftOut: []validate.LeftOut{{Size: 16, Reason: "too large"}},
	}
	s := written(t, validateSuite("t.csv", r, nil))
	expectCases(t, s, "4 bytes:", "8 bytes: failure limit 90.00 us, published 60.00 us: +50.0 %, the limit is 15 %",
		"16 bytes: skipped  too large")
	if s.Cases[0].Time != 66e-6 || s.Properties["profile"] != "t4-efa" {
		t.Errorf("%+v", s)
	}
	r.Conclusion = verdict.New(nil)
	r.Conclusion.Add(verdict.Finding{Cause: verdict.CauseHost, Text: "late"})
	r.Verdict, r.Cause, r.Summary = "INVALID", r.Conclusion.Cause, r.Conclusion.Summary
	expectCases(t, written(t, validateSuite("t.csv", r, nil)), "4 bytes: error host INVALID: host: late",
		"8 bytes: error host", "16 bytes: skipped")

	r.Verdict, r.Summary, r.Lines = verdict.Incomplete, "interrupted: 1 of 3 rows run", r.Lines[:1]
	expectCases(t, written(t, validateSuite("t.csv", r, context.Canceled)), "4 bytes:", "16 bytes: skipped",
		"run: error run interrupted")
	expectCases(t, written(t, validateSuite("t.csv", r, nil)), "4 bytes:", "16 bytes: skipped",
		"run: error incomplete interrupted: 1 of 3")
}

// The file is refused before the work, and what stood there stays until all of the new one is written.
func TestJUnitFile(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{filepath.Join(dir, "no", "x.xml"): "no such file",
		dir: "it is no regular file", os.DevNull: "it is no regular file"} {
		j := junitFile{path: path}
		if err := j.begin(); err == nil || !strings.Contains(err.Error(), want) ||
			cli.ExitStatus(err) != cli.ExitInput {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	path := filepath.Join(dir, "x.xml")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := junitFile{path: path}
	if err := j.begin(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no space")
	if err := cli.ReplaceFile(path, 0o600, func(w io.Writer) error {
		w.Write([]byte("half of it"))
		return broken
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "before" {
		t.Errorf("the file has %q", text)
	}
	if err := j.write(junit.Suite{Name: "x"}); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); !strings.HasPrefix(string(text), "<?xml") {
		t.Errorf("the file has %q", text)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
