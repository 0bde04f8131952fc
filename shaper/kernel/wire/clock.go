// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"github.com/ddlemu/ddlemu/shaper/state"
)

// clock reads CLOCK_MONOTONIC without a system call, and turns the kernel's wall
// clock stamps into it.
type clock struct {
	base int64 // CLOCK_MONOTONIC at zero
	zero time.Time
}

func newClock() clock {
	var c clock
	best := int64(never)
	// The two clocks are read one after the other: the quickest of a few times is
	// right to a fraction of a microsecond.
	for range 16 {
		before := state.Now()
		t := time.Now()
		after := state.Now()
		if after-before < best {
			best, c = after-before, clock{before + (after-before)/2, t}
		}
	}
	return c
}

// now is CLOCK_MONOTONIC in ns.
func (c *clock) now() int64 { return c.base + int64(time.Since(c.zero)) }

// both is CLOCK_MONOTONIC, and what to add to a wall clock stamp to have it in that.
// The wall clock may be set at any time, so it is asked often.
func (c *clock) both() (now, fromWall int64) {
	t := time.Now()
	now = c.base + int64(t.Sub(c.zero))
	return now, now - t.UnixNano()
}
