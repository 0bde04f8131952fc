// SPDX-License-Identifier: Apache-2.0

package messages

import "github.com/ddlemu/ddlemu/shaper/fabric/ledger"

// Range is a range that a program has marked, by NVTX.
type Range struct {
	Job, Owner int    // place in Trace.Jobs, and rank
	PID        uint32 // the number of the process, and of its main thread
	ledger.Range
}

func (t *Trace) addRanges(c recorded) {
	t.LostRanges += c.LostRanges
	for _, r := range c.Ranges {
		t.Ranges = append(t.Ranges, Range{c.job, int(c.Rank), c.PID, r})
	}
}
