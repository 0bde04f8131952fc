// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/needs"
)

// pauses are events that stop a job for a while, or change clocks. The job continues.
var pauses = []failure{
	{"SIGSTOP of a rank for 10 s", func(t *testing.T, on system, _ uint64) { stopped(t, on, 10*time.Second, 1) },
		"2.29", ""},
	{"SIGSTOP of a rank for 12 s while it starts", stoppedEarly, "", ""},
	{"SIGSTOP of all ranks for 5 s", func(t *testing.T, on system, _ uint64) { stopped(t, on, 5*time.Second, 0, 1) },
		"2.22", ""},
	{"steps of the wall clock", clockSteps, "2.22", "real"},
}

func stopped(t *testing.T, on system, pause time.Duration, which ...int) {
	w := start(t, setup{on: on, profile: "eth10", ranks: 2, seed: 1, args: []string{"loop", "1", "65536"}})
	w.await("running")
	for _, r := range which {
		w.ranks[r].signal(t, syscall.SIGSTOP)
	}
	time.Sleep(pause)
	for _, r := range which {
		w.ranks[r].signal(t, syscall.SIGCONT)
	}
	w.allRight(time.Minute)
}

// stoppedEarly stops a rank at a random moment of its start, for longer than any timeout of
// connecting.
func stoppedEarly(t *testing.T, on system, seed uint64) {
	w := start(t, setup{on: on, profile: "eth10", ranks: 2, seed: 1, args: []string{"loop", "1", "65536"}})
	w.await("joining")
	time.Sleep(time.Duration(seed % 1e9))
	w.ranks[1].signal(t, syscall.SIGSTOP)
	time.Sleep(12 * time.Second)
	w.ranks[1].signal(t, syscall.SIGCONT)
	w.allRight(time.Minute)
}

// clockSteps makes CLOCK_REALTIME jump by days, back and forth, for everything in the process that
// reads it through the C library. CLOCK_MONOTONIC, which the fabric uses, has no steps.
func clockSteps(t *testing.T, on system, _ uint64) {
	shim := filepath.Join(t.TempDir(), "steps.so")
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "testdata/steps.c",
		"-o", shim).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	w := start(t, setup{on: on, profile: "eth10", ranks: 2, seed: 1, args: []string{"loop", "1", "65536"},
		env: []string{"LD_PRELOAD=" + shim}})
	w.allRight(time.Minute)
	_, first := w.ranks[0].printed("the wall clock stepped")
	_, second := w.ranks[1].printed("the wall clock stepped")
	if !first && !second {
		w.fatalf("the wall clock did not step")
	}
}

// otherTime runs one rank in another time namespace, as a container that was restored from a
// checkpoint does. Its clock differs, so it is refused.
func otherTime(t *testing.T, on system, _ uint64) {
	needs.Root(t, "a time namespace")
	w := start(t, setup{on: on, profile: "eth10", ranks: 1, seed: 1, args: []string{"loop", "1", "65536"},
		wrap: []string{"unshare", "--time", "--monotonic", "1000"}})
	w.finish(hang)
	if _, ok := w.ranks[0].printed("time namespace"); !ok || w.ranks[0].status() == 0 {
		w.fatalf("a rank in another time namespace ended with %d", w.ranks[0].status())
	}
}
