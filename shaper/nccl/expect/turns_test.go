// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// The blocks of a kernel send concurrently, so the host gets the slices of two channels in turn, not first all of one
// channel and then all of the other.
//
// W is the host's time for a message at either end, D that of the path between the hosts. The first loop has 4 messages
// per channel and keeps the sending host busy for 8 W. The last message but one, the second slice of the channel that
// goes first, is at its receiver at 8 W + D. The next loop cannot begin earlier, so the host is idle for D. If the
// channels were sent one after the other, that slice would arrive one W earlier, and the host would never be idle. The
// first slices of the next loops arrive in pairs and find the host busy. In total, W and D fill the pipeline, and D is
// added once.
func TestChannelsTakeTurns(t *testing.T) {
	const work = 100e3
	s := star{bandwidth: 400e9, latency: 5 * time.Microsecond, tr: rdma()}
	s.tr.Host.PerMessage = work
	travel := s.payload(1<<20) + 5e3
	for loops := 1; loops <= 4; loops++ {
		d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 2, uint64(loops)*(8<<20))
		d.Iterations = 1
		want := float64(8*loops+1)*work + travel
		if loops > 1 {
			want += travel
		}
		// In addition, the first messages wait for the receiver's first clear-to-send.
		if e := simulate(t, d, s); math.Abs(e.First-want-5e3) > travel/4 {
			t.Errorf("%d loops: %.1f us, want %.1f", loops, e.First/1e3, (want+5e3)/1e3)
		}
	}
}
