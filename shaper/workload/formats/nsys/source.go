// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// source says where the workload is from, and what the recordings do not say.
func (j *job) source() workload.Source {
	first := j.members[0].recording
	s := workload.Source{Kind: "nsys", Hardware: first.hardware}
	files := map[*recording]bool{}
	kernels, unknown, cut := 0, 0, 0
	noComm := false
	for _, m := range j.members {
		files[m.recording] = true
		unknown, cut = unknown+m.unknown, cut+m.cut
		for _, u := range m.all {
			if u.hasKernel() {
				kernels++
			}
			noComm = noComm || !u.calls[0].payload.has[fieldComm]
		}
	}
	s.File = input.Title(first.file, len(files))
	missing := input.Sentences(&s.Missing)
	missing(true, "the type of the elements")
	missing(len(j.members) == 1 && j.world > 1,
		"what other ranks do: all %d are taken to do what rank %d did, at the same times", j.world, j.members[0].number)
	missing(j.guessed > 0 && j.world > 1,
		"the rank of %s (ncclCommInitRank was not recorded): they are in the order of the recordings",
		units.Count(j.guessed, "process"))
	missing(noComm && j.world > 1, "on which communicator a call is (NCCL says it since 2.25): all ranks are taken")
	missing(len(files) > 1, "by how much a rank of one file begins later than one of another")
	missing(kernels > 0, "whether the GPU or the host was busy between calls: that time is a computation")
	missing(kernels == 0,
		"when calls ran on the GPU: the time between two calls of the host is a computation, and nothing waits for a "+
			"call")
	missing(j.left.idle, "which kernels wait for a call: those that began after a gap in which the call ended")
	missing(true, "steps: the whole recording from the first call on is one")

	note := input.Counts(&s.Notes)
	broken, foreign := 0, 0
	for r := range files {
		broken, foreign = broken+r.broken, foreign+r.foreign
	}
	note(broken, "payload", "not understood")
	note(foreign, "event", "not understood")
	note(j.left.unsized, "call", "left out, its size is not in the export")
	note(unknown, "kernel of NCCL", "left out, no call has launched it, as in the replay of a CUDA graph")
	note(cut, "call", "left out, the recording ends before it ran")
	note(j.left.oneSided, "call", "left out, one-sided (ncclPutSignal, ncclSignal, ncclWaitSignal)")
	note(j.left.singles, "call", "left out, on a communicator of one rank")
	note(j.left.noPeer, "message", "left out, the peer is not recorded")
	note(j.left.operators, "reduction", "the operator is not recorded, or is the program's own; sum was taken")
	note(j.left.bounded, "call",
		"ready between ns and max_ns of the computation before, since another one was still running")
	if kernels > 0 {
		note(j.left.hostOnly, "call", "no kernel was recorded; the time of the host's call was taken")
	}
	return s
}
