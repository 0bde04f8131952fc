// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Participant states. A slot that is on but whose lock nobody holds belonged to a
// process that died. States and slot locks change under the lock of who joins, so
// that a death is noticed once, and never in a slot that has a new owner.
const (
	slotFree uint32 = iota
	slotOn
)

// Participant is a process that takes part in a fabric.
type Participant struct {
	f    *File
	slot int
	job  Job
	left atomic.Bool
}

// Rank is what a participant says of itself.
type Rank struct {
	Rank, Node, World int
	GPU               string // PCI bus id, empty if not known
	HostID            uint64 // hash of what NCCL takes for its host
	Budget            uint64 // bytes of shared memory it may reserve
}

// Join takes a slot for this process in the job. The slot stays this process's
// until Leave or its end, whichever way it ends: liveness is a POSIX record lock,
// which a fork does not inherit. A process must not open the fabric's file a
// second time while it takes part: closing that would drop the lock.
//
// The participant's job may be another place for the same key, if everybody else
// was gone from j before this process came.
func (f *File) Join(j Job, r Rank) (*Participant, error) {
	unlock, err := f.lock(joining, patience)
	if err != nil {
		return nil, fmt.Errorf("join fabric %s: %w", f.Name(), err)
	}
	defer unlock()
	f.reap()
	if j, err = f.resume(j); err != nil {
		return nil, fmt.Errorf("join fabric %s: %w", f.Name(), err)
	}
	for i := range f.participants() {
		e := &f.participants()[i]
		if atomic.LoadUint32(&e.State) != slotFree {
			continue
		}
		if err := f.lockSlot(i, unix.F_WRLCK); isHeld(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("join fabric %s: %w", f.Name(), err)
		}
		ownSlots.Store(ownSlot{f.ID(), i}, true)
		f.markFirst(j)
		e.enter(j, r)
		return &Participant{f: f, slot: i, job: j}, nil
	}
	return nil, fmt.Errorf("join fabric %s: all %d places are taken: use another fabric", f.Name(), maxParticipants)
}

// enter fills in a slot that is locked but not on yet, so that nobody reads it,
// and turns it on.
func (e *participantEntry) enter(j Job, r Rank) {
	e.PID, e.Job, e.Rank, e.Node, e.World = uint32(os.Getpid()), uint32(j.index), int32(r.Rank), int32(r.Node), int32(r.World)
	atomic.StoreInt64(&e.Joined, Now())
	e.Budget, e.HostID, e.GPU = r.Budget, r.HostID, [len(e.GPU)]byte{}
	atomic.StoreUint64(&e.Rings, 0)
	copy(e.GPU[:len(e.GPU)-1], r.GPU)
	if r.Node >= 0 && r.Node < 256 {
		atomic.OrUint64(&j.entry().NodeSet[r.Node/64], 1<<(r.Node%64))
	}
	atomic.StoreUint32(&e.State, slotOn)
	atomic.AddUint32(&j.entry().Ranks, 1)
}

// Slot is the participant's number.
func (p *Participant) Slot() int { return p.slot }

// Job is the job it belongs to.
func (p *Participant) Job() Job { return p.job }

// Reserve counts n bytes (may be negative) of shared memory against the budget
// and reports whether they fit.
func (p *Participant) Reserve(n int64) bool {
	e := &p.f.participants()[p.slot]
	for {
		v := atomic.LoadUint64(&e.Rings)
		if n > 0 && uint64(n) > e.Budget-min(e.Budget, v) {
			return false
		}
		if atomic.CompareAndSwapUint64(&e.Rings, v, v+uint64(n)) {
			return true
		}
	}
}

// Available is what is left of the budget, in bytes.
func (p *Participant) Available() uint64 {
	e := &p.f.participants()[p.slot]
	return e.Budget - min(e.Budget, atomic.LoadUint64(&e.Rings))
}

// Leave gives the slot back and says whether this was the last of its job; those
// that died do not count. Further calls do nothing.
func (p *Participant) Leave() (last bool) {
	if p.left.Swap(true) {
		return false
	}
	f, e := p.f, &p.f.participants()[p.slot]
	unlock, err := f.lock(joining, patience)
	if err == nil {
		defer unlock()
		f.reap()
	}
	atomic.AddUint32(&p.job.entry().Left, 1)
	atomic.StoreUint32(&e.State, slotFree)
	ownSlots.Delete(ownSlot{f.ID(), p.slot})
	// A failing unlock would mean that the file is closed, and then so is the lock.
	_ = f.lockSlot(p.slot, unix.F_UNLCK)
	// Without the fabric's lock, whoever looks next notices that the job is over.
	return err == nil && f.endJobs()&(1<<p.job.index) != 0
}

// Alive says whether the process in slot is. A stopped process is alive.
func (f *File) Alive(slot int) bool {
	if slot < 0 || slot >= maxParticipants || atomic.LoadUint32(&f.participants()[slot].State) == slotFree {
		return false
	}
	return f.own(slot) || f.locked(slot)
}

