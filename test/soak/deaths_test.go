// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// deaths are failures in which a rank dies or leaves.
var deaths = []failure{
	{"kill -9 of one of 2", func(t *testing.T, on system, _ uint64) { killed(t, on, 2) }, "2.22", ""},
	{"kill -9 of one of 4", func(t *testing.T, on system, _ uint64) { killed(t, on, 4) }, "", ""},
	{"kill -9 at a random moment", killedAnyTime, "2.29", ""},
	{"kill -9 while it runs the clock", diesRunningClock, "2.29", "virtual"},
	{"kill -9 while it connects", func(t *testing.T, on system, _ uint64) {
		connecting(t, on, "DIE=1", "a rank of the job died before it connected")
	}, "2.29", ""},
	{"exit while it connects", func(t *testing.T, on system, _ uint64) {
		connecting(t, on, "EXIT=1", "a rank left the job before it connected")
	}, "2.22", ""},
	{"exit without destroy", exited, "2.29", ""},
	{"its pid is given to another process", pidReused, "2.22", ""},
	{"another rank joins in its place", placeReused, "2.29", "real"}, // the stopped rank would stop a virtual clock
	{"DDLEMU_ABORT_ON_ERROR", aborts, "2.29", ""},
}

// died is in what the others say of a rank that is killed: "the peer's process died", or, of the
// connection whose steps its process was making on a virtual clock, "a rank died while its process
// ran the virtual clock".
const died = " died"

func killed(t *testing.T, on system, ranks int) {
	checkPromise(t, func() time.Duration {
		w := job(t, on, ranks)
		took := w.errors(w.kill(ranks-1), died, ranks-1)
		w.runsNextJob(on)
		return took
	})
}

// killedAnyTime kills a rank within a second after data has moved.
func killedAnyTime(t *testing.T, on system, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	ranks := 2 + random.IntN(3)
	checkPromise(t, func() time.Duration {
		w := job(t, on, ranks)
		time.Sleep(time.Duration(random.IntN(1e9)))
		victim := random.IntN(ranks)
		took := w.errors(w.kill(victim), died, victim)
		w.runsNextJob(on)
		return took
	})
}

// diesRunningClock kills a rank in the middle of a step of the link model. The others get the error, and the next job
// on the fabric finds nothing of it.
func diesRunningClock(t *testing.T, on system, _ uint64) {
	faulty := "LD_LIBRARY_PATH=" + built.Path(t, "faults") + ":" + strings.TrimPrefix(libraries(t, on.nccl),
		"LD_LIBRARY_PATH=")
	checkPromise(t, func() time.Duration {
		w := start(t, setup{on: on, profile: "eth10", ranks: 3, seed: 1, args: []string{"loop", "300", "65536"},
			env: []string{"NCCL_DEBUG=WARN", faulty}, last: []string{"DDLEMU_FAULT=scheduler 3000"}})
		w.finish(hang)
		if status := w.ranks[2].status(); status != 128+int(syscall.SIGKILL) {
			w.fatalf("the rank that was to die ended with %d", status)
		}
		took := w.errors(w.ranks[2].endsAt, died, 2)
		w.runsNextJob(on)
		return took
	})
}

// runsNextJob runs another job on the same fabric: the failed job must not disturb it.
func (w *world) runsNextJob(on system) {
	w.t.Helper()
	next := start(w.t,
		setup{on: on, ranks: len(w.ranks), seed: 2, args: []string{"collectives", "allreduce", "100003", "1"},
			dir: w.dir, env: []string{"DDLEMU_JOB=next"}})
	next.allRight(time.Minute)
	if on.clock == configs.VirtualClock {
		if out := ddlemu(w.t, w.dir, "status", "--last"); !strings.Contains(out, "VALID") ||
			strings.Contains(out, "INVALID") {
			w.fatalf("the next job is not VALID:\n%s", out)
		}
	}
}

