// SPDX-License-Identifier: Apache-2.0

package overview

import "github.com/ddlemu/ddlemu/shaper/workload"

// Totals sums up the calls of each function in the whole workload, of all communicators together: what a rank calls
// that calls any, from the rank with least to that with most.
func Totals(ix *workload.Index) []Call {
	var sums []*stepSum
	var ranks []int
	for i := range ix.Programs {
		p := &ix.Programs[i]
		steps, rest := sumProgram(ix, p)
		if rest != nil {
			steps = append(steps, rest)
		}
		sums, ranks = append(sums, total(steps)), append(ranks, len(p.Ranks))
	}
	return merge(sums, ranks).Calls
}

// total is the sum of steps over communicators.
func total(steps []*stepSum) *stepSum {
	all := &stepSum{calls: map[callKey]*callSum{}}
	for _, step := range steps {
		for key, c := range step.calls {
			key.comm = ""
			all.add(key, c)
		}
	}
	return all
}
