// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

// Choose chooses the table of a collective among those of the log. Which one it is, a table may say itself; else its
// operators, roots and bandwidths do. If several can be of the collective, it is the first. The error says why the
// first table is not of the collective, if none is.
func (l *Log) Choose(c nccl.Collective) error {
	tests := l.all.Tests
	var found *testslog.Test
	for i := range tests {
		t := &tests[i]
		if fits(t, c) != nil {
			continue
		}
		if found == nil || !likely(found, c) && likely(t, c) {
			found = t
		}
	}
	if found == nil {
		if len(tests) > 1 {
			return fmt.Errorf("it has %d tables, and none is of %v: %s", len(tests), c, l.others(nil))
		}
		return fits(&tests[0], c)
	}
	l.table = found
	return nil
}

// Each returns a log for each table, with the collective that it is of: the one that it names, else the one that its
// rows show, with c before others. Tables of which the collective is not known are left out; [Log.Notes] of the first
// one names them.
func (l *Log) Each(c nccl.Collective) (logs []*Log, collectives []nccl.Collective, err error) {
	var unknown []string
	for i := range l.all.Tests {
		t := &l.all.Tests[i]
		of, err := collectiveOf(t, c)
		if err != nil {
			unknown = append(unknown, fmt.Sprintf("line %d%s: %v", t.Line, nameOf(t), err))
			continue
		}
		logs, collectives = append(logs, &Log{table: t, all: l.all, each: true}), append(collectives, of)
	}
	if len(logs) == 0 {
		return nil, nil, fmt.Errorf("no table names its collective or can be of %v: %s", c, l.others(nil))
	}
	logs[0].first, logs[0].unknown = true, strings.Join(unknown, "; ")
	return logs, collectives, nil
}

// collectiveOf is the collective of a table: the one that it names, else c if it can be of that, else the only one
// that it can be of. The error says why the table is not judged.
func collectiveOf(t *testslog.Test, c nccl.Collective) (of nccl.Collective, err error) {
	if t.Name != "" {
		if of, err = nccl.ParseCollective(t.Name); err == nil {
			err = fits(t, of)
		}
		return of, err
	}
	can := func(c nccl.Collective) bool { return fits(t, c) == nil && likely(t, c) }
	if can(c) {
		return c, nil
	}
	n := 0
	for i := range nccl.Collectives() {
		if can(nccl.Collective(i)) {
			of, n = nccl.Collective(i), n+1
		}
	}
	if n != 1 {
		err = errors.New("no line says of which collective")
	}
	return of, err
}

// fits says why a table cannot be of a collective, nil if it can. nccl-tests writes none, or nothing, if nothing is
// reduced; but sendrecv_perf goes through its operators as the reductions do.
func fits(t *testslog.Test, c nccl.Collective) error {
	if t.CPUTime {
		return fmt.Errorf("line %d: the times are those of the host's threads (-C): measure without it", t.Line)
	}
	if t.Name != "" {
		if of, err := nccl.ParseCollective(t.Name); err != nil || of != c {
			return fmt.Errorf("line %d: the table is of %s, not of %v: give the log's collective", t.Line, t.Name, c)
		}
	}
	for _, r := range t.Rows {
		reduces := r.Op != "none" && r.Op != ""
		if reduces == c.Reduces() || c == nccl.SendRecv {
			continue
		}
		if r.Op == "" {
			return fmt.Errorf("line %d: a table without redop is not of %v: give the log's collective", r.Line, c)
		}
		return fmt.Errorf("line %d: redop %s is not of %v: give the log's collective", r.Line, r.Op, c)
	}
	return nil
}

// likely says whether roots and bandwidths of a table that names no collective are those of c.
func likely(t *testslog.Test, c nccl.Collective) bool {
	if t.Name != "" {
		return true
	}
	inPlace, unchecked := 0, 0
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Root >= 0 != c.Rooted() {
			return false
		}
		if t.Ranks > 0 && math.Abs(r.Ratio()-c.BusFactor(t.Ranks)) > 0.03 { // false for NaN
			return false
		}
		if r.InPlace != nil && r.OutOfPlace.Wrong >= 0 {
			inPlace++
			if r.InPlace.Wrong < 0 {
				unchecked++
			}
		}
	}
	// Since 2.13.1 nccl-tests does not check these two in place.
	return inPlace == 0 || (unchecked == inPlace) == !c.HasInPlace()
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

// nameOf is the name of a table in brackets, or what is known of it.
func nameOf(t *testslog.Test) string {
	if t.Name != "" {
		return " (" + t.Name + ")"
	}
	if ops := t.Ops(); len(ops) > 0 && ops[0] != "" {
		return " (redop " + strings.Join(ops, ", ") + ")"
	}
	return ""
}
