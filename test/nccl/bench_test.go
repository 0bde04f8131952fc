// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Real NCCL takes the model's time, with each protocol and algorithm, with both versions, on 2 and on 4 ranks.
func TestAllReduceTakesTheModelsTime(t *testing.T) {
	t.Parallel()
	type shape struct{ ranks, nodes string }
	for _, s := range []shape{{"2", "2"}, {"4", "4"}, {"4", "2"}} {
		for _, version := range []string{"2.22", "2.29"} {
			for _, algo := range []string{"Ring", "Tree"} {
				for _, proto := range []string{"Simple", "LL", "LL128"} {
					if s.ranks == "2" && algo == "Tree" {
						continue // with two nodes the tree equals the chain of the ring
					}
					if testing.Short() && (version != "2.22" || s.ranks != "2") {
						continue
					}
					// Each layout of four ranks is tested with one version, because differences between versions do not
					// depend on the layout.
					if s.ranks == "4" && (version == "2.22") != (s.nodes == "2") {
						continue
					}
					name := fmt.Sprintf("%sx%s %s %s %s", s.ranks, s.nodes, version, algo, proto)
					t.Run(name, func(t *testing.T) {
						r := bench(t, folder(t), []string{"NCCL_ALGO=" + algo, "NCCL_PROTO=" + proto}, "allreduce",
							"--profile", "eth1",
							"--ranks", s.ranks, "--nodes", s.nodes, "--nccl", version, "-b", "1M", "-e", "4M", "-f",
							"4", "-n", "2", "-w", "1")
						if !strings.HasPrefix(r.Header.NCCL, version) || r.Header.Profile != "eth1" {
							t.Fatalf("header %+v", r.Header)
						}
						exact(t, r)
					})
				}
			}
		}
	}
}

// On the real clock too, real NCCL takes the model's time.
func TestRealClockTakesTheModelsTime(t *testing.T) {
	for _, version := range []string{"2.22", "2.29"} {
		for _, proto := range []string{"Simple", "LL", "LL128"} {
			t.Run(version+" "+proto, func(t *testing.T) {
				dir := folder(t)
				onRealClock(t, func(scale string) error {
					return inTime(t, bench(t, dir, []string{"NCCL_ALGO=Ring", "NCCL_PROTO=" + proto}, "allreduce",
						"--profile", "eth1", "--ranks", "2",
						"--nccl", version, "-b", "512K", "-e", "512K", "-n", "2", "-w", "1", "--set", "time_scale="+scale), 5)
				})
			})
		}
	}
}

func TestCollectives(t *testing.T) {
	t.Parallel()
	for _, coll := range []string{"allgather", "reducescatter", "broadcast", "reduce", "sendrecv", "alltoall", "gather",
		"scatter", "hypercube"} {
		for _, version := range []string{"2.22", "2.29"} {
			t.Run(coll+" "+version, func(t *testing.T) {
				exact(t, bench(t, folder(t), nil, coll, "--profile", "eth1", "--ranks", "4", "--nodes", "4", "--nccl",
					version,
					"-b", "1M", "-e", "1M", "-n", "2", "-w", "1"))
			})
		}
	}
}

