// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

// fromLog makes a table of a log of nccl-tests, of its times out of place. Lines "# key: value" may say what the log
// does not: before 2.16.7 its collective. isLog is false if the text has no row of nccl-tests.
func fromLog(text []byte) (t *Table, isLog bool, err error) {
	log, err := testslog.Read(bytes.NewReader(text))
	if err != nil {
		return nil, false, nil
	}
	t = newTable()
	test := &log.Tests[0]
	if len(log.Tests) > 1 {
		return nil, true, fmt.Errorf("the log has %d tables, at the lines %d and %d: give one", len(log.Tests),
			test.Line, log.Tests[1].Line)
	}
	if test.CPUTime {
		return nil, true, fmt.Errorf("line %d: the times are those of the host's threads (-C): measure without it",
			test.Line)
	}
	if test.OutOfBounds > 0 {
		return nil, true, fmt.Errorf("the log has %d values out of bounds: its times are not those of the collective",
			test.OutOfBounds)
	}
	if test.Name != "" {
		if t.Collective, err = nccl.ParseCollective(test.Name); err != nil {
			return nil, true, err
		}
	}
	t.Ranks, t.Nodes = test.Ranks, test.Nodes
	if len(test.Rows) > 0 {
		if err := t.setType(test.Rows[0].Type); err != nil {
			return nil, true, fmt.Errorf("line %d: %w", test.Rows[0].Line, err)
		}
	}
	if err := t.setKeys(text); err != nil {
		return nil, true, err
	}
	if err := t.complete(); err != nil {
		return nil, true, err
	}
	for _, lines := range [][]testslog.Line{test.Odd, test.Cut} {
		if len(lines) > 0 {
			return nil, true, fmt.Errorf("line %d: %s", lines[0].Number, lines[0].What)
		}
	}
	for i := range test.Rows {
		r := &test.Rows[i]
		if r.Size == 0 { // the shares of the ranks were less than an element: nothing moves
			continue
		}
		if r.Type != t.Type.String() {
			return nil, true, fmt.Errorf("line %d: the type is %s, not %v: give a table of one type", r.Line, r.Type,
				t.Type)
		}
		if err := t.add(Row{Line: r.Line, Size: r.Size, Time: r.OutOfPlace.Time}); err != nil {
			return nil, true, fmt.Errorf("line %d: %w", r.Line, err)
		}
	}
	if len(t.Rows) == 0 {
		return nil, true, errors.New("the log has no row that moves bytes")
	}
	return t, true, nil
}
