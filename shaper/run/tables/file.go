// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

// File is what a file has: CSV has one table, a log one or more.
type File struct {
	Tables []*Table
	keys   []byte       // the beginning of a log, with its lines "# key: value"; nil of CSV
	log    testslog.Log // without tables
}

// Read reads a file. The error says why it has no table.
func Read(r io.Reader) (*File, error) {
	var begin beginning
	log, err := testslog.Read(io.TeeReader(r, &begin))
	if err != nil {
		text := bytes.TrimPrefix(begin, []byte("\ufeff")) // Excel writes a byte order mark
		if !isCSV(text) {
			return nil, err
		}
		t, err := readCSV(text)
		if err != nil {
			return nil, err
		}
		t.file = &File{Tables: []*Table{t}}
		return t.file, nil
	}
	f := &File{keys: append([]byte{}, begin...), log: log}
	for i := range log.Tests {
		f.Tables = append(f.Tables, ofLog(&log.Tests[i], f))
	}
	return f, nil
}

// beginning keeps the first bytes that are written: at most one more than CSV may have.
type beginning []byte

func (b *beginning) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), maxCSV+1-len(*b))]...)
	return len(p), nil
}

// isCSV says whether a text that is no log of nccl-tests is meant as CSV: it begins with a key of a table, or the first
// line that is no comment has several columns.
func isCSV(text []byte) bool {
	for line := range bytes.Lines(text) {
		if len(line) == 0 || line[0] != '#' {
			return bytes.ContainsRune(line, ',')
		}
		if name, _, ok := strings.Cut(string(line[1:]), ":"); ok && slices.Contains(keyNames(), strings.TrimSpace(name)) {
			return true
		}
	}
	return false
}

// Choose is the table of a collective. A table may name its collective; else its operators, roots and bandwidths do. If
// several can be of the collective, it is the first. The error says why the first table is not of the collective, if
// none is.
func (f *File) Choose(c nccl.Collective) (*Table, error) {
	var found *Table
	for _, t := range f.Tables {
		if t.Log.Fits(c) == nil && (found == nil || !found.Log.Likely(c) && t.Log.Likely(c)) {
			found = t
		}
	}
	if found == nil {
		if len(f.Tables) > 1 {
			return nil, fmt.Errorf("it has %d tables, and none is of %v: %s", len(f.Tables), c, f.others(nil))
		}
		return nil, f.Tables[0].Log.Fits(c)
	}
	return found.of(c), nil
}

// of is the table as a table of a collective, with the variables of its log.
func (t *Table) of(c nccl.Collective) *Table {
	one := *t
	one.Collective = c
	one.take(one.Log.System.Settings)
	return &one
}

// Each returns all tables with the collectives that they are of: the one that a table names, else the one that its rows
// show, with collectives of prefer before others. Tables of which the collective is not known are left out;
// [Table.Notes] of the first one names them.
func (f *File) Each(prefer ...nccl.Collective) (all []*Table, err error) {
	var unknown []string
	for _, t := range f.Tables {
		of, err := t.Log.Collective(prefer...)
		if err != nil {
			unknown = append(unknown, fmt.Sprintf("line %d%s: %v", t.Log.Line, t.name(), err))
			continue
		}
		one := t.of(of)
		one.each = true
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no table names its collective, or shows it by its rows: name the collective (%s)", unknown[0])
	}
	all[0].first, all[0].unknown = true, strings.Join(unknown, "; ")
	return all, nil
}

// Notes say what of the file is not judged, and what was taken for granted.
func (t *Table) Notes() (notes []string) {
	add := func(n int, format string, args ...any) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	log := &t.Log
	if others := t.file.others(t); others != "" && !t.each {
		add(1, "the log has %d tables: judged is the table of line %d%s, not judged %s: --all judges all", len(t.file.Tables),
			log.Line, t.name(), others)
	}
	if t.unknown != "" {
		add(1, "not judged is %s", t.unknown)
	}
	if log.Cycles > 1 {
		add(1, "%s", testslog.CyclesNote(log.Cycles))
	}
	if log.Assumed {
		add(1,
			"no line of the log names the columns: the columns of nccl-tests since 2022 were taken (redop, root, time, "+
				"algbw, busbw, #wrong)")
	}
	add(log.Programs-1,
		"%d programs wrote to the log, and each has its own table: nccl-tests was built without MPI=1, and each is of "+
			"its own GPUs", log.Programs)
	add(int(log.OutOfBounds), "nccl-tests found %s out of bounds: results are wrong, and the rows may not say which",
		units.Count(int(log.OutOfBounds), "value"))
	add(t.empty, "%s of 0 bytes: the shares of the ranks were less than an element, and nothing was sent",
		units.Count(t.empty, "row"))
	add(t.left, "%s of another type: not judged", units.Count(t.left, "row"))
	if first := t.file.log.First; !t.each || t.first {
		add(t.file.log.Foreign, "%s not understood, the first is line %d: %.60q", units.Count(t.file.log.Foreign, "line"),
			first.Number, first.What)
	}
	return notes
}

// others names the tables but one.
func (f *File) others(but *Table) string {
	var names []string
	for _, t := range f.Tables {
		if but == nil || t.Log.Line != but.Log.Line {
			names = append(names, fmt.Sprintf("line %d%s", t.Log.Line, t.name()))
		}
	}
	return strings.Join(names, ", ")
}

// name is the name of a table in brackets, or its operators.
func (t *Table) name() string {
	if t.Log.Name != "" {
		return " (" + t.Log.Name + ")"
	}
	if ops := t.Log.Ops(); len(ops) > 0 && ops[0] != "" {
		return " (redop " + strings.Join(ops, ", ") + ")"
	}
	return ""
}
