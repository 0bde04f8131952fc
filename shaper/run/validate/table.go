// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Table is a published table: a log of nccl-tests, or CSV with a line of column names, of which bytes and time_us are
// used; algbw_GBps and busbw_GBps, if there, must agree with them. Before it, lines "# key: value" describe the
// measurement: see configs/tables/README.md.
type Table struct {
	Source, System string
	Collective     nccl.Collective
	Type           nccl.DataType // float if the table does not say
	Ranks, Nodes   int
	Cycles         int // of the log (-N), of whose times the rows are the medians; below 2: it has one
	Cluster
	Env    []string // NAME=value, for the ranks
	Unused []string // NAME=value that the table has, of a net that is not used here
	Others []string // NAME=value that a log has, and that are not set here
	Rows   []Row    // at least one, with rising sizes
	// LeftOut are rows that the bench cannot have: nccl-tests once divided sizes among the ranks to single elements.
	LeftOut []LeftOut
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
	t := newTable()
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

func newTable() *Table { return &Table{Collective: -1, Type: nccl.Float} }

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
			return 0, fmt.Errorf("line %d: %w", lines, err)
		}
	}
	return lines, nil
}

// readRows reads the CSV, which begins after the line before.
func (t *Table) readRows(in io.Reader, before int) error {
	r := csv.NewReader(in)
	r.TrimLeadingSpace = true
	names, err := r.Read()
	if err != nil && err != io.EOF {
		return at(before, err)
	}
	c := columnsOf(names)
	if err == nil && (c.size < 0 || c.time < 0) {
		return fmt.Errorf("line %d: columns %.200q: bytes and time_us are needed: it is no table of nccl-tests", before+1,
			strings.Join(names, ","))
	}
	if err := t.complete(); err != nil {
		return err
	}
	if err == io.EOF {
		return fmt.Errorf("line %d: no column names: bytes and time_us are needed", before+1)
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
		if err := t.addRow(before+line, fields, c); err != nil {
			return fmt.Errorf("line %d: %w", before+line, err)
		}
	}
	if len(t.Rows) == 0 {
		return fmt.Errorf("line %d: the table has no rows that can be compared", before+2)
	}
	return nil
}

// columns are the places of the columns, -1 for none.
type columns struct{ size, time, algbw, busbw int }

func columnsOf(names []string) columns {
	return columns{slices.Index(names, "bytes"), slices.Index(names, "time_us"), slices.Index(names, "algbw_GBps"),
		slices.Index(names, "busbw_GBps")}
}

// at adds the lines before the CSV to the line number in an error of package csv.
func at(before int, err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	return fmt.Errorf("line %d: %w", before+parse.Line, parse.Err)
}

func (t *Table) addRow(line int, fields []string, c columns) error {
	size, us := fields[c.size], fields[c.time]
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 1 || n > maxSize {
		return fmt.Errorf("bytes %q: not a whole number from 1 to %d", size, int64(maxSize))
	}
	micros, err := strconv.ParseFloat(us, 64)
	if err != nil || !(micros > 0 && micros <= maxTime) {
		return fmt.Errorf("time_us %q: not a number above 0, up to %g", us, maxTime)
	}
	const bytesPerMicrosecond = 1e-3 // GB/s
	algbw := t.Collective.AlgFactor(t.Ranks) * float64(n) / micros * bytesPerMicrosecond
	for _, bw := range []struct {
		name string
		at   int
		want float64
	}{{"algbw_GBps", c.algbw, algbw}, {"busbw_GBps", c.busbw, algbw * t.Collective.BusFactor(t.Ranks)}} {
		if bw.at < 0 {
			continue
		}
		if err := agrees(fields[bw.at], bw.want); err != nil {
			return fmt.Errorf("%s %w of %d bytes in %s us: units are mixed, or ranks or collective are others", bw.name,
				err, n, us)
		}
	}
	return t.add(Row{Line: line, Size: n, Time: time.Duration(micros * float64(time.Microsecond))})
}

// agrees returns an error if a bandwidth, with the decimals that the table has, is not the wanted one within 5 %.
func agrees(text string, want float64) error {
	got, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%q: not a number, as the bandwidth", text)
	}
	_, decimals, _ := strings.Cut(text, ".")
	if rounding := math.Pow10(-len(decimals)); !(math.Abs(got-want) <= 0.05*want+rounding) {
		return fmt.Errorf("%s: the bandwidth is %.3g", text, want)
	}
	return nil
}

// add adds a row that the collective can have.
func (t *Table) add(r Row) error {
	n := r.Size
	if n < 1 || n > maxSize || r.Time <= 0 || float64(r.Time) > maxTime*float64(time.Microsecond) {
		return fmt.Errorf("%d bytes in %v: not a time above 0 of 1 byte to %d", n, r.Time, int64(maxSize))
	}
	moved := t.Collective.Counts(n, t.Type, t.Ranks).Bytes(t.Type)
	if shares := t.Collective.Shares(t.Ranks); moved != n && shares > 1 && n%(shares*t.Type.Size()) == 0 {
		t.LeftOut = append(t.LeftOut, LeftOut{n, "the share of a rank is not a multiple of 16 bytes, to which nccl-tests now rounds"})
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
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return r.Size < low || r.Size > high })
	if len(rows) == 0 {
		return fmt.Errorf("the table has no row of %d to %d bytes, but of %d to %d", low, high, t.Rows[0].Size,
			t.Rows[len(t.Rows)-1].Size)
	}
	t.Rows = rows
	return nil
}