// Tenancy tells a participant from every other that has had its slot.
func (p *Participant) Tenancy() int64 { return p.f.Tenancy(p.slot) }

// Tenancy is the one of the participant that has the slot now, 0 if it is free.
func (f *File) Tenancy(slot int) int64 {
	if slot < 0 || slot >= maxParticipants || atomic.LoadUint32(&f.participants()[slot].State) == slotFree {
		return 0
	}
	return atomic.LoadInt64(&f.participants()[slot].Joined)
}

// Lives says whether the participant that had the slot with this tenancy is alive: a
// dead one's slot may have a new owner before anybody looked.
func (f *File) Lives(slot int, tenancy int64) bool {
	return f.Alive(slot) && f.Tenancy(slot) == tenancy
}

// ownSlots are the slots of this process: the kernel does not show a process its
// own record locks.
var ownSlots sync.Map // of ownSlot

type ownSlot struct {
	fabric uint64
	slot   int
}

func (f *File) own(slot int) bool {
	_, ok := ownSlots.Load(ownSlot{f.ID(), slot})
	return ok
}

// disown forgets the slots of this process, whose locks go with the file.
func (f *File) disown() {
	id := f.ID()
	ownSlots.Range(func(key, _ any) bool {
		if key.(ownSlot).fabric == id {
			ownSlots.Delete(key)
		}
		return true
	})
}

func (f *File) slotOffset(slot int) int64 {
	return int64(f.head().ParticipantsOff) + int64(slot)*int64(unsafe.Sizeof(participantEntry{}))
}

func (f *File) lockSlot(slot int, kind int16) error {
	return f.record(unix.F_SETLK, kind, f.slotOffset(slot))
}

func (f *File) locked(slot int) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: f.slotOffset(slot), Len: 1}
	// When the kernel cannot say, nobody is declared dead.
	return unix.FcntlFlock(uintptr(f.fd), unix.F_GETLK, &l) != nil || l.Type != unix.F_UNLCK
}

// ParticipantStatus is what the file knows of a participant.
type ParticipantStatus struct {
	Slot, PID, Job, Rank, Node, World int
	Alive                             bool
	Rings, Budget, HostID             uint64
	GPU                               string
}

// Participants lists the slots in use.
func (f *File) Participants() []ParticipantStatus {
	var out []ParticipantStatus
	for i := range f.participants() {
		e := &f.participants()[i]
		if atomic.LoadUint32(&e.State) != slotOn {
			continue
		}
		out = append(out, ParticipantStatus{
			Slot: i, PID: int(e.PID), Job: int(e.Job), Rank: int(e.Rank), Node: int(e.Node), World: int(e.World), Alive: f.Alive(i),
			Rings: atomic.LoadUint64(&e.Rings), Budget: e.Budget, HostID: e.HostID, GPU: cString(e.GPU[:]),
		})
	}
	return out
}

// Reap frees the slots of processes that died, notes their deaths in their jobs
// and returns the slots. If somebody else is at it for long, it leaves it to them.
func (f *File) Reap() []int {
	if !f.reapable() {
		return nil
	}
	unlock, err := f.lock(joining, glance)
	if err != nil {
		return nil
	}
	defer unlock()
	return f.reap()
}

// reapable says whether reap would find something, which it seldom does.
func (f *File) reapable() bool {
	for i := range f.participants() {
		if atomic.LoadUint32(&f.participants()[i].State) != slotFree && !f.Alive(i) {
			return true
		}
	}
	return f.forsakenJobs() != 0
}

// reap is Reap under the lock of who joins. Taking a slot's lock proves that its
// owner is gone, and nobody can have followed: that needs the lock held here.
func (f *File) reap() []int {
	var dead []int
	for i := range f.participants() {
		e := &f.participants()[i]
		if atomic.LoadUint32(&e.State) == slotFree || f.own(i) || f.lockSlot(i, unix.F_WRLCK) != nil {
			continue
		}
		f.bury(e)
		dead = append(dead, i)
		_ = f.lockSlot(i, unix.F_UNLCK)
	}
	f.endJobs()
	return dead
}

// bury frees the slot of a process that died. A reaper that dies in between
// leaves the job marked, and the death not counted rather than counted twice.
func (f *File) bury(e *participantEntry) {
	job, rank, node := int(e.Job), e.Rank, e.Node
	known := job < len(f.jobs())
	if known {
		f.jobs()[job].invalidate(PeerDied)
	}
	atomic.StoreUint32(&e.State, slotFree)
	if known {
		atomic.AddUint32(&f.jobs()[job].Died, 1)
	}
	if rank == DaemonRank {
		f.Event("the fabric's daemon died")
		return
	}
	f.Event(fmt.Sprintf("rank %d (node %d) died", rank, node))
}
