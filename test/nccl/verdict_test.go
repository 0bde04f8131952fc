// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
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
// time, those of the limits stated time. What tells a fault from a busy host: with it all messages are late, or one is
// late by as much as the fault, and without it only the host can be a reason.
func TestPlantedFaultsAreInvalid(t *testing.T) {
	valid := map[string]bool{} // arguments of runs without a fault
	for _, tc := range []struct {
		name, fault, reason string
		scale               int
		args                []string
		atLeast             time.Duration // the largest lateness
	}{
		// Messages of 8 bytes take 27 us.
		{"10 us added to each delivery", fmt.Sprint("delay ", 10*1000*scaleSmall), "later than max(1 us, 2 %",
			scaleSmall, []string{"-b", "8", "-e", "8", "-n", "50"}, 10 * time.Microsecond},
		{"rate 3 % low", "slow 3", "at its rate: this is an error of ddlemu", scale,
			[]string{"-b", "1M", "-e", "1M", "-n", "6"}, 0},
		// Messages of 256 KiB follow each other every 2 ms.
		{"one message in 20 late", fmt.Sprint("late 20 ", 1000*scaleUS), "1 in 100 may be", scale,
			[]string{"-b", "1M", "-e", "1M", "-n", "6"}, time.Millisecond},
		// One AllReduce takes 9 ms. Stalls with a longer interval can synchronize with the calls: each then occurs
		// between two calls, when nothing is in flight.
		{"the sending thread stalls", fmt.Sprint("stall ", 2000*scaleUS, " ", 5000*scaleUS), "1 in 100 may be", scale,
			[]string{"-b", "1M", "-e", "1M", "-n", "6"}, time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := folder(t)
			args := append([]string{"allreduce", "--profile", "eth1", "--ranks", "2", "-w", "1", "--set",
				fmt.Sprint("time_scale=", tc.scale)}, tc.args...)
			env := []string{"DDLEMU_PLUGIN_DIR=" + built.Path(t, "faults"), "NCCL_ALGO=Ring", "NCCL_PROTO=Simple"}
			r := bench(t, dir, append(env, "DDLEMU_FAULT="+tc.fault), args...)
			reasons := strings.Join(r.Reasons, "\n")
			if r.Verdict != "INVALID" || !strings.Contains(reasons, tc.reason) ||
				largestLateness(t, reasons) < tc.atLeast {
				t.Errorf("%s %q, want INVALID with %q and a lateness of %v", r.Verdict, r.Reasons, tc.reason,
					tc.atLeast)
			}
			// The same run without the fault is VALID.
			if valid[fmt.Sprint(args)] {
				return
			}
			onRealClock(t, func(string) error {
				if r := bench(t, dir, env, args...); r.Verdict != "VALID" {
					onlyTheHost(t, r.Verdict, r.Findings)
					return fmt.Errorf("without a fault: %s %q", r.Verdict, r.Reasons)
				}
				valid[fmt.Sprint(args)] = true
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
	out, err := ddlemu(ctx, t, dir, env,
		append([]string{"run", "--profile", "eth1", "--soft-cuda", "--set", "time_scale=" + fmt.Sprint(scale)},
			args...)...).CombinedOutput()
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
	t.Parallel()
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
		out, err := ddlemu(t.Context(), t, folder(t), env, "run", "--profile", "eth10", "--clock", "virtual", "--nodes",
			"2", "--set", "gpus_per_node=2", "--soft-cuda", "--", bin).CombinedOutput()
		if err != nil || strings.Contains(string(out), warning) != tc.warns {
			t.Errorf("%s ranks, %s: %v, and not warned as wanted (%v):\n%s", tc.ranks, tc.env, err, tc.warns, out)
		}
	}
}

func TestRanksOnSharedMemoryAreInvalid(t *testing.T) {
	t.Parallel()
	bin := program(t)
	text, word := verdictOf(t, folder(t), []string{"NCCL_HOSTID=somebody-elses"}, "--", bin)
	if word != "INVALID" || !strings.Contains(text, "went around the emulated links") {
		t.Errorf("ranks with one NCCL_HOSTID:\n%s", text)
	}
}

// pause is how long the job of TestWhatTheJobDoesIsNotTheEmulatorsFault does not communicate, in real time. It is so
// long that no busy host makes a message late by half of it.
const pause = 2 * time.Second

func TestWhatTheJobDoesIsNotTheEmulatorsFault(t *testing.T) {
	t.Parallel()
	bin := program(t)
	for _, variable := range []string{"SLEEP_MS", "LATE_MS"} { // of both ranks, of one
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			text, _ := verdictOf(t, folder(t), []string{fmt.Sprint(variable, "=", pause.Milliseconds())}, "--", bin)
			notLate(t, text)
		})
	}
	t.Run("stopped before any collective", func(t *testing.T) {
		t.Parallel()
		dir := folder(t)
		cmd := ddlemu(t.Context(), t, dir, []string{"READY_FILE=" + dir + "/ready"}, "run", "--profile", "eth1",
			"--soft-cuda", "--set", "time_scale="+fmt.Sprint(scale), "--", bin)
		notLate(t, stopped(t, cmd, dir))
	})
}

// notLate checks that a pause of the job is no lateness: no message is late by half of it, and if the run is INVALID,
// the host is why. The summary of the reasons names the host only if none of them has another cause.
func notLate(t *testing.T, text string) {
	t.Helper()
	rows := regexp.MustCompile(`(?m)^node\d:node\d .* (\S+) +\S+$`).FindAllStringSubmatch(text, -1)
	if len(rows) != 2 || !strings.Contains(text, "verdict: VALID") && !strings.Contains(text, "\nddlemu: host ") {
		t.Errorf("the lateness of 2 links, and VALID or a reason of the host:\n%s", text)
	}
	for _, row := range rows {
		if late, err := time.ParseDuration(row[1]); err != nil || late*scale > pause/2 {
			t.Errorf("late by %v at time scale %d, %v, the job paused for %v:\n%s", late, scale, err, pause, text)
		}
	}
}

// largestLateness is the largest that the reasons name.
func largestLateness(t *testing.T, reasons string) (most time.Duration) {
	t.Helper()
	for _, m := range regexp.MustCompile(`the largest lateness is ([0-9.a-zµ]+)`).FindAllStringSubmatch(reasons, -1) {
		late, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatalf("%v in %q", err, reasons)
		}
		most = max(most, late)
	}
	return most
}

// stopped runs cmd, whose program waits between the communicator's init and the first collective, and stops the program
// there for a while. It returns what cmd prints.
func stopped(t *testing.T, cmd *exec.Cmd, dir string) string {
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
		time.Sleep(pause)
	}
	if err := os.Remove(dir + "/ready"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	return out.String()
}

// The output of a bench whose ranks fail ends with the rows so far and a verdict that says why.
func TestFailedBenchHasAVerdict(t *testing.T) {
	t.Parallel()
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
	if reasons := strings.Join(r.Reasons, "\n"); r.Verdict != "INVALID" ||
		!strings.Contains(reasons, "failed with 0 of 1 row measured") || !strings.Contains(reasons, "down") {
		t.Errorf("%s %q", r.Verdict, r.Reasons)
	}
}
