// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"fmt"
	"io"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/internal/testslog"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Log is a table that nccl-tests or ddlemu bench printed.
type Log struct{ table testslog.Log }

// ReadLog reads a table from the output of nccl-tests.
func ReadLog(in io.Reader) (*Log, error) {
	table, err := testslog.Read(in)
	return &Log{table}, err
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
	rows := l.table.Rows
	types, err := nccl.ParseDataTypes(rows[0].Type)
	if err == nil && len(types) != 1 {
		err = fmt.Errorf("type %s: not one type", rows[0].Type)
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", rows[0].Line, err)
	}
	if given.Types != nil && !slices.Contains(given.Types, types[0]) {
		return fmt.Errorf("line %d: the type is %s: leave out --datatype %v", rows[0].Line, rows[0].Type, given.Types[0])
	}
	b.Types, b.Sizes = types, nil
	for _, r := range rows {
		if r.Type != rows[0].Type {
			return fmt.Errorf("line %d: type %s after %s: give a log with one type", r.Line, r.Type, rows[0].Type)
		}
		b.Sizes = append(b.Sizes, r.Size)
	}
	slices.Sort(b.Sizes)
	b.Sizes = slices.Compact(b.Sizes)
	b.Ops, err = operators(rows, given.Ops)
	return err
}

// operators returns the operators of the rows, each of which must be in given unless that is nil.
func operators(rows []testslog.Row, given []nccl.RedOp) ([]nccl.RedOp, error) {
	var ops []nccl.RedOp
	for _, r := range rows {
		op, err := r.RedOp()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", r.Line, err)
		}
		if given != nil && r.Op != "none" && !slices.Contains(given, op) {
			return nil, fmt.Errorf("line %d: the operator is %s: leave out --op %v", r.Line, r.Op, given[0])
		}
		if !slices.Contains(ops, op) {
			ops = append(ops, op)
		}
	}
	return ops, nil
}

// agree checks that the log can be of b's collective, and copies its ranks and iterations to b.
func (l *Log) agree(b *bench.Config, given Flags) error {
	for _, r := range l.table.Rows {
		// nccl-tests writes none if nothing is reduced.
		if (r.Op != "none") != b.Collective.Reduces() {
			return fmt.Errorf("line %d: redop %s is not of %v: give the log's collective", r.Line, r.Op, b.Collective)
		}
	}
	for _, n := range []struct {
		flag          string
		logged, given int
		to            *int
	}{{"ranks", l.table.Ranks, given.Ranks, &b.Ranks}, {"iters", l.table.Iters, given.Iters, &b.Iters}} {
		if n.logged == 0 {
			continue
		}
		if n.given >= 0 && n.given != n.logged {
			return fmt.Errorf("it is of %d %s: give --%s %d", n.logged, n.flag, n.flag, n.logged)
		}
		*n.to = n.logged
	}
	return nil
}
