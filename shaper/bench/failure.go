// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strings"
)

// Failure is what went wrong with one rank.
type Failure struct {
	Rank, PID int
	// Name is NCCL's enumerator (ncclRemoteError), or what else failed: cuda, load, system, usage, exit (it ended
	// without a word), protocol (it said something that no rank says) or silent (no answer in time).
	Name    string
	Message string
	// Stderr are the last lines that the rank wrote there.
	Stderr []string
	// Warnings are the last that NCCL logged.
	Warnings []string
}

// RanksError reports the ranks that failed in a step, the likely cause first.
type RanksError struct {
	Step     string // what they were doing, such as run
	Failures []Failure
}

// Error is one line: every rank that failed.
func (e *RanksError) Error() string {
	var parts []string
	for _, f := range e.Failures {
		parts = append(parts, fmt.Sprintf("rank %d (pid %d): %s: %s", f.Rank, f.PID, f.Name, f.Message))
	}
	return e.Step + ": " + strings.Join(parts, "; ")
}

// Details are the last lines of output and NCCL's last warnings of each rank that failed, for a terminal. Empty if
// there are none.
func (e *RanksError) Details() string {
	var b strings.Builder
	for _, f := range e.Failures {
		for _, line := range f.Stderr {
			fmt.Fprintf(&b, "rank %d: %s\n", f.Rank, line)
		}
		for _, line := range f.Warnings {
			fmt.Fprintf(&b, "rank %d: NCCL WARN %s\n", f.Rank, line)
		}
	}
	return b.String()
}
