// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync/atomic"
	"time"
)

// countWait is many times the interval at which the daemon counts.
const countWait = time.Second

// snapshots are the start or the end snapshots of job i, by hop; none on the datapath shm.
func (f *File) snapshots(i, which int) []Snapshot {
	hops := len(f.hops())
	at := (i*snapshotsPerJob + which) * hops
	if all := f.snapshotTable(); len(all) >= at+hops {
		return all[at : at+hops : at+hops]
	}
	return nil
}

// takeSnapshots takes the start or the end snapshots of job i, under the lock joining.
func (f *File) takeSnapshots(i, which int) {
	snapshots := f.snapshots(i, which)
	clear(snapshots)
	traffic, ok := f.trafficJob()
	for hop := 0; ok && hop < len(snapshots); hop++ {
		snapshots[hop] = f.jobLinkStats(traffic)[hop].snapshot()
	}
}

// takeStartSnapshot takes the start snapshots of j, if none of its ranks has joined yet.
func (f *File) takeStartSnapshot(j Job) {
	e := j.entry()
	if atomic.LoadUint32(&e.Ranks) > 0 || j.Traffic() {
		return
	}
	f.takeSnapshots(j.index, startSnapshot)
	atomic.StoreUint32(&e.Snapshots, startTaken)
}

// trafficJob is the index of the job of all traffic. ok is false if no daemon counts.
func (f *File) trafficJob() (i int, ok bool) {
	for i := range f.jobs() {
		e := &f.jobs()[i]
		if atomic.LoadUint32(&e.State) == jobOn && atomic.LoadUint64(&e.Key) == TrafficKey {
			return i, true
		}
	}
	return 0, false
}

// AwaitingSnapshot returns the jobs that are over and have no end snapshots yet. The daemon
// calls it, then counts, and then calls TakeEndSnapshots.
func (f *File) AwaitingSnapshot() []Job {
	var out []Job
	for _, j := range f.Jobs() {
		if j.awaitsSnapshot() {
			out = append(out, j)
		}
	}
	return out
}

// awaitsSnapshot reports whether j is over and has no end snapshots yet.
func (j Job) awaitsSnapshot() bool {
	e := j.entry()
	return atomic.LoadUint32(&e.State) == jobOver && atomic.LoadUint32(&e.Snapshots) == startTaken &&
		atomic.LoadInt64(&e.Started) == j.started
}

// TakeEndSnapshots takes the end snapshots of jobs that were over before the daemon's last count. It does nothing if
// another process has the lock for long; the jobs then stay AwaitingSnapshot.
func (f *File) TakeEndSnapshots(jobs []Job) {
	if len(jobs) == 0 {
		return
	}
	unlock, err := f.lock(joining, shortTimeout)
	if err != nil {
		return
	}
	defer unlock()
	for _, j := range jobs {
		if j.awaitsSnapshot() {
			f.takeSnapshots(j.index, endSnapshot)
			atomic.StoreUint32(&j.entry().Snapshots, bothTaken)
		}
	}
}

// WaitCounted waits, if j is over, until the daemon of the kernel datapath has counted all
// of its packets. It waits at most a second: after that the daemon is stopped or dead.
func (j Job) WaitCounted() {
	for end := time.Now().Add(countWait); j.awaitsSnapshot() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, ok := j.f.trafficJob(); !ok || len(j.f.snapshots(j.index, endSnapshot)) == 0 {
			return
		}
	}
}

// TrafficDuring is the share of traffic, the status of the job of all traffic, that was counted while j ran. It
// includes up to a tenth of a second from before, because the counters of some shapers are read at that interval. ok is
// false if another job has j's place by now.
func (j Job) TrafficDuring(traffic JobStatus) (during JobStatus, ok bool) {
	e := j.entry()
	taken := atomic.LoadUint32(&e.Snapshots)
	start, end := j.f.snapshots(j.index, startSnapshot), j.f.snapshots(j.index, endSnapshot)
	during, during.LinkStats = traffic, make([]LinkStats, len(traffic.LinkStats))
	for hop := range traffic.LinkStats {
		s := traffic.LinkStats[hop].snapshot()
		if taken == bothTaken && hop < len(end) {
			s = end[hop]
		}
		if taken != noSnapshot && hop < len(start) {
			s.subtract(&start[hop])
		}
		during.LinkStats[hop] = s.linkStats()
	}
	return during, atomic.LoadInt64(&e.Started) == j.started
}

// snapshot is the counters of the job of all traffic on one link.
func (c *LinkStats) snapshot() Snapshot {
	sum := c.Total()
	return Snapshot{Messages: sum.Messages, SumLate: sum.SumLate, MaxLate: sum.MaxLate, Late: sum.Late,
		ModelBusy: c.ModelBusy, WallBusy: c.WallBusy}
}

// linkStats is s as link statistics, all in one size class.
func (s *Snapshot) linkStats() LinkStats {
	c := LinkStats{ModelBusy: s.ModelBusy, WallBusy: s.WallBusy}
	c.Size[0] = Class{Messages: s.Messages, SumLate: s.SumLate, MaxLate: s.MaxLate, Late: s.Late}
	return c
}

// subtract leaves in s what was counted after the earlier snapshot o.
func (s *Snapshot) subtract(o *Snapshot) {
	s.Messages, s.SumLate = s.Messages-o.Messages, s.SumLate-o.SumLate
	s.ModelBusy, s.WallBusy = s.ModelBusy-o.ModelBusy, s.WallBusy-o.WallBusy
	for b := range s.Late {
		s.Late[b] -= o.Late[b]
	}
	s.MaxLate, _ = Quantile(&s.Late, 1, s.MaxLate)
}
