// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/report/score"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

func boardReports() []*validate.Report {
	return []*validate.Report{
		{Name: "one.csv", GPU: "t4", OtherNCCL: "NCCL 2.22.3 stands for 2.12.7", RanksPerProcess: 1, Lines: []validate.Line{
			{Size: 8, Published: 100, Expected: 90, Error: -10},
			{Size: 2 << 20, Published: 1000, Expected: 1020, Emulated: 1030, Error: 3}},
			LeftOut: []tables.LeftOut{{Size: 16, Reason: "why"}}},
		{Name: "two.csv", RanksPerProcess: 8, Lines: []validate.Line{{Size: 8, Published: 10, Expected: 12, Error: 20}},
			Verdict: "INVALID", Summary: "host: late", Reasons: []string{"late"}},
		{Name: "none.csv", GPU: "a100-sxm", Lines: []validate.Line{{Size: 8, Published: 10, Error: -100}}},
	}
}

func TestPrintBoard(t *testing.T) {
	reports := boardReports()
	reports[0].MarkFitted(8)
	reports[2].MarkFitted(8)
	odd := &validate.Report{Name: "odd.csv", GPU: "l40s", Lines: []validate.Line{{Size: 8, Published: 10, Error: 900}},
		LeftOut: []tables.LeftOut{{Size: 32, Reason: "because"}}}
	var got strings.Builder
	b := score.New(append(reports, odd), map[string]string{"odd.csv": "a net that is not here"},
		[]score.LeftOut{{Name: "three.csv", Reason: "no table"}})
	if err := printBoard(&got, b); err != nil {
		t.Fatal(err)
	}
	const want = `# 4 tables compared, 1 left out; errors are percent of the published time

table                             GPU             rows  median    p90  largest  at bytes  bias to 32K  bias to 1M  bias to 64M  bias above
one.csv                           t4        *(f)     2     6.5   10.0    -10.0         8        -10.0           -         +3.0           -
two.csv                           -         +        1    20.0   20.0    +20.0         8        +20.0           -            -           -
none.csv                          a100-sxm  f        1   100.0  100.0   -100.0         8       -100.0           -            -           -
all rows                                             4    15.0  100.0   -100.0         8       -100.0           -         +3.0           -
  up to 32K                                          3    20.0  100.0   -100.0         8
  above                                              1     3.0    3.0     +3.0   2097152
rows that figures were fitted to                     2    55.0  100.0   -100.0         8       -100.0           -            -           -
  up to 32K                                          2    55.0  100.0   -100.0         8
  above                                              0
rows not fitted to                                   2    11.5   20.0    +20.0         8        +20.0           -         +3.0           -
  up to 32K                                          1    20.0   20.0    +20.0         8
  above                                              1     3.0    3.0     +3.0   2097152

# all rows: bias below 15 % in 2 of 4 size classes of the tables
# rows that figures were fitted to: bias below 15 % in 1 of 2 size classes of the tables
# rows not fitted to: bias below 15 % in 1 of 2 size classes of the tables

apart    GPU     rows  median    p90  largest  at bytes  bias to 32K  bias to 1M  bias to 64M  bias above
odd.csv  l40s       1   900.0  900.0   +900.0         8       +900.0           -            -           -

# apart: odd.csv: a net that is not here
# * another version of NCCL than the one here, or unknown; + several ranks in a process, which NCCL connects directly;
# f figures were fitted to the table, (f) to some of its rows; p predicted by figures that were fitted to other tables
# one.csv: 16 bytes left out: why
# two.csv: INVALID: host: late
# odd.csv: 32 bytes left out: because
# left out: three.csv: no table
`
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("board (-want +got):\n%s", d)
	}
	got.Reset()
	if err := printBoard(&got, score.New(nil, nil, []score.LeftOut{{Name: "x", Reason: "y"}})); err != nil ||
		strings.Contains(got.String(), "bias") {
		t.Errorf("%v: %s", err, got.String())
	}
	got.Reset()
	if err := printBoard(&got, score.New(boardReports()[:1], nil, nil)); err != nil ||
		strings.Contains(got.String(), "rows not fitted to") {
		t.Errorf("%v: groups that are all rows, or none: %s", err, got.String())
	}
}

