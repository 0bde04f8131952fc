// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"slices"
	"testing"
	"time"
)

// failure is something that goes wrong while a job runs: a line of docs/failures.md.
type failure struct {
	name  string
	run   func(t *testing.T, on system, seed uint64)
	quick string // the NCCL version with which `go test` runs it; "": only `make soak` runs it
	clock string // the clock that it is for; "": both
}

var failures = slices.Concat(deaths, together, pauses, limits, fabrics)

func TestFailures(t *testing.T) {
	for _, f := range failures {
		if f.quick == "" {
			t.Logf("only in `make soak`: %s", f.name)
			continue
		}
		for _, clock := range clocks {
			if f.clock == "" || f.clock == clock {
				t.Run(f.name+"/"+clock, func(t *testing.T) {
					beside(t, clock)
					f.run(t, system{f.quick, clock}, 1)
				})
			}
		}
	}
}

const (
	// promise is the longest time until every peer has an error, see docs/failures.md.
	promise = 2 * time.Second
	// hang is longer than a rank may wait, however busy the host is.
	hang = 30 * time.Second
)

// job starts a job that would run for minutes, and waits until it has moved data.
func job(t *testing.T, on system, ranks int, env ...string) *world {
	t.Helper()
	w := start(t, setup{on: on, profile: "eth10", ranks: ranks, seed: 1, args: []string{"loop", "300", "65536"},
		env: append(env, "NCCL_DEBUG=WARN")})
	w.await("running")
	return w
}

// checkPromise checks that a failure is reported within the promise. On a busy host a report may
// be late, so it tries up to three times.
func checkPromise(t *testing.T, fail func() time.Duration) {
	t.Helper()
	for i := range 3 {
		took := fail()
		if took <= promise {
			return
		}
		t.Logf("try %d: %v until every peer had an error", i+1, took)
	}
	t.Errorf("no try took less than %v until every peer had an error", promise)
}

// errors waits until every rank but the lost ones has reported an error of the net and ended, and
// returns the time from since to the last report. At least one rank must have logged why.
func (w *world) errors(since time.Time, why string, lost ...int) time.Duration {
	w.t.Helper()
	w.finish(hang)
	took := time.Duration(0)
	logged := why == ""
	for i, p := range w.ranks {
		if slices.Contains(lost, i) {
			continue
		}
		at, ok := p.printed("net error: ")
		if !ok || p.status() != 3 {
			w.fatalf("rank %d reported no error of the net and ended with %d", i, p.status())
		}
		took = max(took, at.Sub(since))
		if _, ok := p.printed(why); ok {
			logged = true
		}
	}
	if !logged {
		w.fatalf("no rank's log says %q", why)
	}
	return took
}

// kill ends a rank, and returns when it is gone.
func (w *world) kill(r int) time.Time {
	w.t.Helper()
	now := time.Now()
	w.ranks[r].kill()
	return now
}
