// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"slices"
	"testing"
	"time"
)

// failure is one thing that goes wrong while a job runs, a line of docs/failures.md.
type failure struct {
	name  string
	run   func(t *testing.T, version string, seed uint64)
	quick string // the version with which `go test` runs it, "" to leave it to `make soak`
}

var failures = slices.Concat(deaths, pauses, limits, fabrics)

func TestFailures(t *testing.T) {
	for _, f := range failures {
		if f.quick == "" {
			t.Logf("left to `make soak`: %s", f.name)
			continue
		}
		t.Run(f.name, func(t *testing.T) { f.run(t, f.quick, 1) })
	}
}

const (
	// promise is how long it may take until every peer has an error.
	promise = 2 * time.Second
	// hang is when a rank has waited for too long, however busy the host is.
	hang = 30 * time.Second
)

// job starts a job that goes on for long after any failure, and waits until it has
// moved data.
func job(t *testing.T, version string, ranks int, env ...string) *world {
	t.Helper()
	w := start(t, setup{version: version, profile: "eth10", ranks: ranks, seed: 1, args: []string{"loop", "300", "65536"}, env: append(env, "NCCL_DEBUG=WARN")})
	w.await("running")
	return w
}

// promptly repeats a failure when it was reported right but late: on a busy host that
// says nothing. It must be within the promise once in three times.
func promptly(t *testing.T, fail func() time.Duration) {
	t.Helper()
	for i := range 3 {
		took := fail()
		if took <= promise {
			return
		}
		t.Logf("try %d: %v until every peer had an error", i+1, took)
	}
	t.Errorf("it never took less than %v until every peer had an error", promise)
}

// errors waits until every rank but the lost ones has ended with an error of the net
// that it reported, and returns how long after since the last one reported it. One of
// them must have logged why.
func (w *world) errors(since time.Time, why string, lost ...int) time.Duration {
	w.t.Helper()
	w.finish(hang)
	took := time.Duration(0)
	logged := why == ""
	for i, p := range w.ranks {
		if slices.Contains(lost, i) {
			continue
		}
		at, ok := p.said("net error: ")
		if !ok || p.status() != 3 {
			w.fatalf("rank %d reported no error of the net and ended with %d", i, p.status())
		}
		took = max(took, at.Sub(since))
		if _, ok := p.said(why); ok {
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
