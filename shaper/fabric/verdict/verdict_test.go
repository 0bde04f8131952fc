// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// run is a job with one link that carried n messages of 1 MiB at 1 Gb/s. late gives the lateness of message i.
func run(n int, late func(i int) int64) Input {
	spec := link.Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}
	p, err := link.NewParams(spec, 1)
	if err != nil {
		panic(err)
	}
	const size, segment = 1 << 20, 64240
	in := Input{TimeScale: 1, Name: func(int) string { return "node0:node1" },
		Path: func(int, int) []link.PathHop { return []link.PathHop{{Hop: 0}} }, Job: state.JobStatus{Joined: 2,
			Left: 2, LinkStats: make([]state.LinkStats, 1), Pauses: make([]state.Pauses, 1)}}
	h := state.HopStatus{Kind: link.Link, Spec: spec}
	c := &in.Job.LinkStats[0]
	c.FirstPosted = 1
	k := &c.Size[2]
	for i := range n {
		t := int64(0)
		for left := size; left > 0; left -= segment {
			s := uint32(min(left, segment))
			t += p.Serialization(s)
			h.Counters.LineBytes += p.LineBytes(s)
			h.Counters.Segments++
		}
		h.Counters.BusyNs += t
		l := late(i)
		k.Messages++
		k.Bytes += size
		k.SumTime += t
		k.SumLate += l
		k.MaxLate = max(k.MaxLate, l)
		k.Late[state.Bucket(l)]++
		if l > max(1000, t/50) {
			k.OverP50++
		}
		if l > max(5000, t/20) {
			k.OverP99++
		}
		c.ModelBusy += t
		c.WallBusy += t + l
	}
	c.LastVisible = c.FirstPosted + c.WallBusy
	in.Hops = []state.HopStatus{h}
	return in
}

func TestJudge(t *testing.T) {
	const us = 1000
	for _, tc := range []struct {
		name   string
		in     Input
		change func(*Input)
		reason string // of INVALID
		host   bool
	}{
		{name: "in time", in: run(200, func(int) int64 { return 3 * us })},
		{name: "one in a hundred late", in: run(200, func(i int) int64 { return int64(i/199) * 5000 * us })},
		{name: "one in twenty late", in: run(200, func(i int) int64 { return int64(b2i(i%20 == 0)) * 1000 * us }),
			reason: "later than max(5 us", host: true},
		{name: "half of them late",
			in:     run(200, func(i int) int64 { return int64(b2i(i%2 == 0 || i == 1)) * 200 * us }),
			reason: "the median lateness is", host: true},
		{name: "all a little late", in: run(200, func(int) int64 { return 190 * us }),
			reason: "together 2.1 % of their time late", host: true},
		{name: "rate low", in: run(200, func(int) int64 { return 280 * us }), reason: "longer than in the model",
			host: true},
		{name: "engine's rate 3 % low", in: run(200, func(int) int64 { return 0 }),
			change: func(in *Input) { in.Hops[0].Counters.BusyNs += in.Hops[0].Counters.BusyNs * 3 / 100 },
			reason: "which is 1.7674528s at its rate"},
		{name: "engine's rate high", in: run(200, func(int) int64 { return 0 }),
			change: func(in *Input) { in.Hops[0].Counters.BusyNs -= in.Hops[0].Counters.BusyNs * 3 / 100 },
			reason: "which is 1.7674528s at its rate"},
		{name: "rate changed on the way", in: run(200, func(int) int64 { return 0 }),
			change: func(in *Input) { in.Hops[0].Changed = true; in.Hops[0].Counters.BusyNs *= 2 }},
		{name: "no message", in: run(0, nil), change: func(in *Input) { in.Job.LinkStats[0].FirstPosted = 0 },
			reason: "no message crossed an emulated link"},
		{name: "no message: all ranks on a node of many GPUs", in: run(0, nil), change: oneNode(8),
			reason: "all 4 ranks were on node1, because a node has 8 GPUs: add --set gpus_per_node=2"},
		{name: "no message: all ranks placed on a node", in: run(0, nil), change: oneNode(0),
			reason: "all 4 ranks were on node1: place each on its node with DDLEMU_NODE"},
		{name: "no message: one rank", in: run(0, nil),
			change: func(in *Input) { oneNode(8)(in); in.Job.Joined = 1 }, reason: "the job has one rank"},
		{name: "no message: ranks on both nodes", in: run(0, nil),
			change: func(in *Input) { oneNode(8)(in); in.Job.NodeSet[0] = 3 }, reason: "see with NCCL_DEBUG=INFO"},
		{name: "no message yet", in: run(0, nil),
			change: func(in *Input) { in.Job.LinkStats[0].FirstPosted, in.Job.Left = 0, 1 }},
		{name: "nobody", in: run(0, nil), change: func(in *Input) { in.Job.Joined = 0 }, reason: "no rank took part"},
		{name: "flags", in: run(1, func(int) int64 { return 0 }),
			change: func(in *Input) { in.Job.Reasons = state.PeerDied | state.NodesDiffer }, reason: "a rank died"},
		{name: "stopped", in: run(1, func(int) int64 { return 0 }),
			change: func(in *Input) { in.Job.Left, in.Job.Stopped = 0, 1 },
			reason: "the launcher ended 1 rank before the job was done"},
		{name: "stopped before a message", in: run(0, nil),
			change: func(in *Input) { in.Job.LinkStats[0].FirstPosted, in.Job.Left, in.Job.Stopped = 0, 0, 1 },
			reason: "the launcher ended 1 rank"},
		{name: "stalls", in: run(1, func(int) int64 { return 0 }),
			change: func(in *Input) { in.Job.LinkStats[0].Stalls = 1 }, reason: "more segments in flight"},
		{name: "held", in: run(100, func(int) int64 { return 0 }),
			change: func(in *Input) { in.Job.LinkStats[0].HeldSends = 2 }, reason: "DDLEMU_MEMORY"},
	} {
		if tc.change != nil {
			tc.change(&tc.in)
		}
		v := Judge(tc.in)
		got := strings.Join(v.Reasons, "; ")
		if v.Valid != (tc.reason == "") || !strings.Contains(got, tc.reason) || v.SlowHost != tc.host {
			t.Errorf("%s: %s, host %v: %s; want reason %q, host %v", tc.name, v.Word, v.SlowHost, got, tc.reason,
				tc.host)
		}
	}
}

