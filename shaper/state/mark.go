// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync/atomic"
	"time"
)

// On the kernel datapath the packets of all jobs are counted together, from when the
// fabric came up. Two marks per job and hop keep its own apart: what was counted before
// its first rank joined, and by the time that its last one had left.
const (
	firstMark = iota
	lastMark
	marksPerJob
)

// Which marks of a job there are.
const (
	unmarked uint32 = iota
	markedFirst
	markedLast // both
)

// countWait is many times what the daemon takes from one count to the next.
const countWait = time.Second

// marks are those of job i, by hop; none on the datapath shm.
func (f *File) marks(i, which int) []Mark {
	hops := len(f.hops())
	at := (i*marksPerJob + which) * hops
	if all := f.markTable(); len(all) >= at+hops {
		return all[at : at+hops : at+hops]
	}
	return nil
}

// mark notes in a job's marks what is counted now, under the lock of who joins.
func (f *File) mark(i, which int) {
	marks := f.marks(i, which)
	clear(marks)
	traffic, ok := f.trafficJob()
	for hop := 0; ok && hop < len(marks); hop++ {
		marks[hop] = f.jobCells(traffic)[hop].mark()
	}
}

// markFirst notes what was counted before j, for the first of its ranks.
func (f *File) markFirst(j Job) {
	e := j.entry()
	if atomic.LoadUint32(&e.Ranks) > 0 || j.Traffic() {
		return
	}
	f.mark(j.index, firstMark)
	atomic.StoreUint32(&e.Marked, markedFirst)
}

// trafficJob is the place of the job of all traffic while its daemon counts.
func (f *File) trafficJob() (i int, ok bool) {
	for i := range f.jobs() {
		e := &f.jobs()[i]
		if atomic.LoadUint32(&e.State) == jobOn && atomic.LoadUint64(&e.Key) == TrafficKey {
			return i, true
		}
	}
	return 0, false
}

// Unmarked are the jobs that are over and still lack the mark of that. The daemon asks
// before it counts, and then calls MarkEnds.
func (f *File) Unmarked() []Job {
	var out []Job
	for _, j := range f.Jobs() {
		if j.ending() {
			out = append(out, j)
		}
	}
	return out
}

// ending says whether j is over and lacks the mark of that.
func (j Job) ending() bool {
	e := j.entry()
	return atomic.LoadUint32(&e.State) == jobOver && atomic.LoadUint32(&e.Marked) == markedFirst && atomic.LoadInt64(&e.Started) == j.started
}

// MarkEnds ends with what is counted now the traffic of jobs that were over before it
// was. If somebody else has the lock for long, they stay Unmarked.
func (f *File) MarkEnds(jobs []Job) {
	if len(jobs) == 0 {
		return
	}
	unlock, err := f.lock(joining, glance)
	if err != nil {
		return
	}
	defer unlock()
	for _, j := range jobs {
		if j.ending() {
			f.mark(j.index, lastMark)
			atomic.StoreUint32(&j.entry().Marked, markedLast)
		}
	}
}

// Settle waits, if j is over, until the daemon of the kernel datapath has counted all
// of its packets. One that does not within a second is stopped, or has died.
func (j Job) Settle() {
	for end := time.Now().Add(countWait); j.ending() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, ok := j.f.trafficJob(); !ok || len(j.f.marks(j.index, lastMark)) == 0 {
			return
		}
	}
}

// Crossed is what of traffic, the status of the job of all traffic, was counted while j
// ran: up to a tenth of a second of what was before is among it, since some shapers are
// asked that often. ok is false if another job has j's place by now.
func (j Job) Crossed(traffic JobStatus) (crossed JobStatus, ok bool) {
	e := j.entry()
	marked := atomic.LoadUint32(&e.Marked)
	first, last := j.f.marks(j.index, firstMark), j.f.marks(j.index, lastMark)
	crossed, crossed.Cells = traffic, make([]Cell, len(traffic.Cells))
	for hop := range traffic.Cells {
		m := traffic.Cells[hop].mark()
		if marked == markedLast && hop < len(last) {
			m = last[hop]
		}
		if marked != unmarked && hop < len(first) {
			m.since(&first[hop])
		}
		crossed.Cells[hop] = m.cell()
	}
	return crossed, atomic.LoadInt64(&e.Started) == j.started
}

// mark is what a cell of the job of all traffic has counted.
func (c *Cell) mark() Mark {
	m := Mark{ModelBusy: c.ModelBusy, WallBusy: c.WallBusy}
	for i := range c.Size {
		k := &c.Size[i]
		m.Messages, m.SumLate, m.MaxLate = m.Messages+k.Messages, m.SumLate+k.SumLate, max(m.MaxLate, k.MaxLate)
		for b, n := range k.Late {
			m.Late[b] += n
		}
	}
	return m
}

// cell is a cell that has counted m, all in one size.
func (m *Mark) cell() Cell {
	c := Cell{ModelBusy: m.ModelBusy, WallBusy: m.WallBusy}
	c.Size[0] = Class{Messages: m.Messages, SumLate: m.SumLate, MaxLate: m.MaxLate, Late: m.Late}
	return c
}

// since is what was counted after o.
func (m *Mark) since(o *Mark) {
	m.Messages, m.SumLate = m.Messages-o.Messages, m.SumLate-o.SumLate
	m.ModelBusy, m.WallBusy = m.ModelBusy-o.ModelBusy, m.WallBusy-o.WallBusy
	for b := range m.Late {
		m.Late[b] -= o.Late[b]
	}
	m.MaxLate = latest(&m.Late, m.MaxLate)
}

// latest is the largest lateness that a histogram allows for, most at the most.
func latest(late *[LateBuckets]uint32, most int64) int64 {
	for b := LateBuckets - 1; b >= 0; b-- {
		if late[b] == 0 {
			continue
		}
		if b == LateBuckets-1 {
			return most // it has no upper edge
		}
		return min(most, BucketFloor(b+1)-1)
	}
	return 0
}
