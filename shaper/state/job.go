// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
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
	UnsafeLL128                      // LL128 forced on a real GPU through host memory
	RingTooSmall                     // shared memory for a connection was not to be had
	ForeignHostID                    // NCCL's view of who shares a host differs from the nodes
	WireOverrun                      // the kernel datapath lost packets that the link model did not
	BelowFloor                       // a link's latency is shorter than the kernel datapath's shaper can keep
	NotShaped                        // the kernel datapath's shaper could not put a change into force
)

var reasonWords = []string{
	"a rank's plugin failed to start: its traffic was NOT emulated",
	"a process holds several ranks: traffic between them was not emulated",
	"several ranks share one GPU without MPS: they are time-sliced, so timing means nothing",
	"NCCL saw another number of nodes than the fabric has: some traffic went around the emulated links",
	"a rank died",
	"LL128 was forced on a real GPU, where it is not safe through host memory",
	"shared memory for a connection could not be reserved: raise DDLEMU_MEMORY, or free memory",
	"NCCL_HOSTID was set by somebody else, and not to one value for each node: some traffic went around the emulated links",
	"this host lost packets that the link model did not: see the fabric's events",
	"a link's latency is shorter than the shaper can keep on this host: see `ddlemu doctor`",
	"a change of the links could not be put into force: see the fabric's events",
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

// Job states. They change under the lock of who joins, so a place in the making
// that is found under it is one whose maker died.
const (
	jobFree uint32 = iota
	jobMaking
	jobOn
	jobOver
)

// Job is one job's place in the file: the ranks that share a counter set.
type Job struct {
	f       *File
	index   int
	key     uint64
	started int64 // tells this job from a later one in the same place
}

// arrival is longer than a rank takes from JoinJob to Join.
const arrival = 10 * time.Second

// JoinJob finds the running job with this key, or makes it. A job that is over
// gives its place to a new one when there is no other, the oldest first. The error
// says that all places are taken.
func (f *File) JoinJob(key uint64) (Job, error) {
	unlock, err := f.lock(joining, patience)
	if err != nil {
		return Job{}, fmt.Errorf("join fabric %s: %w", f.Name(), err)
	}
	defer unlock()
	f.reap()
	j, err := f.joinJob(key)
	if err != nil {
		return Job{}, fmt.Errorf("join fabric %s: %w", f.Name(), err)
	}
	return j, nil
}

// joinJob is JoinJob under the lock.
func (f *File) joinJob(key uint64) (Job, error) {
	number, best := uint32(0), -1
	for i := range f.jobs() {
		e := &f.jobs()[i]
		state := atomic.LoadUint32(&e.State)
		if state == jobOn && e.Key == key {
			return f.job(i), nil
		}
		if state == jobOver && e.Key == key {
			number = max(number, e.Number)
		}
		if e.worth() < running && (best < 0 || e.before(&f.jobs()[best])) {
			best = i
		}
	}
	if best < 0 {
		return Job{}, fmt.Errorf("it has room for %d jobs at once, and all are running: use another fabric", len(f.jobs()))
	}
	return f.makeJob(best, key, number+1), nil
}

// What a place is worth to keep: the least is given away first.
const (
	empty    = iota // or its maker died
	ended           // its counters may still be asked for
	unmanned        // just made and not joined; whoever made it gets another, see resume
	running
)

func (e *jobEntry) worth() int {
	switch atomic.LoadUint32(&e.State) {
	case jobOver:
		return ended
	case jobOn:
		if atomic.LoadUint32(&e.Ranks) == 0 {
			return unmanned
		}
		return running
	}
	return empty
}

// before says whether the place of e is to be given away before that of o.
func (e *jobEntry) before(o *jobEntry) bool {
	if a, b := e.worth(), o.worth(); a != b {
		return a < b
	}
	return max(e.Started, e.Ended) < max(o.Started, o.Ended)
}

// makeJob makes a job in place i, the number-th with this key.
func (f *File) makeJob(i int, key uint64, number uint32) Job {
	e := &f.jobs()[i]
	atomic.StoreUint32(&e.State, jobMaking)
	clear(f.jobCells(i))
	for _, p := range []*uint32{&e.Ranks, &e.Left, &e.Died, &e.Nodes, &e.World, &e.Printed, &e.Marked} {
		atomic.StoreUint32(p, 0)
	}
	for k := range e.NodeSet {
		atomic.StoreUint64(&e.NodeSet[k], 0)
	}
	atomic.StoreUint64(&e.Flags, 0)
	atomic.StoreUint32(&e.Number, number)
	atomic.StoreUint64(&e.Key, key)
	atomic.StoreInt64(&e.Started, Now())
	atomic.StoreInt64(&e.Ended, 0)
	atomic.StoreUint32(&e.State, jobOn)
	return f.job(i)
}

// resume is j for one more rank, under the lock. If everybody else left j since
// this rank found it, j runs again; if another job has its place now, the rank
// gets a new one.
func (f *File) resume(j Job) (Job, error) {
	e := j.entry()
	if atomic.LoadInt64(&e.Started) != j.started {
		return f.joinJob(j.key)
	}
	atomic.StoreInt64(&e.Ended, 0)
	atomic.CompareAndSwapUint32(&e.Marked, markedLast, markedFirst)
	atomic.StoreUint32(&e.State, jobOn)
	return j, nil
}

func (f *File) job(i int) Job {
	e := &f.jobs()[i]
	return Job{f: f, index: i, key: atomic.LoadUint64(&e.Key), started: atomic.LoadInt64(&e.Started)}
}

// endJobs ends the jobs of which nobody is left, under the lock, and returns them
// as bits.
func (f *File) endJobs() uint32 {
	forsaken := f.forsakenJobs()
	for i := range f.jobs() {
		if forsaken>>i&1 == 1 {
			atomic.StoreInt64(&f.jobs()[i].Ended, Now())
			atomic.StoreUint32(&f.jobs()[i].State, jobOver)
		}
	}
	return forsaken
}

// forsakenJobs is the running jobs that no slot belongs to, as bits. It goes by the
// slots and not by the counts of ranks, which a process that is killed between two
// steps leaves wrong. A job that no rank has joined yet is given time.
func (f *File) forsakenJobs() uint32 {
	var out uint32
	for i := range f.jobs() {
		e := &f.jobs()[i]
		if atomic.LoadUint32(&e.State) == jobOn && (atomic.LoadUint32(&e.Ranks) > 0 || Now()-atomic.LoadInt64(&e.Started) > int64(arrival)) {
			out |= 1 << i
		}
	}
	for i := range f.participants() {
		if out == 0 {
			break
		}
		e := &f.participants()[i]
		if j := atomic.LoadUint32(&e.Job); atomic.LoadUint32(&e.State) != slotFree && j < maxJobs {
			out &^= 1 << j
		}
	}
	return out
}

// Jobs returns every job that has run, also the ones that are over.
func (f *File) Jobs() []Job {
	var out []Job
	for i := range f.jobs() {
		if s := atomic.LoadUint32(&f.jobs()[i].State); s == jobOn || s == jobOver {
			out = append(out, f.job(i))
		}
	}
	return out
}

// JobsOf returns the jobs with this key, running or over: a key comes back when a
// program that used it is over and the next one starts.
func (f *File) JobsOf(key uint64) []Job {
	return slices.DeleteFunc(f.Jobs(), func(j Job) bool { return j.key != key })
}

func (j Job) entry() *jobEntry { return &j.f.jobs()[j.index] }

// Index is the job's number in the file.
func (j Job) Index() int { return j.index }

// Invalidate raises reasons for INVALID, unless another job has the place by now.
func (j Job) Invalidate(r Reason) {
	if e := j.entry(); atomic.LoadInt64(&e.Started) == j.started {
		e.invalidate(r)
	}
}

func (e *jobEntry) invalidate(r Reason) { atomic.OrUint64(&e.Flags, uint64(r)) }

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
	Number         int // of the jobs with this key, from 1: the earlier ones may have given way to others
	Reasons        Reason
	Started, Ended int64
	Cells          []Cell // by hop
}

