// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

// Choose chooses the table of a collective among the tables of the log. A table may name its collective; else its
// operators, roots and bandwidths do. If several can be of the collective, it is the first. The error says why the
// first table is not of the collective, if none is.
func (l *Log) Choose(c nccl.Collective) error {
	tests := l.all.Tests
	var found *testslog.Test
	for i := range tests {
		t := &tests[i]
		if t.Fits(c) != nil {
			continue
		}
		if found == nil || !found.Likely(c) && t.Likely(c) {
			found = t
		}
	}
	if found == nil {
		if len(tests) > 1 {
			return fmt.Errorf("it has %d tables, and none is of %v: %s", len(tests), c, l.others(nil))
		}
		return tests[0].Fits(c)
	}
	l.table = found
	return nil
}

// Each returns a log for each table, with the collective that it is of: the one that it names, else the one that its
// rows show, with collectives of prefer before others. Tables of which the collective is not known are left out;
// [Log.Notes] of the first one names them.
func (l *Log) Each(prefer ...nccl.Collective) (logs []*Log, collectives []nccl.Collective, err error) {
	var unknown []string
	for i := range l.all.Tests {
		t := &l.all.Tests[i]
		of, err := t.Collective(prefer...)
		if err != nil {
			unknown = append(unknown, fmt.Sprintf("line %d%s: %v", t.Line, nameOf(t), err))
			continue
		}
		logs, collectives = append(logs, &Log{table: t, all: l.all, each: true}), append(collectives, of)
	}
	if len(logs) == 0 {
		return nil, nil, fmt.Errorf("no table names its collective, or shows it by its rows: name the collective (%s)", unknown[0])
	}
	logs[0].first, logs[0].unknown = true, strings.Join(unknown, "; ")
	return logs, collectives, nil
}

// Notes say what of the log is not judged, and what was taken for granted.
func (l *Log) Notes() (notes []string) {
	add := func(n int, format string, args ...any) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	t := l.table
	if others := l.others(t); others != "" && !l.each {
		add(1, "the log has %d tables: judged is that of line %d%s, not judged %s: --all judges all", len(l.all.Tests),
			t.Line, nameOf(t), others)
	}
	if l.unknown != "" {
		add(1, "not judged is %s", l.unknown)
	}
	if t.Cycles > 1 {
		add(1, "%s", testslog.CyclesNote(t.Cycles))
	}
	if t.Assumed {
		add(1,
			"no line of the log names the columns: those of nccl-tests since 2022 were taken (redop, root, time, "+
				"algbw, busbw, #wrong)")
	}
	add(t.Programs-1,
		"%d programs wrote to the log, and each has its own table: nccl-tests was built without MPI=1, and each is of "+
			"its own GPUs", t.Programs)
	add(int(t.OutOfBounds), "nccl-tests found %s out of bounds: results are wrong, and the rows may not say which",
		units.Count(int(t.OutOfBounds), "value"))
	add(l.empty, "%s of 0 bytes: the shares of the ranks were less than an element, and nothing was sent",
		units.Count(l.empty, "row"))
	add(l.left, "%s of another type: not judged", units.Count(l.left, "row"))
	if first := l.all.First; !l.each || l.first {
		add(l.all.Foreign, "%s not understood, the first is line %d: %.60q", units.Count(l.all.Foreign, "line"),
			first.Number, first.What)
	}
	return notes
}

// Nodes is the number of hosts on which the ranks of the table were, 0 if the log does not list all.
func (l *Log) Nodes() int { return l.table.Nodes }

// System is what the table says of the machines.
func (l *Log) System() testslog.System { return l.table.System }

// others names the tables but one.
func (l *Log) others(but *testslog.Test) string {
	var names []string
	for i := range l.all.Tests {
		if t := &l.all.Tests[i]; but == nil || t.Line != but.Line {
			names = append(names, fmt.Sprintf("line %d%s", t.Line, nameOf(t)))
		}
	}
	return strings.Join(names, ", ")
}

// nameOf is the name of a table in brackets, or its operators.
func nameOf(t *testslog.Test) string {
	if t.Name != "" {
		return " (" + t.Name + ")"
	}
	if ops := t.Ops(); len(ops) > 0 && ops[0] != "" {
		return " (redop " + strings.Join(ops, ", ") + ")"
	}
	return ""
}
