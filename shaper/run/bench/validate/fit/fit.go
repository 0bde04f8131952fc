// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"context"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/run/bench/validate"
)

// Rounds of a search: of all rows from the figures of other kinds, and of those that are left if a table is left out,
// from the figures of all rows.
const (
	roundsOfAll  = 16
	roundsOfRest = 4
)

// Fit is a kind of GPU that is fitted to tables.
type Fit struct {
	Kind   string
	Tables []string // names of their files
	Rows   []Row    // those that figures may be fitted to
	// Every says that of each table only every so many rows are used for the search; 0 as 1. It makes a fit faster. All
	// rows are predicted.
	Every int
	// Others are the times of other kinds of GPUs: what the rows do not determine is taken from them.
	Others []Kind
	// Progress is told what is done now, and which part of it all is done, 0 to 1.
	Progress func(what string, part float64)
}

// Result are fitted figures.
type Result struct {
	Time      *configs.GPUTime
	Constants []Constant
	Free      []bool // which of the constants were fitted; the others are as they were
}

// Prediction are the rows of a table as the figures say that were fitted to the other tables.
type Prediction struct {
	Table string          `json:"table"`
	Lines []validate.Line `json:"rows"`
}

// fitting is a search with its model, and the parameters found.
type fitting struct {
	*Fit
	model *model
	start []float64
	rows  []int // that the search uses
	best  Point // of these rows
}

// Run fits the figures of own to all rows. Which figures own has says which are fitted; their values are not used,
// except those that no other kind has another value for.
func (f *Fit) Run(ctx context.Context, own Kind) (*Result, error) {
	g, r, err := f.fit(ctx, own)
	if err != nil {
		return nil, err
	}
	r.Time = g.model.at(g.best.At)
	return r, nil
}

// LeaveOut fits the figures to all rows, and predicts each table with figures that are fitted to the others.
func (f *Fit) LeaveOut(ctx context.Context, own Kind) (*Result, []Prediction, error) {
	share := 1 / float64(len(f.Tables)+1)
	g, r, err := f.fit(ctx, own)
	if err != nil {
		return nil, nil, err
	}
	r.Time = g.model.at(g.best.At)
	var all []Prediction
	for i, name := range f.Tables {
		f.progress("without "+name, share*float64(i+1))
		p, err := g.without(ctx, i)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, p)
	}
	return r, all, nil
}

// fit is the search over all rows, from the figures of other kinds.
func (f *Fit) fit(ctx context.Context, own Kind) (*fitting, *Result, error) {
	constants := Constants(own.Time)
	start, free := Independent(own, constants, f.Others)
	m := &model{own: *start, rows: f.Rows, known: map[place]float64{}}
	for i, c := range constants {
		if free[i] {
			m.constants = append(m.constants, c)
		}
	}
	f.progress("all tables", 0)
	g := &fitting{Fit: f, model: m, start: m.parametersOf(start), rows: f.used()}
	var err error
	g.best, err = Minimize(ctx, m.problem(), g.rows, g.start, Point{At: g.start}, roundsOfAll)
	return g, &Result{Constants: constants, Free: free}, err
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

// without predicts a table with figures that are fitted to the other tables.
func (g *fitting) without(ctx context.Context, table int) (p Prediction, err error) {
	p.Table = g.Tables[table]
	var rows, own []int
	begin := Point{At: slices.Clone(g.best.At)}
	for i, row := range g.rows {
		if g.Rows[row].Table == table {
			continue
		}
		rows = append(rows, row)
		begin.Errors = append(begin.Errors, g.best.Errors[i])
		if g.best.Slopes != nil {
			begin.Slopes = append(begin.Slopes, g.best.Slopes[i])
		}
	}
	problem := g.model.problem()
	for k := range begin.At {
		if !slices.ContainsFunc(rows, func(row int) bool { return problem.Uses(k, row) }) {
			begin.At[k] = g.start[k] // only the table that is left out said what it is
		}
	}
	best, err := Minimize(ctx, problem, rows, g.start, begin, roundsOfRest)
	if err != nil {
		return p, err
	}
	for i := range g.Rows {
		if g.Rows[i].Table == table {
			own = append(own, i)
		}
	}
	errs, err := g.model.errors(ctx, best.At, own)
	if err != nil {
		return p, err
	}
	for i, row := range own {
		if !math.IsNaN(errs[i]) {
			p.Lines = append(p.Lines, g.Rows[row].line(errs[i]))
		}
	}
	return p, nil
}

func (f *Fit) progress(what string, part float64) {
	if f.Progress != nil {
		f.Progress(what, part)
	}
}
