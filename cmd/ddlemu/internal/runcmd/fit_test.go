// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/bench/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/bench/validate"
)

func predictedTable() *validate.Report {
	return &validate.Report{Name: "x.csv", GPU: "l40s", WithoutOwn: true, Lines: []validate.Line{
		{Size: 8, Published: 10, Expected: 12, Error: 20}, {Size: 64, Published: 20, Expected: 19, Error: -5}}}
}

func TestPrintFit(t *testing.T) {
	var out strings.Builder
	err := printFit(&out, &fitReport{Kind: "l40s", Tables: []*validate.Report{predictedTable()}, Figures: []fitFigure{
		{Name: "kernel", Value: "3us", Before: "2us"}, {Name: "call", Value: "4us", Before: "4us", Given: true}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kernel         3us     2us\n", "call    not fitted     4us\n", "fitted to the others",
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
	without, err := readPredicted([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readPredicted([]string{file, file}); cli.ExitStatus(err) != cli.ExitInput {
		t.Errorf("a table that is predicted twice: %v", err)
	}
	for _, bad := range []string{"", "{}", `{"kind": 3}`} {
		if write(bad); true {
			if _, err := readPredicted([]string{file}); cli.ExitStatus(err) != cli.ExitInput {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	a := &all{without: without}
	whole := &validate.Table{Rows: []validate.Row{{Size: 8}, {Size: 64}}}
	if d := cmp.Diff(predictedTable().Lines, a.predicted("x.csv", whole).Lines); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	more := &validate.Table{Rows: []validate.Row{{Size: 8}, {Size: 16}}}
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
	if d := cmp.Diff([]float64{20, 3}, got); d != "" || len(r.LeftOut) != 1 || r.LeftOut[0].Size != 16 || !r.WithoutOwn {
		t.Errorf("%s %+v", d, r.LeftOut)
	}
	other := &validate.Report{Name: "y.csv", Lines: []validate.Line{{Size: 8, Fitted: true}}}
	if a.replace(other); len(other.Lines) != 1 || other.WithoutOwn {
		t.Errorf("%+v", other)
	}
}

// NCCL's decisions on other calls than those asked for are refused; those on the same calls are read as they were written.
func TestKeptDecisions(t *testing.T) {
	dir := t.TempDir()
	e := emulate.Options{Bench: bench.Config{Collective: nccl.AllReduce, Ranks: 2, Types: []nccl.DataType{nccl.Float},
		Sizes: []int64{8, 16}, OutOfPlace: true, Iters: 1, Cycles: 1}}
	d := &emulate.Decided{NCCL: "2.29.7", Cases: e.Bench.Cases()}
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
	e.Bench.Sizes = []int64{8, 32}
	if _, err := decide(t.Context(), dir, "x.csv", e); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("decisions on other calls: %v", err)
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