func TestParseApart(t *testing.T) {
	got, err := parseApart("# why\n\n a.csv : one NIC: 1 of 4\nb.csv: x\n")
	want := map[string]string{"a.csv": "one NIC: 1 of 4", "b.csv": "x"}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	for text, want := range map[string]string{"a.csv": `1: "a.csv" is not "NAME: REASON"`, "\na.csv: ": "2: ",
		": why": "1: ", "a: x\na: y": "2: a is there twice"} {
		if _, err := parseApart(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := readApart(filepath.Join(t.TempDir(), "none")); cli.ExitStatus(err) != cli.ExitInput {
		t.Error(err)
	}
	if shipped, err := readApart("../../../../configs/tables/apart.yaml"); err != nil || len(shipped) != 7 {
		t.Errorf("the list that ships: %v, %v", shipped, err)
	}
	if got, err := readApart(""); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// The tables that are left take as long as their ranks and rows say, by what those before them took.
func TestTimeLeft(t *testing.T) {
	of := func(ranks, rows int) tableFile {
		return tableFile{table: &tables.Table{Ranks: ranks, Rows: make([]testslog.Row, rows)}}
	}
	a := &all{o: &validateOptions{Model: true}, begun: time.Unix(100, 0),
		files: []tableFile{of(2, 5), {err: errInterrupted}, of(4, 15), of(2, 5)}}
	for at, want := range []time.Duration{progress.Unknown, 40 * time.Second, 40 * time.Second, 2500 * time.Millisecond} {
		if got := a.left(at, time.Unix(110, 0)); got != want {
			t.Errorf("before table %d: %v left, want %v", at, got, want)
		}
	}
	if a.o.Model = false; a.left(2, time.Unix(110, 0)) != progress.Unknown {
		t.Error("the time of runs is known")
	}
}

// The exit status: none compared, INVALID, and rows beyond their limits, in this order.
func TestJudgeBoard(t *testing.T) {
	ok := &validate.Report{Lines: []validate.Line{{Size: 8, Within: true}}}
	far := &validate.Report{Lines: []validate.Line{{Size: 8}, {Size: 16, Within: true}}}
	invalid := &validate.Report{Name: "x", Lines: far.Lines, Verdict: "INVALID", Summary: "late", Reasons: []string{"r"}}
	out := []score.LeftOut{{Name: "a", Reason: "b"}}
	for _, tc := range []struct {
		reports []*validate.Report
		want    string
		status  int
	}{
		{nil, "none of 1 tables can be compared: the first, a: b", cli.ExitInput},
		{[]*validate.Report{ok}, "", cli.ExitOK},
		{[]*validate.Report{ok, far}, "1 of 3 rows exceed their limits", cli.ExitFailure},
		{[]*validate.Report{far, invalid}, "the verdict is INVALID: x: late", cli.ExitInvalid},
	} {
		err := (&all{files: make([]tableFile, 1)}).judge(score.New(tc.reports, nil, out))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != tc.want || cli.ExitStatus(err) != tc.status {
			t.Errorf("%q, status %d, want %q, %d", text, cli.ExitStatus(err), tc.want, tc.status)
		}
	}
}

// A run that failed is an error, of the command and in JUnit; a table that cannot be compared is left out.
func TestFailedTable(t *testing.T) {
	a := &all{}
	for _, err := range []error{cli.BadInput("x/a.csv: line 3: bad"), fmt.Errorf("%w: 8 bytes: why", validate.ErrNoRow),
		errInterrupted} {
		if a.leaveOut("x/a.csv", err); failed(err) || a.cases[len(a.cases)-1].Skipped == "" {
			t.Errorf("%v: failed", err)
		}
	}
	if a.out[0] != (score.LeftOut{Name: "a.csv", Reason: "line 3: bad"}) {
		t.Errorf("%+v", a.out[0])
	}
	broken := errors.New("rank 0 died")
	if a.leaveOut("b.csv", broken); !failed(broken) || a.cases[3].Error == nil || a.cases[3].Skipped != "" {
		t.Errorf("%+v", a.cases[3])
	}
	a.failed = broken
	if err := a.judge(score.New(nil, nil, a.out)); !errors.Is(err, broken) || cli.ExitStatus(err) != cli.ExitFailure {
		t.Errorf("%v, status %d", err, cli.ExitStatus(err))
	}
}

func TestTableFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.csv", "a.txt", "README.md", "folder.csv/x"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700),
			os.WriteFile(filepath.Join(dir, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := tableFiles([]string{filepath.Join(dir, "README.md"), dir, dir + "/./a.txt"})
	want := []string{filepath.Join(dir, "README.md"), filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.csv")}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	for _, bad := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "folder.csv")} {
		if _, err := tableFiles([]string{bad}); cli.ExitStatus(err) != cli.ExitInput {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// What one table says is not said of the next one; what the user says is said of all.
func TestOptionsForEachTable(t *testing.T) {
	var o validateOptions
	g := &cli.Global{Getenv: func(string) string { return "" }}
	flags := pflag.NewFlagSet("validate", pflag.ContinueOnError)
	o.AddFlags(g, flags)
	flags.BoolVar(&g.Verbose, "of-the-root", false, "")
	if err := flags.Parse([]string{"--all", "--json", "--model", "--of-the-root", "--lat", "5us", "-e", "1M"}); err != nil {
		t.Fatal(err)
	}
	for _, gpu := range []string{"t4", "", "l40s"} {
		c, err := o.forTable(g)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.place(g, &tables.Table{Ranks: 2, Nodes: 2, Cluster: tables.Cluster{GPU: gpu}}); err != nil {
			t.Fatal(err)
		}
		if got := c.Flags.Lookup("gpu").Value.String(); got != gpu || !c.Model || c.End != "1M" || !g.JSON ||
			!c.Flags.Changed("lat") || flags.Changed("gpu") {
			t.Errorf("gpu %q, want %q, %+v", got, gpu, c)
		}
	}
}

func TestPictures(t *testing.T) {
	dir := t.TempDir()
	reports := boardReports()
	p := pictures{Path: dir}
	files, err := p.check([]string{"x/one.csv", "x/two.csv", "none.csv"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(files, reports); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"all.svg": {"Published and calculated times", ">t4<", ">GPU not known<", "25 % more or less"},
		"one.svg": {">one.csv<", ">t4<"}, "two.svg": {">two.csv<", ">GPU not known<"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s: no %q", name, w)
			}
		}
		if strings.Contains(string(text), "a100-sxm") {
			t.Errorf("%s has a kind of GPU without rows that take time", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a picture without points: %v", err)
	}
	if _, err := p.check([]string{"one.csv"}); cli.ExitStatus(err) != cli.ExitInput {
		t.Errorf("files that exist are replaced: %v", err)
	}
	for tables, want := range map[string]string{
		"a/x.csv b/x.csv": "x.csv and x.csv would have the same picture x.svg",
		"x.csv x.log":     "x.csv and x.log would have the same picture x.svg",
		"all.csv":         "all tables together and all.csv would have the same picture all.svg",
	} {
		_, err := p.check(strings.Fields(tables))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", tables, err, want)
		}
	}
	p.Force = true
	if _, err := p.check([]string{"one.csv"}); err != nil {
		t.Error(err)
	}
	one := pictures{Path: filepath.Join(dir, "x.svg")}
	if files, err = one.check([]string{"one.csv"}); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	s := scatter("", reports[:1])
	if got := s.Groups[0].Points; got[0].Y != 90 || got[1].Y != 1030 || got[1].X != 1000 {
		t.Errorf("points %v", got)
	}
}
