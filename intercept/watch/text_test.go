// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

func ptr[T any](v T) *T { return &v }

func someLinks() []HopActivity {
	return []HopActivity{
		hop("a", link.Counters{Drops: 9}, status.Activity{RateBps: 5, Load: 0.1, QueueNs: ptr(int64(3))}),
		hop("b", link.Counters{Bytes: 1}, status.Activity{RateBps: 5, Load: 0.9, QueueNs: ptr(int64(1)),
			New: link.Counters{Drops: 1}, LatePercent: ptr(0.5), LateP99Us: ptr(2.0)}),
		hop("c", link.Counters{}, status.Activity{RateBps: 7, Load: 0.2, LateP99Us: ptr(3.0)}),
	}
}

// hop is a link, or a port if its name has a blank.
func hop(name string, c link.Counters, a status.Activity) HopActivity {
	p := &status.Place{Name: name}
	if nic, _, ok := strings.Cut(name, " "); ok {
		p.NIC = nic
	}
	return HopActivity{HopReading: &status.HopReading{Place: p, Counters: c}, Activity: a}
}

func TestSort(t *testing.T) {
	for by, want := range map[Order]string{ByRate: "cba", ByLoad: "bca", ByQueue: "abc", ByDrops: "bac", ByLate: "bca",
		ByName: "abc"} {
		for _, reverse := range []bool{false, true} {
			hops, got := someLinks(), ""
			Sort(hops, by, reverse)
			for _, h := range hops {
				if reverse {
					got = h.Name + got
				} else {
					got += h.Name
				}
			}
			if got != want {
				t.Errorf("by %v, reverse %v: %s, want %s", by, reverse, got, want)
			}
		}
	}
}

func TestNextOrder(t *testing.T) {
	if ByRate.Next(-1) != ByName || ByName.Next(1) != ByRate || ByRate.Next(1) != ByLoad {
		t.Error("orders do not follow each other in a circle")
	}
}

func TestShown(t *testing.T) {
	v := &View{
		Ports: []HopActivity{hop("node0 tx", link.Counters{}, status.Activity{}),
			hop("node1 rx", link.Counters{}, status.Activity{New: link.Counters{Drops: 2}})},
	}
	for _, name := range []string{"node0:node1", "node1:node0", "leaf0:spine0"} {
		v.Links = append(v.Links, hop(name, link.Counters{}, status.Activity{}))
	}
	for _, tc := range []struct {
		text  string
		ports bool
		want  string
	}{
		{"", false, "node0:node1, node1:node0, leaf0:spine0, node1 rx"},
		{"", true, "node0:node1, node1:node0, leaf0:spine0, node0 tx, node1 rx"},
		{"node0", true, "node0:node1, node1:node0, node0 tx"},
		{"spine", false, "leaf0:spine0"},
		{"nothing", true, ""},
	} {
		var got []string
		for _, h := range v.Shown(tc.text, tc.ports) {
			got = append(got, h.Name)
		}
		if all := strings.Join(got, ", "); all != tc.want {
			t.Errorf("%q, ports %v: %s", tc.text, tc.ports, all)
		}
	}
}

func TestLines(t *testing.T) {
	job := func(j status.Job, rate float64, v status.Judged) Job {
		return Job{JobView: status.JobView{Job: j, Judged: v, RateBps: &rate}}
	}
	v := &View{
		Reading:  &status.Reading{Name: "eth1", Clock: "virtual", Up: 12_340_000_000, Time: 1_204_000},
		Interval: status.Interval{RealNs: 1e9, Ns: 1_200_000, Ratio: 0.0012},
		Links: []HopActivity{
			hop("node0:node1", link.Counters{Drops: 120, ECNMarks: 7, PausedNs: 2e6}, status.Activity{RateBps: 812e6,
				MayCarryBps: 1e9, Load: 0.8731, QueueNs: ptr(int64(1234)), New: link.Counters{Drops: 3, PausedNs: 1e6},
				LatePercent: ptr(0.1), LateP99Us: ptr(1.5)}),
			hop("node1:node0", link.Counters{}, status.Activity{}),
			hop("node2:node0", link.Counters{Drops: 1}, status.Activity{New: link.Counters{Drops: 1}}),
		},
		Ports: []HopActivity{hop("node0 rx", link.Counters{}, status.Activity{RateBps: 1e9, MayCarryBps: 1e9, Load: 1})},
		Jobs: []Job{
			job(status.Job{Number: 1, Running: true, Joined: 4, Messages: 1000, Bytes: 12e8}, 812e6,
				status.Judged{Verdict: "VALID"}),
			job(status.Job{Number: 0, Joined: 2, Left: 1, Died: 1}, 0,
				status.Judged{Verdict: "INVALID", Reasons: []string{"a rank died", "late", "slow"}}),
			job(status.Job{Number: 2, Running: true, Joined: 1}, 0, status.Judged{}),
			job(status.Job{Number: 3, Running: true, Traffic: true, Joined: 1}, 0, status.Judged{}),
		},
	}
	v.Links[0].Up, v.Links[1].Up, v.Ports[0].Up = true, true, true
	want := []string{
		"+12.3s fabric eth1: clock virtual at 1.2ms, 0.0012 s per real second; 2 of 3 links active, 2 jobs running",
		"+12.3s link node0:node1: rate 812 Mbps of 1Gbps, load 87 %, queue 1.23us, drops 120 (+3), late 0.10 %, p99 1.5us, ECN marks 7, paused for 2ms (+1ms)",
		"+12.3s link node2:node0: rate 0 of down, load -, queue -, drops 1 (+1), late -",
		"+12.3s job 1: running, 4 joined, 0 left, 0 died; 1.2 GB in 1000 messages, rate 812 Mbps; VALID so far",
		"+12.3s job 0: over, 2 joined, 1 left, 1 died; 0 B in 0 messages, rate 0; INVALID: a rank died; and 2 more",
		"+12.3s job 2: running, 1 joined, 0 left, 0 died; 0 B in 0 messages, rate 0; no verdict yet",
		"+12.3s job 3: running, 1 joined, 0 left, 0 died; 0 B in 0 packets, rate 0; all traffic",
	}
	if diff := cmp.Diff(want, v.Lines()); diff != "" {
		t.Error(diff)
	}
	v.Problem, v.Ns = "its daemon is gone", 0
	if got := v.Lines(); !strings.Contains(got[0], "clock virtual at 1.2ms, stands still; ") ||
		got[1] != "+12.3s fabric eth1: its daemon is gone" {
		t.Errorf("got %q", got[:2])
	}
}

func TestPercent(t *testing.T) {
	for x, want := range map[float64]string{0: "0 %", 0.004: "0 %", 0.05: "0.05 %", 0.94: "0.94 %", 1.26: "1.3 %",
		9.94: "9.9 %", 9.96: "10 %", 100: "100 %"} {
		if got := percent(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
