// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// FromLedgers is the kind of the source of a workload that `ddlemu record` has made. Its max_ns is the time of a
// computation that did not wait for the calls before it; times of other sources say nothing of waiting.
const FromLedgers = "ledger"

// Uncertain says whether the source gives only an interval for the time of a computation.
func Uncertain(w *workload.Workload) bool {
	return slices.ContainsFunc(w.Ops, func(o workload.Op) bool { return isUncertain(&o) })
}

func isUncertain(o *workload.Op) bool { return o.MaxNanos > o.Nanos }

// Longest returns the other case of the computations of which the source gives only an interval: each takes its
// max_ns. In a recording it then does not wait for the calls before it, as with `ddlemu record --no-waits`.
func Longest(ix *workload.Index) *workload.Workload {
	l := longest{ix: ix, dropped: map[int]workload.Ranks{}}
	if ix.Workload.Head.Source.Kind == FromLedgers {
		for rank := range ix.Workload.Head.Ranks {
			l.dropWaits(rank)
		}
	}
	out := *ix.Workload
	out.Ops = nil
	for i, op := range ix.Workload.Ops {
		if isUncertain(&op) {
			op.Nanos, op.MaxNanos = op.MaxNanos, 0
			if ix.Workload.Head.Source.Kind == FromLedgers {
				op.After = nil
			}
		}
		if gone := l.dropped[i]; len(gone) > 0 {
			op.Ranks = slices.DeleteFunc(slices.Clone(ix.RanksOf(&op)),
				func(rank int) bool { return slices.Contains(gone, rank) })
			if len(op.Ranks) == 0 {
				continue
			}
		}
		out.Ops = append(out.Ops, op)
	}
	return &out
}

// longest has what Longest leaves out.
type longest struct {
	ix *workload.Index
	// dropped are the ranks that do not wait any more, by the place of the wait in Ops.
	dropped map[int]workload.Ranks
}

// dropWaits drops the waits of a rank that stand directly before computations of which there is only an interval.
func (l *longest) dropWaits(rank int) {
	wait := -1
	for i, op := range l.ix.OfRank(rank) {
		if wait >= 0 && isUncertain(op) {
			l.dropped[wait] = append(l.dropped[wait], rank)
		}
		if wait = -1; op.Kind == workload.Wait {
			wait = i
		}
	}
}
