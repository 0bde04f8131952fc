// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"encoding/gob"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/report/forecast"
	"github.com/ddlemu/ddlemu/shaper/report/score"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// tablesEnv names a folder of tables, calculatedEnv a folder that keeps what is calculated for them, and faultyEnv the
// tables whose causes are judged as well as their ranges. The test finds NCCL if its program is in build/bin:
//
//	go test -c -o build/bin/judges.test ./cmd/ddlemu/internal/runcmd && cd cmd/ddlemu/internal/runcmd &&
//	DDLEMU_TEST_TABLES=tables ../../../../build/bin/judges.test -test.run JudgesTables -test.v
const (
	tablesEnv     = "DDLEMU_TEST_TABLES"
	calculatedEnv = "DDLEMU_TEST_CALCULATED"
	faultyEnv     = "DDLEMU_TEST_FAULTY"
)

// judgedTable is a table of a real cluster with what the model expects of it.
type judgedTable struct {
	table   *tables.Table
	options emulate.Options
	report  *validate.Report
	rows    []emulate.Forecast
	kept    string // folder of what was calculated
	apart   bool   // the scoreboard does not sum it up
}

// Tables of healthy clusters are judged by the intervals of the other tables, as a stranger's log is. None is slower
// than expected. With a fault that is planted, the range and the first cause are right in 8 of 10.
func TestJudgesTables(t *testing.T) {
	folder := os.Getenv(tablesEnv)
	if folder == "" {
		t.Skipf("%s names no folder of tables", tablesEnv)
	}
	tables := readJudged(t, folder)
	t.Run("healthy", func(t *testing.T) { judgeHealthy(t, tables) })
	t.Run("faults", func(t *testing.T) { judgeFaults(t, tables) })
}

// readJudged reads and calculates the tables of a folder.
func readJudged(t *testing.T, folder string) (tables []*judgedTable) {
	t.Helper()
	kept := cmp.Or(os.Getenv(calculatedEnv), t.TempDir())
	files, err := filepath.Glob(filepath.Join(folder, "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := readApart("../../../../configs/tables/apart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		j, err := calculateTable(t, path, kept)
		if err != nil {
			t.Logf("%s: left out: %v", filepath.Base(path), err)
			continue
		}
		j.apart = reasons[j.report.Name] != ""
		tables = append(tables, j)
	}
	if len(tables) == 0 {
		t.Fatalf("%s has no table that can be calculated", folder)
	}
	return tables
}

func calculateTable(t *testing.T, path, kept string) (*judgedTable, error) {
	t.Helper()
	o, g := &validateOptions{}, &cli.Global{Getenv: os.Getenv, Environ: os.Environ, Stderr: os.Stderr, Quiet: true}
	o.AddFlags(g, pflag.NewFlagSet("validate", pflag.ContinueOnError))
	o.Model, o.Soft = true, true
	table, err := o.table(path)
	if err != nil {
		return nil, err
	}
	v, err := o.options(g, path, table)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = v.Emulate.Dir.Close() })
	j := &judgedTable{table: table, options: v.ForModel(), kept: kept}
	if j.rows, _, err = j.expect(t.Context(), j.options); err != nil {
		return nil, err
	}
	j.report = v.NewReport("")
	j.report.Name = filepath.Base(path)
	for i, f := range j.rows {
		j.report.Calculated(&table.Rows[i], f.Time, f.Problem)
	}
	return j, nil
}

// expect calculates all sizes of the table, once for each setting.
func (j *judgedTable) expect(ctx context.Context, o emulate.Options) (rows []emulate.Forecast, info bench.Info,
	err error) {
	c := &o.Config
	key := fnv.New64()
	fmt.Fprint(key, o.Env, o.Bench.Collective, o.Bench.Ranks, j.table.Source, j.table.System, c.NICsPerNode,
		c.Link.Bandwidth, c.Transport.Kind, c.NVLink, o.Libraries.Version)
	path := filepath.Join(j.kept, fmt.Sprintf("%x.gob", key.Sum64()))
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		return rows, info, gob.NewDecoder(f).Decode(&rows)
	}
	o.Bench.Sizes = nil
	for _, r := range j.table.Rows {
		o.Bench.Sizes = append(o.Bench.Sizes, r.Size)
	}
	if rows, _, err = emulate.Expect(ctx, o); err != nil {
		return nil, info, err
	}
	for i := range rows {
		rows[i].Case.Topology, rows[i].Case.NICs = nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, info, err
	}
	defer f.Close()
	return rows, info, gob.NewEncoder(f).Encode(rows)
}

