// SPDX-License-Identifier: Apache-2.0

package state

import "sync/atomic"

// start is where a job keeps the pauses of a hop from before the job was made.
func (c *LinkStats) start() *Pauses { return &c.Start }

// end is where a job keeps the pauses of a hop from after its last rank left.
func (c *LinkStats) end() *Pauses { return &c.End }

// notePauses notes how often and for how long each hop has been held back until now, for job i, under the lock joining.
func (f *File) notePauses(i int, place func(*LinkStats) *Pauses) {
	stats := f.jobLinkStats(i)
	for hop := range stats {
		now, to := f.pauses(hop), place(&stats[hop])
		atomic.StoreUint64(&to.Times, now.Times)
		atomic.StoreInt64(&to.Ns, now.Ns)
	}
}

// pauses are the pauses of a hop since the fabric was made.
func (f *File) pauses(hop int) Pauses {
	c := &f.hops()[hop].Counters
	return Pauses{atomic.LoadUint64(&c.Pauses), atomic.LoadInt64(&c.PausedNs)}
}

// plus is the sum of two counts.
func (p Pauses) plus(o Pauses) Pauses { return Pauses{p.Times + o.Times, p.Ns + o.Ns} }

// since is what was counted after o, an earlier count.
func (p Pauses) since(o Pauses) Pauses { return Pauses{p.Times - o.Times, p.Ns - o.Ns} }
