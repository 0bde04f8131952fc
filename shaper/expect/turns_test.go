// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// The blocks of a kernel send at the same time, so that the host takes the slices of two
// channels in turn, not one channel's and then the other's.
//
// W is the host's time for a message at either end, D that of the way between them. The
// first loop has 4 messages per channel, and keeps the sending host busy for 8 W. Its last
// but one, the second slice of the channel that goes first, is at its receiver at 8 W + D;
// before that the next loop cannot begin, and so the host idles for D. One channel after
// the other, that slice would be there one W earlier, and the host idle never. The next
// loops' first slices then come two by two: they find it busy. All in all W and D to
// fill the pipeline, and D once more.
func TestChannelsTakeTurns(t *testing.T) {
	const work = 100e3
	s := star{bandwidth: 400e9, latency: 5 * time.Microsecond, tr: rdma()}
	s.tr.Host.PerMessage = work
	way := s.payload(1<<20) + 5e3
	for loops := 1; loops <= 4; loops++ {
		d := decide(nccl.AllReduce, Ring, Simple, 2, 2, uint64(loops)*(8<<20))
		d.Iterations = 1
		want := float64(8*loops+1)*work + way
		if loops > 1 {
			want += way
		}
		// Besides, the first messages wait for the receiver's word of its first irecv.
		if e := simulate(t, d, s); math.Abs(e.First-want-5e3) > way/4 {
			t.Errorf("%d loops: %.1f us, want %.1f", loops, e.First/1e3, (want+5e3)/1e3)
		}
	}
}
