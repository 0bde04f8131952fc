// SPDX-License-Identifier: Apache-2.0

// Package score sums up the errors of tables: how far the times of the model, or of emulated runs, are from the
// published ones.
package score

import (
	"cmp"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// Errors sum up some rows. Errors are in percent of the published time; all are 0 if there are no rows.
type Errors struct {
	Rows        int     `json:"rows"`
	Median      float64 `json:"median_percent"`  // of the absolute errors
	P90         float64 `json:"p90_percent"`     // the smallest error that 90 % of the rows do not exceed, absolute
	Largest     float64 `json:"largest_percent"` // the one with the largest absolute value, with its sign
	LargestSize int64   `json:"largest_size"`    // bytes of that row
	// Bias is the geometric mean of calculated over published times, minus 1: a row at half the time and one at twice
	// the time have none.
	Bias float64 `json:"bias_percent"`
}

// Class are the sizes above Above bytes, up to UpTo; UpTo 0 is no limit.
type Class struct {
	Above int64 `json:"above_bytes"`
	UpTo  int64 `json:"up_to_bytes,omitempty"`
	Errors
}

// Small is the largest size in bytes of rows whose time is launches and latencies.
const Small = 32 << 10

// BiasLimit is the bias in percent below which a size class of a table is met.
const BiasLimit = 15.0

// limits are the ends of the size classes in bytes.
var limits = []int64{Small, 1 << 20, 64 << 20, 0}

// Table is the score of one table.
type Table struct {
	*validate.Report
	Score   Errors  `json:"score"`
	Classes []Class `json:"classes"` // all four, also those without rows
}

// LeftOut is a table that is not compared, and the reason.
type LeftOut struct {
	Name   string `json:"table"`
	Reason string `json:"reason"`
}

// Apart is a table that is seen apart, and the reason.
type Apart struct {
	Table
	Reason string `json:"reason"`
}

// Group sums up rows of several tables.
type Group struct {
	All     Errors  `json:"all"`
	Small   Errors  `json:"small"`     // rows up to 32 KiB
	Large   Errors  `json:"large"`     // rows above
	Classes []Class `json:"classes"`   // of the rows of all tables
	Met     int     `json:"bias_met"`  // size classes of tables with a bias below BiasLimit
	Of      int     `json:"bias_rows"` // size classes of tables that have rows
}

// Board is the score of many tables. The groups have no rows of tables that are seen apart.
type Board struct {
	Tables    []Table   `json:"tables"`
	Apart     []Apart   `json:"apart"`
	LeftOut   []LeftOut `json:"left_out"`
	All       Group     `json:"all"`
	Fitted    Group     `json:"fitted"`     // rows that figures were fitted to
	NotFitted Group     `json:"not_fitted"` // the others
}

// New sums up tables. apart has the reasons for tables that are to be seen apart, by their names.
func New(reports []*validate.Report, apart map[string]string, out []LeftOut) *Board {
	b := &Board{Tables: []Table{}, Apart: []Apart{}, LeftOut: append([]LeftOut{}, out...)}
	for _, r := range reports {
		t := Table{Report: r, Score: Of(r.Lines), Classes: classes(r.Lines)}
		if why, is := apart[r.Name]; is {
			b.Apart = append(b.Apart, Apart{t, why})
			continue
		}
		b.Tables = append(b.Tables, t)
	}
	b.All = group(b.Tables, func(validate.Line) bool { return true })
	b.Fitted = group(b.Tables, func(l validate.Line) bool { return l.Fitted })
	b.NotFitted = group(b.Tables, func(l validate.Line) bool { return !l.Fitted })
	return b
}

// group sums up the rows of tables that belong to a group.
func group(tables []Table, belongs func(validate.Line) bool) (g Group) {
	var all []validate.Line
	for _, t := range tables {
		var rows []validate.Line
		for _, l := range t.Lines {
			if belongs(l) {
				rows = append(rows, l)
			}
		}
		for _, c := range classes(rows) {
			if c.Rows == 0 {
				continue
			}
			g.Of++
			if math.Abs(c.Bias) < BiasLimit {
				g.Met++
			}
		}
		all = append(all, rows...)
	}
	g.All, g.Classes = Of(all), classes(all)
	g.Small, g.Large = Of(between(all, 0, Small)), Of(between(all, Small, 0))
	return g
}

// Of sums up rows.
func Of(rows []validate.Line) Errors {
	e := Errors{Rows: len(rows)}
	if len(rows) == 0 {
		return e
	}
	absolute := make([]float64, len(rows))
	logs := 0.0
	for i, r := range rows {
		absolute[i] = math.Abs(r.Error)
		if absolute[i] > math.Abs(e.Largest) || i == 0 {
			e.Largest, e.LargestSize = r.Error, r.Size
		}
		logs += math.Log1p(r.Error / 100) // -Inf if the calculated time is 0
	}
	slices.Sort(absolute)
	n := len(absolute)
	e.Median = (absolute[(n-1)/2] + absolute[n/2]) / 2
	e.P90 = absolute[int(math.Ceil(0.9*float64(n)))-1]
	e.Bias = 100 * math.Expm1(logs/float64(n))
	return e
}

func classes(rows []validate.Line) (all []Class) {
	above := int64(0)
	for _, limit := range limits {
		all = append(all, Class{above, limit, Of(between(rows, above, limit))})
		above = limit
	}
	return all
}

// between are the rows above a size, up to another; 0 is no limit.
func between(rows []validate.Line, above, upTo int64) (some []validate.Line) {
	for _, r := range rows {
		if r.Size > above && r.Size <= cmp.Or(upTo, math.MaxInt64) {
			some = append(some, r)
		}
	}
	return some
}
