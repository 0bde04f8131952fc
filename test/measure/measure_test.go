// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/needs"
)

func TestTooLow(t *testing.T) {
	for _, tc := range []struct{ got, want float64 }{
		{100, 0}, {98.1, 0}, {101.9, 0}, {90, 0.08}, {0, 0.98}, {102.1, Wrong},
	} {
		if got := TooLow(tc.got, 100, 0.02); got != tc.want && math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%v of 100: %v, want %v", tc.got, got, tc.want)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		low, late float64
		want      outcome
	}{
		{0.08, 0, fails}, {0.08, 0.05, fails}, {Wrong, 0.09, fails},
		{0.08, 0.06, explained}, {0.2, 0.2, explained},
		{0.9, 0.2, notJudged}, {Wrong, 0.2, notJudged},
	} {
		if got := judge(tc.low, tc.late); got != tc.want {
			t.Errorf("too low by %v, timers late for %v: %v, want %v", tc.low, tc.late, got, tc.want)
		}
	}
}

// A thread of a still higher priority keeps one processor for half of the time.
func TestLateTimers(t *testing.T) {
	needs.Root(t, "a real-time priority")
	watch, err := watchTimers()
	if err != nil {
		t.Fatal(err)
	}
	defer watch.end()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := onlyOn(0, 95)
		for range 20 {
			for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; { //nolint:revive // it keeps the processor
			}
			time.Sleep(20 * time.Millisecond)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got, err := watch.end()
	if err != nil {
		t.Fatal(err)
	}
	if want := 0.5 / float64(watch.n); got < 0.8*want {
		t.Errorf("timers were late for %.3f of the time, want %.3f or more", got, want)
	}
}
