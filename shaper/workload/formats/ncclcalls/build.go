// SPDX-License-Identifier: Apache-2.0

package ncclcalls

import (
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// builder makes the operations of a rank.
type builder struct {
	ops     []workload.Op
	streams map[string]string
	timed   bool
	last    time.Duration
	lastID  int
	calc    int
}

// group tells groups of sends and receives apart: those of one have one number on one communicator and stream.
type group struct {
	opCount uint64
	member  *member
	stream  string
}

// add adds an operation after the computation since the last call.
func (b *builder) add(c *call, o workload.Op) {
	if b.timed && c.at > b.last {
		b.lastID++
		b.ops = append(b.ops, workload.Op{ID: b.lastID, Kind: workload.Calc, Stream: "compute",
			Nanos: (c.at - b.last).Nanoseconds()})
		b.last, b.calc = c.at, b.lastID
	}
	name, ok := b.streams[c.stream]
	if !ok {
		name = fmt.Sprintf("nccl%d", len(b.streams))
		b.streams[c.stream] = name
	}
	o.Stream = name
	if b.calc > 0 {
		o.After = []int{b.calc}
	}
	b.ops = append(b.ops, o)
}
