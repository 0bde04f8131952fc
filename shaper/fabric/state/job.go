// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// Reason is a set of reasons why a job is INVALID, apart from its counters. Participants set its bits.
type Reason uint64

// The reasons. reasonWords has a line for the user for each.
const (
	NotEmulated   Reason = 1 << iota // a rank's plugin failed, so NCCL used another net
	SeveralRanks                     // one process has several ranks
	SharedGPU                        // ranks share a GPU without MPS
	NodesDiffer                      // NCCL's number of nodes differs from the emulated nodes
	PeerDied                         // a rank died
	UnsafeLL128                      // LL128 forced on a real GPU through host memory
	RingTooSmall                     // shared memory for a connection could not be reserved
	ForeignHostID                    // NCCL_HOSTID does not match the emulated nodes
	WireOverrun                      // the kernel datapath lost packets that the link model did not lose
	BelowFloor                       // a link's latency is shorter than the shaper can emulate
	NotShaped                        // the shaper could not put a change into force
	NotWaitedFor                     // a thread worked for so long that the virtual clock went on without it
	Deadlocked                       // every rank waited, and nothing was left to happen
)

var reasonWords = []string{
	"a rank's plugin failed to start: its traffic was NOT emulated",
	"a process has several ranks: traffic between them was not emulated",
	"several ranks share one GPU without MPS: they are time-sliced, so times are not valid",
	"NCCL saw another number of nodes than the fabric has: some traffic went around the emulated links",
	"a rank died",
	"LL128 was forced on a real GPU, where it is not safe through host memory",
	"shared memory for a connection could not be reserved: raise DDLEMU_MEMORY, or free memory",
	"NCCL_HOSTID was not set by ddlemu, and not to one value for each node: some traffic went around the emulated links",
	"this host lost packets that the link model did not lose: see the fabric's events",
	"a link's latency is shorter than the shaper can emulate on this host: see `ddlemu doctor`",
	"a change of the links could not be put into force: see the fabric's events",
	"a thread ran for so long that the virtual clock went on without it, so times are not exact: give " +
		"--compute-hold 1m (or DDLEMU_COMPUTE_HOLD=1m)",
	"the ranks waited for each other, and nothing was left to happen: see the lines on stderr that begin with " +
		"`ddlemu: deadlock`",
}

// Words are the lines for the user, one for each reason.
func (r Reason) Words() []string {
	var out []string
	for i, w := range reasonWords {
		if r>>i&1 == 1 {
			out = append(out, w)
		}
	}
	return out
}

// Split returns each of the reasons alone.
func (r Reason) Split() []Reason {
	var out []Reason
	for i := range reasonWords {
		if one := Reason(1) << i; r&one != 0 {
			out = append(out, one)
		}
	}
	return out
}

// Job is one job and its place in the file: the ranks that share counters and a verdict.
type Job struct {
	f       *File
	index   int
	key     uint64
	started int64 // distinguishes this job from a later one in the same place
}

// joinTime is longer than any rank needs from JoinJob to Join.
const joinTime = 10 * time.Second

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
		if e.importance() < running && (best < 0 || e.replaceBefore(&f.jobs()[best])) {
			best = i
		}
	}
	if best < 0 {
		return Job{}, fmt.Errorf("it has places for %d jobs, and all are running: use another fabric", len(f.jobs()))
	}
	return f.makeJob(best, key, number+1), nil
}

// How important a place is. A new job gets the least important one.
const (
	empty    = iota // or the process that was making the job died
	ended           // somebody may still ask for the counters
	unjoined        // made, but no rank has joined; its rank then gets another job, see resume
	running
)

// importance is empty, ended, unjoined or running.
func (e *jobEntry) importance() int {
	switch atomic.LoadUint32(&e.State) {
	case jobOver:
		return ended
	case jobOn:
		if atomic.LoadUint32(&e.Ranks) == 0 {
			return unjoined
		}
		return running
	}
	return empty
}

