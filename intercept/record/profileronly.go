// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"math"

	"github.com/ddlemu/ddlemu/configs/units"
)

// A job that runs on its own network, with the plugin as NCCL's profiler only, has ledgers without a fabric and without
// messages. NCCL's profiler tells when kernels began and ended, but not what they waited for.

// backToBack is the longest time in ns between two kernels of a stream that are taken to follow each other. It is
// assumed: a GPU begins a kernel that is queued some us after the one before. If it is too long, more calls have an
// interval (max_ns) than need one, which is not wrong.
const backToBack = 20000

// eventless is the first version of NCCL, as ncclGetVersion says it, that does not tell profilers of broadcasts.
const eventless = 22900

// isAlone says whether the job was only recorded.
func (r *recorder) isAlone() bool {
	return len(r.trace.Ranks) > 0 && r.trace.Ranks[0].FabricID == 0 && len(r.trace.Messages) == 0
}

// useKernels makes the calls of a rank begin when their kernels did. A stream of each communicator is supposed, as
// PyTorch has: if a kernel followed the one before, the call may have been ready at any time since it was planned.
func (r *recorder) useKernels(calls []launched) {
	if !r.isAlone() {
		return
	}
	ended := map[uint64]int64{} // by communicator
	for i := range calls {
		l := &calls[i]
		begun := int64(math.MaxInt64)
		for _, task := range l.tasks {
			if x := &r.trace.Tasks[task]; x.KernelEnded > 0 {
				begun = min(begun, x.KernelBegun)
			}
		}
		if begun == math.MaxInt64 {
			continue
		}
		comm := r.trace.Tasks[l.tasks[0]].Comm
		planned := min(l.at, begun)
		l.at = begun
		if last, ok := ended[comm]; ok && planned < begun && begun-last < backToBack {
			l.least = planned
			r.bounded++
		}
		ended[comm] = l.end
	}
}

// missingAlone are the things that are not known of a job that was only recorded.
func (r *recorder) missingAlone() (out []string) {
	untimed, hosts := 0, map[uint32]bool{}
	for i := range r.trace.Tasks {
		if r.trace.Tasks[i].KernelEnded == 0 {
			untimed++
		}
	}
	for _, info := range r.trace.Ranks {
		hosts[info.Node] = true
	}
	if untimed > 0 {
		out = append(out,
			fmt.Sprintf(
				"when the kernels of %s began and ended (NCCL says it from 2.26 on): they begin when they were "+
					"planned, and end with their last part over the network", units.Count(untimed, "call")))
	}
	if r.bounded > 0 {
		out = append(out,
			fmt.Sprintf(
				"when %s were ready: their kernels followed the ones before, so it was between when they were "+
					"planned, which is taken, and then: max_ns", units.Count(r.bounded, "call")))
	}
	if len(hosts) > 1 {
		out = append(out,
			fmt.Sprintf(
				"when the ranks of %d hosts began, compared with each other: their first calls are taken to be at once",
				len(hosts)))
	}
	if r.trace.Ranks[0].NCCL >= eventless {
		out = append(out, "broadcasts: this NCCL tells no profiler of them, so there are none")
	}
	return append(out, "what kernels of the program computed: a stream computes between calls")
}

// startOf is when a rank began: with the first call of the job, or of its host, whose clock is its own.
func (r *recorder) startOf(calls [][]launched) []int64 {
	out := make([]int64, r.ranks)
	first := map[uint32]int64{}
	node := make([]uint32, r.ranks)
	for _, info := range r.trace.Ranks {
		if r.isAlone() {
			node[info.Rank] = info.Node
		}
	}
	for rank, of := range calls {
		if len(of) == 0 {
			continue
		}
		if at, ok := first[node[rank]]; !ok || of[0].at < at {
			first[node[rank]] = of[0].at
		}
	}
	for rank := range out {
		out[rank] = first[node[rank]]
	}
	return out
}
