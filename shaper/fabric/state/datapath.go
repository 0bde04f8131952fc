// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"sync/atomic"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Ranks are the participants without the fabric's daemon.
func (f *File) Ranks() []ParticipantStatus {
	return slices.DeleteFunc(f.Participants(), func(p ParticipantStatus) bool { return p.Rank == DaemonRank })
}

// LiveRanks is the number of ranks whose processes live.
func (f *File) LiveRanks() int {
	n := 0
	for _, p := range f.Ranks() {
		if p.Alive {
			n++
		}
	}
	return n
}

// SetShaper records the shaper that the daemon has started, before anybody uses the fabric.
func (f *File) SetShaper(name string) { copy(f.head().Shaper[:nameSize-1], name) }

// Shaper is the shaper of a fabric of the kernel datapath.
func (f *File) Shaper() string { return cString(f.head().Shaper[:]) }

// SetFollowed records that the daemon has tried to put the given number of changes into
// force, see Changes, and whether it succeeded.
func (f *File) SetFollowed(changes uint64, ok bool) {
	v := changes << 1
	if ok {
		v |= 1
	}
	atomic.StoreUint64(&f.head().Followed, v)
}

// Followed reports whether the daemon has tried to put all changes so far into force, and whether it succeeded.
func (f *File) Followed() (done, ok bool) {
	v := atomic.LoadUint64(&f.head().Followed)
	return v>>1 >= f.Changes(), v&1 != 0
}

// LinkStats are the job's link statistics by hop. They are in the mapped file: the
// datapath writes them by atomic operations.
func (j Job) LinkStats() []LinkStats { return j.f.jobLinkStats(j.index) }

// Entry is hop i in the mapped file. The datapath counts there by atomic operations.
func (f *File) Entry(i int) *link.Hop { return &f.hops()[i] }

// Count adds c to the counters of hop i, for a datapath that counts elsewhere.
func (f *File) Count(i int, c link.Counters) { f.hops()[i].Counters.Add(c) }

// Tables are the quantiles of the jitters Normal, Pareto and Table.
func (f *File) Tables() *link.JitterTables { return (*link.JitterTables)(f.tables()) }

// InForce are the parameters in force on hop i.
func (f *File) InForce(i int) link.Params {
	b, _, _ := f.inForce(&f.hops()[i])
	return b.Params
}
