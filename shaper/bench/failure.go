// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strings"
)

// Failure is the failure of one rank.
type Failure struct {
	Rank, PID int
	// Name is NCCL's enumerator (ncclRemoteError) or one of cuda, load, system, usage, exit (the rank ended without an
	// answer), protocol (its answer is malformed) and silent (no answer in time).
	Name    string
	Message string
}

// RanksError reports the ranks that failed in a step. The likely cause comes first.
type RanksError struct {
	Step     string // such as run
	Failures []Failure
}

// Error names every rank that failed, in one line.
func (e *RanksError) Error() string {
	var parts []string
	for _, f := range e.Failures {
		parts = append(parts, fmt.Sprintf("rank %d (pid %d): %s: %s", f.Rank, f.PID, f.Name, f.Message))
	}
	return e.Step + ": " + strings.Join(parts, "; ")
}
