// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// early is the output of a bench that ended before all was measured.
type early struct {
	result
	Budget *struct {
		Seconds float64
		Text    string
		Dropped []int64
	}
}

// rows are arguments whose largest rows take minutes.
var rows = []string{"bench", "allreduce", "--profile", "eth10", "--ranks", "2", "-b", "8", "-e", "512M", "-f", "4",
	"-n", "500", "--json"}

// An interrupt at any time leaves JSON with the rows so far and the verdict incomplete, exit status 130, no process and
// no fabric.
func TestInterruptedBench(t *testing.T) {
	most := 0
	for _, after := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second} {
		dir := folder(t)
		cmd := ddlemu(t.Context(), t, dir, nil, rows...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after) // the moment does not matter
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() == -1 && after < 100*time.Millisecond {
			continue // it had not yet begun to handle signals
		}
		if cmd.ProcessState.ExitCode() != 130 {
			t.Fatalf("after %v: exit status %d: %s", after, cmd.ProcessState.ExitCode(), errs.String())
		}
		if out.Len() == 0 && after < 100*time.Millisecond {
			continue // it read its flags
		}
		var r early
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("after %v: %v in %q", after, err, out.String())
		}
		if r.Verdict != "incomplete" || len(r.Reasons) == 0 || !strings.HasPrefix(r.Reasons[0], "interrupted: ") ||
			r.Rows == nil || r.Header.Ranks != 2 {
			t.Errorf("after %v: %s", after, out.String())
		}
		for _, row := range r.Rows {
			if row.Wrong == nil || *row.Wrong != 0 || row.TimeUS <= 0 {
				t.Errorf("after %v: %+v", after, row)
			}
		}
		most = max(most, len(r.Rows))
	}
	if most == 0 {
		t.Errorf("no row was measured before any of the interrupts")
	}
}

// The ranks of a bench that was interrupted on a fabric that is up have not died, and its job is incomplete.
func TestInterruptedBenchOnAFabric(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	t.Cleanup(func() { _ = ddlemu(context.Background(), t, dir, nil, "down", "--all").Run() })
	if out, err := ddlemu(t.Context(), t, dir, nil, "up", "--profile", "eth10", "--clock", "virtual", "--name",
		"shared").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	type job struct{ Joined, Left, Died, Stopped int }
	jobs := func() []job {
		t.Helper()
		out, err := ddlemu(t.Context(), t, dir, nil, "status", "--json").Output()
		var s struct{ Jobs []job }
		if err := errors.Join(err, json.Unmarshal(out, &s)); err != nil {
			t.Fatal(err)
		}
		return s.Jobs
	}
	cmd := ddlemu(t.Context(), t, dir, nil, "bench", "allreduce", "--fabric", "shared", "--ranks", "2", "-b", "64M",
		"-e", "64M", "-n", "5000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if all := jobs(); len(all) > 0 && all[0].Joined == 2 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("no ranks after a minute")
		}
	}
	_ = cmd.Process.Signal(os.Interrupt) // it has not ended: its row takes minutes
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
	if got := jobs(); len(got) != 1 || got[0] != (job{Joined: 2, Stopped: 2}) {
		t.Errorf("got %+v", got)
	}
	if out, _ := ddlemu(t.Context(), t, dir, nil, "status", "--last").Output(); !bytes.Contains(out,
		[]byte("\nverdict: incomplete\n")) {
		t.Errorf("%s", out)
	}
}

// A second interrupt ends a bench at once, and its ranks with it.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	t.Cleanup(func() { _ = ddlemu(context.Background(), t, dir, nil, "down", "--all").Run() })
	cmd := ddlemu(t.Context(), t, dir, []string{"TMPDIR=" + t.TempDir()}, rows...) // it leaves NCCL's logs there
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ranks []int
	for begin := time.Now(); len(ranks) < 2; time.Sleep(20 * time.Millisecond) {
		if ranks = childrenOf(t, cmd.Process.Pid); time.Since(begin) > time.Minute {
			t.Fatal("no ranks after a minute")
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	for running := true; running; {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		select {
		case <-ended:
			running = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v, not by the second signal", cmd.ProcessState)
	}
	for _, pid := range ranks {
		for begin := time.Now(); lives(pid); time.Sleep(20 * time.Millisecond) {
			if time.Since(begin) > 5*time.Second {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("rank process %d is left after 5 s", pid)
			}
		}
	}
}

// childrenOf are the child processes of a process.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
		}
	}
	return children
}

// A run keeps to its budget, and says what it dropped.
func TestBudget(t *testing.T) {
	const budget, more = 10 * time.Second, 5 * time.Second // more: "a few seconds"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := ddlemu(ctx, t, folder(t), nil, append(rows[:len(rows):len(rows)], "--budget", "10s")...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	begin := time.Now()
	out, err := cmd.Output()
	if took := time.Since(begin); err != nil || took > budget+more {
		t.Fatalf("it took %v: %v: %s", took, err, errs.String())
	}
	var r early
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) == 0 || r.Budget == nil || r.Budget.Seconds != 10 || len(r.Budget.Dropped) == 0 ||
		!strings.HasPrefix(r.Budget.Text, "budget 10s: ") {
		t.Fatalf("%s", out)
	}
	if want := fmt.Sprintf("ddlemu: %s\n", r.Budget.Text); !strings.Contains(errs.String(), want) {
		t.Errorf("standard error has %q, want %q", errs.String(), want)
	}
	if last := r.Rows[len(r.Rows)-1].Size; r.Budget.Dropped[0] <= last {
		t.Errorf("%d bytes are dropped, %d were measured", r.Budget.Dropped[0], last)
	}
}
