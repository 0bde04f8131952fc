// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// table collects the outcomes.
type table struct {
	lines    []line
	outcomes []outcome
}

func (t *table) add(l line, o outcome) {
	t.lines, t.outcomes = append(t.lines, l), append(t.outcomes, o)
	if o.err != nil {
		fmt.Printf("torch-matrix: %s: %v\n", l.name(), o.err)
	}
	for _, wrong := range o.wrong {
		fmt.Printf("torch-matrix: %s: %s\n", l.name(), wrong)
	}
}

// print writes the table. It returns an error if a line is not good.
func (t *table) print(to io.Writer) error {
	if len(t.lines) == 0 {
		return errors.New("no line has this name: -list prints the names")
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "environment\ttorch\tNCCL\tsuite\tpassed\tfailed\tskipped\tunexpected\tseconds\tresult\t")
	bad := 0
	for i, l := range t.lines {
		o, verdict := t.outcomes[i], "good"
		switch {
		case o.err != nil:
			verdict = "NOT RUN"
		case len(o.wrong) > 0:
			verdict = "FAILED"
		}
		if verdict != "good" {
			bad++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%.0f\t%s\t\n", l.environment.name, l.environment.torch, l.nccl,
			l.suite.name,
			o.passed, o.failed, o.skipped, len(o.wrong), o.took.Round(time.Second).Seconds(), verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d lines are not good", bad, len(t.lines))
	}
	return nil
}
