// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// plan writes a file of faults.
func plan(t *testing.T, faults ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	text := "faults:\n"
	for _, f := range faults {
		text += "  - {" + f + "}\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A fault of a plan hits the same messages each time, costs what its length and its share of the rate cost, and is no
// reason for INVALID.
func TestFaultsOfAPlan(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.22", "2.29"} {
		for _, tc := range []struct {
			name, fault, profile string
			costs                float64 // us
		}{
			{"half of the rate", "at: 60ms, for: 10ms, match: '*', rate: 0.5", "eth10", 5000},
			{"a link is down", "at: 6ms, for: 300ms, match: node1, up: false", "ndr400", 300_000},
		} {
			t.Run(version+"/"+tc.name, func(t *testing.T) {
				dir := folder(t)
				args := []string{"allreduce", "--profile", tc.profile, "--set", "link.jitter=none", "--ranks", "2", "--nccl",
					version, "-b", "16M", "-e", "16M", "-n", "20", "-w", "1"}
				without := bench(t, dir, nil, args...)
				args = append(args, "--set", "@"+plan(t, tc.fault))
				first := bench(t, dir, nil, args...)
				if first.Verdict != "VALID" || len(first.Rows) == 0 || len(first.Rows) != len(without.Rows) {
					t.Fatalf("%s %q, %d rows, %d without faults", first.Verdict, first.Reasons, len(first.Rows), len(without.Rows))
				}
				more := 0.0
				for i, r := range first.Rows {
					more += (r.TimeUS - without.Rows[i].TimeUS) * 20
				}
				if math.Abs(more-tc.costs) > 0.03*tc.costs {
					t.Errorf("the fault costs %.0f us, want %.0f", more, tc.costs)
				}
				for range 2 {
					if again := bench(t, dir, nil, args...); !reflect.DeepEqual(again.Rows, first.Rows) {
						t.Errorf("another run:\n%+v\nthe first:\n%+v", again.Rows, first.Rows)
					}
				}
			})
		}
	}
}

// A fault that the job does not reach is told.
func TestFaultsThatDoNotBegin(t *testing.T) {
	t.Parallel()
	out, err := ddlemu(t.Context(), t, folder(t), nil, "bench", "allreduce", "--profile", "eth10", "--ranks", "2", "-b",
		"1K", "-e", "1K", "-n", "1", "--set", "@"+plan(t, "at: 1h, match: node1, up: false")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "faults[0], at 1h0m0s on node1, did not begin: the job ended at "; !strings.Contains(string(out), want) {
		t.Errorf("%s\nwant %s", out, want)
	}
}

// On the real clock the process that starts the job makes the changes. No call is shorter than the lower rate allows.
func TestFaultsOnTheRealClock(t *testing.T) {
	got := bench(t, folder(t), nil, "allreduce", "--profile", "eth10", "--clock", "real", "--set", "time_scale=1", "--ranks", "2",
		"-b", "4M", "-e", "4M", "-n", "5", "-w", "1", "--set", "@"+plan(t, "at: 1us, match: '*', rate: 0.1"))
	const least = 4 << 20 * 8 / 1e9 * 1e6 // us of 4 MiB at 1 Gb/s
	for _, r := range got.Rows {
		if r.TimeUS < least {
			t.Errorf("%d bytes took %.0f us at a tenth of 10 Gb/s, want at least %.0f", r.Size, r.TimeUS, least)
		}
	}
	for _, reason := range got.Reasons {
		if strings.Contains(reason, "links were changed") {
			t.Errorf("a planned fault is a reason: %s", reason)
		}
	}
}

// What faults cost the steps of a job is equal to the model, to the nanosecond.
func TestFaultsOfAReplay(t *testing.T) {
	t.Parallel()
	workload := filepath.Join("..", "..", "docs", "examples", "workloads", "resnet50-ddp-2xa100.jsonl")
	times := func(faults ...string) (got, want []float64) {
		args := []string{"replay", workload, "--profile", "eth10", "--nodes", "2", "--clock", "virtual", "--steps", "2",
			"--json"}
		if len(faults) > 0 {
			args = append(args, "--set", "@"+plan(t, faults...))
		}
		out, err := ddlemu(t.Context(), t, folder(t), nil, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", faults, err)
		}
		var r struct {
			Steps []struct {
				Time     float64 `json:"time_us"`
				Expected float64 `json:"expected_us"`
			}
		}
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		for _, s := range r.Steps {
			got, want = append(got, s.Time), append(want, s.Expected)
		}
		return got, want
	}
	without, _ := times()
	for _, fault := range []string{
		"at: 200ms, for: 10ms, rate: 0.5, match: '*'", "at: 250ms, for: 3ms, up: false, match: node1",
		"at: 300ms, add_latency: 3ms, match: 'node0>node1'",
	} {
		got, want := times(fault)
		if len(got) != 2 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: steps of %v us, the model has %v", fault, got, want)
		}
		if reflect.DeepEqual(got, without) {
			t.Errorf("%s changes no step: %v us", fault, got)
		}
	}
}
