// SPDX-License-Identifier: Apache-2.0

package play

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	ncclplan "github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/goal"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// A job with a collective is written as the messages of NCCL, which the reader of GOAL understands.
func TestWriteGOAL(t *testing.T) {
	d := ncclplan.Decision{
		Version: 22203, Coll: nccl.AllReduce, Algo: ncclplan.Ring, Proto: ncclplan.Simple, Ranks: 4, Channels: 2,
		Count: 1 << 20, ElemSize: 4, Rings: [][]int{{0, 1, 2, 3}, {0, 1, 2, 3}},
	}
	job := &ncclplan.Job{Comms: []ncclplan.Comm{{Ranks: []int{0, 1, 2, 3}, Calls: []ncclplan.Group{ncclplan.Alone(d)}}}}
	for range 4 {
		job.Ranks = append(job.Ranks, []ncclplan.Item{
			{Nanos: 5000, Stream: 7},
			{Kind: ncclplan.Collective, Stream: 1, After: []int{0}},
			{Nanos: 6000, Stream: 2}, {Nanos: 7000, Stream: 7, After: []int{1}},
		})
	}
	var out bytes.Buffer
	notes, err := writeGOAL(&out, job, func(r int) int { return r / 2 })
	if err != nil {
		t.Fatal(err)
	}
	// 6 steps of 2 slices on 2 channels between 4 ranks; half of them within a node.
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "GOAL: 48 messages of 12.6 MB between nodes") ||
		!strings.HasPrefix(notes[1], "GOAL: 48 messages of 12.6 MB between ranks of one node") {
		t.Errorf("notes: %q", notes)
	}
	for _, line := range []string{"l1: calc 5000 cpu 1", ": calc 6000 cpu 2", ": calc 7000 cpu 1"} {
		if n := strings.Count(out.String(), line+"\n"); n != 4 {
			t.Errorf("%q is there %d times, want 4", line, n)
		}
	}
	w, err := goal.Read(input.Bytes("x.goal", out.Bytes()), input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Head.Source.Notes); n > 0 {
		t.Errorf("notes of the reader: %q", w.Head.Source.Notes)
	}
}
