// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// allowed is the lateness of a timer that costs no rate: the time for which a class of HTB may exceed its rate
	// (burstTime of shaper/kernel/tc).
	allowed = 400 * time.Microsecond
	// period is the time between two timers of a thread.
	period = 200 * time.Microsecond
)

// timers measures how late the machine's timers fire. A shaper of the kernel cannot send while its timer is late. So on a
// virtual machine whose host gives the processors to others, rates are lower than what is set, and no shaper is wrong.
type timers struct {
	begin time.Time
	ended atomic.Bool
	all   sync.WaitGroup
	lost  atomic.Int64 // the lateness beyond allowed on all processors, in ns
	err   atomic.Pointer[error]
	n     int // processors
}

// watchTimers starts a thread on each processor. Each takes about 3 % of it. The caller calls end.
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

// watch sets timers on one processor until the watch ends. It adds up the time by which they are later than allowed. Its
// thread has a higher priority than other programs, so the host or the kernel makes it late.
func (t *timers) watch(cpu int) {
	runtime.LockOSThread() // never unlocked: the thread, which is bound to one processor, ends with the goroutine
	if err := onlyOn(cpu, 90); err != nil {
		t.err.Store(&err)
		return
	}
	for !t.ended.Load() {
		sleep, begin := unix.NsecToTimespec(int64(period)), time.Now()
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &sleep, nil); err != nil && err != unix.EINTR {
			t.err.Store(&err)
			return
		}
		t.lost.Add(int64(max(0, time.Since(begin)-period-allowed)))
	}
}

// onlyOn binds this thread to a processor and gives it a real-time priority.
func onlyOn(cpu int, priority uint32) error {
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}
	return unix.SchedSetAttr(0, &attr, 0)
}

// end ends the watch, if it has not ended. It returns for which share of the time, from 0 to 1, the timers of a processor
// were late beyond allowed, as a mean over the processors.
func (t *timers) end() (float64, error) {
	took := time.Since(t.begin)
	t.ended.Store(true)
	t.all.Wait()
	if err := t.err.Load(); err != nil {
		return 0, fmt.Errorf("watch the machine's timers: %w", *err)
	}
	return float64(t.lost.Load()) / float64(t.n) / float64(took), nil
}