// Status reads the job's numbers. They may move while a job is running.
func (j Job) Status() JobStatus {
	e := j.entry()
	return JobStatus{
		Key: atomic.LoadUint64(&e.Key), Running: atomic.LoadUint32(&e.State) == jobOn,
		Joined: int(atomic.LoadUint32(&e.Ranks)), Left: int(atomic.LoadUint32(&e.Left)), Died: int(atomic.LoadUint32(&e.Died)),
		Number: int(atomic.LoadUint32(&e.Number)), Reasons: Reason(atomic.LoadUint64(&e.Flags)),
		Started: atomic.LoadInt64(&e.Started), Ended: atomic.LoadInt64(&e.Ended),
		Cells: slices.Clone(j.f.jobCells(j.index)),
	}
}

// Add counts what another job did into s, as if one had done both.
func (s *JobStatus) Add(o *JobStatus) {
	s.Running = s.Running || o.Running
	s.Joined, s.Left, s.Died = s.Joined+o.Joined, s.Left+o.Left, s.Died+o.Died
	s.Reasons |= o.Reasons
	s.Started, s.Ended = first(s.Started, o.Started), max(s.Ended, o.Ended)
	for i := range s.Cells {
		s.Cells[i].add(&o.Cells[i])
	}
}

// Since is what was counted into s after the moment at which it was o. A largest
// value is one of all time, but not beyond the bucket of the latest that is left.
func (s *JobStatus) Since(o *JobStatus) {
	for i := range o.Cells {
		s.Cells[i].since(&o.Cells[i])
	}
}

