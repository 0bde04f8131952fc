// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
)

// Time scales of these runs: so large that a correct emulator is VALID on a small host, so the planted fault is the
// reason for INVALID.
const (
	scale      = 64
	scaleSmall = 512          // for messages that take microseconds
	scaleUS    = scale * 1000 // one stated microsecond in real ns
)

// Faults of the emulator, which the plugin's test build plants, make a run INVALID. Times in DDLEMU_FAULT are real
// time, those of the limits stated time.
func TestPlantedFaultsAreInvalid(t *testing.T) {
	for _, tc := range []struct {
		name, fault, reason string
		scale               int
		args                []string
	}{
		// Messages of 8 bytes take 27 us.
		{"10 us added to each delivery", fmt.Sprint("delay ", 10*1000*scaleSmall), "later than max(1 us, 2 %", scaleSmall, []string{"-b", "8", "-e", "8", "-n", "50"}},
		{"rate 3 % low", "slow 3", "at its rate: this is an error of ddlemu", scale, []string{"-b", "1M", "-e", "1M", "-n", "6"}},
		// Messages of 256 KiB follow each other every 2 ms.
		{"one message in 20 late", fmt.Sprint("late 20 ", 1000*scaleUS), "1 in 100 may be", scale, []string{"-b", "1M", "-e", "1M", "-n", "6"}},
		// One AllReduce takes 9 ms. Stalls with a longer interval can synchronize with the calls: each then occurs
		// between two calls, when nothing is in flight.
		{"the sending thread stalls", fmt.Sprint("stall ", 2000*scaleUS, " ", 5000*scaleUS), "1 in 100 may be", scale, []string{"-b", "1M", "-e", "1M", "-n", "6"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folder(t)
			args := append([]string{"allreduce", "--profile", "eth1", "--ranks", "2", "-w", "1", "--time-scale", fmt.Sprint(tc.scale)}, tc.args...)
			env := []string{"DDLEMU_PLUGIN_DIR=" + built.Path(t, "faults"), "NCCL_ALGO=Ring", "NCCL_PROTO=Simple"}
			r := bench(t, dir, append(env, "DDLEMU_FAULT="+tc.fault), args...)
			if r.Verdict != "INVALID" || !strings.Contains(strings.Join(r.Reasons, "\n"), tc.reason) {
				t.Errorf("%s %q, want INVALID with %q", r.Verdict, r.Reasons, tc.reason)
			}
			// The same run without the fault is VALID.
			retry(t, func(string) error {
				if r := bench(t, dir, env, args...); r.Verdict != "VALID" {
					return fmt.Errorf("without a fault: %s %q", r.Verdict, r.Reasons)
				}
				return nil
			})
		})
	}
}

// verdictOf runs the program under ddlemu and returns the reasons and the verdict.
func verdictOf(t *testing.T, dir string, env []string, args ...string) (text, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := ddlemu(ctx, t, dir, env, append([]string{"run", "--profile", "eth1", "--soft-cuda", "--time-scale", fmt.Sprint(scale)}, args...)...).CombinedOutput()
	text = string(out)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	_, word, ok := strings.Cut(text, "verdict: ")
	if !ok {
		t.Fatalf("no verdict in\n%s", text)
	}
	return text, strings.TrimSpace(word)
}

// Ranks may choose different algorithms if some are alone on their node, and the plugin warns of it.
func TestRanksThatAreAloneOnTheirNode(t *testing.T) {
	const warning = "a rank that is alone on its node may choose another algorithm"
	bin := program(t)
	for _, tc := range []struct {
		ranks string
		env   string
		warns bool
	}{{"2", "", false}, {"3", "", true}, {"3", "NCCL_ALGO=Ring", false}, {"4", "", false}} {
		env := []string{"WORLD_SIZE=" + tc.ranks, "COUNT=1000", "NCCL_DEBUG=WARN"}
		if tc.env != "" {
			env = append(env, tc.env)
		}
		out, err := ddlemu(t.Context(), t, folder(t), env, "run", "--profile", "eth10", "--clock", "virtual", "--nodes", "2", "--gpus-per-node", "2", "--soft-cuda", "--", bin).CombinedOutput()
		if err != nil || strings.Contains(string(out), warning) != tc.warns {
			t.Errorf("%s ranks, %s: %v, and not warned as wanted (%v):\n%s", tc.ranks, tc.env, err, tc.warns, out)
		}
	}
}

func TestRanksOnSharedMemoryAreInvalid(t *testing.T) {
	bin := program(t)
	text, word := verdictOf(t, folder(t), []string{"NCCL_HOSTID=somebody-elses"}, "--", bin)
	if word != "INVALID" || !strings.Contains(text, "went around the emulated links") {
		t.Errorf("ranks with one NCCL_HOSTID:\n%s", text)
	}
}

func TestWhatTheJobDoesIsNotTheEmulatorsFault(t *testing.T) {
	bin := program(t)
	for _, tc := range []struct {
		name string
		env  []string
	}{
		{"sleeps half of the time", []string{"SLEEP_MS=100"}},
		{"one rank comes 10 ms late", []string{"LATE_MS=10"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folder(t)
			retry(t, func(string) error {
				if text, word := verdictOf(t, dir, tc.env, "--", bin); word != "VALID" {
					return fmt.Errorf("%s:\n%s", word, text)
				}
				return nil
			})
		})
	}
	t.Run("stopped before any collective", func(t *testing.T) {
		dir := folder(t)
		retry(t, func(string) error {
			cmd := ddlemu(t.Context(), t, dir, []string{"READY_FILE=" + dir + "/ready"}, "run", "--profile", "eth1", "--soft-cuda", "--time-scale", fmt.Sprint(scale), "--", bin)
			return stopped(t, cmd, dir)
		})
	})
}

// stopped runs cmd, whose program waits between the communicator's init and the first collective, and stops the program
// there for a while.
func stopped(t *testing.T, cmd *exec.Cmd, dir string) error {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := waitForPID(t, dir+"/ready")
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
	}
	if err := os.Remove(dir + "/ready"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "verdict: VALID") {
		return fmt.Errorf("a rank was stopped before the first collective:\n%s", out.String())
	}
	return nil
}

// The output of a bench whose ranks fail ends with the rows so far and a verdict that says why.
func TestFailedBenchHasAVerdict(t *testing.T) {
	dir := folder(t)
	cmd := func(args ...string) *exec.Cmd { return ddlemu(t.Context(), t, dir, nil, args...) }
	for _, args := range [][]string{
		{"up", "--profile", "eth10", "--nodes", "2", "--name", "cut", "--clock", "virtual"},
		{"shape", "--fabric", "cut", "--link", "node0:node1", "--down"},
	} {
		if out, err := cmd(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	defer func() { _ = cmd("down", "cut").Run() }()
	bench := cmd("bench", "allreduce", "--fabric", "cut", "--ranks", "2", "-b", "1M", "-e", "1M", "--json")
	out, err := bench.Output()
	if bench.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", err)
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if reasons := strings.Join(r.Reasons, "\n"); r.Verdict != "INVALID" || !strings.Contains(reasons, "failed with 0 of 1 row measured") || !strings.Contains(reasons, "down") {
		t.Errorf("%s %q", r.Verdict, r.Reasons)
	}
}