// judge judges the table with times that a fault changes, by the intervals of others.
func (j *judgedTable) judge(t *testing.T, others []*judgedTable,
	fault func(size int64, us float64) float64) *forecast.Report {
	t.Helper()
	var board score.Board
	for _, o := range others {
		switch {
		case o == j:
		case o.apart:
			board.Apart = append(board.Apart, score.Apart{Table: score.Table{Report: o.report}})
		default:
			board.Tables = append(board.Tables, score.Table{Report: o.report})
		}
	}
	by := score.Intervals(&board)
	rows := slices.Clone(j.rows)
	var log strings.Builder
	for i := range rows {
		f, row := &rows[i], &j.table.Rows[i]
		f.Interval = intervals.Find(by, j.report.Class, f.Case.Size)
		us := fault(row.Size, float64(row.OutOfPlace.Time)/float64(time.Microsecond))
		algbw := f.Case.Collective.AlgFactor(f.Case.Ranks) * float64(row.Size) / us / 1e3
		op, root := "none", -1
		if f.Case.Collective.Reduces() {
			op = "sum"
		}
		if f.Case.Collective.Rooted() {
			root = 0
		}
		fmt.Fprintf(&log, "%d %d %v %s %d %.4f %.4f %.4f 0 N/A N/A N/A N/A\n", row.Size, f.Case.Count, f.Case.Type, op,
			root, us, algbw, algbw*f.Case.Collective.BusFactor(f.Case.Ranks))
	}
	read, err := tables.Read(strings.NewReader(log.String()))
	if err != nil {
		t.Fatal(err)
	}
	r := forecast.NewReport(rows, j.table.Ranks, read.Tables[0])
	r.Nodes = j.table.Nodes
	return r
}

func asMeasured(_ int64, us float64) float64 { return us }

func judgeHealthy(t *testing.T, tables []*judgedTable) {
	slow, apart, all := 0, 0, 0
	for _, j := range tables {
		if !j.apart {
			all++
		}
		r := j.judge(t, tables, asMeasured)
		if r.Failure() == "" {
			continue
		}
		if j.apart {
			apart++
		} else {
			slow++
		}
		t.Logf("%s (%+v): %s", j.report.Name, j.report.Class, r.Failure())
		for i := range r.Slow {
			t.Logf("    %s", r.Slow[i].Text())
		}
	}
	t.Logf("not as expected: %d of %d healthy tables, and %d of %d that the scoreboard does not sum up", slow, all, apart,
		len(tables)-all)
	if slow > 0 {
		t.Error("a healthy table is called slow")
	}
}

// planted is a fault: what it does to a time in microseconds, and the words of its cause.
type planted struct {
	name   string
	change func(j *judgedTable, size int64, us float64) float64
	cause  []string
	net    bool // it is a fault of the net
}

var faults = []planted{
	{"3 times as long from 4 to 16 MiB", times(3, 4<<20, 16<<20), []string{"algorithm", "protocol"}, false},
	{"a NIC at half its rate above 1 MiB", times(2, 2<<20, 1<<62), []string{"a NIC or port at"}, true},
	{"30 us more up to 64 KiB", func(_ *judgedTable, size int64, us float64) float64 {
		if size <= 64<<10 {
			us += 30
		}
		return us
	}, []string{"us more in each call"}, false},
	{"another algorithm from 64 KiB to 1 MiB", times(1.7, 64<<10, 1<<20), []string{"algorithm", "protocol"}, false},
	{"another algorithm from 32 to 256 MiB", times(1.7, 32<<20, 256<<20), []string{"algorithm", "protocol"}, false},
	{"a stall of 40 ms", func(j *judgedTable, size int64, us float64) float64 {
		if size == j.table.Rows[2*len(j.table.Rows)/3].Size {
			us += 40e3
		}
		return us
	}, nil, false},
}

