// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Table is a published table: a log of nccl-tests, or CSV with a line of column names, of which bytes and time_us are
// used. Before it, lines "# key: value" describe the measurement. Keys are source and system (any text), collective,
// ranks, nodes (default: one rank per node) and env (variables of NCCL that the emulated run gets too).
type Table struct {
	Source, System string
	Collective     nccl.Collective
	Ranks, Nodes   int
	Env            []string // NAME=value
	Rows           []Row    // at least one, with rising sizes
}

// Row is one line of the table.
type Row struct {
	Line int // of the file, from 1
	Size int64
	Time time.Duration // of one call
}

// Limits of a table.
const (
	maxFile  = 1 << 20 // bytes
	maxRows  = 1000
	maxSize  = 1 << 40 // bytes
	maxTime  = 1e9     // us
	maxRanks = 1 << 14
)

// variables are the variables that a table may set for the ranks: those of NCCL's decisions, and none that reads or
// writes files.
var variables = []string{"NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS",
	"NCCL_MAX_CTAS"}

// Read reads a table. The error begins with the faulty line.
func Read(r io.Reader) (*Table, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("the table has more than %d bytes", maxFile)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // Excel writes a byte order mark
	if t, isLog, err := fromLog(text); isLog {
		return t, err
	}
	t := &Table{Collective: -1}
	in := bufio.NewReader(bytes.NewReader(text))
	head, err := t.readHead(in)
	if err != nil {
		return nil, err
	}
	if err := t.readRows(in, head); err != nil {
		return nil, err
	}
	return t, nil
}

// readHead reads the comments before the column names and returns the number of their lines.
func (t *Table) readHead(in *bufio.Reader) (lines int, err error) {
	for {
		if first, _ := in.Peek(1); len(first) == 0 || first[0] != '#' {
			break
		}
		text, err := in.ReadString('\n')
		if err != nil && err != io.EOF {
			return 0, err
		}
		lines++
		key, value, ok := strings.Cut(strings.TrimSpace(text[1:]), ":")
		if !ok {
			return 0, fmt.Errorf("line %d: %q is not \"# key: value\"", lines, strings.TrimSpace(text))
		}
		if err := t.set(key, strings.TrimSpace(value)); err != nil {
			return 0, fmt.Errorf("line %d: %s: %w", lines, key, err)
		}
	}
	return lines, t.complete()
}

// complete checks that the table says what it must, and sets what it need not say.
func (t *Table) complete() error {
	switch {
	case t.Collective < 0:
		return errors.New("the table does not say \"# collective: NAME\": add that line before it")
	case t.Ranks == 0:
		return errors.New("the table does not say \"# ranks: N\": add that line before it")
	case t.Nodes == 0:
		t.Nodes = t.Ranks
	}
	if t.Ranks%t.Nodes != 0 {
		return fmt.Errorf("%d ranks do not divide among %d nodes", t.Ranks, t.Nodes)
	}
	return t.Collective.CheckRanks(t.Ranks)
}

func (t *Table) set(key, value string) (err error) {
	switch key {
	case "source":
		t.Source = value
	case "system":
		t.System = value
	case "collective":
		t.Collective, err = nccl.ParseCollective(value)
	case "ranks":
		t.Ranks, err = count(value)
	case "nodes":
		t.Nodes, err = count(value)
	case "env":
		for _, v := range strings.Fields(value) {
			name, _, ok := strings.Cut(v, "=")
			if !ok || !slices.Contains(variables, name) {
				return fmt.Errorf("%q is not one of %s with a value", v, strings.Join(variables, ", "))
			}
			t.Env = append(t.Env, v)
		}
	default:
		return errors.New("is not a key here: there are source, system, collective, ranks, nodes and env")
	}
	return err
}

func count(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 || n > maxRanks {
		return 0, fmt.Errorf("%q is not a number from 2 to %d", text, maxRanks)
	}
	return n, nil
}

// readRows reads the CSV, which begins after the line before.
func (t *Table) readRows(in io.Reader, before int) error {
	r := csv.NewReader(in)
	r.TrimLeadingSpace = true
	names, err := r.Read()
	if err == io.EOF {
		return fmt.Errorf("line %d: no column names: bytes and time_us are needed", before+1)
	}
	if err != nil {
		return at(before, err)
	}
	size, us := slices.Index(names, "bytes"), slices.Index(names, "time_us")
	if size < 0 || us < 0 {
		return fmt.Errorf("line %d: columns %s: bytes and time_us are needed", before+1, strings.Join(names, ","))
	}
	for {
		fields, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return at(before, err)
		}
		line, _ := r.FieldPos(0)
		if err := t.addRow(before+line, fields[size], fields[us]); err != nil {
			return fmt.Errorf("line %d: %w", before+line, err)
		}
	}
	if len(t.Rows) == 0 {
		return errors.New("the table has no rows")
	}
	return nil
}

// at adds the lines before the CSV to the line number in an error of package csv.
func at(before int, err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	return fmt.Errorf("line %d: %w", before+parse.Line, parse.Err)
}

func (t *Table) addRow(line int, size, us string) error {
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 1 || n > maxSize {
		return fmt.Errorf("bytes %q: not a whole number from 1 to %d", size, int64(maxSize))
	}
	micros, err := strconv.ParseFloat(us, 64)
	if err != nil || !(micros > 0 && micros <= maxTime) {
		return fmt.Errorf("time_us %q: not a number above 0, up to %g", us, maxTime)
	}
	return t.add(Row{Line: line, Size: n, Time: time.Duration(micros * float64(time.Microsecond))})
}

// add adds a row that the collective can have.
func (t *Table) add(r Row) error {
	n := r.Size
	if n < 1 || n > maxSize || r.Time <= 0 || float64(r.Time) > maxTime*float64(time.Microsecond) {
		return fmt.Errorf("%d bytes in %v: not a time above 0 of 1 byte to %d", n, r.Time, int64(maxSize))
	}
	if moved := t.Collective.Counts(n, nccl.Float, t.Ranks).Bytes(nccl.Float); moved != n {
		return fmt.Errorf("%d bytes: %v of float among %d ranks moves %d", n, t.Collective, t.Ranks, moved)
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
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return r.Size < low || r.Size > high })
	if len(rows) == 0 {
		return fmt.Errorf("the table has no row of %d to %d bytes, but of %d to %d", low, high, t.Rows[0].Size,
			t.Rows[len(t.Rows)-1].Size)
	}
	t.Rows = rows
	return nil
}
