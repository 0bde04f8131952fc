// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// source says where the workload is from, and what the traces do not say.
func (j *job) source(steps int, forced bool, w waiting) workload.Source {
	s := workload.Source{Kind: "kineto", File: input.Title(j.ranks[0].file, len(j.ranks)),
		Hardware: j.ranks[0].hardware}
	if v := j.ranks[0].ncclVersion; v != "" {
		s.Hardware += ", NCCL " + v
	}
	missing := input.Sentences(&s.Missing)
	note := input.Counts(&s.Notes)
	one, calls := len(j.rows) == 1 && j.world > 1, len(j.comms.Comms) > 0
	exact := slices.ContainsFunc(j.ranks, func(r *rank) bool { return len(r.syncs) > 0 })
	missing(one, "what other ranks do: all %d are taken to do what rank %d did, at the same times", j.world,
		j.ranks[0].number)
	missing(one && calls, "how long calls waited for slower ranks: their durations were not used")
	missing(calls, "whether the GPU or the host was busy between calls: that time is a computation")
	missing(j.left.roots > 0, "the roots of broadcasts and reductions: rank 0 of the group is taken")
	missing(forced && calls, "what waits for a call: the computation of the next step is taken to wait")
	missing(!forced && !exact && calls,
		"which calls a wait is for: all called before that had ended when the next kernel started")
	missing(len(j.comms.Comms) == 0,
		"collectives: there are none of NCCL between ranks, and the computation of each step is its whole time")
	missing(j.left.everyone > 0, "the process group of %s: all %d ranks are taken",
		units.Count(j.left.everyone, "call"), j.world)
	for _, n := range slices.Sorted(maps.Keys(j.left.blocks)) {
		missing(true,
			"which ranks are in the process groups of %d, a number that follows from what goes in and comes out: "+
				"ranks in a row "+
				"are taken (%s)", n, units.Count(j.left.blocks[n], "call"))
	}
	missing(steps == 0, "steps: the whole trace is one")

	ahead := 0
	for _, r := range j.ranks {
		if r.ahead {
			ahead++
		}
	}
	note(ahead, "rank",
		"the host was ahead of the GPU: a step is from its first kernel to the first kernel of the next step")
	note(j.left.bounded, "collective",
		"ready between ns and max_ns of the computation before, since another one was still running")
	note(j.left.hostOnly, "call", "no kernel was recorded; the start of the call was taken")
	note(j.left.unequal, "all-to-all", "the parts differ or are not recorded; the mean was taken")
	note(j.left.cutParts, "all-to-all",
		"the list of parts is cut; the parts that are shown are equal, and so are taken all")
	note(j.left.annotated, "call",
		"the trace has no In msg nelems; sizes are the sizes of the tensors of nccl: annotations and c10d:: operators")
	note(j.left.byStream, "call",
		"the process group is not recorded; it has the size of other calls on the same stream")
	note(j.left.singles, "call", "left out, in a group of one rank")
	note(j.left.outside, "call", "left out, outside the steps")
	note(j.left.emptyCalls, "call", "left out, with no element to move")
	note(j.left.noPeers, "message", "left out, the peer is not recorded")
	note(j.left.unsizedCalls, "call", "left out, the trace does not say what it moved")
	note(j.left.unknownKernels, "NCCL kernel", "left out, the trace does not say what it moved")
	if n := len(j.left.foreign); n > 0 {
		note(n, "call", "left out, such as "+j.left.foreign[0])
	}
	s.Notes = append(s.Notes, j.exchangeNotes()...)
	unreadable, others, uncalled, cutRanks := 0, 0, 0, 0
	var other, operator string
	for _, r := range j.ranks {
		unreadable += r.unreadable
		cutRanks += len(r.cutRanks)
		if others += r.others; r.others > 0 {
			other = r.other
		}
		if n, name := r.uncalled(); n > 0 {
			uncalled, operator = uncalled+n, name
		}
	}
	note(cutRanks, "process group",
		"the list of its ranks is cut; ranks are taken at the distance of those that are shown")
	note(others, "call", "left out, of another backend than NCCL, such as "+other)
	note(uncalled, "operator", "no call of NCCL was recorded in it, such as "+operator)
	note(unreadable, "event", "not understood")
	if len(j.rows) > 1 && w.took > 0 {
		s.Notes = append(s.Notes,
			fmt.Sprintf(
				"collectives took %.3f ms per rank, of which %.3f ms were waiting for the rank that started last",
				float64(w.took)/1e6/float64(len(j.rows)), float64(w.waited)/1e6/float64(len(j.rows))))
	}
	return s
}
