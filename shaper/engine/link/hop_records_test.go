// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"
	"time"
)

// What was sent again is in the records of the first hop, packet by packet, and its time too, but not in those behind
// the link that loses it: with every transport, for messages of one packet and of many.
func TestHopRecordsHaveEveryLoss(t *testing.T) {
	selective := rdma()
	selective.SelectiveRepeat = true
	for name, tr := range map[string]*Transport{"go-back-N": rdma(), "selective repeat": selective, "tcp": tcp()} {
		for _, size := range []uint64{100, 300_000} {
			port, wire := gigabit(1000)
			wire.Loss = Loss{P: 0.02}
			f := newFabric(t, 2, port, wire, 1, tr)
			f.net.KeepHopRecords()
			fl := f.flow(0, 1)
			var records []HopRecord
			for now, n := int64(0), 0; n < 500; n++ {
				fl.Recv(now)
				at, _ := fl.Post(size, now)
				for fl.Message(at).Due == Never || fl.Message(at).Sent == Never {
					now = max(now+1, fl.Advance(now))
					records = f.net.HopRecords(records)
				}
				now = max(now, fl.Message(at).Due, fl.Message(at).Sent)
				fl.Advance(now)
				fl.Take()
			}
			again, busy, bytes, behind := uint64(0), int64(0), uint64(0), uint32(0)
			for _, p := range records {
				if p.Hop == 2 {
					behind += p.Retransmitted
				}
				if p.Hop == 0 {
					again += uint64(p.Retransmitted)
					busy += p.Dur
					bytes += uint64(p.Bytes)
				}
			}
			drops := f.links[[2]int{0, 1}].Counters.Drops
			if again != drops || drops == 0 || behind != 0 {
				t.Errorf("%s, %d bytes: %d packets sent again, %d of them behind the link; %d lost", name, size, again,
					behind, drops)
			}
			if c := f.tx[0].Counters; busy != c.BusyNs || bytes != 500*size {
				t.Errorf("%s, %d bytes: busy for %d ns with %d bytes, the port counts %d ns", name, size, busy, bytes,
					c.BusyNs)
			}
		}
	}
}

// The marks of each hop are in its records, and behind a hop that marks a segment its records say that it carries a mark.
// A congestion window is reduced once for all marks of a window, after the sender knows of the first one.
func TestHopRecordsHaveEveryMark(t *testing.T) {
	reno, cubic := tcp(), tcp()
	reno.Congestion, reno.Second = Reno, 1e9
	cubic.Congestion, cubic.Second = Cubic, 1e9
	for name, tr := range map[string]*Transport{"rdma": rdma(), "tcp": tcp(), "reno": reno, "cubic": cubic} {
		port, wire := gigabit(time.Millisecond)
		port.ECN = 32 << 10
		f := newFabric(t, 3, port, wire, 1, tr)
		f.net.KeepHopRecords()
		flows := []*Flow{f.flow(1, 0), f.flow(2, 0)}
		for _, fl := range flows {
			fl.Recv(0)
			fl.Post(40_000_000, 0)
		}
		var records []HopRecord
		for now := int64(0); now != Never; {
			next := int64(Never)
			for _, fl := range flows {
				next = min(next, fl.Advance(now))
				records = f.net.HopRecords(records)
			}
			now = next
		}
		marks, again := [3]uint64{}, uint64(0)
		for flow := range flows {
			m, a := checkMarks(t, name, hopRecordsOf(records, flow), tr.Congestion != NoCongestion)
			for hop := range marks {
				marks[hop] += m[hop]
			}
			again += a
		}
		if c := f.rx[0].Counters; marks != [3]uint64{2: c.ECNMarks} || c.ECNMarks == 0 || again != 0 {
			t.Errorf("%s: %v marks, the port counts %d; %d packets again", name, marks, c.ECNMarks, again)
		}
	}
}

// hopRecordsOf are the records of one flow.
func hopRecordsOf(all []HopRecord, flow int) (out []HopRecord) {
	for _, p := range all {
		if p.Flow == uint32(flow) {
			out = append(out, p)
		}
	}
	return out
}

// checkMarks checks the flags of a flow's records over three hops with latencies of 1 ms there and back. It returns how
// many packets each hop has marked, and how many were sent again.
func checkMarks(t *testing.T, name string, records []HopRecord, window bool) (marks [3]uint64, again uint64) {
	t.Helper()
	carries := map[uint32]bool{}
	known := int64(Never) // when the sender knows of the first mark behind the last reduction
	reduced, reductions := uint32(0), 0
	for _, p := range records {
		marks[p.Hop] += uint64(p.Marked)
		again += uint64(p.Retransmitted)
		carries[p.Segment] = carries[p.Segment] || p.Marked > 0
		if (p.Flags&CarriesMark != 0) != carries[p.Segment] || p.Flags&Dropped != 0 {
			t.Fatalf("%s: %+v, marked: %t", name, p, carries[p.Segment])
		}
		if p.Hop == 2 && p.Marked > 0 && p.Segment >= reduced {
			known = min(known, p.Finish+int64(time.Millisecond))
		}
		if p.Flags&WindowReduced != 0 {
			if p.Start < known {
				t.Fatalf("%s: reduced at %d, the first mark is known at %d", name, p.Start, known)
			}
			known, reduced = Never, p.Segment
			reductions++
		} else if window && p.Hop == 0 && p.Start-int64(time.Millisecond) > known {
			t.Fatalf("%s: not reduced at %d, a mark is known since %d", name, p.Start, known)
		}
	}
	if (reductions > 1) != window || !window && reductions != 0 {
		t.Errorf("%s: %d reductions", name, reductions)
	}
	return marks, again
}
