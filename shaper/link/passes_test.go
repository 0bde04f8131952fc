// SPDX-License-Identifier: Apache-2.0

package link

import "testing"

// What was sent again is in the passes of the first hop, packet by packet, and its time too: with every
// transport, for messages of one packet and of many.
func TestPassesHaveEveryLoss(t *testing.T) {
	selective := rdma()
	selective.SelectiveRepeat = true
	for name, tr := range map[string]*Transport{"go-back-N": rdma(), "selective repeat": selective, "tcp": tcp()} {
		for _, size := range []uint64{100, 300_000} {
			port, wire := gigabit(1000)
			wire.Loss = Loss{P: 0.02}
			f := newFabric(t, 2, port, wire, 1, tr)
			f.net.KeepPasses()
			fl := f.flow(0, 1)
			var passes []Pass
			for now, n := int64(0), 0; n < 500; n++ {
				fl.Recv(now)
				at, _ := fl.Post(size, now)
				for fl.Message(at).Due == Never || fl.Message(at).Sent == Never {
					now = max(now+1, fl.Advance(now))
					passes = f.net.Passes(passes)
				}
				now = max(now, fl.Message(at).Due, fl.Message(at).Sent)
				fl.Advance(now)
				fl.Take()
			}
			again, busy, bytes := uint64(0), int64(0), uint64(0)
			for _, p := range passes {
				if p.Hop == 0 {
					again += uint64(p.Retransmitted)
					busy += p.Dur
					bytes += uint64(p.Bytes)
				}
			}
			drops := f.links[[2]int{0, 1}].Counters.Drops
			if again != drops || drops == 0 {
				t.Errorf("%s, %d bytes: %d packets sent again, %d lost", name, size, again, drops)
			}
			if c := f.tx[0].Counters; busy != c.BusyNs || bytes != 500*size {
				t.Errorf("%s, %d bytes: busy for %d ns with %d bytes, the port counts %d ns", name, size, busy, bytes, c.BusyNs)
			}
		}
	}
}
