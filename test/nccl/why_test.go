// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// explained is what `ddlemu why --json` prints.
type explained struct {
	Clock     string
	TimeScale int64 `json:"time_scale"`
	Notes     []string
	Calls     []struct {
		Function string
		Sequence int
		Ended    bool
		Time     int64 `json:"time_ns"`
		Causes   []struct {
			Cause, Link, Rank, Behind, Congested string
			By                                   []struct{ From, To string }
			Ns                                   int64
		}
	}
}

func whyOf(t *testing.T, dirs ...string) (got explained) {
	t.Helper()
	out, err := ddlemu(t.Context(), t, folder(t), nil, append([]string{"why", "--json"}, dirs...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// share is how much of all calls' time has a cause that do selects, from 0 to 1.
func (e explained) share(do func(cause, link, rank string) bool) float64 {
	var part, whole int64
	for _, c := range e.Calls {
		whole += c.Time
		for _, p := range c.Causes {
			if do(p.Cause, p.Link, p.Rank) {
				part += p.Ns
			}
		}
	}
	return float64(part) / float64(whole)
}

// writeFabric writes a fabric file.
func writeFabric(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fabric.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// On a virtual clock the link model, played again, gives the recorded times to the nanosecond, and every
// nanosecond of each collective has a cause. A rank always has something to send at once, except for what
// it waits for.
func TestWhyIsExact(t *testing.T) {
	t.Parallel()
	leafSpine := writeFabric(t, "base: roce100", "nodes: 4", "topology:", "  kind: leaf-spine", "  leaves: 2",
		"  spines: 2", "  oversubscription: 4:1", "  trunk:", "    latency: 1us")
	for _, tc := range [][]string{
		{"allreduce", "--profile", "ndr400", "--nccl", "2.22"},
		{"alltoall", "--profile", "ndr400", "--nccl", "2.29"},
		{"allgather", "--profile", "ndr400", "--nodes", "2", "--nccl", "2.29"},
		{"allreduce", "--profile", "eth10", "--set", "link.loss=0.01", "--nccl", "2.29"},
		{"alltoall", "--file", leafSpine, "--nccl", "2.22"},
		{"broadcast", "--profile", "t4-efa", "--nccl", "2.29"},
	} {
		t.Run(strings.Join(tc, " "), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "t")
			args := append(tc, "--ranks", "4", "-b", "8", "-e", "4M", "-f", "50", "-n", "2", "-w", "1", "--trace", dir)
			bench(t, folder(t), nil, args...)
			got := whyOf(t, dir)
			if len(got.Notes) != 0 || got.Clock != "virtual" {
				t.Errorf("notes %q, clock %s", got.Notes, got.Clock)
			}
			for _, c := range got.Calls {
				sum := int64(0)
				for _, p := range c.Causes {
					sum += p.Ns
				}
				if sum != c.Time {
					t.Errorf("%s #%d: the causes sum to %d of %d ns", c.Function, c.Sequence, sum, c.Time)
				}
			}
			idle := got.share(func(cause, _, _ string) bool {
				return cause == "not ready" || cause == "not recorded" || cause == "emulator" || cause == "stalled"
			})
			if idle > 0.01 {
				t.Errorf("%.1f %% of the time was spent on what a virtual clock does not have: %+v", 100*idle,
					got.Calls)
			}
		})
	}
}

// What slows a job down is what gets the blame.
func TestWhyBlamesTheRightOne(t *testing.T) {
	slow := writeFabric(t, "base: ndr400", "nodes: 4", "links:", "  - match: node1:node2", "    bandwidth: 100Gbps")
	lossy := writeFabric(t, "base: ndr400", "nodes: 4", "links:", "  - match: node1:node2", "    loss: 5%")
	trace := func(t *testing.T, args ...string) explained {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "t")
		bench(t, folder(t), nil, append(args, "--trace", dir)...)
		return whyOf(t, dir)
	}
	check := func(t *testing.T, got explained, least float64, do func(cause, link, rank string) bool) {
		t.Helper()
		if share := got.share(do); share < least {
			t.Errorf("%.1f %% of the time, want %.0f %% at least; notes %q:\n%+v", 100*share, 100*least, got.Notes,
				got.Calls)
		}
	}
	onSlow := func(cause, link, _ string) bool {
		return link == "node1:node2" && (cause == "serializing" || cause == "queueing")
	}
	sizes := []string{"--nccl", "2.29", "-b", "1M", "-e", "1M", "-n", "3", "-w", "1"}
	t.Run("slow link, virtual clock", func(t *testing.T) {
		check(t, trace(t, append(sizes, "allreduce", "--file", slow, "--ranks", "4")...), 0.5, onSlow)
	})
	t.Run("slow link, real clock", func(t *testing.T) {
		two := writeFabric(t, "base: eth10", "nodes: 2", "links:", "  - match: node1:node0", "    bandwidth: 1Gbps")
		got := trace(t, append(sizes, "allreduce", "--file", two, "--ranks", "2", "--clock", "real", "--set",
			"time_scale=32")...)
		check(t, got, 0.8, func(cause, link, _ string) bool {
			return strings.Contains(link, ":") && (cause == "serializing" || cause == "queueing") // either direction
		})
	})
	t.Run("full windows and paused senders before a slow trunk", func(t *testing.T) {
		narrow := writeFabric(t, "base: eth25-tcp", "nodes: 8", "topology:", "  kind: leaf-spine", "  leaves: 2",
			"  spines: 1", "  trunk:", "    bandwidth: 100Gbps", "    latency: 1us", "links:",
			"  - match: leaf1>spine0", "    bandwidth: 25Gbps")
		got := trace(t, "alltoall", "--file", narrow, "--ranks", "8", "--nccl", "2.29", "-b", "4M", "-e", "4M", "-n", "3")
		waits := map[string]int64{}
		for _, c := range got.Calls {
			for _, p := range c.Causes {
				if p.Cause != "window" && p.Cause != "paused" {
					continue
				}
				if p.Congested == "" {
					waits["unknown"] += p.Ns
					continue
				}
				waits[p.Cause] += p.Ns
				if p.Congested != "leaf1:spine0" || len(p.By) == 0 {
					t.Errorf("%+v", p)
				}
				for _, pair := range p.By { // they cross the trunk
					if pair.From < "rank 4" || pair.To > "rank 3" {
						t.Errorf("%s to %s do not cross %s", pair.From, pair.To, p.Congested)
					}
				}
			}
		}
		if waits["window"] == 0 || waits["paused"] == 0 || waits["unknown"] > waits["window"]/100 {
			t.Errorf("waits %v", waits)
		}
	})
	t.Run("lossy link", func(t *testing.T) {
		got := trace(t, append(sizes, "allreduce", "--file", lossy, "--ranks", "4")...)
		check(t, got, 0.3, func(cause, link, _ string) bool { return cause == "recovery" && link == "node1:node2" })
		check(t, got, 0.99, func(cause, link, _ string) bool { return cause != "recovery" || link == "node1:node2" })
	})
	bin := compile(t, "threads")
	for _, version := range []string{"2.22", "2.29"} {
		t.Run("late receive, NCCL "+version, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "t")
			args := []string{"run", "--profile", "ndr400", "--clock", "virtual", "--soft-cuda", "--nccl", version,
				"--trace", dir, "--", bin, "late"}
			if out, err := ddlemu(t.Context(), t, folder(t), nil, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			got := whyOf(t, dir)
			check(t, got, 0.99, func(cause, _, rank string) bool { return cause == "receive" && rank == "rank 1" })
			for _, c := range got.Calls {
				if c.Function != "Send" {
					t.Errorf("one rank sends, one receives: %s", c.Function)
				}
			}
		})
	}
	t.Run("stopped process", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "t")
		args := []string{"run", "--profile", "eth10", "--clock", "real", "--set", "time_scale=4", "--soft-cuda", "--nccl",
			"2.29", "--trace", dir, "--", bin, "stall"}
		if out, err := ddlemu(t.Context(), t, folder(t), []string{"STALL_US=200000"},
			args...).CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		longest := whyOf(t, dir)
		for _, c := range longest.Calls {
			if c.Time > longest.Calls[0].Time {
				longest.Calls[0] = c
			}
		}
		longest.Calls = longest.Calls[:1]
		// What a stopped rank does not do depends on the moment: post a receive, send what it has, or take what has
		// come. If it holds a flow's lock, the emulator is late at the other rank.
		check(t, longest, 0.5, func(cause, _, rank string) bool {
			return cause == "emulator" || rank == "rank 1" &&
				slices.Contains([]string{"receive", "not ready", "late call", "stalled"}, cause)
		})
	})
}

// A link that is down is named by the commands that say what a job waited for, and a call that never ended has its time
// until it failed.
func TestLinkThatIsDown(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	path := writeFabric(t, "base: ndr400", "nodes: 4", "links:", "  - match: node1:node2", "    up: false")
	out, err := ddlemu(t.Context(), t, folder(t), nil, "bench", "allreduce", "-F", path, "--ranks", "4", "-b", "1M",
		"-e", "1M", "--trace", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "failed: node1:node2 was down") {
		t.Fatalf("%v:\n%s", err, out)
	}
	got := whyOf(t, dir)
	down := got.share(func(cause, link, _ string) bool { return cause == "link down" && link == "node1:node2" })
	if len(got.Calls) != 1 || got.Calls[0].Ended || got.Calls[0].Time < 400e6 || down < 0.99 {
		t.Errorf("%+v", got)
	}
	out, err = ddlemu(t.Context(), t, folder(t), nil, "whatif", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no call of t has ended") {
		t.Errorf("%v:\n%s", err, out)
	}
}
