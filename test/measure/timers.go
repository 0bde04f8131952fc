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
// virtual machine whose host gives the processors to others, rates are lower than the set rate, and no shaper is wrong.
type timers struct {
	begin time.Time
	ended atomic.Bool
	all   sync.WaitGroup
	// The lateness beyond allowed on all processors, in ns: of threads of a high priority, which the host or the kernel
	// makes late, and of threads of the usual one, which other programs make late too.
	lost, lostToPrograms atomic.Int64
	err                  atomic.Pointer[error]
	n                    int // processors
}

// lateness is the share of the time, from 0 to 1, for which timers of a processor were late beyond allowed, as a mean over
// the processors.
type lateness struct {
	machine  float64 // whatever runs
	programs float64 // of a program that shares the processors with others
}

// watchTimers starts two threads on each processor. Each takes about 3 % of it. The caller calls end.
func watchTimers() (*timers, error) {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return nil, fmt.Errorf("ask on which processors this process may run: %w", err)
	}
	t := &timers{begin: time.Now(), n: may.Count()}
	for cpu, left := 0, t.n; left > 0; cpu++ {
		if may.IsSet(cpu) {
			left--
			t.all.Go(func() { t.watch(cpu, 90, &t.lost) })
			t.all.Go(func() { t.watch(cpu, 0, &t.lostToPrograms) })
		}
	}
	return t, nil
}

// watch sets timers on one processor until the watch ends. It adds up the time by which they are later than allowed.
func (t *timers) watch(cpu int, priority uint32, lost *atomic.Int64) {
	runtime.LockOSThread() // never unlocked: the thread, which is bound to one processor, ends with the goroutine
	if err := onlyOn(cpu, priority); err != nil {
		t.err.Store(&err)
		return
	}
	for !t.ended.Load() {
		sleep, begin := unix.NsecToTimespec(int64(period)), time.Now()
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &sleep, nil); err != nil && err != unix.EINTR {
			t.err.Store(&err)
			return
		}
		lost.Add(int64(max(0, time.Since(begin)-period-allowed)))
	}
}

// onlyOn binds this thread to a processor and gives it a real-time priority, unless that is 0.
func onlyOn(cpu int, priority uint32) error {
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	if priority == 0 {
		return nil
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}
	return unix.SchedSetAttr(0, &attr, 0)
}

// end ends the watch, if it has not ended.
func (t *timers) end() (lateness, error) {
	took := time.Since(t.begin)
	t.ended.Store(true)
	t.all.Wait()
	if err := t.err.Load(); err != nil {
		return lateness{}, fmt.Errorf("watch the machine's timers: %w", *err)
	}
	all := float64(t.n) * float64(took)
	return lateness{float64(t.lost.Load()) / all, float64(t.lostToPrograms.Load()) / all}, nil
}