// oneNode makes a job of four ranks on node 1 of two, each with so many GPUs.
func oneNode(gpus int) func(*Input) {
	return func(in *Input) {
		in.Nodes, in.GPUs, in.Job.Joined, in.Job.Left = 2, gpus, 4, 4
		in.Job.NodeSet, in.Job.LinkStats[0].FirstPosted = state.NodeSet{2}, 0
	}
}

// A path without rate and latency is not judged, unless it had one before a change.
func TestUnshaped(t *testing.T) {
	late := func(int) int64 { return int64(time.Second) }
	for _, tc := range []struct {
		name   string
		change func(*Input)
		valid  bool
	}{
		{"nothing", func(*Input) {}, true},
		{"latency", func(in *Input) { in.Hops[0].Spec.Latency = 1 }, false},
		{"rate", func(in *Input) { in.Hops[0].Spec.Bandwidth = 1e9 }, false},
		{"once", func(in *Input) { in.Hops[0].Changed = true }, false},
		{"rate of the sender's port", func(in *Input) { in.Hops[1].Spec.Bandwidth = 1e9 }, false},
		{"rate of the receiver's port", func(in *Input) { in.Hops[2].Spec.Bandwidth = 1e9 }, false},
		{"latency of a trunk", func(in *Input) { in.Hops[4].Spec.Latency = 1 }, false},
		{"latency of another trunk", func(in *Input) { in.Hops[5].Spec.Latency = 1 }, true},
		{"rate of another port", func(in *Input) { in.Hops[3].Spec.Bandwidth = 1e9 }, true},
		{"endpoints", func(in *Input) { in.Endpoint = true }, false},
	} {
		in := run(10, late)
		in.Hops[0].Spec, in.Hops[0].Src, in.Hops[0].Dst = link.Spec{}, 0, 1
		in.Hops[0].Counters = link.Counters{}
		in.Hops = append(in.Hops, state.HopStatus{Index: 1, Kind: link.TxPort},
			state.HopStatus{Index: 2, Kind: link.RxPort, Src: 1, Dst: 1},
			state.HopStatus{Index: 3, Kind: link.TxPort, Src: 1, Dst: 1})
		in.Hops = append(in.Hops, state.HopStatus{Index: 4, Kind: link.Trunk},
			state.HopStatus{Index: 5, Kind: link.Trunk, Src: 1})
		in.Path = func(int, int) []link.PathHop { return []link.PathHop{{Hop: 1}, {Hop: 0}, {Hop: 4}, {Hop: 2}} }
		in.Job.LinkStats = append(in.Job.LinkStats, make([]state.LinkStats, 5)...)
		in.Job.Pauses = make([]state.Pauses, len(in.Job.LinkStats))
		tc.change(&in)
		v := Judge(in)
		if v.Valid != tc.valid || v.Links[0].Unshaped != tc.valid {
			t.Errorf("%s: %s, unshaped %v: %q", tc.name, v.Word, v.Links[0].Unshaped, v.Reasons)
		}
		in.FlowPaths = true
		in.Job.LinkStats[5].CarriedBytes = 7
		if v := Judge(in); len(v.Trunks) != 1 || v.Trunks[0].Bytes != 7 || v.Links[0].Unshaped {
			t.Errorf("%s, flows with paths of their own: trunks %+v, unshaped %v; want the one that carried 7 bytes",
				tc.name, v.Trunks, v.Links[0].Unshaped)
		}
		if len(v.Trunks) != 1 || v.Trunks[0].Bytes != v.Links[0].Bytes {
			t.Errorf("%s: trunks %+v, want the one on the way, with %d bytes", tc.name, v.Trunks, v.Links[0].Bytes)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestScaledTimes(t *testing.T) {
	in := run(100, func(int) int64 { return 64_000 })
	in.TimeScale = 64
	in.Hops[0].Changed = true // the counters are at time scale 1
	v := Judge(in)
	if got := v.Links[0].Classes[0].P50; got < 900*time.Nanosecond || got > 1000*time.Nanosecond {
		t.Errorf("p50 of 64 us real at scale 64 is %v, want 1 us", got)
	}
	if got, want := v.Links[0].ModelBps, 64*1e9*1460/1538; got < want*0.99 || got > want*1.01 {
		t.Errorf("rate %.0f bit/s, want %.0f", got, want)
	}
}

func TestAddKeepsHost(t *testing.T) {
	v := Judge(run(10, func(int) int64 { return 0 }))
	v.Add(Finding{Cause: CauseHost, Text: "row", Slow: true})
	if v.Valid || !v.SlowHost {
		t.Errorf("a host's reason on a valid run: %+v", v)
	}
	v.Add(Finding{Cause: CauseJob, Text: "other"})
	if v.SlowHost {
		t.Error("another reason is not the host's")
	}
	v.Add(Finding{Cause: CauseHost, Text: "row", Slow: true})
	if v.SlowHost {
		t.Error("a host's reason after another one made it the host's alone")
	}
}

func TestFullQueuesAreNoted(t *testing.T) {
	in := run(10, func(int) int64 { return 0 })
	in.TimeScale = 4
	for i, kind := range []link.HopKind{link.Trunk, link.Trunk, link.Trunk, link.TxPort} {
		// of all jobs
		in.Hops = append(in.Hops,
			state.HopStatus{Index: 1 + i, Kind: kind, Counters: link.Counters{Pauses: 99, PausedNs: 9e9}})
	}
	in.Hops[0].Changed = true // the counters are at time scale 1
	in.Job.LinkStats = append(in.Job.LinkStats, make([]state.LinkStats, 4)...)
	in.Job.Pauses = []state.Pauses{3: {Times: 7, Ns: 1e9}, 4: {Times: 9, Ns: 1e9}}
	in.Path = func(int, int) []link.PathHop { return []link.PathHop{{Hop: 4}, {Hop: 1}, {Hop: 0}, {Hop: 2}} }
	in.Name = func(i int) string {
		return []string{"link", "trunk a", "trunk b", "trunk that the job does not use", "port"}[i]
	}
	if v := Judge(in); !v.Valid || len(v.Notes) != 0 {
		t.Errorf("no queue was full: %q, %q", v.Reasons, v.Notes)
	}
	in.Job.Pauses[1] = state.Pauses{Times: 3, Ns: 8_000_000}
	in.Job.Pauses[2] = state.Pauses{Times: 2, Ns: 10_000_000}
	v := Judge(in)
	if want := "full queues paused links between switches 5 times while this job ran, trunk b for 2.5ms: "; !v.Valid ||
		len(v.Notes) != 1 || !strings.HasPrefix(v.Notes[0], want) {
		t.Errorf("%s: %q, want one that begins %q", v.Word, v.Notes, want)
	}
}
