// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"sort"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
)

// Reap frees the slots of processes that died, records their deaths in their jobs
// and returns the slots. It returns nil if another process has the lock for long.
func (f *File) Reap() []int {
	if !f.reapable() {
		return nil
	}
	unlock, err := f.lock(joining, shortTimeout)
	if err != nil {
		return nil
	}
	defer unlock()
	return f.reap()
}

// ReapNext looks whether the process of the next participant is alive, and the process of another one, which is not the
// same each time. One call at a time. If one is dead, it does what Reap does. If all participants call it from time to
// time, each death is seen, also if some of them are stopped. It costs two system calls. A look at all participants
// costs as many as there are, in each of which the kernel compares all of their locks.
func (p *Participant) ReapNext() {
	used := make([]int, 0, 16)
	for i := range p.f.participants() {
		if i != p.slot && atomic.LoadUint32(&p.f.participants()[i].State) != slotFree {
			used = append(used, i)
		}
	}
	if len(used) == 0 {
		return
	}
	next := sort.SearchInts(used, p.slot) % len(used)
	p.looked++
	other := (next + p.looked) % len(used)
	if !p.f.Alive(used[next]) || !p.f.Alive(used[other]) || p.f.jobsWithoutRanks() != 0 {
		p.f.Reap()
	}
}

// reapable reports, without a lock, whether reap would find something.
func (f *File) reapable() bool {
	for i := range f.participants() {
		if atomic.LoadUint32(&f.participants()[i].State) != slotFree && !f.Alive(i) {
			return true
		}
	}
	return f.jobsWithoutRanks() != 0
}

// reap is Reap under the lock joining. If it can lock a slot, the slot's process is dead.
// No other process can have entered the slot: that needs the lock joining.
func (f *File) reap() []int {
	var dead []int
	for i := range f.participants() {
		e := &f.participants()[i]
		if atomic.LoadUint32(&e.State) == slotFree || f.isOurs(i) || f.lockSlot(i, unix.F_WRLCK) != nil {
			continue
		}
		f.miss(e) // first: whose connection fails because of the death looks who it was
		if c := f.Clock(); c != nil {
			clock.Died(c, i)
		}
		f.reapSlot(e)
		dead = append(dead, i)
		_ = f.lockSlot(i, unix.F_UNLCK)
	}
	f.endJobs()
	return dead
}

// miss notes in the job of a process that died that it has lost this rank, if the rank is missed.
func (f *File) miss(e *participantEntry) {
	if job := int(e.Job); job < len(f.jobs()) && f.isMissed(e) {
		f.jobs()[job].lose(e.Rank)
	}
}

// isMissed reports whether a process that died took part until then: not if it has destroyed its communicators and then
// ended without leaving (by _exit), and not if another process has its rank by now, as after an elastic restart.
func (f *File) isMissed(e *participantEntry) bool {
	if atomic.LoadUint32(&e.Communicators) == 0 && atomic.LoadUint32(&e.HadOne) != 0 {
		return false
	}
	for i := range f.participants() {
		o := &f.participants()[i]
		if atomic.LoadUint32(&o.State) != slotFree && o.Job == e.Job && o.Rank == e.Rank &&
			atomic.LoadInt64(&o.Joined) > atomic.LoadInt64(&e.Joined) {
			return false
		}
	}
	return true
}

// reapSlot frees the slot of a process that died. If this process dies in between, the
// job is INVALID already, and the death is not counted rather than counted twice.
func (f *File) reapSlot(e *participantEntry) {
	job, rank, node := int(e.Job), e.Rank, e.Node
	how, count := "died", (*uint32)(nil)
	if job < len(f.jobs()) {
		j := &f.jobs()[job]
		count = &j.Died
		j.invalidate(f.deadlock())
		switch {
		case atomic.LoadUint32(&j.Stopping) != 0:
			how, count = "ended: its launcher stopped the job", &j.Stopped
		case e.Exit != 0:
			how = "died, as expected"
			j.meet(e.Exit)
		default:
			j.invalidate(PeerDied)
		}
	}
	atomic.StoreUint32(&e.State, slotFree)
	if count != nil {
		atomic.AddUint32(count, 1)
	}
	if rank == DaemonRank {
		f.Event("the fabric's daemon died")
		return
	}
	f.Event(fmt.Sprintf("rank %d (node %d) %s", rank, node, how))
}

// deadlock is the reason [Deadlocked] if all ranks on the fabric waited for each other, else 0. A rank
// that ends without a word after that cannot tell its job.
func (f *File) deadlock() Reason {
	if s := f.ClockStatus(); s != nil && s.Deadlocked {
		return Deadlocked
	}
	return 0
}

// Dead counts processes of a job that are dead, which no process has noted in the file yet.
type Dead struct {
	All      int
	Expected int // of these, see Rank.Exit
}

// Add counts a participant that is dead.
func (d *Dead) Add(p *ParticipantStatus) {
	d.All++
	if p.ExitExpected {
		d.Expected++
	}
}

// AddDead adds processes that are dead, which no process has noted in the file yet.
func (s *JobStatus) AddDead(d Dead) {
	if s.Stopping {
		s.Stopped += d.All
		return
	}
	s.Died += d.All
	if d.All > d.Expected {
		s.Reasons |= PeerDied
	}
}
