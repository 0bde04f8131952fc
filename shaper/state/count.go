// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync/atomic"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// Count adds to what hop i has carried, for a datapath that counts elsewhere.
func (f *File) Count(i int, c link.Counters) {
	h := &f.hops()[i]
	atomic.AddUint64(&h.Bytes, c.Bytes)
	atomic.AddUint64(&h.Wire, c.Wire)
	atomic.AddUint64(&h.Segments, c.Segments)
	atomic.AddUint64(&h.Drops, c.Drops)
	atomic.AddInt64(&h.BusyNs, c.BusyNs)
	atomic.AddUint64(&h.Marks, c.Marks)
	atomic.AddUint64(&h.Pauses, c.Pauses)
	atomic.AddInt64(&h.PausedNs, c.PausedNs)
}
