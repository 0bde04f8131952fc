// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"runtime"
	"sync/atomic"
	"time"
)

// stall is for how long Disturb keeps the processor, and then leaves it alone.
const stall = 20 * time.Millisecond

// Disturb makes this machine a disturbed one: a thread with the highest priority keeps its first processor for half of
// the time, until stop is called. Tests plant faults meanwhile. It needs root.
func Disturb() (stop func() error) {
	var ended atomic.Bool
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which is bound to one processor, ends with the goroutine
		err := onlyOn(0, 99)
		for err == nil && !ended.Load() {
			for begin := time.Now(); time.Since(begin) < stall; { //nolint:revive // it keeps the processor
			}
			time.Sleep(stall)
		}
		done <- err
	}()
	return func() error {
		ended.Store(true)
		return <-done
	}
}
