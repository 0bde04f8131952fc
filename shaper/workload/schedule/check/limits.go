// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// The limits of MSCCL's executor in RCCL (msccl_struct.h), and the most channels of NCCL.
const (
	mostBlocks     = 64
	mostSteps      = 64
	mostPerChannel = 32 // blocks that send, or that receive, on one channel of a GPU
	mostCount      = 72
	mostChannels   = 32
)

// limits are the limits that the schedule exceeds. Larger ones exist for other executors, so these are warnings.
func limits(s *schedule.Schedule) (out []string) {
	steps, count, perChannel := 0, 0, 0
	for _, g := range s.GPUs {
		ends := map[[2]int]int{}
		for _, b := range g.Blocks {
			steps = max(steps, len(b.Steps))
			for _, st := range b.Steps {
				count = max(count, st.Count)
			}
			if b.Send >= 0 {
				ends[[2]int{0, b.Channel}]++
			}
			if b.Recv >= 0 {
				ends[[2]int{1, b.Channel}]++
			}
		}
		for _, n := range ends {
			perChannel = max(perChannel, n)
		}
	}
	for _, l := range []struct {
		what    string
		is, may int
	}{
		{"%d blocks on one GPU: RCCL's executor takes at most %d", s.MostBlocks(), mostBlocks},
		{"%d steps in one block: RCCL's executor takes at most %d", steps, mostSteps},
		{"%d blocks of one direction on one channel: RCCL's executor takes at most %d", perChannel, mostPerChannel},
		{"a step of %d chunks: RCCL's executor takes at most %d", count, mostCount - 1},
		{"%d channels: NCCL has at most %d", s.Channels, mostChannels},
	} {
		if l.is > l.may {
			out = append(out, fmt.Sprintf(l.what, l.is, l.may))
		}
	}
	return append(out, readings(s)...)
}

// name names a step.
func name(gpu, block, step, line int) string {
	text := fmt.Sprintf("GPU %d block %d step %d", gpu, block, step)
	if line > 0 {
		text += fmt.Sprintf(" (line %d)", line)
	}
	return text
}
