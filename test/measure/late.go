// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// patience is how long a measurement is repeated, because other load on the machine or its host disturbs it.
	patience = 30 * time.Second
	// allowed is the lateness of a timer that costs no rate: the time for which a class of HTB may exceed its rate.
	allowed = 400 * time.Microsecond
	// period is the time between two timers of a watcher.
	period = 200 * time.Microsecond
	// costs is how much of its rate a shaper may lose, per share of the time by which timers fire late. HTB loses that
	// share: with timers that were 6, 10 and 22 % late, a rate of 1 Gb/s was 6, 9 and 21 % too low. The rest is for
	// the sender, the receiver and the acknowledgements, which may be late too.
	costs = 1.5
)

// Timers watches how late the machine's timers fire. A shaper of the kernel cannot send while its timer is late, so on
// a virtual machine whose host takes processors away, rates fall below what is set, and no shaper is at fault.
type Timers struct {
	begin time.Time
	stop  atomic.Bool
	all   sync.WaitGroup
	lost  atomic.Int64 // nanoseconds on all processors
	errs  atomic.Pointer[error]
	n     int // processors
}

// WatchTimers starts a watcher on each processor. Each takes about 3 % of it.
func WatchTimers() (*Timers, error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return nil, fmt.Errorf("ask on which processors this process may run: %w", err)
	}
	t := &Timers{begin: time.Now(), n: may.Count()}
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
func (t *Timers) watch(cpu int) {
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
	for !t.stop.Load() {
		sleep, begin := unix.NsecToTimespec(int64(period)), time.Now()
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &sleep, nil); err != nil && err != unix.EINTR {
			t.errs.Store(&err)
			return
		}
		t.lost.Add(int64(max(0, time.Since(begin)-period-allowed)))
	}
}

// Stop ends the watch. It returns by which share of the time, from 0 to 1, the timers of a processor were later than
// allowed.
func (t *Timers) Stop() (float64, error) {
	took := time.Since(t.begin)
	t.stop.Store(true)
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

// Repeat repeats a measurement until its rate is not too low: until try returns 0. If none is after 30 s, the mean of
// all tries may be too low by what late timers cost. The text says what was found.
func Repeat(try func() (short float64, err error)) (text string, right bool, err error) {
	timers, err := WatchTimers()
	if err != nil {
		return "", false, err
	}
	sum, n, last := 0.0, 0, 1.0
	for ; last > 0 && err == nil && time.Since(timers.begin) < patience; n++ {
		last, err = try()
		sum += last
	}
	late, stopErr := timers.Stop()
	if err != nil {
		return "", false, err
	}
	if stopErr != nil {
		return "", false, stopErr
	}
	text = fmt.Sprintf("%d tries; timers were late %.1f %% of the time", n, 100*late)
	if last > 0 {
		text += fmt.Sprintf("; too low by %.1f %% on average, beyond the tolerance", 100*sum/float64(n))
	}
	return text, last <= 0 || sum/float64(n) <= costs*late, nil
}
