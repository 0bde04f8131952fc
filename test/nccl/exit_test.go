// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// threeRanks starts three ranks, of which rank 1 may fail. If another one fails, it ends those that would wait for it
// for ever.
const threeRanks = `export WORLD_SIZE=3 DIES=1 HOW=$2; pids=
trap 'kill $pids 2>/dev/null' EXIT
for r in 0 1 2; do RANK=$r $1 & pids="$pids $!"; done
n=0
for pid in $pids; do wait $pid || [ $n = 1 ] || exit 9; n=$((n + 1)); done`

// A job that tests how it survives the death of a rank is VALID if the death is expected, and fails if it does not
// happen.
func TestExpectedExit(t *testing.T) {
	t.Parallel()
	bin := compile(t, "survive", "-std=c++17")
	for _, c := range []struct {
		name, version, how string
		flags              []string
		status             int
		says               []string
	}{
		{"a signal", "2.22", "kill", []string{"--expect-exit", "1"}, 0,
			[]string{"note: rank 1 has died or failed, as expected", "verdict: VALID"}},
		{"a signal, NCCL 2.29", "2.29", "kill", []string{"--expect-exit", "1"}, 0, []string{"verdict: VALID"}},
		{"a status", "2.22", "exit", []string{"--expect-exit", "1"}, 0, []string{"verdict: VALID"}},
		{"_exit", "2.22", "_exit", []string{"--expect-exit", "1"}, 0, []string{"verdict: VALID"}},
		{"it stays", "2.22", "stay", []string{"--expect-exit", "1"}, 1,
			[]string{"verdict: VALID", "ddlemu: --expect-exit 1: the rank has not died"}},
		{"another one", "2.22", "kill", []string{"--expect-exit", "2"}, 3,
			[]string{"a rank died", "verdict: INVALID", "--expect-exit 2: the rank has not died"}},
		{"also one that stays", "2.22", "kill", []string{"--expect-exit", "1", "--expect-exit", "2"}, 1,
			[]string{"verdict: VALID", "--expect-exit 2: the rank has not died"}},
		{"not expected", "2.22", "kill", nil, 3, []string{"a rank died", "verdict: INVALID"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, trace := folder(t), filepath.Join(t.TempDir(), "trace")
			args := append([]string{"run", "--profile", "eth10", "--nodes", "3", "--clock", "virtual", "--soft-cuda",
				"--nccl", c.version, "--strict", "--trace", trace}, c.flags...)
			cmd := ddlemu(t.Context(), t, dir, []string{"ID_FILE=" + filepath.Join(t.TempDir(), "id")},
				append(args, "--", "sh", "-c", threeRanks, "sh", bin, c.how)...)
			out, _ := cmd.CombinedOutput() // its status is checked below
			// Without an expected exit all ranks of the job fail with the dead one. Then the others may end with 9
			// before they go on.
			together := c.status == 3
			if got := cmd.ProcessState.ExitCode(); got != c.status && !(together && got == 9) {
				t.Errorf("status %d, want %d:\n%s", got, c.status, out)
			}
			for _, want := range c.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if survivors := strings.Count(string(out), "goes on without rank 1"); !together &&
				(survivors == 2) != (c.how != "stay") {
				t.Errorf("%d ranks went on without rank 1:\n%s", survivors, out)
			}
			checkExits(t, trace, len(c.flags)/2)
		})
	}
}

// checkExits checks that the outcome of a traced job has this many exits.
func checkExits(t *testing.T, trace string, want int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(trace, "outcome.json"))
	if err != nil {
		t.Fatal(err)
	}
	var outcome struct {
		Exits []struct {
			Rank int
			Seen bool
		} `json:"expected_exits"`
	}
	if err := json.Unmarshal(text, &outcome); err != nil || len(outcome.Exits) != want {
		t.Errorf("the outcome has the exits %+v (%v), want %d", outcome.Exits, err, want)
	}
}
