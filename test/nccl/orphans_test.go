// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// If a signal ends a launcher, run ends the ranks that it left.
func TestRunEndsWhatALauncherLeft(t *testing.T) {
	// Programs get the default of a signal that this one handles, also if the tests were started with nohup.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		file := filepath.Join(t.TempDir(), "pid")
		cmd := ddlemu(t.Context(), t, folder(t), nil, "run", "--profile", "loopback", "--", "sh", "-c",
			"sleep 1000 & echo $! > "+file+"; wait")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := readPid(t, file)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(s) {
			t.Errorf("%v: %v, want exit status %d", s, err, 128+int(s))
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%v: what the launcher had started is there: %v", s, err)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// With nohup, run and its programs go on when the terminal is gone.
func TestRunWithNohup(t *testing.T) {
	t.Parallel()
	file, done := filepath.Join(t.TempDir(), "pid"), filepath.Join(t.TempDir(), "done")
	cmd := ddlemu(t.Context(), t, folder(t), nil, "run", "--profile", "loopback", "--", "sh", "-c",
		"echo $$ > "+file+"; while [ ! -e "+done+" ]; do sleep 0.05; done")
	cmd.Args = append([]string{"nohup", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = needs.Program(t, "nohup")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{readPid(t, file), cmd.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const noRank = 3
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != noRank {
		t.Errorf("%v, want exit status %d", err, noRank)
	}
}

// A bench whose reader ends, such as head, takes its fabric down.
func TestBenchWithoutReader(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := ddlemu(t.Context(), t, dir, nil, "bench", "allreduce", "--profile", "eth10", "--ranks", "2", "-b", "8", "-e",
		"1M", "-f", "2")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(syscall.SIGPIPE) {
		t.Errorf("%v, want exit status 141", err)
	}
	if out, err := ddlemu(t.Context(), t, dir, nil, "status").CombinedOutput(); !strings.Contains(string(out),
		"no fabric is up") {
		t.Errorf("%v\n%s", err, out)
	}
}

// If run itself is killed, its programs end too: also those that ignore SIGTERM or have a session of their own, and
// those on the nodes, also if a launcher started them there by `ddlemu ssh`, which makes a new environment.
func TestRunIsKilled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		flags    []string
		program  string // starts a process and writes its process id to $FILE
		needRoot bool
	}{
		{"a launcher", nil, "sleep 1000 & echo $! > $FILE; wait", false},
		{"a process that ignores SIGTERM", nil, "trap '' TERM; sleep 1000 & echo $! > $FILE; wait", false},
		{"a process with its own session", nil, "setsid sh -c 'echo $$ > $FILE; exec sleep 1000' & sleep 1000", false},
		{"on the nodes", []string{"--set", "datapath=kernel", "--per-node"},
			"[ {node} = 1 ] && echo $$ > $FILE; exec sleep 1000", true},
		{"on another node by ssh", []string{"--set", "datapath=kernel"},
			"\"$DDLEMU\" ssh node1 \"echo \\$\\$ > $FILE; exec sleep 1000\"", true},
		{"on the nodes, by ssh from another one, with its own session", []string{"--set", "datapath=kernel", "--per-node"},
			"[ {node} = 0 ] && \"$DDLEMU\" ssh node1 \"setsid sh -c 'echo \\$\\$ > $FILE; exec sleep 1000' < /dev/null > /dev/null 2>&1 &\"; exec sleep 1000", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.needRoot {
				needs.Root(t, "the kernel datapath")
			}
			t.Parallel() // most of the time is that for which gc leaves a fabric that a rank may be about to join
			dir, file := folder(t), filepath.Join(t.TempDir(), "pid")
			args := slices.Concat([]string{"run", "--profile", "eth1"}, tc.flags,
				[]string{"--", "sh", "-c", tc.program})
			cmd := ddlemu(t.Context(), t, dir, []string{"FILE=" + file, "DDLEMU=" + built.Path(t, "bin", "ddlemu")},
				args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := readPid(t, file)
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			for lives(pid) {
				if time.Since(killed) > 5*time.Second {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					t.Fatal("what run had started lives 5 s after run was killed")
				}
				time.Sleep(20 * time.Millisecond)
			}
			_ = cmd.Wait() // it was killed
			for len(fabricsIn(t, dir)) > 0 {
				if out, err := ddlemu(t.Context(), t, dir, nil, "gc").CombinedOutput(); err != nil ||
					time.Since(killed) > 20*time.Second {
					t.Fatalf("gc, %v after run was killed: %v: %s", time.Since(killed), err, out)
				}
				time.Sleep(500 * time.Millisecond)
			}
		})
	}
}

// fabricsIn returns the files of fabrics in a folder.
func fabricsIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.fabric"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// readPid returns the process id that a program writes to a file.
func readPid(t *testing.T, file string) (pid int) {
	t.Helper()
	for begin := time.Now(); pid == 0; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the launcher did not start")
		}
	}
	return pid
}

// lives says whether a process runs. One that has ended, and that nobody has waited for, has no environment.
func lives(pid int) bool {
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && len(environment) > 0
}

// run accepts --set time_scale=auto. Without a rank its exit status is 3.
func TestRunChoosesATimeScale(t *testing.T) {
	t.Parallel()
	cmd := ddlemu(t.Context(), t, folder(t), nil, "run", "--profile", "loopback", "--set", "time_scale=auto", "--", "true")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "time scale 1, enough: nothing is shaped") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// Traffic over NCCL's own transport is noticed, although nodes and ranks are correct.
func TestAnotherNetIsInvalid(t *testing.T) {
	t.Parallel()
	bin := program(t)
	text, word := verdictOf(t, folder(t), nil, "--", "env", "NCCL_NET=Socket", bin)
	if word != "INVALID" || !strings.Contains(text, "no message crossed an emulated link") {
		t.Errorf("ranks over NET/Socket:\n%s", text)
	}
}