// times is a fault by which sizes take so many times as long.
func times(factor float64, from, to int64) func(*judgedTable, int64, float64) float64 {
	return func(_ *judgedTable, size int64, us float64) float64 {
		if size >= from && size <= to {
			us *= factor
		}
		return us
	}
}

// rankCauses tries all alternatives, however long that takes: what is calculated once is kept.
func (j *judgedTable) rankCauses(t *testing.T, r *forecast.Report) {
	t.Helper()
	late := func(n string) bool { return strings.Contains(n, "not tried") }
	for begun := true; begun || slices.ContainsFunc(r.Notes, late); begun = false {
		r.Notes = nil
		r.RankCauses(t.Context(), j.options, func(ctx context.Context, o emulate.Options) ([]emulate.Forecast, bench.Info,
			error) {
			rows, info, err := j.expect(context.WithoutCancel(ctx), o)
			if err != nil {
				t.Logf("%s: refused: %.200v", j.report.Name, err)
			}
			return rows, info, err
		})
	}
}

// judgeFaults plants each fault in each table that has sizes on which it can be seen.
func judgeFaults(t *testing.T, tables []*judgedTable) {
	// Alternatives take minutes of NCCL for each table: they are calculated for the tables that are named alone.
	only := strings.Fields(os.Getenv(faultyEnv))
	right, all := 0, 0
	for _, f := range faults {
		for _, j := range tables {
			sizes, seen := f.sizes(j)
			if !seen || j.apart || f.net && j.report.Class.Net == intervals.NoNet ||
				len(only) > 0 && !slices.Contains(only, j.report.Name) {
				continue
			}
			all++
			r := j.judge(t, tables, func(size int64, us float64) float64 { return f.change(j, size, us) })
			if len(only) > 0 {
				j.rankCauses(t, r)
			}
			if wrong := f.wrong(r, sizes, len(only) > 0); wrong != "" {
				t.Logf("%s: %s: %s", j.report.Name, f.name, wrong)
				for i := range r.Slow {
					t.Logf("    %s", r.Slow[i].Text())
				}
				continue
			}
			right++
		}
	}
	t.Logf("%d of %d planted faults have the right range and first cause", right, all)
	if 10*right < 8*all {
		t.Error("fewer than 8 of 10")
	}
}

// sizes are those whose times the fault changes; seen says that the table has at least two other sizes, and that the
// fault is not less than what it should be seen by.
func (f *planted) sizes(j *judgedTable) (sizes []int64, seen bool) {
	const least = 1.6
	for _, row := range j.table.Rows {
		us := float64(row.OutOfPlace.Time) / float64(time.Microsecond)
		if after := f.change(j, row.Size, us); after > us {
			sizes = append(sizes, row.Size)
			seen = seen || after > least*us
		}
	}
	return sizes, seen && len(j.table.Rows)-len(sizes) >= 2 && (len(sizes) > 1 || f.cause == nil)
}

// wrong says what of a report is not as the fault, "" if nothing is. The first range has the sizes, give or take one at
// each end.
func (f *planted) wrong(r *forecast.Report, sizes []int64, causes bool) string {
	if len(r.Slow) == 0 {
		return "nothing is slower"
	}
	s := &r.Slow[0]
	var all []int64
	for i := range r.Rows {
		all = append(all, r.Rows[i].Size)
	}
	off := func(a, b int64) int {
		return max(slices.Index(all, a)-slices.Index(all, b), slices.Index(all, b)-slices.Index(all, a))
	}
	switch {
	case off(s.From, sizes[0]) > 1 || off(s.To, sizes[len(sizes)-1]) > 1:
		return "another range"
	case (s.Word == testslog.Stall) != (f.cause == nil):
		return "a stall or none"
	case !causes || f.cause == nil:
		return ""
	}
	first := s.Text()
	if len(s.Causes) > 0 {
		first = s.Causes[0].Text
	}
	if !slices.ContainsFunc(f.cause, func(word string) bool { return strings.Contains(first, word) }) {
		return "another cause"
	}
	return ""
}
