// SPDX-License-Identifier: Apache-2.0

package link

// #include "link.h"
import "C"

// Policy says what a hop does with a segment that finds more than the queue limit ahead of
// it. The disciplines themselves are in queue.h and queue.c.
type Policy uint32

// Queue policies.
const (
	Lossless Policy = C.DDLEMU_LOSSLESS  // delay the hop before, as PFC and InfiniBand credits do
	TailDrop Policy = C.DDLEMU_TAIL_DROP // drop the segment
	Fair     Policy = C.DDLEMU_FAIR      // a queue for each flow, served in turn: delay that flow alone
)

// QueueParams is the queue of a hop, prepared for the engine.
type QueueParams struct {
	LimitNs int64 // what may wait, as time at the hop's rate; 0 = no limit
	ECNNs   int64 // a packet that waits longer is marked; 0 = never
	Policy  Policy
	_       uint32
}
