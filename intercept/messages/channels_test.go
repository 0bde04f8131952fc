// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger/ledgertest"
)

// A task's kernel begins with its first channel and ends with its last. The GPU's clock says when, and the host's,
// which sees it a bit later, says what that clock is worth.
func TestChannels(t *testing.T) {
	l := ledgertest.Ledger{Info: of(0)}
	for range 4 {
		l.Tasks = append(l.Tasks, ledger.Task{Func: allReduce, Comm: 7, Ranks: 2})
	}
	l.Ops = []ledger.Op{{Task: 4, PID: int32(l.Info.PID), Begun: 10, Ended: 900}}
	l.Channels = []ledger.Channel{
		{Task: 1, Channel: 0, Begun: 1005, Ended: 1109, GPUBegun: 500, GPUEnded: 600}, // the host is 503 ahead
		{Task: 1, Channel: 1, Begun: 1009, Ended: 1113, GPUBegun: 501, GPUEnded: 610},
		{Task: 2, Channel: 0, Begun: 2000, Ended: 2100}, // NCCL 2.26
		{Task: 3, Channel: 0, Begun: 3000, GPUBegun: 2490},
	}
	tr := load(t, write(t, l))
	for i, want := range [][3]int64{{1003, 1113, 0}, {2000, 2100, 0}, {0, 0, 0}, {0, 0, 900}} {
		if x := tr.Tasks[i]; [3]int64{x.KernelBegun, x.KernelEnded, x.ProxyEnded} != want {
			t.Errorf("task %d: %d to %d, its last part ends at %d, want %d", i, x.KernelBegun, x.KernelEnded,
				x.ProxyEnded, want)
		}
	}
}
