// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"syscall"
	"testing"
	"time"
)

// together are failures of jobs with two ranks per node, which reach each other by NCCL's SHM, with
// DDLEMU_FAIL_TOGETHER.
var together = []failure{
	{"kill -9 of one of 4 on 2 nodes", func(t *testing.T, on system, _ uint64) { killedTogether(t, on, 3) }, "2.22",
		""},
	{"kill -9 of the first of 4 on 2 nodes", func(t *testing.T, on system, _ uint64) { killedTogether(t, on, 0) },
		"2.29", ""},
	{"the same without DDLEMU_FAIL_TOGETHER", killedApart, "2.22", "real"}, // on a virtual clock it is a deadlock
	{"DDLEMU_ABORT_ON_ERROR of 4 on 2 nodes", abortsTogether, "2.22", "real"},
	{"_exit after ncclCommDestroy", leavesEarly, "2.22", ""},
	// the stopped rank would stop a virtual clock
	{"a rank of the same job that is still there dies", oldRankDies, "2.29", "real"},
}

const failTogether = "DDLEMU_FAIL_TOGETHER=1"

// nodes4 starts a job of 4 ranks on 2 nodes, and waits until it has moved data.
func nodes4(t *testing.T, on system, env ...string) *world {
	t.Helper()
	w := start(t, setup{on: on, profile: "eth10", ranks: 4, nodes: 2, seed: 1, args: []string{"loop", "300", "65536"},
		env: append(env, "NCCL_DEBUG=WARN")})
	w.await("running")
	return w
}

// failed waits until every rank but the lost one has ended with an error, and returns the time from
// since. Each of them must have said why.
func (w *world) failed(since time.Time, why string, lost int) time.Duration {
	w.t.Helper()
	w.finish(hang)
	took := time.Duration(0)
	for i, p := range w.ranks {
		if i == lost {
			continue
		}
		if _, ok := p.printed(why); !ok || p.status() == 0 {
			w.fatalf("rank %d ended with %d and did not say %q", i, p.status(), why)
		}
		took = max(took, p.endsAt.Sub(since))
	}
	return took
}

func killedTogether(t *testing.T, on system, victim int) {
	checkPromise(t, func() time.Duration {
		w := nodes4(t, on, failTogether)
		took := w.failed(w.kill(victim), "rank "+string(rune('0'+victim))+" of the job died", victim)
		w.runsNextJob(on)
		return took
	})
}

// killedApart: without DDLEMU_FAIL_TOGETHER ranks that wait in their own node wait on, as on a real
// cluster. Whoever changes that changes docs/failures.md.
func killedApart(t *testing.T, on system, _ uint64) {
	w := nodes4(t, on)
	w.kill(3)
	time.Sleep(2 * promise)
	for _, p := range w.ranks[:3] {
		select {
		case <-p.ended:
		default:
			return
		}
	}
	w.fatalf("no rank waits")
}

// abortsTogether: a process whose NCCL does not call the plugin ends too.
func abortsTogether(t *testing.T, on system, _ uint64) {
	checkPromise(t, func() time.Duration {
		w := nodes4(t, on, failTogether, "DDLEMU_ABORT_ON_ERROR=1", "DEAF=1")
		return w.failed(w.kill(3), "rank 3 of the job died", 3)
	})
}

// leavesEarly: a rank destroys its communicators and ends by _exit, of which the plugin learns only
// that the process is gone. The other ranks go on: two on one node, one on the other. On nodes of
// different sizes NCCL 2.22 does not choose the same algorithm on all ranks, so the test chooses it.
func leavesEarly(t *testing.T, on system, _ uint64) {
	w := start(t, setup{on: on, profile: "eth10", ranks: 4, nodes: 2, seed: 1, args: []string{"early", "3"},
		env: []string{failTogether, "NCCL_DEBUG=WARN", "NCCL_ALGO=Ring"}})
	w.allRight(time.Minute)
}

// oldRankDies: a rank dies, and another program takes the job's place while a rank of the first one
// is still there. Neither the death before nor the end of that rank fails it.
func oldRankDies(t *testing.T, on system, _ uint64) {
	w := nodes4(t, on, failTogether)
	w.ranks[0].signal(t, syscall.SIGSTOP)
	w.kill(3)
	for _, p := range w.ranks[1:3] {
		<-p.ended
	}
	next := start(t, setup{on: on, ranks: 4, nodes: 2, seed: 2, args: []string{"loop", "3", "65536"}, dir: w.dir,
		env: []string{failTogether, "NCCL_DEBUG=WARN"}})
	next.await("running")
	w.kill(0)
	next.allRight(time.Minute)
}
