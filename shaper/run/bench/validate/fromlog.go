// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

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
	t = &Table{Collective: -1}
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
		if r.Type != nccl.Float.String() {
			return nil, true, fmt.Errorf("line %d: the type is %s: give a table of float", r.Line, r.Type)
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

// keys are those that lines of a log may have.
var keys = []string{"source", "system", "collective", "ranks", "nodes", "env"}

func (t *Table) setKeys(text []byte) error {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		for _, key := range keys {
			if value, ok := bytes.CutPrefix(line, []byte("# "+key+":")); ok {
				if err := t.set(key, strings.TrimSpace(string(value))); err != nil {
					return fmt.Errorf("line %d: %s: %w", n, key, err)
				}
			}
		}
	}
	return nil
}