// AllReduce of 8 bytes back to back on two ranks. With Simple, NCCL sends both chunks, so each call costs two latencies
// over tcp, and one more for rdma's clear-to-send. LL and LL128 leave the second chunk empty: the relaying rank is one
// latency ahead at the end, and its clear-to-send overlaps with the other rank's turn. On the real clock no call may
// take less; on the virtual clock little more is left for the bytes.
func TestLatencyIsExact(t *testing.T) {
	t.Parallel()
	const n, lat = 5, 20_000.0
	for _, tc := range []struct {
		transport, proto string
		latencies        float64 // of all n iterations, as the mean of the two ranks
	}{
		{"tcp", "Simple", 2 * n}, {"tcp", "LL", 2*n - 0.5}, {"tcp", "LL128", 2*n - 0.5},
		{"rdma", "Simple", 3 * n}, {"rdma", "LL", 2*n + 0.5}, {"rdma", "LL128", 2*n + 0.5},
	} {
		t.Run(tc.transport+" "+tc.proto, func(t *testing.T) {
			for _, clock := range [][]string{{"--clock", "virtual"}, {"--set", "time_scale=1"}} {
				r := bench(t, folder(t), []string{"NCCL_ALGO=Ring", "NCCL_PROTO=" + tc.proto},
					append(clock, "allreduce", "--profile", "eth1", "--set", "transport="+tc.transport, "--lat", "20ms",
						"--ranks", "2", "-b", "8", "-e", "8", "-n", fmt.Sprint(n), "-w", "1")...)
				least := tc.latencies * lat / n
				for _, row := range r.Rows {
					if off := row.TimeUS - least; off < 0 || r.Header.Clock == "virtual" && off > 50 {
						t.Errorf("%s clock: %.3f us, want %g latencies, %.1f us, and at most 50 us more",
							r.Header.Clock, row.TimeUS, tc.latencies/n, least)
					}
				}
			}
		})
	}
}

// The time scale that bench selects is large enough for this host.
func TestAutomaticScale(t *testing.T) {
	dir := folder(t)
	args := []string{"allreduce", "--profile", "eth10", "--ranks", "2", "-b", "256K", "-e", "1M", "-f", "4", "-n", "2",
		"-w", "1", "--clock", "real"}
	onRealClock(t, func(string) error {
		// Status 2: no time scale up to 1024 is large enough, or the run would take too long.
		r, err := tryBench(t, dir, nil, args...)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 2 &&
			strings.Contains(err.Error(), "this host has too few cores, or other work on them") {
			return err
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != "VALID" {
			onlyTheHost(t, r.Verdict, r.Findings)
			return fmt.Errorf("at the time scale %g that was chosen: %s %q", r.Header.TimeScale, r.Verdict, r.Reasons)
		}
		return inTime(t, r, 5)
	})
}

// A run that exceeds two cores is INVALID.
func TestOverloadIsInvalid(t *testing.T) {
	t.Parallel()
	r := bench(t, folder(t), nil, "allreduce", "--profile", "xdr800", "--ranks", "2", "-b", "4M", "-e", "16M", "-f",
		"4", "-n", "3", "-w", "1", "--set", "time_scale=1")
	if r.Verdict != "INVALID" || len(r.Reasons) == 0 {
		t.Errorf("xdr800 at time scale 1: %s %v", r.Verdict, r.Reasons)
	}
}

// If NCCL's log goes to the user, its decisions and thus the expected time are not known. That is a note, or a reason
// with --strict.
func TestBenchReportsWhatItDoesNotCheck(t *testing.T) {
	t.Parallel()
	args := []string{"bench", "allreduce", "--profile", "eth1", "--ranks", "2", "-b", "64K", "-e", "64K", "-n", "3",
		"-w", "1", "--set", "time_scale=64", "--json"}
	for _, tc := range []struct {
		args   []string
		status int
	}{{nil, 0}, {[]string{"--strict"}, 3}} {
		cmd := ddlemu(t.Context(), t, folder(t), []string{"NCCL_DEBUG=WARN"},
			append(args[:len(args):len(args)], tc.args...)...)
		out, _ := cmd.Output()
		var r struct {
			Header  struct{ Notes []string }
			Reasons []string
		}
		if err := json.Unmarshal(out, &r); err != nil || cmd.ProcessState.ExitCode() != tc.status {
			t.Fatalf("%v: status %d, want %d: %s", tc.args, cmd.ProcessState.ExitCode(), tc.status, out)
		}
		said, other := strings.Join(r.Header.Notes, "\n"), strings.Join(r.Reasons, "\n")
		if tc.status != 0 {
			said, other = other, said
		}
		for _, want := range []string{"2 of 2 times have no expected time", "the nodes that NCCL counted"} {
			if !strings.Contains(said, want) || strings.Contains(other, want) {
				t.Errorf("%v: %q once in notes %q or reasons %q", tc.args, want, r.Header.Notes, r.Reasons)
			}
		}
	}
}
