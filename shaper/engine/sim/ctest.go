// SPDX-License-Identifier: Apache-2.0

package sim

// #include "sim.h"
import "C"

import "github.com/ddlemu/ddlemu/shaper/engine/link"

// What tests need of C: a test file cannot use cgo.

// corrupt writes a time to the first place of the heap, as nobody may.
func (l *Loop) corrupt(t int64) { l.c.sim.heap.time = C.int64_t(t) }

// ranksOf is the sender and the receiver of a flow of this order.
func ranksOf(order uint64) (sender, receiver int) {
	return int(C.sender_of(C.uint64_t(order))), int(C.receiver_of(C.uint64_t(order)))
}

// next is the time of the first step, [link.Never] if there is none.
func (l *Loop) next() int64 {
	first := int64(link.Never)
	for _, x := range l.queue() {
		if x.class == C.DDLEMU_SIM_STEP {
			first = min(first, int64(x.time))
		}
	}
	return first
}
