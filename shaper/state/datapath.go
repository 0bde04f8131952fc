// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"sync/atomic"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// TrafficKey is the job that stands for all traffic of a fabric of the kernel
// datapath, whoever sends it. Its only participant is the fabric's daemon.
const TrafficKey uint64 = 0x63696666617274 // "traffic"

// VerifyKey is the job of `ddlemu verify`: no user's, and its messages are seen late on
// purpose, so it gets no verdict as a job.
const VerifyKey uint64 = 0x796669726576 // "verify"

// DaemonRank is the rank, and the node, of a fabric's daemon as a participant.
const DaemonRank = -1

// Ranks are the participants that are ranks of a job, and not the fabric's daemon.
func (f *File) Ranks() []ParticipantStatus {
	return slices.DeleteFunc(f.Participants(), func(p ParticipantStatus) bool { return p.Rank == DaemonRank })
}

// Traffic says whether the job is the one that stands for all traffic.
func (j Job) Traffic() bool { return j.key == TrafficKey }

// Verify says whether the job is one of `ddlemu verify`.
func (j Job) Verify() bool { return j.key == VerifyKey }

// SetShaper notes which shaper the daemon has started, before the fabric can be used.
func (f *File) SetShaper(name string) { copy(f.head().Shaper[:nameSize-1], name) }

// Shaper is the shaper of a fabric of the kernel datapath.
func (f *File) Shaper() string { return cString(f.head().Shaper[:]) }

// SetFollowed notes that the daemon has tried to put so many changes into force, as
// Changes counts them, and whether it could.
func (f *File) SetFollowed(changes uint64, ok bool) {
	v := changes << 1
	if ok {
		v |= 1
	}
	atomic.StoreUint64(&f.head().Followed, v)
}

// Followed says whether the daemon has tried to put all changes so far into force, and
// whether it could.
func (f *File) Followed() (done, ok bool) {
	v := atomic.LoadUint64(&f.head().Followed)
	return v>>1 >= f.Changes(), v&1 != 0
}

// LinkStats are the job's counters by hop, in the file itself: the datapath writes them
// by atomic operations.
func (j Job) LinkStats() []LinkStats { return j.f.jobLinkStats(j.index) }

// Entry is hop i in the file itself, for the datapath to count in by atomic
// operations.
func (f *File) Entry(i int) *link.Hop { return &f.hops()[i] }

// Count adds to what hop i has carried, for a datapath that counts elsewhere.
func (f *File) Count(i int, c link.Counters) { f.hops()[i].Counters.Add(c) }

// Tables are the quantiles of the jitters Normal, Pareto and Table.
func (f *File) Tables() *link.JitterTables { return (*link.JitterTables)(f.tables()) }

// InForce are the parameters in force on hop i.
func (f *File) InForce(i int) link.Params {
	b, _ := f.inForce(&f.hops()[i])
	return b.Params
}

// Judge counts one message of size bytes, which was posted, due and
// visible at these times in ns. It is what the engine in C does for a message of
// NCCL's; one thread at a time may call it for the same LinkStats.
func (c *LinkStats) Judge(size uint64, posted, due, visible int64, timeScale int64) {
	late, took := max(visible-due, 0), due-posted
	k := &c.Size[sizeClass(size)]
	atomic.AddUint64(&k.Messages, 1)
	atomic.AddUint64(&k.Bytes, size)
	if late > max(P50FloorNs*timeScale, took/P50Part) {
		atomic.AddUint64(&k.OverP50, 1)
	}
	if late > max(P99FloorNs*timeScale, took/P99Part) {
		atomic.AddUint64(&k.OverP99, 1)
	}
	atomic.AddInt64(&k.SumLate, late)
	atomic.AddInt64(&k.SumTime, took)
	if late > k.MaxLate {
		atomic.StoreInt64(&k.MaxLate, late)
	}
	atomic.AddUint32(&k.Late[Bucket(late)], 1)
	busy(&c.ModelBusy, &c.ModelUntil, posted, due)
	busy(&c.WallBusy, &c.WallUntil, posted, due+late)
	if visible > c.LastVisible {
		atomic.StoreInt64(&c.LastVisible, visible)
	}
	if c.FirstPosted == 0 {
		atomic.StoreInt64(&c.FirstPosted, posted)
	}
}

// busy adds the part of an interval that no earlier message has covered.
func busy(sum, until *int64, from, to int64) {
	from = max(from, *until)
	if to > from {
		atomic.AddInt64(sum, to-from)
		atomic.StoreInt64(until, to)
	}
}

func sizeClass(size uint64) int {
	switch {
	case size <= 4<<10:
		return 0
	case size <= 64<<10:
		return 1
	case size <= 1<<20:
		return 2
	}
	return 3
}
