// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"math"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// addChannels adds to the tasks what NCCL's profiler says of the channels of their kernels and of their parts over the
// network. It says that in processes that only record.
func (t *Trace) addChannels(all []recorded, tasks places) {
	for _, c := range all {
		if len(c.Records) > 0 {
			continue // the network is ours: messages say when a task ended
		}
		for i := range c.Ops {
			if at := tasks.of(c.Ops[i].PID, c.Ops[i].Task); at >= 0 {
				t.Tasks[at].ProxyEnded = max(t.Tasks[at].ProxyEnded, c.Ops[i].Ended)
			}
		}
		ahead := hostAhead(c.Channels)
		for i := range c.Channels {
			x := &c.Channels[i]
			at := tasks.of(int32(c.PID), x.Task)
			if at < 0 || x.Ended == 0 {
				continue
			}
			begun, ended := x.Begun, x.Ended
			if x.GPUBegun > 0 && x.GPUEnded >= x.GPUBegun {
				begun, ended = int64(x.GPUBegun)+ahead, int64(x.GPUEnded)+ahead
			}
			task := &t.Tasks[at]
			if task.KernelBegun == 0 || begun < task.KernelBegun {
				task.KernelBegun = begun
			}
			task.KernelEnded = max(task.KernelEnded, ended)
		}
	}
}

// hostAhead is by how much the clock of the host is ahead of the GPU's. The host has seen each begin and end a bit
// after it happened: the least of these differences is nearest.
func hostAhead(channels []ledger.Channel) int64 {
	least := int64(math.MaxInt64)
	for i := range channels {
		x := &channels[i]
		if x.GPUBegun > 0 {
			least = min(least, x.Begun-int64(x.GPUBegun))
		}
		if x.GPUEnded > 0 && x.Ended > 0 {
			least = min(least, x.Ended-int64(x.GPUEnded))
		}
	}
	return least
}