// replaceBefore reports whether a new job should replace e rather than o.
func (e *jobEntry) replaceBefore(o *jobEntry) bool {
	if a, b := e.importance(), o.importance(); a != b {
		return a < b
	}
	return max(e.Started, e.Ended) < max(o.Started, o.Ended)
}

// makeJob makes a job in place i. number counts the jobs with this key, from 1.
func (f *File) makeJob(i int, key uint64, number uint32) Job {
	e := &f.jobs()[i]
	atomic.StoreUint32(&e.State, jobMaking)
	clear(f.jobLinkStats(i))
	clear(f.jobNodeStats(i))
	f.notePauses(i, (*LinkStats).start)
	for _, p := range []*uint32{&e.Ranks, &e.Left, &e.Died, &e.Nodes, &e.World, &e.Printed, &e.Snapshots, &e.Lost,
		&e.Stopping, &e.Stopped, &e.Failed} {
		atomic.StoreUint32(p, 0)
	}
	for k := range e.NodeSet {
		atomic.StoreUint64(&e.NodeSet[k], 0)
	}
	atomic.StoreUint64(&e.Flags, 0)
	atomic.StoreUint64(&e.Exits, 0)
	atomic.StoreUint32(&e.Number, number)
	atomic.StoreUint64(&e.Key, key)
	atomic.StoreInt64(&e.Started, Now())
	atomic.StoreInt64(&e.Ended, 0)
	atomic.StoreUint32(&e.State, jobOn)
	return f.job(i)
}

// resume returns the job for a rank that found j and now joins, under the lock. If all other ranks have left j
// meanwhile, j runs again. If another job has j's place by now, the rank gets a new job.
func (f *File) resume(j Job) (Job, error) {
	e := j.entry()
	if atomic.LoadInt64(&e.Started) != j.started {
		return f.joinJob(j.key)
	}
	atomic.StoreInt64(&e.Ended, 0)
	atomic.CompareAndSwapUint32(&e.Snapshots, bothTaken, startTaken)
	atomic.StoreUint32(&e.State, jobOn)
	return j, nil
}

// job is the job in place i.
func (f *File) job(i int) Job {
	e := &f.jobs()[i]
	return Job{f: f, index: i, key: atomic.LoadUint64(&e.Key), started: atomic.LoadInt64(&e.Started)}
}

// endJobs ends the jobs without ranks, under the lock, and returns them as bits.
func (f *File) endJobs() uint32 {
	abandoned := f.jobsWithoutRanks()
	for i := range f.jobs() {
		if abandoned>>i&1 == 1 {
			f.notePauses(i, (*LinkStats).end)
			atomic.StoreInt64(&f.jobs()[i].Ended, Now())
			atomic.StoreUint32(&f.jobs()[i].State, jobOver)
		}
	}
	return abandoned
}

