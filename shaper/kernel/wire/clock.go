// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// clock reads CLOCK_MONOTONIC without a system call, and converts the kernel's timestamps, which are of the wall clock.
type clock struct {
	base  int64 // CLOCK_MONOTONIC at the time start, in ns
	start time.Time
}

func newClock() clock {
	var c clock
	best := int64(link.Never)
	// The two clocks cannot be read at the same instant. The fastest of several attempts is exact to a fraction of a
	// microsecond.
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

// now returns CLOCK_MONOTONIC in ns.
func (c *clock) now() int64 { return c.base + int64(time.Since(c.start)) }

// nowAndOffset returns CLOCK_MONOTONIC in ns, and the offset to add to a timestamp of the wall clock. The offset
// changes when the wall clock is set, so it is determined for every batch of packets.
func (c *clock) nowAndOffset() (now, fromWall int64) {
	t := time.Now()
	now = c.base + int64(t.Sub(c.start))
	return now, now - t.UnixNano()
}
