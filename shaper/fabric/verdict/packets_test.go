// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// onKernel is a job on the kernel datapath that sent 20 messages of 1 MiB at 1 Gb/s, 8.8 ms each, in 1000 packets. late
// gives the lateness of packet i.
func onKernel(late func(i int) int64) Input {
	in := run(20, func(int) int64 { return 0 })
	c := &in.Job.LinkStats[0]
	c.Size[2] = state.Class{Messages: 20, Bytes: 20 << 20} // the plugin counts no more
	c.ModelBusy, c.WallBusy = 0, 0
	p := &Packets{Shaper: "wire", Seen: true, Traffic: state.JobStatus{LinkStats: make([]state.LinkStats, 1),
		Pauses: make([]state.Pauses, 1)}}
	stats := &p.Traffic.LinkStats[0]
	stats.FirstPosted = 1
	for i := range 1000 {
		stats.CountDelivery(12_000, int64(i)*100_000, int64(i+1)*100_000, int64(i+1)*100_000+late(i), 1)
	}
	in.Packets = p
	return in
}

// The limit for a message's last packet depends on the time of the message.
func TestJudgePackets(t *testing.T) {
	const us = 1000
	for _, tc := range []struct {
		name   string
		in     Input
		change func(*Input)
		reason string
		host   bool
	}{
		{name: "in time", in: onKernel(func(int) int64 { return 0 })},
		// A packet takes 100 us: such packets are too late, but the messages are not.
		{name: "one packet in twenty is 300 us late",
			in: onKernel(func(i int) int64 { return int64(b2i(i%20 == 0)) * 300 * us })},
		{name: "one packet in twenty is 600 us late",
			in: onKernel(func(i int) int64 { return int64(b2i(i%20 == 0)) * 600 * us }), reason: "1 in 100 may be",
			host: true},
		{name: "all packets are 250 us late", in: onKernel(func(i int) int64 { return 250 * us }),
			reason: "together 2.8 % of their time late", host: true},
		{name: "a shaper that records nothing", in: onKernel(func(int) int64 { return 0 }),
			change: func(in *Input) { in.Packets = &Packets{Shaper: "htb"} },
			reason: "the shaper htb does not record whether packets are on time"},
		{name: "no packets", in: onKernel(func(int) int64 { return 0 }),
			change: func(in *Input) { in.Packets.Traffic.LinkStats[0] = state.LinkStats{} },
			reason: "no packet crossed it"},
		{name: "below the floor", in: onKernel(func(int) int64 { return 0 }),
			change: func(in *Input) { in.Packets.Traffic.Reasons = state.BelowFloor }, reason: "", host: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.change != nil {
				tc.change(&tc.in)
			}
			v := Judge(tc.in)
			all := strings.Join(v.Reasons, "; ")
			switch {
			case tc.name == "below the floor" && (v.Valid || !v.SlowHost || all != state.BelowFloor.Words()[0]):
				t.Errorf("%+v", v)
			case tc.name != "below the floor" && (v.Valid != (tc.reason == "") || !strings.Contains(all, tc.reason) ||
				v.SlowHost != tc.host):
				t.Errorf("%s, host %v: %s", v.Word, v.SlowHost, all)
			}
		})
	}
}

// Packets from before a job are not counted.
func TestSince(t *testing.T) {
	in := onKernel(func(i int) int64 { return int64(b2i(i < 500)) * 1_000_000 })
	before := state.JobStatus{LinkStats: []state.LinkStats{{}}, Pauses: make([]state.Pauses, 1)}
	for i := range 500 {
		before.LinkStats[0].CountDelivery(12_000, int64(i)*100_000, int64(i+1)*100_000, int64(i+1)*100_000+1_000_000, 1)
	}
	if v := Judge(in); v.Valid {
		t.Fatal("half of all packets are late, and the job is VALID")
	}
	in.Packets.Traffic.Subtract(&before)
	if v := Judge(in); !v.Valid {
		t.Errorf("since then none was late: %q", v.Reasons)
	}
}
