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
	group   []workload.Op // sends and receives of one group of calls
	of      call          // the first of them
	streams map[string]string
	timed   bool
	last    time.Duration
	lastID  int
	calc    int
}

// call adds a call. Sends and receives with the same number on the same communicator and stream are one group.
func (b *builder) call(c *call, comm string) {
	o := *c.op
	o.Comm = comm
	p2p := o.Kind != workload.Coll
	if len(b.group) > 0 && (!p2p || c.opCount != b.of.opCount || c.member != b.of.member || c.stream != b.of.stream) {
		b.endGroup()
	}
	if p2p {
		if len(b.group) == 0 {
			b.of = *c
		}
		b.group = append(b.group, o)
		return
	}
	b.add(c, o)
}

// endGroup adds the group of sends and receives.
func (b *builder) endGroup() {
	switch len(b.group) {
	case 0:
		return
	case 1:
		b.add(&b.of, b.group[0])
	default:
		b.add(&b.of, workload.Op{Kind: workload.Group, Ops: b.group})
	}
	b.group = nil
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
