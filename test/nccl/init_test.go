// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/needs"
)

// If a rank is lost in ncclCommInitRank, the others would wait for it there for ever, and so would the shell that has
// started them.
func TestRankLostInInit(t *testing.T) {
	bin := compile(t, "survive", "-std=c++17")
	const waits = "waits for it in ncclCommInitRank, where NCCL waits for ever: ending the job\n"
	for name, tc := range map[string]struct{ script, want string }{
		// The third rank never comes, so no rank is through before the second one is killed.
		"killed": {`export WORLD_SIZE=3
RANK=0 "$0" &
RANK=1 NCCL_DEBUG=INFO NCCL_DEBUG_FILE=log1 "$0" & one=$!
until grep -qs "rank 1 is on node1" log1; do sleep 0.1; done
kill -9 $one; wait`, "ddlemu: rank 1 died, and rank 0 " + waits},
		"without a net": {`export WORLD_SIZE=3
RANK=0 "$0" &
RANK=1 DDLEMU_NODE=7 "$0" &
wait`, "ddlemu: the plugin of a rank did not start, and rank 0 " + waits},
		// Both other ranks wait, and the line names one of them.
		"before it joins": {`export WORLD_SIZE=3
RANK=0 "$0" &
RANK=1 false &
RANK=2 "$0" &
wait`, "ddlemu: rank 1 is not there, and no program is left that could start it, and rank [02] " + waits},
	} {
		for _, version := range []string{"2.22", "2.29"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				dir, work := folder(t), t.TempDir()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := ddlemu(ctx, t, dir, []string{"DIES=-1", "HOW=stay", "ID_FILE=" + filepath.Join(work, "id")},
					"run", "--profile", "eth10", "--nodes", "3", "--clock", "virtual", "--soft-cuda", "--nccl", version,
					"--", "bash", "-c", tc.script, bin)
				cmd.Dir, cmd.WaitDelay = work, 5*time.Second
				out, _ := cmd.CombinedOutput() // its status is checked below
				if ctx.Err() != nil || cmd.ProcessState.ExitCode() < 1 {
					t.Errorf("exit status %d, %v", cmd.ProcessState.ExitCode(), ctx.Err())
				}
				if !regexp.MustCompile(tc.want).Match(out) || !strings.Contains(string(out), "verdict: INVALID") {
					t.Errorf("no %q, or not INVALID, in\n%s", tc.want, out)
				}
				if log, err := os.ReadFile(filepath.Join(work, "log1")); err == nil && strings.Contains(string(log),
					"Init COMPLETE") {
					t.Errorf("the rank was killed after its start:\n%s", log)
				}
			})
		}
	}
}

// A job whose ranks are not to fail together, or in which a death is expected, is not ended.
func TestRankLostInInitOnPurpose(t *testing.T) {
	t.Parallel()
	const script = `export WORLD_SIZE=3
RANK=0 "$0" & zero=$!
RANK=1 NCCL_DEBUG=INFO NCCL_DEBUG_FILE=log1 "$0" & one=$!
until grep -qs "rank 1 is on node1" log1; do sleep 0.1; done
kill -9 $one; sleep 8; kill -0 $zero && echo waits; kill $zero; wait; exit 0`
	bin := compile(t, "survive", "-std=c++17")
	for name, tc := range map[string]struct {
		env  string
		flag []string
	}{
		"DDLEMU_FAIL_TOGETHER=0": {env: "DDLEMU_FAIL_TOGETHER=0"},
		"--expect-exit":          {env: "A=B", flag: []string{"--expect-exit", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := t.TempDir()
			args := append([]string{"run", "--profile", "eth10", "--nodes", "3", "--clock", "virtual", "--soft-cuda"},
				tc.flag...)
			cmd := ddlemu(t.Context(), t, folder(t), []string{"DIES=-1", "HOW=stay", tc.env,
				"ID_FILE=" + filepath.Join(work, "id")}, append(args, "--", "bash", "-c", script, bin)...)
			cmd.Dir, cmd.WaitDelay = work, 5*time.Second
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "waits\n") {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// Ranks that may open too few files are not started: NCCL would hang.
func TestFewOpenFiles(t *testing.T) {
	t.Parallel()
	for limit, tc := range map[string]struct{ ranks, want string }{
		"74": {"2", "a process may have 74 open files, and NCCL hangs with fewer than 75: raise the limit (ulimit -n 4096)"},
		"75": {"32", "a process may have 75 open files, and this command needs 144: raise the limit (ulimit -n 144)"},
	} {
		cmd := ddlemu(t.Context(), t, folder(t), nil, "bench", "allreduce", "--profile", "eth10", "--ranks", tc.ranks,
			"-b", "1M", "-e", "1M")
		cmd.Args = append([]string{"sh", "-c", "ulimit -n " + limit + `; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = needs.Program(t, "sh")
		out, _ := cmd.CombinedOutput() // its status is checked below
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), tc.want) {
			t.Errorf("a limit of %s: status %d:\n%s", limit, cmd.ProcessState.ExitCode(), out)
		}
	}
}
