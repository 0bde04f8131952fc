// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// patience is how long a measurement is repeated, because other load on the machine or its host disturbs it.
	patience = 40 * time.Second
	// allowed is the lateness of a timer that costs no rate: the time for which a class of HTB may exceed its rate.
	allowed = 400 * time.Microsecond
	// period is the time between two timers of a watcher.
	period = 200 * time.Microsecond
	// costs is how much of its rate a shaper may lose, per share of the time by which timers fire late. HTB loses that
	// share: with timers that were 6, 10 and 22 % late, a rate of 1 Gb/s was 6, 9 and 21 % too low. The rest is for
	// the sender, the receiver and the acknowledgements, which may be late too.
	costs = 1.5
	// tooLate is the share of time by which timers are so late that the machine cannot be judged. A machine of two
	// processors without other load has 0.3 to 8 %.
	tooLate = 0.1
)

// timers watches how late the machine's timers fire. A shaper of the kernel cannot send while its timer is late, so on
// a virtual machine whose host takes processors away, rates fall below what is set, and no shaper is at fault.
type timers struct {
	begin time.Time
	ended atomic.Bool
	all   sync.WaitGroup
	lost  atomic.Int64 // nanoseconds on all processors
	errs  atomic.Pointer[error]
	n     int // processors
}

// watchTimers starts a watcher on each processor. Each takes about 3 % of it.
func watchTimers() (*timers, error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return nil, fmt.Errorf("ask on which processors this process may run: %w", err)
	}
	t := &timers{begin: time.Now(), n: may.Count()}
	for cpu, left := 0, t.n; left > 0; cpu++ {
		if may.IsSet(cpu) {
			left--
			t.all.Go(func() { t.watch(cpu) })
		}
	}
	return t, nil
}

// watch sets timers on one processor until the watch ends. It adds up the time by which they are later than allowed. The
// thread is ahead of all programs, so what makes it late is the host or the kernel.
func (t *timers) watch(cpu int) {
	runtime.LockOSThread() // never unlocked: the thread, which is bound to one processor, ends with the goroutine
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.errs.Store(&err)
		return
	}
	ahead := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 90}
	if err := unix.SchedSetAttr(0, &ahead, 0); err != nil {
		t.errs.Store(&err)
		return
	}
	for !t.ended.Load() {
		sleep, begin := unix.NsecToTimespec(int64(period)), time.Now()
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &sleep, nil); err != nil && err != unix.EINTR {
			t.errs.Store(&err)
			return
		}
		t.lost.Add(int64(max(0, time.Since(begin)-period-allowed)))
	}
}

// end ends the watch. It returns by which share of the time, from 0 to 1, the timers of a processor were later than
// allowed.
func (t *timers) end() (float64, error) {
	took := time.Since(t.begin)
	t.ended.Store(true)
	t.all.Wait()
	if err := t.errs.Load(); err != nil {
		return 0, fmt.Errorf("watch the machine's timers: %w", *err)
	}
	return float64(t.lost.Load()) / float64(t.n) / float64(took), nil
}

// Wrong is what a try returns if its result is wrong in another way than by too low a rate.
var Wrong = math.Inf(1)

// Short returns by which share of want a rate is too low, beyond a tolerance. It returns Wrong if it is too high.
func Short(got, want, tolerance float64) float64 {
	if got > want*(1+tolerance) {
		return Wrong
	}
	return max(0, 1-tolerance-got/want)
}

// Repeat repeats a measurement until its result is right. try returns the result as text, and what is missing of its
// rate: 0 if it is right, Wrong if it is wrong in another way.
//
// The test fails if no result is right in 40 s. But if the machine's timers were late, rates may be lower on average by
// what that costs, and if they were late for more than a tenth of the time, nothing is judged. A line in
// build/disturbed.txt then says so, which `make test` prints at its end.
func Repeat(t testing.TB, what string, try func() (got string, short float64, err error)) {
	t.Helper()
	watch, err := watchTimers()
	if err != nil {
		t.Fatal(err)
	}
	got, sum, n, last := "", 0.0, 0, 1.0
	for ; last > 0 && err == nil && time.Since(watch.begin) < patience; n++ {
		got, last, err = try()
		sum += last
	}
	late, watchErr := watch.end()
	if err := errors.Join(err, watchErr); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%s: %s: %d tries; timers were late %.1f %% of the time", what, got, n, 100*late)
	short := sum / float64(n)
	switch {
	case last <= 0:
		t.Log(text)
	case short <= costs*late:
		disturbed(t, fmt.Sprintf("%s; too low by %.1f %% on average, which that explains", text, 100*short))
	case late > tooLate:
		disturbed(t, text+": too late to judge anything")
	case math.IsInf(short, 1):
		t.Error(text)
	default:
		t.Errorf("%s; too low by %.1f %% on average, beyond the tolerance", text, 100*short)
	}
}

// disturbed says that a check was wider than usual, or not made.
func disturbed(t testing.TB, text string) {
	t.Helper()
	t.Log(text)
	f, err := os.OpenFile(filepath.Join("..", "..", "build", "disturbed.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return // without build/, as in the guests of test/lab, the test's own output says it
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, "%s: %s\n", t.Name(), strings.Join(strings.Fields(text), " ")); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