// connecting ends a rank while the plugin connects, by giving it no memory for connections.
// The rank lingers until the other rank has made its connections. That one then waits for a
// connection that is never made, and must get an error.
func connecting(t *testing.T, on system, how, why string) {
	checkPromise(t, func() time.Duration {
		w := start(t, setup{on: on, profile: "eth10", ranks: 2, seed: 1, args: []string{"loop", "300", "65536"},
			env: []string{"NCCL_DEBUG=WARN"}, last: []string{"DDLEMU_MEMORY=16K", "LINGER=1", how}})
		w.finish(hang)
		// It waits in accept or in connect.
		_, waits := w.ranks[0].printed(why)
		_, makes := w.ranks[0].printed("connect to rank 1: ")
		if w.ranks[0].status() == 0 || !waits && !makes {
			w.fatalf("rank 0 ended with %d and did not say %q", w.ranks[0].status(), why)
		}
		return w.ranks[0].endsAt.Sub(w.ranks[1].endsAt)
	})
}

func exited(t *testing.T, on system, _ uint64) {
	checkPromise(t, func() time.Duration {
		w := start(t, setup{on: on, profile: "eth10", ranks: 2, seed: 1, args: []string{"loop", "300", "65536", "1"},
			env: []string{"NCCL_DEBUG=WARN"}})
		w.await("running")
		w.finish(hang)
		if s := w.ranks[1].status(); s != 0 {
			w.fatalf("the rank that exited ended with %d", s)
		}
		at, _ := w.ranks[1].printed("leaving")
		return w.errors(at, "the peer closed the connection", 1)
	})
}

// pidReused gives the pid of a dead rank to another process before the other rank checks it.
func pidReused(t *testing.T, on system, _ uint64) {
	needs.Root(t, "choosing the pid of a process")
	checkPromise(t, func() time.Duration {
		w := job(t, on, 2)
		w.ranks[0].signal(t, syscall.SIGSTOP)
		w.kill(1)
		pid := w.ranks[1].cmd.Process.Pid
		other := exec.Command(program(t), "impostor", fmt.Sprint(pid))
		other.Env = append(environment(w.dir), libraries(t, on.nccl), "ID_FILE=none")
		in, err := other.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			in.Close()
			if err := other.Wait(); err != nil {
				t.Errorf("the process with the reused pid: %v", err)
			}
		}()
		var line string
		if _, err := fmt.Fscanln(out, &line); err != nil || line != "here" {
			w.fatalf("no process with pid %d: %v %q", pid, err, line)
		}
		at := time.Now()
		w.ranks[0].signal(t, syscall.SIGCONT)
		return w.errors(at, "the peer's process died", 1)
	})
}

// placeReused lets a rank of another job join in the dead rank's slot of the fabric before the
// other rank checks it.
func placeReused(t *testing.T, on system, _ uint64) {
	checkPromise(t, func() time.Duration {
		w := job(t, on, 2)
		w.ranks[0].signal(t, syscall.SIGSTOP)
		w.kill(1)
		next := start(t, setup{on: on, ranks: 2, seed: 2, args: []string{"loop", "6", "65536"}, dir: w.dir,
			env: []string{"DDLEMU_JOB=next"}})
		next.await("running")
		at := time.Now()
		w.ranks[0].signal(t, syscall.SIGCONT)
		took := w.errors(at, "the peer's process died", 1)
		next.allRight(time.Minute)
		return took
	})
}

// aborts: with DDLEMU_ABORT_ON_ERROR the process ends, for NCCL versions that lose an error of
// the net.
func aborts(t *testing.T, on system, _ uint64) {
	checkPromise(t, func() time.Duration {
		w := job(t, on, 2, "DDLEMU_ABORT_ON_ERROR=1", "DEAF=1")
		at := w.kill(1)
		w.finish(hang)
		p := w.ranks[0]
		if _, ok := p.printed(": ending the process (DDLEMU_ABORT_ON_ERROR)"); !ok ||
			p.status() != 128+int(syscall.SIGABRT) {
			w.fatalf("rank 0 ended with %d, want SIGABRT and the reason", p.status())
		}
		return p.endsAt.Sub(at)
	})
}
