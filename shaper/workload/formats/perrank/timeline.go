// SPDX-License-Identifier: Apache-2.0

package perrank

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// The streams of a rank besides NCCL's streams: computation, and the time in which a call may have become ready.
const (
	ComputeStream = "compute"
	ReadyStream   = "ready"
)

// Timeline writes the operations of a rank of which a profiler has recorded when its calls were ready: the time
// between them is a computation. Times are in ns.
type Timeline struct {
	Ops []workload.Op
	// Now is the time until which all is written. Set it before the first call.
	Now int64
	// Pending are the ids of the calls that the next computation waits for.
	Pending []int

	lastID  int
	calc    int // id of the last computation, 0 if there is none
	streams map[string]string
}

func (t *Timeline) add(o workload.Op) int {
	t.lastID++
	o.ID = t.lastID
	t.Ops = append(t.Ops, o)
	return t.lastID
}

// StartLater adds the time by which the rank starts later than the first one.
func (t *Timeline) StartLater(ns int64) {
	t.calc = t.add(workload.Op{Kind: workload.Calc, Name: "starts later", Stream: ComputeStream, Nanos: ns})
}

// Compute adds the computation from now until a time, if that is later.
func (t *Timeline) Compute(until int64) {
	if until <= t.Now {
		return
	}
	t.calc = t.add(workload.Op{Kind: workload.Calc, Stream: ComputeStream, Nanos: until - t.Now, After: t.Pending})
	t.Pending, t.Now = nil, until
}

// Call adds a call that is ready between now and uncertain ns later, and returns its id. stream is any text that names
// the stream of the kernel.
func (t *Timeline) Call(o workload.Op, stream string, uncertain int64) int {
	after := slices.Clone(t.Pending)
	if t.calc != 0 {
		after = append([]int{t.calc}, after...)
	}
	if uncertain > 0 {
		after = []int{t.add(workload.Op{Kind: workload.Calc, Stream: ReadyStream, MaxNanos: uncertain, After: after})}
	}
	name, ok := t.streams[stream]
	if !ok {
		if t.streams == nil {
			t.streams = map[string]string{}
		}
		name = fmt.Sprintf("nccl%d", len(t.streams))
		t.streams[stream] = name
	}
	o.Stream, o.After = name, after
	return t.add(o)
}

// Step adds the end of a step.
func (t *Timeline) Step() { t.Ops = append(t.Ops, workload.Op{Kind: workload.Step}) }
