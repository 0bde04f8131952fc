// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// rounds bounds a search: each is a step, and some measure the slopes anew.
const rounds = 8

// Fit is a kind of GPU that is fitted to tables.
type Fit struct {
	Tables []string // names of their files
	Rows   []Row    // those that figures may be fitted to
	// Every says that of each table only every so many rows are used for the search; 0 as 1. It makes a fit faster. All
	// rows are predicted.
	Every int
	// Others are the times of other kinds of GPUs: figures that the rows do not determine are taken from them.
	Others []Kind
	// Progress is told the current work, and which part of all work is done, 0 to 1.
	Progress func(what string, part float64)
}

// Result are fitted figures.
type Result struct {
	Time      *configs.GPUTime
	Constants []Constant
	Free      []bool // which of the constants were fitted; the others are as they were
}

// Run fits the figures of own to all rows. The search begins at own's figures; figures that the rows do not determine
// go to the figures of the other kinds. Which figures own has says which are fitted. The error is [validate.ErrNoRow]
// if the model knows the time of none.
func (f *Fit) Run(ctx context.Context, own Kind) (*Result, error) {
	f.progress("all tables", 0)
	m, r := f.model(own)
	at, err := f.search(ctx, m, own, -1)
	if err != nil {
		return nil, err
	}
	r.Time = m.at(at)
	return r, nil
}

// Predict predicts tables, which are numbers of f.Tables, each with figures that are fitted to all tables but it.
// The reports have the rows of the tables. Beside an error it returns the predictions that it has.
func (f *Fit) Predict(ctx context.Context, own Kind, tables []int) (all []*validate.Report, err error) {
	m, _ := f.model(own)
	for i, table := range tables {
		f.progress("without "+f.Tables[table], float64(i)/float64(len(tables)))
		at, err := f.search(ctx, m, own, table)
		if err != nil {
			return all, err
		}
		p, err := f.predict(ctx, m, at, table)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

// model is the model of the rows, with the figures of the other kinds.
func (f *Fit) model(own Kind) (*model, *Result) {
	constants := constantsOf(own.Time)
	start, free := independent(own, constants, f.Others)
	m := &model{own: *start, rows: f.Rows, known: map[place]answer{}}
	for i, c := range constants {
		if free[i] {
			m.constants = append(m.constants, c)
		}
	}
	return m, &Result{Constants: constants, Free: free}
}

// search fits the parameters to the rows of all tables but one; -1 is none.
func (f *Fit) search(ctx context.Context, m *model, own Kind, without int) ([]float64, error) {
	var rows []int
	for _, row := range f.used() {
		if f.Rows[row].Table != without {
			rows = append(rows, row)
		}
	}
	p, start := m.problem(), m.parametersOf(&m.own)
	begin := point{at: m.parametersOf(own.Time)}
	for k := range begin.at {
		if !slices.ContainsFunc(rows, func(row int) bool { return p.uses(k, row) }) {
			begin.at[k] = start[k] // only the table that is left out said what it is
		}
	}
	if err := f.knowsOne(ctx, m, begin.at, rows); err != nil || len(begin.at) == 0 {
		return nil, err
	}
	var err error
	if begin.errors, err = m.errors(ctx, begin.at, rows); err != nil {
		return nil, err
	}
	best, err := minimize(ctx, p, rows, start, begin, rounds)
	return best.at, err
}

// knowsOne checks that the model knows the time of one of the rows or more.
func (f *Fit) knowsOne(ctx context.Context, m *model, at []float64, rows []int) error {
	if len(rows) == 0 {
		return validate.ErrNoRow
	}
	answers, err := m.answers(ctx, at, rows)
	if err != nil || slices.ContainsFunc(answers, func(a answer) bool { return a.err == nil }) {
		return err
	}
	first := &f.Rows[rows[0]]
	return fmt.Errorf("%w: %s: %d bytes: %w", validate.ErrNoRow, f.Tables[first.Table], first.Size, answers[0].err)
}

// predict calculates the rows of a table.
func (f *Fit) predict(ctx context.Context, m *model, at []float64, table int) (*validate.Report, error) {
	r := &validate.Report{Name: f.Tables[table]}
	var rows []int
	for i := range f.Rows {
		if f.Rows[i].Table == table {
			rows = append(rows, i)
		}
	}
	answers, err := m.answers(ctx, at, rows)
	for i, a := range answers {
		problem := ""
		if a.err != nil {
			problem = a.err.Error()
		}
		r.Calculated(&f.Rows[rows[i]].Row, a.time, problem)
	}
	return r, err
}

// used are the rows that a search uses: of each table every so many, and the last one.
func (f *Fit) used() (rows []int) {
	of := 0 // rows of this table before
	for i := range f.Rows {
		if i > 0 && f.Rows[i].Table != f.Rows[i-1].Table {
			of = 0
		}
		isLast := i+1 == len(f.Rows) || f.Rows[i+1].Table != f.Rows[i].Table
		if of%max(f.Every, 1) == 0 || isLast {
			rows = append(rows, i)
		}
		of++
	}
	return rows
}

func (f *Fit) progress(what string, part float64) {
	if f.Progress != nil {
		f.Progress(what, part)
	}
}
