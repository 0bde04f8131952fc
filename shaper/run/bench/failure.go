// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Failure is the failure of one rank.
type Failure struct {
	Rank, PID int
	// Name is NCCL's enumerator (ncclRemoteError) or one of cuda, load, system, usage, exit (the rank ended without an
	// answer), plugin (it has no emulated network), protocol (its answer is malformed) and silent (no answer in time).
	Name    string
	Message string
}

// RanksError reports the ranks that failed in a step. The likely cause comes first.
type RanksError struct {
	Step     string // such as run
	Failures []Failure
	Given    []string // see [Config.Given]
}

// Error names every rank that failed, in one line. What several ranks say is in it once.
func (e *RanksError) Error() string {
	var said []string
	by := map[string][]Failure{}
	for _, f := range e.Failures {
		text := f.Name + ": " + f.Message
		if by[text] == nil {
			said = append(said, text)
		}
		by[text] = append(by[text], f)
	}
	var parts []string
	for _, text := range said {
		parts = append(parts, names(by[text])+": "+text)
	}
	return e.Step + ": " + strings.Join(parts, "; ") + e.Hint()
}

// Hint names the user's variables that may be why NCCL failed, after ": "; "" if there are none, or if NCCL did not
// fail.
func (e *RanksError) Hint() string {
	ncclFailed := func(f Failure) bool { return strings.HasPrefix(f.Name, "nccl") || f.Name == "exit" }
	if len(e.Given) == 0 || !slices.ContainsFunc(e.Failures, ncclFailed) {
		return ""
	}
	return ": NCCL was given " + strings.Join(e.Given, ", ") + ": try without"
}

// names names the ranks of failures: "rank 3 (pid 77)", "ranks 0, 1 and 2".
func names(all []Failure) string {
	if len(all) == 1 {
		return fmt.Sprintf("rank %d (pid %d)", all[0].Rank, all[0].PID)
	}
	var ranks []int
	for _, f := range all {
		ranks = append(ranks, f.Rank)
	}
	slices.Sort(ranks)
	last := len(ranks) - 1
	if ranks[last]-ranks[0] == last && last > 1 {
		return fmt.Sprintf("ranks %d to %d", ranks[0], ranks[last])
	}
	var texts []string
	for _, r := range ranks[:last] {
		texts = append(texts, fmt.Sprint(r))
	}
	return fmt.Sprintf("ranks %s and %d", strings.Join(texts, ", "), ranks[last])
}
