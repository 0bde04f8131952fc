// SPDX-License-Identifier: Apache-2.0

// Package tables reads tables of nccl-tests: its logs, the JSON of its option -J, and CSV. It says what a table is of:
// collective, rows, ranks and the cluster. `expect --log`, `validate` and `fit` read with it.
package tables

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// Table is a table of nccl-tests. A table of CSV, and one of [File.One], is complete: its collective, ranks and nodes
// are known, and its rows have one type and rising sizes.
type Table struct {
	Source, System string
	Collective     nccl.Collective // -1 if it is not known
	Type           nccl.DataType   // float if the table does not say
	Ranks, Nodes   int             // 0 if not known
	Cycles         int             // of the log (-N), of whose times the rows are the medians; below 2: it has one
	Cluster
	Env    []string // NAME=value, for the ranks
	Unused []string // NAME=value that the table has, of a net that is not used here
	Others []string // NAME=value that a log has, and that are not set here
	Rows   []testslog.Row
	// LeftOut are rows that the bench cannot have: nccl-tests once divided sizes among the ranks to single elements.
	LeftOut []LeftOut
	// Log is the table as the log has it; it has no rows if the table is CSV.
	Log testslog.Test

	file    *File
	each    bool   // each table of the file is judged
	first   bool   // of them
	unknown string // names the tables that are not judged, and why, for the first
	left    int    // rows of another type than the one that was asked for
	empty   int    // rows of 0 bytes
}

// LeftOut is a row that is not calculated or run, and the reason.
type LeftOut struct {
	Size   int64  `json:"size"`
	Reason string `json:"reason"`
}

// Limits of a complete table.
const (
	maxRows  = 1000
	maxSize  = 1 << 40 // bytes
	maxTime  = 1e9     // us
	maxRanks = 1 << 14
)

func newTable() *Table { return &Table{Collective: -1, Type: nccl.Float} }

// add adds a row that the collective can have to a complete table.
func (t *Table) add(r testslog.Row) error {
	n, took := r.Size, r.OutOfPlace.Time
	if n < 1 || n > maxSize || took <= 0 || float64(took) > maxTime*float64(time.Microsecond) {
		return fmt.Errorf("%d bytes in %v: not a time above 0 of 1 byte to %d", n, took, int64(maxSize))
	}
	moved := t.Collective.Counts(n, t.Type, t.Ranks).Bytes(t.Type)
	if shares := t.Collective.Shares(t.Ranks); moved != n && shares > 1 && n%(shares*t.Type.Size()) == 0 {
		t.LeftOut = append(t.LeftOut, LeftOut{n,
			"the share of a rank is not a multiple of 16 bytes, to which nccl-tests now rounds"})
		return nil
	}
	if moved != n {
		return fmt.Errorf("%d bytes: %v of %v among %d ranks moves %d", n, t.Collective, t.Type, t.Ranks, moved)
	}
	if k := len(t.Rows); k > 0 && t.Rows[k-1].Size >= n {
		return fmt.Errorf("%d bytes after %d: sizes must rise", n, t.Rows[k-1].Size)
	}
	if len(t.Rows) == maxRows {
		return fmt.Errorf("more than %d rows", maxRows)
	}
	t.Rows = append(t.Rows, r)
	return nil
}

// Between removes the rows below low or above high bytes. It returns an error if no row remains.
func (t *Table) Between(low, high int64) error {
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r testslog.Row) bool { return r.Size < low || r.Size > high })
	if len(rows) == 0 {
		return fmt.Errorf("the table has no row of %d to %d bytes, but of %d to %d", low, high, t.Rows[0].Size,
			t.Rows[len(t.Rows)-1].Size)
	}
	t.Rows = rows
	return nil
}

