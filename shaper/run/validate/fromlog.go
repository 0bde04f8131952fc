// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

// fromLog makes a table of a log of nccl-tests, of its times out of place. Lines "# key: value" may say what the log
// does not, such as the fabric, and win over what it says. isLog is false if the text has no row of nccl-tests.
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
	if err := t.learn(test); err != nil {
		return nil, true, err
	}
	if len(test.Rows) > 0 {
		if err := t.setType(test.Rows[0].Type); err != nil {
			return nil, true, fmt.Errorf("line %d: %w", test.Rows[0].Line, err)
		}
	}
	if err := t.setKeys(text); err != nil {
		return nil, true, err
	}
	t.take(test.System.Settings)
	if t.Collective < 0 {
		if t.Collective, err = test.Collective(); err != nil {
			return nil, true, fmt.Errorf("%w: add a line \"# collective: NAME\" before it", err)
		}
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

// learn takes what a log says of its measurement.
func (t *Table) learn(test *testslog.Test) (err error) {
	if test.Name != "" {
		if t.Collective, err = nccl.ParseCollective(test.Name); err != nil {
			return err
		}
	}
	t.Ranks, t.Nodes, t.Cycles = test.Ranks, test.Nodes, test.Cycles
	s := &test.System
	if t.GPU, _, err = configs.KindOfProduct(s.GPU); err != nil {
		return err
	}
	t.NCCL = s.NCCL
	if s.Threads*s.GPUsPerThread > 1 {
		of := ClusterOf(*s)
		t.Launch, t.RanksPerProcess = of.Launch, of.RanksPerProcess
	}
	return nil
}

// OfSystem is a table without rows of what a log says of its system: the cluster and the variables.
func OfSystem(s testslog.System) *Table {
	t := &Table{Cluster: *ClusterOf(s)}
	t.take(s.Settings)
	return t
}

// ClusterOf is the system of a log as the head of a table says it.
func ClusterOf(s testslog.System) *Cluster {
	c := &Cluster{NCCL: s.NCCL, Launch: Processes, RanksPerProcess: s.Threads * s.GPUsPerThread}
	switch {
	case s.GPUsPerThread > 1:
		c.Launch = OneThread
	case s.Threads > 1:
		c.Launch = Threads
	}
	return c
}
