// SPDX-License-Identifier: Apache-2.0

package tables

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

	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

// maxCSV is the maximum number of bytes of CSV.
const maxCSV = 1 << 20

// readCSV reads CSV with a line of column names, of which bytes and time_us are used; algbw_GBps and busbw_GBps, if
// there, must agree with them. Before it, lines "# key: value" describe the measurement: see configs/tables/README.md.
// The error begins with the faulty line.
func readCSV(text []byte) (*Table, error) {
	if len(text) > maxCSV {
		return nil, fmt.Errorf("the table has more than %d bytes", maxCSV)
	}
	t := newTable()
	in := bufio.NewReader(bytes.NewReader(text))
	head, err := t.readHead(in)
	if err == nil {
		err = t.readRows(in, head)
	}
	if err != nil {
		return nil, err
	}
	t.Log = testslog.Test{Line: 1, Name: t.Collective.String(), Ranks: t.Ranks, Nodes: t.Nodes, Programs: 1}
	return t, nil
}

// IsCSV says whether the table is CSV, and so complete.
func (t *Table) IsCSV() bool { return t.file.keys == nil }

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
	columns := map[string]int{}
	for i, name := range slices.Backward(names) {
		columns[name] = i
	}
	_, hasSize := columns["bytes"]
	if _, hasTime := columns["time_us"]; err == nil && !(hasSize && hasTime) {
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
		if err := t.addRow(before+line, fields, columns); err != nil {
			return fmt.Errorf("line %d: %w", before+line, err)
		}
	}
	if len(t.Rows) == 0 {
		return fmt.Errorf("line %d: the table has no rows that can be compared", before+2)
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

func (t *Table) addRow(line int, fields []string, columns map[string]int) error {
	size, us := fields[columns["bytes"]], fields[columns["time_us"]]
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
	busbw := algbw * t.Collective.BusFactor(t.Ranks)
	for _, bw := range []struct {
		name string
		want float64
	}{{"algbw_GBps", algbw}, {"busbw_GBps", busbw}} {
		place, has := columns[bw.name]
		if !has {
			continue
		}
		if err := agrees(fields[place], bw.want); err != nil {
			return fmt.Errorf("%s %w of %d bytes in %s us: units are mixed, or ranks or collective are others", bw.name,
				err, n, us)
		}
	}
	half := testslog.Half{Time: time.Duration(micros * float64(time.Microsecond)), AlgBW: algbw, BusBW: busbw,
		Wrong: -1}
	return t.add(testslog.Row{Line: line, Size: n, Type: t.Type.String(), Root: -1, OutOfPlace: half})
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