// Sizes are the different sizes of rows, the smallest first.
func Sizes(rows []testslog.Row) (all []int64) {
	for _, r := range rows {
		all = append(all, r.Size)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Flags are the settings that the user gave and that a log must agree with.
type Flags struct {
	Ranks, Iters int // -1 if not given
	Types        []nccl.DataType
	Ops          []nccl.RedOp
}

// Configure makes b measure the calls of the table, whose rows may have several operators. It sets b's collective,
// sizes, type and operators and, if the table has them, its ranks and iterations. The error says in which line the
// table is not of its collective, or disagrees with given.
func (t *Table) Configure(b *bench.Config, given Flags) (err error) {
	if err := t.agree(b, given); err != nil {
		return err
	}
	if err := t.chooseType(b, given.Types); err != nil {
		return err
	}
	b.Collective, b.Sizes = t.Collective, Sizes(t.Rows)
	b.Ops, err = operators(t.Rows, given.Ops)
	return err
}

// chooseType sets b's type to the table's type. If the table has several (-d all), it must be among those given, and
// the other rows are left out.
func (t *Table) chooseType(b *bench.Config, given []nccl.DataType) error {
	rows := t.Rows
	name := rows[0].Type
	if len(given) == 1 && slices.ContainsFunc(rows, func(r testslog.Row) bool { return r.Type == given[0].String() }) {
		name = given[0].String()
	}
	types, err := nccl.ParseDataTypes(name)
	if err == nil && len(types) != 1 {
		err = fmt.Errorf("type %s: not one type", name)
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", rows[0].Line, err)
	}
	if given != nil && !slices.Contains(given, types[0]) {
		return fmt.Errorf("line %d: the type is %s: leave out --datatype %v", rows[0].Line, name, given[0])
	}
	var chosen []testslog.Row
	for _, r := range rows {
		switch {
		case r.Type == name && r.Size == 0:
			t.empty++
		case r.Type == name:
			chosen = append(chosen, r)
		case len(given) != 1:
			return fmt.Errorf("line %d: type %s after %s: choose one with --datatype", r.Line, r.Type, name)
		}
	}
	t.left += len(rows) - len(chosen) - t.empty
	if len(chosen) == 0 {
		return errors.New("it has no row of more than 0 bytes")
	}
	t.Rows, t.Type, b.Types = chosen, types[0], types
	return nil
}

// operators returns the operators of the rows, each of which must be in given unless that is nil.
func operators(rows []testslog.Row, given []nccl.RedOp) ([]nccl.RedOp, error) {
	var ops []nccl.RedOp
	for _, r := range rows {
		op, err := r.RedOp()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", r.Line, err)
		}
		if given != nil && r.Op != "none" && r.Op != "" && !slices.Contains(given, op) {
			return nil, fmt.Errorf("line %d: the operator is %s: leave out --op %v", r.Line, r.Op, given[0])
		}
		if !slices.Contains(ops, op) {
			ops = append(ops, op)
		}
	}
	return ops, nil
}

// agree checks that the table can be of its collective, and copies its ranks and iterations to b.
func (t *Table) agree(b *bench.Config, given Flags) error {
	if err := t.Log.Fits(t.Collective); err != nil {
		return err
	}
	for _, n := range []struct {
		flag          string
		logged, given int
		to            *int
	}{{"ranks", t.Log.Ranks, given.Ranks, &b.Ranks}, {"iters", t.Log.Iters, given.Iters, &b.Iters}} {
		if n.logged == 0 {
			continue
		}
		if n.flag == "ranks" && t.Log.Programs > 1 && (n.logged == 1 || n.given >= 0 && n.given != n.logged) {
			return fmt.Errorf(
				"%d programs of %s wrote to it, each with its own table: nccl-tests was built without MPI=1, and "+
					"nothing went between them",
				t.Log.Programs, units.Count(n.logged, "rank"))
		}
		if n.given >= 0 && n.given != n.logged {
			return fmt.Errorf("it is of %d %s: give --%s %d", n.logged, n.flag, n.flag, n.logged)
		}
		*n.to = n.logged
	}
	return nil
}
