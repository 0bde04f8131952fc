// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// sequence returns the activities of a rank on each communicator, in order.
func (w *row) sequence() map[string][]int {
	out := map[string][]int{}
	for i, name := range w.comm {
		if name != "" {
			out[name] = append(out[name], i)
		}
	}
	return out
}

// clocks estimates by how many ns the clock of each rank is ahead of the clock of the first. A collective that moves
// data from every rank to every rank ends at about the same time everywhere, so the median difference of the ends is
// the difference of the clocks.
func (j *job) clocks() []int64 {
	offsets := make([]int64, len(j.rows))
	known := make([]bool, len(j.rows))
	known[0] = true
	sequences := make([]map[string][]int, len(j.rows))
	for i, w := range j.rows {
		sequences[i] = w.sequence()
	}
	for changed := true; changed; {
		changed = false
		for a := range j.rows {
			for b := range j.rows {
				if !known[a] || known[b] {
					continue
				}
				if d, ok := j.ahead(a, b, sequences); ok {
					offsets[b], known[b], changed = offsets[a]+d, true, true
				}
			}
		}
	}
	return offsets
}

// ahead is the median of how much later collectives ended on b than on a, by their clocks.
func (j *job) ahead(a, b int, sequences []map[string][]int) (int64, bool) {
	var differences []int64
	for name, calls := range sequences[a] {
		for k, i := range calls {
			if others := sequences[b][name]; k < len(others) && joint(&j.rows[a].all[i]) {
				differences = append(differences, j.rows[b].all[others[k]].end-j.rows[a].all[i].end)
			}
		}
	}
	if len(differences) == 0 {
		return 0, false
	}
	slices.Sort(differences)
	return differences[len(differences)/2], true
}

// joint tells whether the call ends at about the same time on all ranks.
func joint(a *activity) bool {
	op, _, err := a.call.Op(1)
	if err != nil || a.hostOnly {
		return false
	}
	switch op.Func {
	case workload.AllReduce, workload.AllGather, workload.ReduceScatter, workload.AllToAll:
		return true
	}
	return false
}

// waiting are the times in ns of all collectives, summed over ranks: in all, and before the last rank of each had
// started.
type waiting struct{ took, waited int64 }

// waiting matches the calls of the ranks: the k-th call of a rank on a communicator belongs to the k-th of the others.
func (j *job) waiting(offsets []int64) (sum waiting) {
	latest := map[string][]int64{}
	sequences := make([]map[string][]int, len(j.rows))
	for i, w := range j.rows {
		sequences[i] = w.sequence()
		for name, calls := range sequences[i] {
			for k, at := range calls {
				start := w.all[at].start - offsets[i]
				if k >= len(latest[name]) {
					latest[name] = append(latest[name], start)
				}
				latest[name][k] = max(latest[name][k], start)
			}
		}
	}
	for i, w := range j.rows {
		for name, calls := range sequences[i] {
			for k, at := range calls {
				a := &w.all[at]
				sum.took += a.end - a.start
				sum.waited += min(a.end-a.start, latest[name][k]-(a.start-offsets[i]))
			}
		}
	}
	return sum
}
