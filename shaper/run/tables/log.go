// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

// ofLog is a table of a log: what the log says of its measurement.
func ofLog(test *testslog.Test, f *File) *Table {
	t := newTable()
	t.Ranks, t.Nodes, t.Cycles, t.Rows, t.Log, t.file = test.Ranks, test.Nodes, test.Cycles, test.Rows, *test, f
	s := &test.System
	t.NCCL, t.Launch = s.NCCL, Processes
	switch {
	case s.GPUsPerThread > 1:
		t.Launch = OneThread
	case s.Threads > 1:
		t.Launch = Threads
	}
	if n := s.Threads * s.GPUsPerThread; n > 1 {
		t.RanksPerProcess = n
	}
	return t
}

// One is the table of the file, complete. Of a log it has the times out of place. Lines "# key: value" of the log may
// say what the log does not, such as the fabric, and win over what it says.
func (f *File) One() (*Table, error) {
	t := f.Tables[0]
	if t.IsCSV() {
		return t, nil
	}
	log := &t.Log
	switch {
	case len(f.Tables) > 1:
		return nil, fmt.Errorf("the log has %d tables, at the lines %d and %d: give one", len(f.Tables), log.Line,
			f.Tables[1].Log.Line)
	case log.CPUTime:
		return nil, fmt.Errorf("line %d: the times are times of the host's threads (-C): measure without it", log.Line)
	case log.OutOfBounds > 0:
		return nil, fmt.Errorf("the log has %d values out of bounds: its times are not the collective's",
			log.OutOfBounds)
	}
	if err := t.describe(f.keys); err != nil {
		return nil, err
	}
	for _, lines := range [][]testslog.Line{log.Odd, log.Cut} {
		if len(lines) > 0 {
			return nil, fmt.Errorf("line %d: %s", lines[0].Number, lines[0].What)
		}
	}
	t.Rows = nil
	for i := range log.Rows {
		r := &log.Rows[i]
		if r.Size == 0 { // the shares of the ranks were less than an element: nothing moves
			continue
		}
		err := t.add(*r)
		if r.Type != t.Type.String() {
			err = fmt.Errorf("the type is %s, not %v: give a table of one type", r.Type, t.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", r.Line, err)
		}
	}
	if len(t.Rows) == 0 {
		return nil, errors.New("the log has no row that moves bytes")
	}
	return t, nil
}

// describe completes what a log says of its measurement, with the lines "# key: value" of the log.
func (t *Table) describe(keys []byte) (err error) {
	log := &t.Log
	if log.Name != "" {
		if t.Collective, err = nccl.ParseCollective(log.Name); err != nil {
			return err
		}
	}
	if t.GPU, _, err = configs.KindOfProduct(log.System.GPU); err != nil {
		return err
	}
	if err := t.setType(log.Rows[0].Type); err != nil {
		return fmt.Errorf("line %d: %w", log.Rows[0].Line, err)
	}
	if err := t.setKeys(keys); err != nil {
		return err
	}
	t.take(log.System.Settings)
	if t.Collective < 0 {
		if t.Collective, err = log.Collective(); err != nil {
			return fmt.Errorf("%w: add a line \"# collective: NAME\" before it", err)
		}
	}
	return t.complete()
}
