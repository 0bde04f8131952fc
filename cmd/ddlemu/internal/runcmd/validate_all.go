// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/shaper/report/score"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// tableEndings are the endings of the files of a folder that are read as tables.
var tableEndings = []string{".csv", ".log", ".out", ".txt"}

// tableFiles are the files, and the files of the folders with the ending of a table in the order of their names, each
// once.
func tableFiles(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, cli.BadInput("%s: %w", path, errors.Unwrap(err))
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, cli.BadInput("%s: %w", path, err)
		}
		before := len(files)
		for _, e := range entries {
			if !e.IsDir() && slices.Contains(tableEndings, filepath.Ext(e.Name())) {
				files = append(files, filepath.Join(path, e.Name()))
			}
		}
		if len(files) == before {
			return nil, cli.BadInput("%s: the folder has no file that ends in %s", path, strings.Join(tableEndings, ", "))
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(files, func(file string) bool {
		file = filepath.Clean(file)
		again := seen[file]
		seen[file] = true
		return again
	}), nil
}

// forTable returns a copy of the options as they were given, to which what a table says can be added.
func (o *validateOptions) forTable(g *cli.Global) (*validateOptions, error) {
	c := &validateOptions{}
	return c, giveAgain(g, o.Flags, c.AddFlags)
}

// all is a comparison of many tables.
type all struct {
	g     *cli.Global
	o     *validateOptions
	show  *progress.Display
	total emulate.Budget
	files []tableFile
	begun time.Time
	apart map[string]string // reasons why tables are seen apart, by their names
	// predictions are the predictions of tables by figures that were fitted to others, by their names.
	predictions map[string]*validate.Report

	reports []*validate.Report
	out     []score.LeftOut
	cases   []junit.Case
	failed  error // of the first table whose run failed
}

// tableFile is a file with its table, or with the reason why it has none.
type tableFile struct {
	path  string
	table *tables.Table
	err   error
}

func runValidateAll(ctx context.Context, g *cli.Global, o *validateOptions, paths []string) error {
	within := budget(o.Budget)
	files, err := tableFiles(paths)
	if err != nil {
		return err
	}
	apart, err := readApart(o.Apart)
	if err != nil {
		return err
	}
	predictions, err := readPredictions(o.Predicted)
	if err != nil {
		return err
	}
	pictures, err := o.pictures.check(files)
	if err != nil {
		return err
	}
	if err := o.junit.begin(); err != nil {
		return err
	}
	show, stop := g.ShowProgress("validate")
	defer stop()
	a := &all{g: g, o: o, show: show, total: within, apart: apart, predictions: predictions, begun: time.Now()}
	for _, path := range files {
		t, err := o.table(path)
		a.files = append(a.files, tableFile{path, t, err})
	}
	err = a.compare(ctx)
	board := score.New(a.reports, a.apart, a.out)
	if o.junit.path != "" {
		a.cases = append(a.cases, ending("validate", "", "", err)...)
		err = errors.Join(err, o.junit.write(junit.Suite{Name: "validate", Cases: a.cases}))
	}
	if len(a.reports) > 0 {
		err = errors.Join(err, o.pictures.write(pictures, a.reports))
	}
	if o.Intervals != "" && err == nil {
		err = writeIntervals(o.Intervals, board)
	}
	if g.JSON {
		err = errors.Join(err, g.PrintJSON(board))
	} else {
		err = errors.Join(err, printBoard(g.Stdout, board))
	}
	if err != nil {
		return err
	}
	return a.judge(board)
}

