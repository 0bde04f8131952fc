// SPDX-License-Identifier: Apache-2.0

// Package check executes a schedule symbolically and lists its mistakes. A chunk's value is the multiset of
// what was added to it, each a chunk of the input of a rank. Connections keep the order of their messages and hold as
// many as NCCL's buffers do.
//
// It finds wrong results, deadlocks with their cycle, messages whose counts differ at both ends, accesses to one chunk
// that nothing orders and one of which changes it, and chunks outside of buffers. It warns of what exceeds the limits
// of MSCCL's executor.
//
// The order of two steps is known if they are in one block, or if one waits for the other, by dependencies and
// messages. A free slot in a connection's buffer orders nothing: how many there are depends on the protocol.
package check

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of findings.
const (
	WrongResult Kind = "wrong result"
	Deadlock    Kind = "deadlock"
	Mismatch    Kind = "count mismatch"
	Unordered   Kind = "unordered access"
	Bounds      Kind = "outside of a buffer"
	Connection  Kind = "connection"
	Dependency  Kind = "dependency"
)

// Finding is one mistake.
type Finding struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
	Line int    `json:"line,omitempty"` // in the file, 0 if there is none
}

// Report is what Check found.
type Report struct {
	Findings []Finding `json:"findings"`
	More     int       `json:"more,omitempty"` // findings that are left out
	Warnings []string  `json:"warnings,omitempty"`
	Root     int       `json:"root"` // of a rooted collective; -1: none, or none fits
	// NeedsBuffers says that the schedule is good, but cannot run with NCCL's buffers: a warning has the cycle.
	NeedsBuffers bool `json:"needs_buffers,omitempty"`
}

// Good says whether nothing is wrong.
func (r *Report) Good() bool { return len(r.Findings) == 0 }

// most is how many findings of one kind are kept.
const most = 8

func (r *Report) add(kind Kind, line int, format string, args ...any) {
	n := 0
	for _, f := range r.Findings {
		if f.Kind == kind {
			n++
		}
	}
	if n >= most {
		r.More++
		return
	}
	r.Findings = append(r.Findings, Finding{Kind: kind, Line: line, Text: fmt.Sprintf(format, args...)})
}

// Check checks a schedule. An error says that it is too large to check.
func Check(s *schedule.Schedule) (*Report, error) {
	r := &Report{Root: schedule.None, Warnings: append([]string{}, s.Warnings...)}
	if !s.Whole {
		r.Warnings = append(r.Warnings, limits(s)...)
	}
	for _, x := range s.Mistakes {
		r.add(Kind(x.Kind), 0, "%s", x.Text)
	}
	if !r.Good() {
		return r, nil
	}
	g := newGraph(s, r)
	if !r.Good() {
		return r, nil
	}
	sh, err := s.Shape()
	if err != nil {
		return nil, err
	}
	for _, inPlace := range s.Variants() {
		if err := checkVariant(s, g, r, sh, inPlace); err != nil {
			return nil, err
		}
		if !r.Good() {
			if s.Parts > 1 {
				r.Warnings = append(r.Warnings,
					fmt.Sprintf("a chunk of the file is divided into %d parts: chunks in the mistakes are such parts",
						s.Parts))
			}
			return r, nil
		}
	}
	if !s.Whole { // who stores into another GPU's memory waits for no buffer of a connection
		g.checkSlots(r)
	}
	return r, nil
}

// checkVariant checks the results out of place or in place.
func checkVariant(s *schedule.Schedule, g *graph, r *Report, sh schedule.Shape, inPlace bool) error {
	roots := []int{0}
	if s.Coll.Rooted() {
		roots = roots[:0]
		for i := range s.GPUs {
			roots = append(roots, i)
		}
	}
	// Only with these does the memory depend on the root.
	perRoot := inPlace && (s.Coll == schedule.Gather || s.Coll == schedule.Scatter)
	var first *Report
	var d *data
	var warnings []string
	for _, root := range roots {
		one := &Report{}
		if d == nil || perRoot {
			var err error
			if d, err = newData(g, one, sh, inPlace, root); err != nil {
				return err
			}
			if one.Good() {
				err = d.run()
			}
			if err == nil {
				err = d.settle(root)
			}
			if err != nil {
				return err
			}
			warnings = one.Warnings
		}
		if one.Good() {
			d.judge(one, root)
		}
		if first == nil {
			first = one
		}
		if one.Good() {
			first = one
			if s.Coll.Rooted() {
				r.Root = root
			}
			break
		}
		if !perRoot && len(one.Findings) > 0 && one.Findings[0].Kind != WrongResult {
			break
		}
	}
	for _, f := range first.Findings {
		f.Text = place(inPlace) + f.Text
		r.Findings = append(r.Findings, f)
	}
	for _, text := range warnings {
		r.Warnings = append(r.Warnings, place(inPlace)+text)
	}
	r.More += first.More
	return nil
}

func place(inPlace bool) string {
	if inPlace {
		return "in place: "
	}
	return "out of place: "
}
