// SPDX-License-Identifier: Apache-2.0

// Package check finds out whether the calls of a workload's ranks match, without time: whether each communicator's
// ranks call the same collectives in the same order, whether each send has its receive, and whether ranks wait for
// each other.
//
// A call is one kernel: it occupies its stream until all of it has ended, and calls on one communicator execute in the
// order in which a rank makes them, as NCCL orders them. A send ends with its receive: NCCL may buffer small messages,
// but does not promise to.
package check

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of findings.
const (
	// Mismatch: ranks call different things where they must call the same.
	Mismatch Kind = "mismatch"
	// Missing: a call waits for one that another rank never makes.
	Missing Kind = "missing"
	// Cycle: calls wait for each other.
	Cycle Kind = "cycle"
)

// Finding is a reason why the job would fail, hang or compute something else.
type Finding struct {
	Kind Kind `json:"kind"`
	// Line is the line in the file, and Ranks are the ranks that it is about.
	Line  int            `json:"line"`
	Ranks workload.Ranks `json:"ranks"`
	Text  string         `json:"text"`
	// Chain is the cycle: each waits for the next one, and the last one for the first.
	Chain []Wait `json:"chain,omitempty"`
}

// Wait is an operation of a rank that waits.
type Wait struct {
	Rank int    `json:"rank"`
	Line int    `json:"line"`
	Text string `json:"text"` // what it is, and what it waits for
}

// maxFindings is how many findings are listed.
const maxFindings = 100

// Bounds of what the calls of all ranks together cost. A short file can have the calls of very many ranks.
const (
	// maxState is the maximum number of streams and communicators of all ranks.
	maxState = 1 << 23
	// maxSteps is the maximum number of steps: a call that is looked at is one. 2^26 take at most about 5 s.
	maxSteps = 1 << 26
	// maxWaiting is the maximum number of calls that wait for other ranks at the same time.
	maxWaiting = 1 << 20
)

// errTooLarge is the error if a bound is exceeded.
var errTooLarge = errors.New("its ranks have too many calls, streams and communicators together: check fewer ranks " +
	"or steps of the job")

// Run returns the findings about a workload, in the order of its lines, at most 100. It is an error if ctx
// ends before, or if the workload is too large to be checked.
func Run(ctx context.Context, ix *workload.Index) ([]Finding, error) {
	r, err := newRun(ix)
	if err != nil {
		return nil, err
	}
	if err := r.play(ctx); err != nil {
		return nil, err
	}
	if r.explain(); r.exceeded() {
		return nil, errTooLarge
	}
	slices.SortStableFunc(r.findings, func(a, b Finding) int { return a.Line - b.Line })
	return r.findings, nil
}

// describe is a call in words.
func describe(o *workload.Op) string {
	switch o.Kind {
	case workload.Coll:
		text := fmt.Sprintf("%s of %d %s", o.Func, o.Count, o.Type)
		if op := o.RedOp; op != "" && op != "sum" {
			text += ", " + op
		}
		if o.Func.Rooted() {
			text += fmt.Sprintf(", root %d", o.Root)
		}
		return text
	case workload.Send, workload.Recv:
		way := "to"
		if o.Kind == workload.Recv {
			way = "from"
		}
		peer := fmt.Sprint(o.Peer)
		if o.Relative {
			peer = fmt.Sprintf("%+d", o.Peer)
		}
		return fmt.Sprintf("%s of %d %s %s %s", o.Kind, o.Count, o.Type, way, peer)
	case workload.Group:
		return fmt.Sprintf("group of %d calls", len(o.Ops))
	}
	if o.Name != "" {
		return fmt.Sprintf("%s %s", o.Kind, o.Name)
	}
	return string(o.Kind)
}