// compare compares each table with what its head describes. A table that cannot be compared is left out. The error says
// that the user interrupted it.
func (a *all) compare(ctx context.Context) error {
	for i := range a.files {
		f := &a.files[i]
		name := filepath.Base(f.path)
		within := a.total
		if within.Total > 0 { // what a table does not take is for those after it
			within.End = time.Now().Add(time.Until(within.End) / time.Duration(len(a.files)-i))
		}
		where := fmt.Sprintf("%d of %d, %s", i+1, len(a.files), name)
		now := time.Now()
		left := a.left(i, now)
		a.show.Set(where, left)
		o, err := a.o.forTable(a.g)
		if err != nil {
			return err
		}
		r, err := a.one(ctx, o, f, within, func(what string, ofTable time.Duration) {
			if within.Total == 0 && left == progress.Unknown {
				ofTable = left
			} else if within.Total == 0 {
				ofTable = max(left-time.Since(now), 0)
			}
			a.show.Set(where+": "+what, ofTable)
		})
		interrupted := ctx.Err() != nil
		switch {
		case r != nil:
			a.reports = append(a.reports, r)
			a.cases = append(a.cases, validateSuite(name, r, err).Cases...)
		case interrupted:
			a.leaveOut(f.path, errInterrupted)
		case err != nil:
			a.leaveOut(f.path, err)
			if failed(err) {
				a.failed = cmp.Or(a.failed, fmt.Errorf("%s: %w", name, err))
			}
		}
		if interrupted {
			for _, rest := range a.files[i+1:] {
				a.leaveOut(rest.path, errInterrupted)
			}
			return cmp.Or(err, context.Cause(ctx))
		}
	}
	return nil
}

// rowsOfStart is how many rows the model plays in the time in which NCCL of a rank starts and connects.
const rowsOfStart = 15

// left is how long the tables from number i on take, in proportion to what those before them took: by their ranks and
// rows. It is not known of the first one, and without --model.
func (a *all) left(i int, now time.Time) time.Duration {
	var before, after float64
	for k, f := range a.files {
		switch {
		case f.err != nil: // it will be left out
		case k < i:
			before += float64(f.table.Ranks * (rowsOfStart + len(f.table.Rows)))
		default:
			after += float64(f.table.Ranks * (rowsOfStart + len(f.table.Rows)))
		}
	}
	if before == 0 || !a.o.Model {
		return progress.Unknown
	}
	return time.Duration(float64(now.Sub(a.begun)) * after / before)
}

// one compares one table. Predictions by figures that were fitted to other tables take the place of calculated times.
func (a *all) one(ctx context.Context, o *validateOptions, f *tableFile, within emulate.Budget, show emulate.Progress) (
	*validate.Report, error) {
	if f.err != nil {
		return nil, cli.BadInput("%s: %w", f.path, f.err)
	}
	if r := a.predicted(filepath.Base(f.path), f.table); r != nil {
		return r, nil
	}
	r, err := o.compare(ctx, a.g, f.path, f.table, within, show)
	if r != nil {
		a.replace(r)
	}
	return r, err
}

func (a *all) leaveOut(path string, err error) {
	name := filepath.Base(path)
	reason := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), path+": ")
	a.out = append(a.out, score.LeftOut{Name: name, Reason: reason})
	c := junit.Case{Class: "validate." + name, Name: "table", Skipped: reason}
	if failed(err) {
		c = failedCase(c.Class, err)
	}
	a.cases = append(a.cases, c)
}

// errInterrupted is why a table is left out that was not finished when the user interrupted the command.
var errInterrupted = errors.New("interrupted")

// failed reports whether a run failed, which is neither the table's nor the user's fault.
func failed(err error) bool {
	return cli.ExitStatus(err) != cli.ExitInput && !errors.Is(err, validate.ErrNoRow) && !errors.Is(err, errInterrupted)
}

// judge returns the error of the exit status.
func (a *all) judge(b *score.Board) error {
	if a.failed != nil {
		return a.failed
	}
	if len(b.Tables)+len(b.Apart) == 0 {
		return cli.BadInput("none of %d tables can be compared: the first, %s: %s", len(a.files), b.LeftOut[0].Name,
			b.LeftOut[0].Reason)
	}
	outside := 0
	for _, t := range b.Tables {
		if len(t.Reasons) > 0 {
			return &cli.InvalidError{Word: t.Verdict, Summary: t.Name + ": " + t.Summary}
		}
		outside += len(t.Outside())
	}
	if outside > 0 {
		return fmt.Errorf("%d of %d rows exceed their limits", outside, b.All.All.Rows)
	}
	return nil
}