func (c *Cell) since(o *Cell) {
	messages := uint64(0)
	for i := range c.Size {
		c.Size[i].since(&o.Size[i])
		messages += c.Size[i].Messages
	}
	c.ModelBusy, c.WallBusy = c.ModelBusy-o.ModelBusy, c.WallBusy-o.WallBusy
	c.Distortion -= o.Distortion
	c.Stalls, c.Aborted, c.HeldSends = c.Stalls-o.Stalls, c.Aborted-o.Aborted, c.HeldSends-o.HeldSends
	switch {
	case messages == 0:
		c.FirstPosted = 0
	case o.LastVisible > c.FirstPosted:
		c.FirstPosted = o.LastVisible
	}
}

func (k *Class) since(o *Class) {
	k.Messages, k.Bytes = k.Messages-o.Messages, k.Bytes-o.Bytes
	k.OverP50, k.OverP99 = k.OverP50-o.OverP50, k.OverP99-o.OverP99
	k.SumLate, k.SumTime = k.SumLate-o.SumLate, k.SumTime-o.SumTime
	for b := range k.Late {
		k.Late[b] -= o.Late[b]
	}
	k.MaxLate = latest(&k.Late, k.MaxLate)
}

func (c *Cell) add(o *Cell) {
	for i := range c.Size {
		c.Size[i].add(&o.Size[i])
	}
	c.ModelBusy, c.WallBusy = c.ModelBusy+o.ModelBusy, c.WallBusy+o.WallBusy
	c.ModelUntil, c.WallUntil = max(c.ModelUntil, o.ModelUntil), max(c.WallUntil, o.WallUntil)
	c.FirstPosted, c.LastVisible = first(c.FirstPosted, o.FirstPosted), max(c.LastVisible, o.LastVisible)
	c.Distortion += o.Distortion
	c.Stalls, c.Aborted, c.HeldSends = c.Stalls+o.Stalls, c.Aborted+o.Aborted, c.HeldSends+o.HeldSends
}

func (k *Class) add(o *Class) {
	k.Messages, k.Bytes = k.Messages+o.Messages, k.Bytes+o.Bytes
	k.OverP50, k.OverP99 = k.OverP50+o.OverP50, k.OverP99+o.OverP99
	k.SumLate, k.SumTime = k.SumLate+o.SumLate, k.SumTime+o.SumTime
	k.MaxLate = max(k.MaxLate, o.MaxLate)
	for b := range k.Late {
		k.Late[b] += o.Late[b]
	}
}

// first is the earlier of two times, of which 0 is none.
func first(a, b int64) int64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// jobCells is the cells of job i, by hop.
func (f *File) jobCells(i int) []Cell {
	hops := len(f.hops())
	return f.cells()[i*hops : (i+1)*hops : (i+1)*hops]
}

// Gone is how many ranks have died, and how many have left.
func (j Job) Gone() (died, left int) {
	return int(atomic.LoadUint32(&j.entry().Died)), int(atomic.LoadUint32(&j.entry().Left))
}

// CellsOffset is where the job's cells begin in the file, for the engine in C.
func (j Job) CellsOffset() uint64 {
	return j.f.head().CellsOff + uint64(j.index)*uint64(j.f.head().Hops)*uint64(cellSize)
}

// Announce says whether this call is the first for the job: whoever makes it
// tells the user what the job runs on.
func (j Job) Announce() bool { return atomic.CompareAndSwapUint32(&j.entry().Printed, 0, 1) }
