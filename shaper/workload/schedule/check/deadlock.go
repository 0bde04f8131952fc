// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/interpret"
)

// cut is the cut of a call with chunks of one byte, in operations of at most group chunks, on connections with so many
// slots.
func cut(s *schedule.Schedule, group, slots int) *schedule.Cut {
	c := &schedule.Cut{Proto: s.Proto, Elem: 1, Chunk: 1, Piece: 1, Loops: 1, Group: group, Slots: slots}
	c.Slices, _ = s.Proto.Buffer()
	return c
}

// reportDeadlock says which block waits for which, if any waits.
func (g *graph) reportDeadlock(m *interpret.Machine, slots int, r *Report) {
	if m.Done() {
		return
	}
	at := 0
	for why := interpret.Ended; why == interpret.Ended; at++ {
		why, _, _ = m.Waits(at)
	}
	var chain []int
	for i := at - 1; i >= 0; _, i, _ = m.Waits(i) {
		if k := slices.Index(chain, i); k >= 0 {
			chain = chain[k:]
			break
		}
		chain = append(chain, i)
	}
	var text []string
	for _, i := range chain {
		text = append(text, g.waitText(m, slots, i))
	}
	_, _, a := m.Waits(chain[0])
	r.add(Deadlock, a.Step.Line, "%s", strings.Join(text, "; "))
}

// waitText says why a block does not go on.
func (g *graph) waitText(m *interpret.Machine, slots, i int) string {
	b := &g.Blocks[i]
	why, _, a := m.Waits(i)
	switch why {
	case interpret.Ended:
		return fmt.Sprintf("GPU %d block %d has ended", b.GPU, b.ID)
	case interpret.Flag:
		return fmt.Sprintf("%s waits for step %d of block %d", g.name(i, a.Number), g.waitsFor[i][a.Number],
			a.Step.DepBlock)
	case interpret.Message:
		return fmt.Sprintf("%s waits for a message of GPU %d on channel %d", g.name(i, a.Number), b.Recv, b.Channel)
	}
	return fmt.Sprintf("%s waits until GPU %d takes one of the %d messages in the buffer of channel %d",
		g.name(i, a.Number), b.Send, slots, b.Channel)
}

// checkSlots looks for deadlocks because connections hold few messages. Over a network a connection has the sender's
// and the receiver's buffer, within a node often only one. An operation moves whole steps at small sizes, single chunks
// at large ones. These are warnings: another executor may have larger buffers. What cannot run even at small sizes with
// both buffers sets NeedsBuffers.
func (g *graph) checkSlots(r *Report) {
	for k, try := range []struct {
		buffers, group int
		when           string
	}{
		{2, math.MaxInt, "with NCCL's buffers, at any size: "},
		{2, g.leastGroup(), "if the chunks of a step are too large for one operation, " +
			"the buffers of a connection are too small: "},
		{1, math.MaxInt, "where a connection has one buffer, as over NVLink, it is too small: "},
		{1, g.leastGroup(), "where a connection has one buffer, as over NVLink, " +
			"and the chunks of a step are too large for one operation, it is too small: "},
	} {
		one := &Report{}
		_, slots := g.s.Proto.Buffer()
		slots *= try.buffers
		m := interpret.New(g.Graph, cut(g.s, try.group, slots), nil, func(int, *schedule.Action) {})
		m.Start()
		m.Run()
		g.reportDeadlock(m, slots, one)
		if one.Good() {
			continue
		}
		r.NeedsBuffers = k == 0
		r.Warnings = append(r.Warnings, "deadlock "+try.when+one.Findings[0].Text)
		return
	}
}

// leastGroup is the number of chunks of an operation at the largest size that the schedule is for.
func (g *graph) leastGroup() int {
	largest := uint64(g.s.MaxBytes)
	if largest == 0 || largest > schedule.MaxBytes {
		return 1
	}
	c, err := g.s.Cut(largest, 4)
	if err != nil {
		return 1
	}
	return c.Group
}
