// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// Reason is why a job is INVALID, apart from what its counters say: a set of bits
// that participants raise.
type Reason uint64

// Reasons. Each has its words in Reasons.
const (
	NotEmulated   Reason = 1 << iota // a rank's plugin failed, so its traffic took another way
	SeveralRanks                     // one process holds several ranks
	SharedGPU                        // ranks share a GPU without MPS
	NodesDiffer                      // NCCL counted other nodes than the fabric has
	PeerDied                         // a rank died
	FlowFull                         // a flow held more than the model's tables do
	UnsafeLL128                      // LL128 forced on a real GPU through host memory
	LinkBroke                        // a link was down for longer than the transport allows
	RingTooSmall                     // shared memory for a connection was not to be had
	ForeignHostID                    // NCCL_HOSTID was set by somebody else and does not fit
)

var reasonWords = []string{
	"a rank's plugin failed to start: its traffic was NOT emulated",
	"a process holds several ranks: traffic between them was not emulated",
	"several ranks share one GPU without MPS: they are time-sliced, so timing means nothing",
	"NCCL saw another number of nodes than the fabric has: some traffic went around the emulated links",
	"a rank died",
	"a flow had more in flight than the model holds",
	"LL128 was forced on a real GPU, where it is not safe through host memory",
	"a link was down for longer than the transport allows",
	"shared memory for a connection could not be reserved",
	"NCCL_HOSTID was set by somebody else and does not fit the fabric",
}

// Words spells out the reasons.
func (r Reason) Words() []string {
	var out []string
	for i, w := range reasonWords {
		if r>>i&1 == 1 {
			out = append(out, w)
		}
	}
	return out
}

// Job states.
const (
	jobFree uint32 = iota
	jobMaking
	jobOn
	jobOver
)

// Job is one job's place in the file: the ranks that share a counter set.
type Job struct {
	f     *File
	index int
}

// JoinJob finds the running job with this key, or makes it. A job that is over
// gives its place to a new one when there is no other. The error says that all
// places are taken.
func (f *File) JoinJob(key uint64) (Job, error) {
	for range 3 {
		if j, ok := f.findJob(key); ok {
			return j, nil
		}
		for _, from := range []uint32{jobFree, jobOver} {
			if j, ok := f.makeJob(key, from); ok {
				return j, nil
			}
		}
	}
	return Job{}, fmt.Errorf("join fabric %s: it has room for %d jobs at once, and all are running: use another fabric", f.Name(), f.head().Jobs)
}

// FindJob returns the job with this key, running or over.
func (f *File) FindJob(key uint64) (Job, bool) {
	if j, ok := f.findJob(key); ok {
		return j, true
	}
	for i := range f.jobs() {
		e := &f.jobs()[i]
		if atomic.LoadUint32(&e.State) == jobOver && atomic.LoadUint64(&e.Key) == key {
			return Job{f, i}, true
		}
	}
	return Job{}, false
}

func (f *File) findJob(key uint64) (Job, bool) {
	for i := range f.jobs() {
		e := &f.jobs()[i]
		if atomic.LoadUint32(&e.State) == jobOn && atomic.LoadUint64(&e.Key) == key {
			return Job{f, i}, true
		}
	}
	return Job{}, false
}

// makeJob takes the oldest place in state from. Several ranks may race for the
// same key: after making one, the lowest place with the key wins.
func (f *File) makeJob(key uint64, from uint32) (Job, bool) {
	best := -1
	for i := range f.jobs() {
		e := &f.jobs()[i]
		if atomic.LoadUint32(&e.State) == from && (best < 0 || e.Ended < f.jobs()[best].Ended) {
			best = i
		}
	}
	if best < 0 {
		return Job{}, false
	}
	e := &f.jobs()[best]
	if !atomic.CompareAndSwapUint32(&e.State, from, jobMaking) {
		return Job{}, false
	}
	*e = jobEntry{State: jobMaking, Key: key, Started: Now()}
	hops := int(f.head().Hops)
	clear(f.cells()[best*hops : (best+1)*hops])
	atomic.StoreUint32(&e.State, jobOn)
	first, _ := f.findJob(key)
	if first.index != best {
		atomic.StoreUint32(&e.State, jobFree)
	}
	return first, true
}

// Jobs returns every job that has run, also the ones that are over.
func (f *File) Jobs() []Job {
	var out []Job
	for i := range f.jobs() {
		if s := atomic.LoadUint32(&f.jobs()[i].State); s == jobOn || s == jobOver {
			out = append(out, Job{f, i})
		}
	}
	return out
}

func (j Job) entry() *jobEntry { return &j.f.jobs()[j.index] }

// Index is the job's number in the file.
func (j Job) Index() int { return j.index }

// Invalidate raises reasons for INVALID.
func (j Job) Invalidate(r Reason) { atomic.OrUint64(&j.entry().Flags, uint64(r)) }

// Nodes is the number of emulated nodes on which the job has or had ranks.
func (j Job) Nodes() int {
	n := 0
	for i := range j.entry().NodeSet {
		n += bits.OnesCount64(atomic.LoadUint64(&j.entry().NodeSet[i]))
	}
	return n
}

// JobStatus is what the file knows of a job.
type JobStatus struct {
	Key            uint64
	Running        bool
	Joined, Left   int // ranks
	Died           int
	Reasons        Reason
	Started, Ended int64
	Cells          []Cell // by hop
}

// Status reads the job's numbers. They may move while a job is running.
func (j Job) Status() JobStatus {
	e := j.entry()
	hops := int(j.f.head().Hops)
	s := JobStatus{
		Key: atomic.LoadUint64(&e.Key), Running: atomic.LoadUint32(&e.State) == jobOn,
		Joined: int(atomic.LoadUint32(&e.Ranks)), Left: int(atomic.LoadUint32(&e.Left)), Died: int(atomic.LoadUint32(&e.Died)),
		Reasons: Reason(atomic.LoadUint64(&e.Flags)), Started: e.Started, Ended: atomic.LoadInt64(&e.Ended),
		Cells: make([]Cell, hops),
	}
	copy(s.Cells, j.f.cells()[j.index*hops:(j.index+1)*hops])
	return s
}

// CellsOffset is where the job's cells begin in the file, for the engine in C.
func (j Job) CellsOffset() uint64 {
	return j.f.head().CellsOff + uint64(j.index)*uint64(j.f.head().Hops)*uint64(cellSize)
}

// end closes the job when nobody of it is left, and says whether this call did.
func (j Job) end() bool {
	e := j.entry()
	if atomic.LoadUint32(&e.Ranks) > atomic.LoadUint32(&e.Left)+atomic.LoadUint32(&e.Died) {
		return false
	}
	atomic.StoreInt64(&e.Ended, Now())
	return atomic.CompareAndSwapUint32(&e.State, jobOn, jobOver)
}

// Announce says whether this call is the first for the job: whoever makes it
// tells the user what the job runs on.
func (j Job) Announce() bool { return atomic.CompareAndSwapUint32(&j.entry().Printed, 0, 1) }
