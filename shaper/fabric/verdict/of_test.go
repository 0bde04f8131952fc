// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// shared is a fabric of the kernel datapath. This process stands for its daemon.
type shared struct {
	t       *testing.T
	file    *state.File
	fabric  *fabric.Fabric
	link    int
	traffic state.Job         // of all traffic
	stats   []state.LinkStats // its
	now     int64
}

func newShared(t *testing.T) *shared {
	t.Helper()
	c, err := configs.Load(configs.Source{Profile: "eth1", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	c.Datapath, c.Nodes = configs.Kernel, 2
	s := &shared{t: t, now: 1}
	if s.fabric, err = fabric.New(c); err != nil {
		t.Fatal(err)
	}
	s.file, s.link = statetest.New(t, s.fabric, "shared"), s.fabric.Link(0, 1)
	s.traffic = s.join(state.TrafficKey, state.DaemonRank).Job()
	s.stats = s.traffic.LinkStats()
	return s
}

func (s *shared) join(key uint64, rank int) *state.Participant {
	s.t.Helper()
	j, err := s.file.JoinJob(key)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := s.file.Join(j, state.Rank{Rank: rank, Node: rank})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// packets is a number of packets that cross the fabric, and the lateness of each.
type packets struct {
	n    int
	late time.Duration
}

func (s *shared) carry(p packets) {
	for range p.n {
		due := s.now + 100_000
		s.stats[s.link].CountDelivery(12_000, s.now, due, due+int64(p.late), 1)
		s.now = due
	}
}

// run is a job that sends 20 messages of 1 MiB, 8.8 ms each, while the packets during cross the fabric. Its end is
// noticed.
func (s *shared) run(key uint64, during packets) state.Job {
	p := s.join(key, 0)
	s.carry(during)
	c := &p.Job().LinkStats()[s.link]
	c.FirstPosted, c.LastVisible = 1, 2
	c.Size[2] = state.Class{Messages: 20, Bytes: 20 << 20}
	p.Leave()
	s.file.TakeEndSnapshots(s.file.AwaitingSnapshot())
	return p.Job()
}

// Packets that crossed a fabric before or after a job do not change its verdict.
func TestOfJudgesTheJobsOwnPackets(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		before, during, after packets
		reason                string
	}{
		{name: "in time", during: packets{n: 1000}},
		{name: "late", during: packets{1000, 3 * time.Millisecond}, reason: "1 in 100 may be"},
		{name: "late, after many in time", before: packets{n: 100_000}, during: packets{1000, 3 * time.Millisecond},
			reason: "1 in 100 may be"},
		{name: "late, before many in time", during: packets{1000, 3 * time.Millisecond}, after: packets{n: 100_000},
			reason: "1 in 100 may be"},
		{name: "in time, after many late", before: packets{100_000, 3 * time.Millisecond}, during: packets{n: 1000}},
		{name: "in time, before many late", during: packets{n: 1000}, after: packets{100_000, 3 * time.Millisecond}},
		{name: "around", reason: "no packet crossed it"},
		{name: "around, after others crossed", before: packets{n: 1000}, reason: "no packet crossed it"},
		{name: "around, before others cross", after: packets{n: 1000}, reason: "no packet crossed it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShared(t)
			s.carry(tc.before)
			j := s.run(7, tc.during)
			s.carry(tc.after)
			v := Of(s.file, s.fabric, j)
			if all := strings.Join(v.Reasons, "; "); v.Valid != (tc.reason == "") || !strings.Contains(all, tc.reason) {
				t.Errorf("%s: %s; want reason %q", v.Word, all, tc.reason)
			}
			if late := v.Links[0].Classes[0].Max; tc.during.n > 0 &&
				(late < tc.during.late || late > tc.during.late*5/4) {
				t.Errorf("up to %v late, want about %v", late, tc.during.late)
			}
		})
	}
}

// A running job is judged by the packets since it began.
func TestOfARunningJob(t *testing.T) {
	s := newShared(t)
	s.carry(packets{n: 100_000})
	p := s.join(7, 0)
	c := &p.Job().LinkStats()[s.link]
	c.FirstPosted, c.Size[2] = 1, state.Class{Messages: 20, Bytes: 20 << 20}
	s.carry(packets{1000, 3 * time.Millisecond})
	if v := Of(s.file, s.fabric, p.Job()); v.Valid {
		t.Error("VALID, but late")
	}
}

// Counters that were reused for another job are not judged as those of this one.
func TestOfAJobWithReusedCounters(t *testing.T) {
	s := newShared(t)
	j := s.run(7, packets{n: 1000})
	for key := range uint64(16) {
		s.run(100+key, packets{n: 1000})
	}
	if v := Of(s.file, s.fabric, j); v.Valid || !strings.Contains(strings.Join(v.Reasons, "; "), "were reused") {
		t.Errorf("%s: %q", v.Word, v.Reasons)
	}
}

// What the daemon notes while it counts the last packets of a job is a reason too.
func TestOfReadsAfterTheLastPackets(t *testing.T) {
	s := newShared(t)
	p := s.join(7, 0)
	s.carry(packets{n: 1000})
	p.Job().LinkStats()[s.link].Size[2] = state.Class{Messages: 1, Bytes: 1 << 20}
	p.Leave()
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(10 * time.Millisecond)
			s.traffic.Invalidate(state.WireOverrun)
			s.file.TakeEndSnapshots(s.file.AwaitingSnapshot())
		}()
		v := Of(s.file, s.fabric, p.Job())
		if all := strings.Join(v.Reasons, "; "); v.Valid || !strings.Contains(all, "lost packets") {
			t.Errorf("%s: %s; the packets that this host lost are no reason", v.Word, all)
		}
	})
}
