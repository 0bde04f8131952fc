// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// Log is a table that nccl-tests or ddlemu bench printed.
type Log struct {
	table   *testslog.Test
	all     *testslog.Log // of which table is one
	left    int           // rows of the table that are of another type than the one that was asked for
	empty   int           // rows of 0 bytes
	each    bool          // each table of all is judged
	first   bool          // of them
	unknown string        // names the tables that are not judged, and why, for the first
}

// LogLine is a line of a log that is no whole row.
type LogLine = testslog.Line

// ReadLog reads the output of nccl-tests. The table is the first one until [Log.Choose].
func ReadLog(in io.Reader) (*Log, error) {
	all, err := testslog.Read(in)
	if err != nil {
		return nil, err
	}
	return &Log{table: &all.Tests[0], all: &all}, nil
}

// Flags are the settings that the user gave and that a log must agree with.
type Flags struct {
	Ranks, Iters int // -1 if not given
	Types        []nccl.DataType
	Ops          []nccl.RedOp
}

// Configure makes b measure the calls of the log. It sets b's sizes, type and operators and, if the log has them, its
// ranks and iterations. The error says in which line the log is not of b's collective, or disagrees with given.
func (l *Log) Configure(b *bench.Config, given Flags) error {
	if err := l.agree(b, given); err != nil {
		return err
	}
	if err := l.chooseType(b, given.Types); err != nil {
		return err
	}
	b.Sizes = nil
	for _, r := range l.table.Rows {
		b.Sizes = append(b.Sizes, r.Size)
	}
	slices.Sort(b.Sizes)
	b.Sizes = slices.Compact(b.Sizes)
	ops, err := operators(l.table.Rows, given.Ops)
	b.Ops = ops
	return err
}

// chooseType sets b's type to the table's type. If the table has several (-d all), it must be among those given, and
// the other rows are left out.
func (l *Log) chooseType(b *bench.Config, given []nccl.DataType) error {
	rows := l.table.Rows
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
	chosen := *l.table
	chosen.Rows = nil
	for _, r := range rows {
		switch {
		case r.Type == name && r.Size == 0:
			l.empty++
		case r.Type == name:
			chosen.Rows = append(chosen.Rows, r)
		case len(given) != 1:
			return fmt.Errorf("line %d: type %s after %s: choose one with --datatype", r.Line, r.Type, name)
		}
	}
	l.left += len(rows) - len(chosen.Rows) - l.empty
	if len(chosen.Rows) == 0 {
		return errors.New("it has no row of more than 0 bytes")
	}
	l.table, b.Types = &chosen, types
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

// agree checks that the table can be of b's collective, and copies its ranks and iterations to b.
func (l *Log) agree(b *bench.Config, given Flags) error {
	if err := l.table.Fits(b.Collective); err != nil {
		return err
	}
	for _, n := range []struct {
		flag          string
		logged, given int
		to            *int
	}{{"ranks", l.table.Ranks, given.Ranks, &b.Ranks}, {"iters", l.table.Iters, given.Iters, &b.Iters}} {
		if n.logged == 0 {
			continue
		}
		if n.flag == "ranks" && l.table.Programs > 1 && (n.logged == 1 || n.given >= 0 && n.given != n.logged) {
			return fmt.Errorf(
				"%d programs of %s wrote to it, each with its own table: nccl-tests was built without MPI=1, and "+
					"nothing went between them",
				l.table.Programs, units.Count(n.logged, "rank"))
		}
		if n.given >= 0 && n.given != n.logged {
			return fmt.Errorf("it is of %d %s: give --%s %d", n.logged, n.flag, n.flag, n.logged)
		}
		*n.to = n.logged
	}
	return nil
}
