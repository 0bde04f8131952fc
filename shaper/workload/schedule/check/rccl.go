// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// readings are the warnings of steps that RCCL's reader (msccl_parser.cc) refuses, or understands otherwise: the first
// of each kind.
func readings(s *schedule.Schedule) (out []string) {
	for _, find := range []func(g *schedule.GPU, b *schedule.Block, step int) string{refusedWait, uncountedNop,
		unequalSums, outsideOfFile} {
		if text := firstStep(s, find); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// firstStep is what find says of the first step of which it says something.
func firstStep(s *schedule.Schedule, find func(g *schedule.GPU, b *schedule.Block, step int) string) string {
	for gpu := range s.GPUs {
		g := &s.GPUs[gpu]
		for id := range g.Blocks {
			b := &g.Blocks[id]
			for k := range b.Steps {
				if text := find(g, b, k); text != "" {
					return name(gpu, id, k, b.Steps[k].Line) + " " + text
				}
			}
		}
	}
	return ""
}

// refusedWait: the step behind nops that wait must itself wait.
func refusedWait(_ *schedule.GPU, b *schedule.Block, step int) string {
	if b.Steps[step].Kind == schedule.NopStep || b.Steps[step].DepBlock >= 0 {
		return ""
	}
	for k := step - 1; k >= 0 && b.Steps[k].Kind == schedule.NopStep; k-- {
		if b.Steps[k].DepBlock >= 0 {
			return "follows a nop that waits and does not wait itself: RCCL refuses such a file"
		}
	}
	return ""
}

// uncountedNop: RCCL gives nops the waits that they have, and no number to those that have none.
func uncountedNop(_ *schedule.GPU, b *schedule.Block, step int) string {
	if st := &b.Steps[step]; st.Kind != schedule.NopStep || st.DepBlock >= 0 {
		return ""
	}
	for _, st := range b.Steps[step+1:] {
		if st.HasDep {
			return "is a nop that waits for nothing: RCCL does not count it, so steps that wait for a later step of " +
				"this block wait too long"
		}
	}
	return ""
}

// unequalSums: RCCL makes one operation of consecutive sums into one chunk, with the count of the last.
func unequalSums(_ *schedule.GPU, b *schedule.Block, step int) string {
	if step == 0 {
		return ""
	}
	st, before := &b.Steps[step], &b.Steps[step-1]
	if st.Kind != schedule.ReduceStep || before.Kind != schedule.ReduceStep || st.Dst != before.Dst ||
		st.Src.Buffer != before.Src.Buffer {
		return ""
	}
	if st.DepBlock >= 0 || before.HasDep || st.Count == before.Count {
		return ""
	}
	return fmt.Sprintf(
		"adds %s to %v, and the step before %d: RCCL makes one operation of both and takes the count of the last",
		units.Count(st.Count, "chunk"), st.Dst, before.Count)
}

// outsideOfFile: RCCL compares offsets with i_chunks, o_chunks and s_chunks, also in place.
func outsideOfFile(g *schedule.GPU, b *schedule.Block, step int) string {
	st := &b.Steps[step]
	source, target := st.Kind.ReadsSource(), st.Kind.WritesTarget()
	if !st.Moves() || st.Kind == schedule.RecvReduceCopy { // of which it compares none
		return ""
	}
	for _, x := range []struct {
		used bool
		ref  schedule.Ref
	}{{source, st.Src}, {target, st.Dst}} {
		if x.used && x.ref.Offset >= g.Chunks[x.ref.Buffer] {
			return fmt.Sprintf("uses %v, and the file says that the GPU has %s there: RCCL refuses such a file", x.ref,
				units.Count(g.Chunks[x.ref.Buffer], "chunk"))
		}
	}
	return ""
}