// jobsWithoutRanks returns the running jobs that no slot belongs to, as bits. It uses the
// slots and not the counts of ranks, which are wrong after a process was killed between
// two steps. A job that no rank has joined yet is left out for joinTime.
func (f *File) jobsWithoutRanks() uint32 {
	var out uint32
	for i := range f.jobs() {
		e := &f.jobs()[i]
		if atomic.LoadUint32(&e.State) == jobOn &&
			(atomic.LoadUint32(&e.Ranks) > 0 || Now()-atomic.LoadInt64(&e.Started) > int64(joinTime)) {
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

// Jobs returns all jobs that run or have run, as long as their places are not reused.
func (f *File) Jobs() []Job {
	var out []Job
	for i := range f.jobs() {
		if s := atomic.LoadUint32(&f.jobs()[i].State); s == jobOn || s == jobOver {
			out = append(out, f.job(i))
		}
	}
	return out
}

// JobsOf returns the jobs with this key, running or over. Programs that run one after the other may use the same key.
func (f *File) JobsOf(key uint64) []Job {
	return slices.DeleteFunc(f.Jobs(), func(j Job) bool { return j.key != key })
}

// StopJobs notes that the launcher of the running jobs with this key ends them before they are done.
func (f *File) StopJobs(key uint64) {
	// Without the lock, only a job that is being made in a place of these could be marked instead of them.
	if unlock, err := f.lock(joining, shortTimeout); err == nil {
		defer unlock()
	}
	for _, j := range f.JobsOf(key) {
		if e := j.entry(); atomic.LoadUint32(&e.State) == jobOn && atomic.LoadUint64(&e.Key) == key {
			atomic.StoreUint32(&e.Stopping, 1)
		}
	}
}

// entry is the job's place in the file.
func (j Job) entry() *jobEntry { return &j.f.jobs()[j.index] }

// Index is the job's number in the file.
func (j Job) Index() int { return j.index }

// Started is when the job was made, in ns of CLOCK_MONOTONIC: it tells the job from others that have had its number.
func (j Job) Started() int64 { return j.started }

// Invalidate adds reasons for INVALID, unless another job has the place by now.
func (j Job) Invalidate(r Reason) {
	if e := j.entry(); atomic.LoadInt64(&e.Started) == j.started {
		e.invalidate(r)
	}
}

// invalidate adds reasons for INVALID.
func (e *jobEntry) invalidate(r Reason) { atomic.OrUint64(&e.Flags, uint64(r)) }

// ReasonsWord is where the job's reasons for INVALID are, for C. It is the job's as long as one of its ranks takes
// part.
func (j Job) ReasonsWord() *uint64 { return &j.entry().Flags }

// Nodes is the number of emulated nodes on which the job has, or had, ranks.
func (j Job) Nodes() int {
	n := 0
	for _, word := range j.nodeSet() {
		n += bits.OnesCount64(word)
	}
	return n
}

// nodeSet are the emulated nodes on which the job has, or had, ranks.
func (j Job) nodeSet() (s NodeSet) {
	for i := range s {
		s[i] = atomic.LoadUint64(&j.entry().NodeSet[i])
	}
	return s
}

// JobStatus is a copy of a job's data in the file.
type JobStatus struct {
	Key            uint64
	Running        bool
	Joined, Left   int // ranks
	Died           int
	Stopping       bool // its launcher ends it before it is done
	Stopped        int  // ranks that have ended since then without leaving: the launcher's doing, so they have not died
	Number         int  // of the jobs with this key, from 1; places of earlier ones may have been reused
	Reasons        Reason
	Exits          uint64 // which of the exits that are expected have been seen: bit n-1 for number n of Rank.Exit
	NodeSet        NodeSet
	Started, Ended int64
	LinkStats      []LinkStats // by hop
	NodeStats      []LinkStats // see [Job.NodeStatsOffset]; empty if nodes cost nothing or the clock is virtual
	Pauses         []Pauses    // by hop, while the job ran; other jobs may have had a part in them
}

// Status reads the job's data, which change while the job is running.
func (j Job) Status() JobStatus {
	s := j.Summary()
	s.LinkStats = slices.Clone(j.f.jobLinkStats(j.index))
	s.NodeStats = slices.Clone(j.f.jobNodeStats(j.index))
	s.Pauses = j.f.pausesDuring(&s)
	return s
}

// Summary is Status without LinkStats, NodeStats and Pauses, of which a large fabric has megabytes.
func (j Job) Summary() JobStatus {
	e := j.entry()
	return JobStatus{
		Key: atomic.LoadUint64(&e.Key), Running: atomic.LoadUint32(&e.State) == jobOn,
		Joined: int(atomic.LoadUint32(&e.Ranks)), Left: int(atomic.LoadUint32(&e.Left)),
		Died:     int(atomic.LoadUint32(&e.Died)),
		Stopping: atomic.LoadUint32(&e.Stopping) != 0, Stopped: int(atomic.LoadUint32(&e.Stopped)),
		Number: int(atomic.LoadUint32(&e.Number)), Reasons: Reason(atomic.LoadUint64(&e.Flags)),
		Exits:   atomic.LoadUint64(&e.Exits),
		NodeSet: j.nodeSet(),
		Started: atomic.LoadInt64(&e.Started), Ended: atomic.LoadInt64(&e.Ended),
	}
}

// Add adds the counters of another job to s.
func (s *JobStatus) Add(o *JobStatus) {
	s.Running = s.Running || o.Running
	s.Joined, s.Left, s.Died, s.Stopped = s.Joined+o.Joined, s.Left+o.Left, s.Died+o.Died, s.Stopped+o.Stopped
	s.Stopping = s.Stopping || o.Stopping
	s.Reasons |= o.Reasons
	s.Exits |= o.Exits
	for i := range s.NodeSet {
		s.NodeSet[i] |= o.NodeSet[i]
	}
	s.Started, s.Ended = earlier(s.Started, o.Started), max(s.Ended, o.Ended)
	for i := range s.LinkStats {
		s.LinkStats[i].add(&o.LinkStats[i])
		s.Pauses[i] = s.Pauses[i].plus(o.Pauses[i])
	}
	if len(s.NodeStats) < len(o.NodeStats) {
		s.NodeStats = make([]LinkStats, len(o.NodeStats))
	}
	for i := range o.NodeStats {
		s.NodeStats[i].add(&o.NodeStats[i])
	}
}

// EndedRanks is the number of ranks that do not take part any more.
func (s *JobStatus) EndedRanks() int { return s.Left + s.Died + s.Stopped }

// Subtract leaves in s what was counted after o, an earlier status of the same job. The
// largest lateness since then is not known; Subtract sets an upper bound.
func (s *JobStatus) Subtract(o *JobStatus) {
	for i := range o.LinkStats {
		s.LinkStats[i].subtract(&o.LinkStats[i])
		s.Pauses[i] = s.Pauses[i].since(o.Pauses[i])
	}
	for i := range o.NodeStats {
		s.NodeStats[i].subtract(&o.NodeStats[i])
	}
}

// subtract leaves in c what was counted after o.
func (c *LinkStats) subtract(o *LinkStats) {
	messages := uint64(0)
	for i := range c.Size {
		c.Size[i].subtract(&o.Size[i])
		messages += c.Size[i].Messages
	}
	c.ModelBusy, c.WallBusy = c.ModelBusy-o.ModelBusy, c.WallBusy-o.WallBusy
	c.Distortion -= o.Distortion
	c.Stalls, c.Aborted, c.HeldSends, c.Broken = c.Stalls-o.Stalls, c.Aborted-o.Aborted, c.HeldSends-o.HeldSends,
		c.Broken-o.Broken
	switch {
	case messages == 0:
		c.FirstPosted = 0
	case o.LastVisible > c.FirstPosted:
		c.FirstPosted = o.LastVisible
	}
}

// subtract leaves in k what was counted after o.
func (k *Class) subtract(o *Class) {
	k.Messages, k.Bytes = k.Messages-o.Messages, k.Bytes-o.Bytes
	k.OverP50, k.OverP99 = k.OverP50-o.OverP50, k.OverP99-o.OverP99
	k.SumLate, k.SumTime = k.SumLate-o.SumLate, k.SumTime-o.SumTime
	for b := range k.Late {
		k.Late[b] -= o.Late[b]
	}
	k.MaxLate, _ = Quantile(&k.Late, 1, k.MaxLate)
}

// add adds the counters of o to c.
func (c *LinkStats) add(o *LinkStats) {
	for i := range c.Size {
		c.Size[i].add(&o.Size[i])
	}
	c.ModelBusy, c.WallBusy = c.ModelBusy+o.ModelBusy, c.WallBusy+o.WallBusy
	c.ModelUntil, c.WallUntil = max(c.ModelUntil, o.ModelUntil), max(c.WallUntil, o.WallUntil)
	c.FirstPosted, c.LastVisible = earlier(c.FirstPosted, o.FirstPosted), max(c.LastVisible, o.LastVisible)
	c.Distortion += o.Distortion
	c.Stalls, c.Aborted, c.HeldSends, c.Broken = c.Stalls+o.Stalls, c.Aborted+o.Aborted, c.HeldSends+o.HeldSends,
		c.Broken+o.Broken
}

// Total is the sum over the classes of sizes.
func (c *LinkStats) Total() (sum Class) {
	for i := range c.Size {
		if c.Size[i].Messages > 0 {
			sum.add(&c.Size[i])
		}
	}
	return sum
}

// add adds the counters of o to k.
func (k *Class) add(o *Class) {
	k.Messages, k.Bytes = k.Messages+o.Messages, k.Bytes+o.Bytes
	k.OverP50, k.OverP99 = k.OverP50+o.OverP50, k.OverP99+o.OverP99
	k.SumLate, k.SumTime = k.SumLate+o.SumLate, k.SumTime+o.SumTime
	k.MaxLate = max(k.MaxLate, o.MaxLate)
	for b := range k.Late {
		k.Late[b] += o.Late[b]
	}
}

// earlier is the earlier of two times; a time of 0 is not known.
func earlier(a, b int64) int64 {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// Gone returns how many ranks have died, and how many have left.
func (j Job) Gone() (died, left int) {
	return int(atomic.LoadUint32(&j.entry().Died)), int(atomic.LoadUint32(&j.entry().Left))
}

// Joined returns how many processes have taken part in the job until now.
func (j Job) Joined() int { return int(atomic.LoadUint32(&j.entry().Ranks)) }

// lose notes that a rank died while it took part, under the lock.
func (e *jobEntry) lose(rank int32) {
	n := atomic.LoadUint32(&e.Lost)
	atomic.StoreInt32(&e.LostRanks[n%uint32(len(e.LostRanks))], rank)
	atomic.StoreUint32(&e.Lost, n+1)
}

// Lost is how many ranks have died while they took part.
func (j Job) Lost() int { return int(atomic.LoadUint32(&j.entry().Lost)) }

// LostRank is the rank of lost rank number n, from 0. Only the last four are known: for an earlier one it is one of
// those.
func (j Job) LostRank(n int) int {
	e := j.entry()
	return int(atomic.LoadInt32(&e.LostRanks[n%len(e.LostRanks)]))
}

// Failed is how many ranks have ended with a status that is not 0 before they had a communicator, and the last of them.
func (j Job) Failed() (count, last int) {
	e := j.entry()
	return int(atomic.LoadUint32(&e.Failed)), int(atomic.LoadInt32(&e.FailedRank))
}

// LinkStatsOffset is the offset of the job's link statistics in the file, for the engine in C.
func (j Job) LinkStatsOffset() uint64 {
	return j.f.head().LinkStatsOff + uint64(j.index)*uint64(j.f.head().Hops)*uint64(linkStatsSize)
}

// NodeStatsOffset is the offset of the job's statistics of what its nodes did on a real clock, for C: for each GPU
// the statistics of its [NodeParts], in this order.
func (j Job) NodeStatsOffset() uint64 {
	return j.f.head().NodeStatsOff + uint64(j.index)*uint64(j.f.head().NodeRows)*uint64(linkStatsSize)
}

// Announce reports whether this call is the first for the job. The process that made it
// prints the fabric's description for the user.
func (j Job) Announce() bool { return atomic.CompareAndSwapUint32(&j.entry().Printed, 0, 1) }

// TrafficKey is the job that stands for all traffic of a fabric of the kernel
// datapath, whoever sends it. Its only participant is the fabric's daemon.
const TrafficKey uint64 = 0x63696666617274 // "traffic"

// VerifyKey is the key of the jobs of `ddlemu verify`. Such a job gets no verdict: its
// messages become visible late on purpose.
const VerifyKey uint64 = 0x796669726576 // "verify"

// Traffic reports whether the job stands for all traffic, see TrafficKey.
func (j Job) Traffic() bool { return j.key == TrafficKey }

// Verify reports whether the job is one of `ddlemu verify`.
func (j Job) Verify() bool { return j.key == VerifyKey }

// pausesDuring are the pauses of each hop while the job of s ran, up to now if it still runs.
func (f *File) pausesDuring(s *JobStatus) []Pauses {
	out := make([]Pauses, len(s.LinkStats))
	for hop := range out {
		until := s.LinkStats[hop].End
		if s.Running {
			until = f.pauses(hop)
		}
		out[hop] = until.since(s.LinkStats[hop].Start)
	}
	return out
}
