// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/ddlemu/ddlemu/shaper/state"
)

// senderShare is the part of their ports' rates that senders are kept to, in their
// nodes. What does not fit waits there, where those who send notice (TCP small queues,
// socket buffers), and in the delay line a port hardly has a queue.
const senderShare = 0.998

// slowed are hops with the rates that senders are kept to.
func slowed(hops []state.HopStatus) []state.HopStatus {
	for i := range hops {
		hops[i].Spec.Bandwidth = uint64(float64(hops[i].Spec.Bandwidth) * senderShare)
	}
	return hops
}
