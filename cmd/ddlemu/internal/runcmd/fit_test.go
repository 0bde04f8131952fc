// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
	"github.com/ddlemu/ddlemu/shaper/run/validate/fit"
)

func predictedTable() *validate.Report {
	return &validate.Report{Name: "x.csv", GPU: "l40s", Predicted: true, Lines: []validate.Line{
		{Size: 8, Published: 10, Expected: 12, Error: 20}, {Size: 64, Published: 20, Expected: 19, Error: -5}}}
}

func TestPrintFit(t *testing.T) {
	var out strings.Builder
	err := printFit(&out, &fitReport{Kind: "l40s", Tables: []*validate.Report{predictedTable()}, Figures: []fitFigure{
		{Name: "kernel", Value: "3us", Before: "2us"}, {Name: "call", Value: "4us", Before: "4us", Given: true}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kernel         3us     2us\n", "call    not fitted     4us\n",
		"fitted to the others",
		"x.csv", " p  ", "all rows"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Predictions take the place of what was calculated with figures that were fitted to the rows.
func TestPredictions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "l40s.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	if err := cli.WriteJSON(&text, fitReport{Kind: "l40s", Tables: []*validate.Report{predictedTable()}}); err != nil {
		t.Fatal(err)
	}
	write(text.String())
	predictions, err := readPredictions([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readPredictions([]string{file, file}); cli.ExitStatus(err) != cli.ExitInput {
		t.Errorf("a table that is predicted twice: %v", err)
	}
	for _, bad := range []string{"", "{}", `{"kind": 3}`} {
		if write(bad); true {
			if _, err := readPredictions([]string{file}); cli.ExitStatus(err) != cli.ExitInput {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	a := &all{predictions: predictions}
	whole := &tables.Table{Rows: []testslog.Row{{Size: 8}, {Size: 64}}}
	if d := cmp.Diff(predictedTable().Lines, a.predicted("x.csv", whole).Lines); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	some := predictions["x.csv"]
	some.LeftOut = []tables.LeftOut{{Size: 16, Reason: "no schedule"}}
	wide := &tables.Table{Rows: []testslog.Row{{Size: 8}, {Size: 16}, {Size: 64}},
		LeftOut: []tables.LeftOut{{Size: 4, Reason: "odd"}}}
	if r := a.predicted("x.csv", wide); len(r.Lines) != 2 || len(r.LeftOut) != 2 ||
		r.LeftOut[1].Reason != "no schedule" {
		t.Errorf("rows without a time: %+v", r)
	}
	some.LeftOut = nil
	more := &tables.Table{Rows: []testslog.Row{{Size: 8}, {Size: 16}}}
	if a.predicted("x.csv", more) != nil || a.predicted("y.csv", whole) != nil {
		t.Error("a prediction of rows that have none")
	}
	r := &validate.Report{Name: "x.csv", Lines: []validate.Line{{Size: 8, Error: 1, Fitted: true},
		{Size: 16, Error: 2, Fitted: true}, {Size: 64, Error: 3}}}
	a.replace(r)
	var got []float64
	for _, l := range r.Lines {
		got = append(got, l.Error)
	}
	if d := cmp.Diff([]float64{20, 3}, got); d != "" || len(r.LeftOut) != 1 || r.LeftOut[0].Size != 16 || !r.Predicted {
		t.Errorf("%s %+v", d, r.LeftOut)
	}
	other := &validate.Report{Name: "y.csv", Lines: []validate.Line{{Size: 8, Fitted: true}}}
	if a.replace(other); len(other.Lines) != 1 || other.Predicted {
		t.Errorf("%+v", other)
	}
}

// NCCL's decisions on other calls than those asked for, or of another NCCL, are refused; those on the same calls are
// read as they were written.
func TestKeptDecisions(t *testing.T) {
	dir := t.TempDir()
	e := emulate.Options{Bench: bench.Config{Collective: nccl.AllReduce, Ranks: 2, Types: []nccl.DataType{nccl.Float},
		Sizes: []int64{8, 16}, OutOfPlace: true, Iters: 1, Cycles: 1}}
	e.Libraries = locate.Libraries{CUDA: locate.Soft, Version: "2.29"}
	d := &emulate.Decided{CUDA: locate.Soft, NCCL: "2.29.7", Cases: e.Bench.Cases()}
	for i := range d.Cases {
		d.Cases[i].Topology = &nccllog.Topology{Ranks: 2, Rings: [][]int{{0, 1}},
			Threads: map[nccllog.Kernel]int{{Algo: "Ring", Proto: "LL"}: 512}}
		d.Cases[i].NICs = map[nccllog.Pair]nccllog.NICs{{From: 1, To: 2}: {Send: 3}}
		d.Cases[i].Decision = &nccllog.Decision{Algo: "RING", Count: i}
	}
	file, err := os.Create(filepath.Join(dir, "x.csv.decided"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Write(file); err != nil {
		t.Fatal(err)
	}
	file.Close()
	got, err := decide(t.Context(), dir, "tables/x.csv", e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for want, change := range map[string]func(*emulate.Options){
		"decisions on other calls than the table's": func(o *emulate.Options) { o.Bench.Sizes = []int64{8, 32} },
		"decisions of NCCL 2.29.7 instead of 2.22":  func(o *emulate.Options) { o.Libraries.Version = "2.22" },
		"decisions of NCCL 2.29.7 instead of 2.2":   func(o *emulate.Options) { o.Libraries.Version = "2.2" },
		`decisions with the CUDA "soft" instead of`: func(o *emulate.Options) { o.Libraries = locate.GPU("") },
	} {
		other := e
		change(&other)
		_, err := decide(t.Context(), dir, "x.csv", other)
		if cli.ExitStatus(err) != cli.ExitInput || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "x.csv.decided") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A table whose rows the model does not know is left out, and said; it is no table without rows.
func TestPredictedTablesHaveRows(t *testing.T) {
	gpu, err := configs.BuiltInGPU("l40s")
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	l := &fitTables{g: &cli.Global{Stderr: &errs}, o: &fitOptions{Predict: []string{eachTable}}, gpu: gpu}
	l.fit.Others, err = otherKinds(gpu.Name)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"known.csv", "unknown.csv"} {
		l.fit.Tables = append(l.fit.Tables, name)
		l.reports = append(l.reports, &validate.Report{Name: name})
		for _, size := range []int64{8, 16} {
			row := testslog.Row{Size: size, OutOfPlace: testslog.Half{Time: time.Second}}
			l.fit.Rows = append(l.fit.Rows, fit.Row{Row: row, Table: i,
				Nodes: 1,
				Call: func(context.Context, *configs.GPUTime) (time.Duration, error) {
					if i == 1 {
						return 0, errors.New("no schedule")
					}
					return time.Second, nil
				}})
		}
	}
	// The first table is predicted with figures that are fitted to nothing.
	if _, err := l.run(t.Context()); !errors.Is(err, validate.ErrNoRow) {
		t.Fatal(err)
	}
	l.o.Predict = []string{"unknown.csv"}
	r, err := l.run(t.Context())
	if !errors.Is(err, validate.ErrNoRow) {
		t.Fatal(err)
	}
	if want := "unknown.csv: no row can be run here: 8 bytes: no schedule\n"; len(r.Tables) != 0 ||
		!strings.HasSuffix(errs.String(), want) {
		t.Errorf("%+v; %s", r.Tables, errs.String())
	}
}

// The kind of GPU that is fitted takes the place of the table's of the same name, also where it is a file.
func TestFitUsesTheFileOfItsKind(t *testing.T) {
	const file = "../../../../configs/gpus/l40s.yaml"
	for kind, want := range map[string]string{file: file, "": "l40s"} {
		var o fitOptions
		g := &cli.Global{Getenv: func(string) string { return "" }}
		o.AddFlags(g, pflag.NewFlagSet("fit", pflag.ContinueOnError))
		l := &fitTables{g: g, o: &o, kind: kind}
		table, err := l.options()
		if err != nil {
			t.Fatal(err)
		}
		cluster := tables.Cluster{GPU: "l40s", GPUsPerNode: 2}
		if err := table.place(g, &tables.Table{Ranks: 2, Nodes: 1, Cluster: cluster}); err != nil {
			t.Fatal(err)
		}
		if got := table.Flags.Lookup("gpu").Value.String(); got != want || !table.Model {
			t.Errorf("%q: GPU %q, want %q", kind, got, want)
		}
	}
}

func TestOtherKinds(t *testing.T) {
	all, err := otherKinds("h100-sxm")
	if err != nil {
		t.Fatal(err)
	}
	l40s, err := configs.BuiltInGPU("l40s")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, k := range all {
		if k.Time.Kernel == l40s.Time.Kernel {
			n++
		}
	}
	if len(all) < 4 || n != 1 {
		t.Errorf("%d kinds, %d of them are l40s", len(all), n)
	}
}
