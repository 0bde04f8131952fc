// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// senderShare is the share of a send port's rate to which HTBs limit the nodes. So packets wait in the node, where TCP
// notices (TCP small queues, socket buffers), and hardly any wait in this process.
const senderShare = 0.998

// senderHops reduces the rates of hops to those for the HTBs.
func senderHops(hops []state.HopStatus) []state.HopStatus {
	for i := range hops {
		hops[i].Spec.Bandwidth = uint64(float64(hops[i].Spec.Bandwidth) * senderShare)
	}
	return hops
}
