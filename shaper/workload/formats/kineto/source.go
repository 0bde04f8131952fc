// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// source says where the workload is from, and what the traces do not say.
func (j *job) source(steps int, forced bool, w waiting) workload.Source {
	s := workload.Source{Kind: "kineto", File: j.fileNames(), Hardware: j.ranks[0].hardware}
	if v := j.ranks[0].ncclVersion; v != "" {
		s.Hardware += ", NCCL " + v
	}
	missing := func(when bool, format string, args ...any) {
		if when {
			s.Missing = append(s.Missing, fmt.Sprintf(format, args...))
		}
	}
	note := func(n int, one, format string) {
		if n > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: %s", units.Count(n, one), format))
		}
	}
	one, calls := len(j.rows) == 1 && j.world > 1, len(j.comms.Comms) > 0
	exact := slices.ContainsFunc(j.ranks, func(r *rank) bool { return len(r.syncs) > 0 })
	missing(one, "what other ranks do: all %d are taken to do what rank %d did, at the same times", j.world, j.ranks[0].number)
	missing(one && calls, "how long calls waited for slower ranks: their durations were not used")
	missing(calls, "whether the GPU or the host was busy between calls: that time is a computation")
	missing(j.left.roots > 0, "the roots of broadcasts and reductions: rank 0 of the group is taken")
	missing(forced && calls, "what waits for a call: the computation of the next step is taken to wait")
	missing(!forced && !exact && calls, "which calls a wait is for: all called before that had ended when the next kernel started")
	missing(len(j.comms.Comms) == 0, "collectives: there are none between ranks, and the computation of each step is its whole time")
	missing(steps == 0, "steps: the whole trace is one")

	note(j.left.bounded, "collective", "ready between ns and max_ns of the computation before, since another one was still running")
	note(j.left.hostOnly, "call", "no kernel was recorded; the start of the call was taken")
	note(j.left.unequal, "all-to-all", "the parts differ or are not recorded; the mean was taken")
	note(j.left.singles, "call", "left out, in a group of one rank")
	note(j.left.outside, "call", "left out, outside the steps")
	note(j.left.emptyCalls, "call", "left out, with no element to move")
	note(j.left.noPeers, "message", "left out, the peer is not recorded")
	note(j.left.unsizedCalls, "call", "left out, the trace does not say what it moved")
	note(j.left.unknownKernels, "NCCL kernel", "left out, the trace does not say what it moved")
	note(len(j.left.foreign), "call", "left out, such as "+firstOf(j.left.foreign))
	s.Notes = append(s.Notes, j.exchangeNotes()...)
	unreadable := 0
	for _, r := range j.ranks {
		unreadable += r.unreadable
	}
	note(unreadable, "event", "not understood")
	if len(j.rows) > 1 && w.took > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("collectives took %.3f ms per rank, of which %.3f ms were waiting for the rank that started last",
			float64(w.took)/1e6/float64(len(j.rows)), float64(w.waited)/1e6/float64(len(j.rows))))
	}
	return s
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
