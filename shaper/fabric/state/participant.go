// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
)

// Participant is a process that takes part in a fabric.
type Participant struct {
	f       *File
	slot    int
	job     Job
	lost    int // ranks that the job had lost when this one joined
	looked  int // of ReapNext
	hasLeft atomic.Bool
}

// Rank is what a participant tells about itself.
type Rank struct {
	Rank, Node, World int
	GPU               string // PCI bus id, empty if not known
	HostID            uint64 // hash of NCCL's id of its host
	Budget            uint64 // bytes of shared memory it may reserve
	Exit              int    // the number, 1 to MaxExits, of the exit that is expected of it; 0 if it is to end well
}

// MaxExits is how many exits can be expected of a job.
const MaxExits = 64

// Join acquires a slot for this process in the job, until Leave or the end of the process. The slot is locked by a
// POSIX record lock, which a fork does not inherit. A participant must not open the fabric's file a second time:
// closing that file would release the lock.
//
// If all ranks have left j since JoinJob, the participant may be in a new job with the same key.
func (f *File) Join(j Job, r Rank) (*Participant, error) {
	unlock, err := f.lock(joining, lockTimeout)
	if err != nil {
		return nil, fmt.Errorf("join fabric %s: %w", f.Name(), err)
	}
	defer unlock()
	f.reap()
	if err = f.resetClock(); err != nil {
		return nil, fmt.Errorf("join fabric %s: %w", f.Name(), err)
	}
	if j, err = f.resume(j); err != nil {
		return nil, fmt.Errorf("join fabric %s: %w", f.Name(), err)
	}
	for i := range f.participants() {
		e := &f.participants()[i]
		if atomic.LoadUint32(&e.State) != slotFree {
			continue
		}
		if err := f.lockSlot(i, unix.F_WRLCK); isLocked(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("join fabric %s: %w", f.Name(), err)
		}
		ourSlots.Store(ourSlot{f.ID(), i}, true)
		f.takeStartSnapshot(j)
		e.enter(j, r)
		return &Participant{f: f, slot: i, job: j, lost: j.Lost()}, nil
	}
	return nil, fmt.Errorf("join fabric %s: all %d places are in use: use another fabric", f.Name(), maxParticipants)
}

// enter fills in a slot, which is locked, and then turns it on. Nobody reads the slot before that.
func (e *participantEntry) enter(j Job, r Rank) {
	e.PID, e.Job, e.Rank, e.Node, e.World = uint32(os.Getpid()), uint32(j.index), int32(r.Rank), int32(r.Node),
		int32(r.World)
	atomic.StoreInt64(&e.Joined, Now())
	e.Budget, e.HostID, e.GPU = r.Budget, r.HostID, [len(e.GPU)]byte{}
	e.Exit = 0
	if r.Exit >= 1 && r.Exit <= MaxExits {
		e.Exit = uint32(r.Exit)
	}
	atomic.StoreUint64(&e.Rings, 0)
	atomic.StoreUint32(&e.Communicators, 0)
	atomic.StoreUint32(&e.HadOne, 0)
	atomic.StoreUint32(&e.Past, 0)
	copy(e.GPU[:len(e.GPU)-1], r.GPU)
	if r.Node >= 0 && r.Node < 256 {
		atomic.OrUint64(&j.entry().NodeSet[r.Node/64], 1<<(r.Node%64))
	}
	atomic.StoreUint32(&e.State, slotOn)
	atomic.AddUint32(&j.entry().Ranks, 1)
}

// ExitsBadly notes that the process ends with a status that is not 0. It is for a process that leaves then: one that
// dies says nothing.
func (p *Participant) ExitsBadly() {
	e, j := &p.f.participants()[p.slot], p.job.entry()
	j.meet(e.Exit)
	if e.starting() {
		atomic.StoreInt32(&j.FailedRank, e.Rank)
		atomic.AddUint32(&j.Failed, 1)
	}
}

// starting says whether the process has never had a communicator, as far as is known.
func (e *participantEntry) starting() bool {
	return atomic.LoadUint32(&e.HadOne) == 0 && atomic.LoadUint32(&e.Past) == 0
}

// NotePast notes that the process is past its start: it has a connection to another one, or nobody will tell of its
// communicators.
func (p *Participant) NotePast() { atomic.StoreUint32(&p.f.participants()[p.slot].Past, 1) }

// meet notes that the exit with this number has been seen.
func (e *jobEntry) meet(exit uint32) {
	if exit >= 1 && exit <= MaxExits {
		atomic.OrUint64(&e.Exits, 1<<(exit-1))
	}
}

// Slot is the participant's number.
func (p *Participant) Slot() int { return p.slot }

// Job is the participant's job.
func (p *Participant) Job() Job { return p.job }

// LostBefore is how many ranks the job had lost when this one joined.
func (p *Participant) LostBefore() int { return p.lost }

// AddCommunicator notes that the process has made a communicator of NCCL.
func (p *Participant) AddCommunicator() {
	e := &p.f.participants()[p.slot]
	atomic.AddUint32(&e.Communicators, 1)
	atomic.StoreUint32(&e.HadOne, 1)
}

// RemoveCommunicator notes that the process has destroyed a communicator of NCCL.
func (p *Participant) RemoveCommunicator() {
	atomic.AddUint32(&p.f.participants()[p.slot].Communicators, ^uint32(0))
}

// Communicators is how many communicators of NCCL the process has.
func (p *Participant) Communicators() int {
	return int(atomic.LoadUint32(&p.f.participants()[p.slot].Communicators))
}

// Reserve counts n bytes (may be negative) of shared memory against the budget and reports whether they fit.
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

// Available is the remaining budget, in bytes.
func (p *Participant) Available() uint64 {
	e := &p.f.participants()[p.slot]
	return e.Budget - min(e.Budget, atomic.LoadUint64(&e.Rings))
}

// Leave releases the slot and reports whether this was the job's last participant;
// participants that died do not count. Further calls do nothing.
func (p *Participant) Leave() (last bool) {
	if p.hasLeft.Swap(true) {
		return false
	}
	f, e := p.f, &p.f.participants()[p.slot]
	unlock, err := f.lock(joining, lockTimeout)
	if err == nil {
		defer unlock()
		f.reap()
	}
	atomic.AddUint32(&p.job.entry().Left, 1)
	if c := f.Clock(); c != nil {
		clock.Left(c, p.slot)
	}
	atomic.StoreUint32(&e.State, slotFree)
	ourSlots.Delete(ourSlot{f.ID(), p.slot})
	// This fails only if the file is closed, and then the lock is released.
	_ = f.lockSlot(p.slot, unix.F_UNLCK)
	// Without the fabric's lock, the next process that calls Reap ends the job.
	return err == nil && f.endJobs()&(1<<p.job.index) != 0
}

// Alive reports whether the process in slot is alive. A stopped process is alive.
func (f *File) Alive(slot int) bool {
	if slot < 0 || slot >= maxParticipants || atomic.LoadUint32(&f.participants()[slot].State) == slotFree {
		return false
	}
	return f.isOurs(slot) || f.lockedByOther(f.slotOffset(slot))
}

// Generation distinguishes a participant from all others that have had its slot.
func (p *Participant) Generation() int64 { return p.f.Generation(p.slot) }

// Generation is the generation of the participant in the slot, 0 if the slot is free.
func (f *File) Generation(slot int) int64 {
	if slot < 0 || slot >= maxParticipants || atomic.LoadUint32(&f.participants()[slot].State) == slotFree {
		return 0
	}
	return atomic.LoadInt64(&f.participants()[slot].Joined)
}

// NodeOf is the node of the participant in the slot.
func (f *File) NodeOf(slot int) int { return int(f.participants()[slot].Node) }

// Lives reports whether the participant of this generation in the slot is alive. After
// its death the slot may be in use by another one.
func (f *File) Lives(slot int, generation int64) bool {
	return f.Alive(slot) && f.Generation(slot) == generation
}

// ourSlots are the slots of this process. The kernel does not report a process's record locks to that process itself.
var ourSlots sync.Map // of ourSlot

type ourSlot struct {
	fabric uint64
	slot   int
}

// isOurs reports whether the slot belongs to this process.
func (f *File) isOurs(slot int) bool {
	_, ok := ourSlots.Load(ourSlot{f.ID(), slot})
	return ok
}

// forgetSlots removes the slots of this process from ourSlots: closing the file releases their locks.
func (f *File) forgetSlots() {
	id := f.ID()
	ourSlots.Range(func(key, _ any) bool {
		if key.(ourSlot).fabric == id {
			ourSlots.Delete(key)
		}
		return true
	})
}

// slotOffset is the place of the slot in the file, where its lock is.
func (f *File) slotOffset(slot int) int64 {
	return int64(f.head().ParticipantsOff) + int64(slot)*int64(unsafe.Sizeof(participantEntry{}))
}

// SlotLocks says where the locks of the slots are: a file, the place of the first in it, and the bytes from one to the
// next. A process has the lock of its slot as long as it lives.
func (f *File) SlotLocks() (fd int, first, step int64) {
	return f.fd, f.slotOffset(0), f.slotOffset(1) - f.slotOffset(0)
}

// lockSlot acquires or releases the lock of a slot.
func (f *File) lockSlot(slot int, kind int16) error {
	return f.record(unix.F_SETLK, kind, f.slotOffset(slot))
}

// ParticipantStatus is what the file knows of a participant.
type ParticipantStatus struct {
	Slot, PID, Job, Rank, Node, World int
	Alive                             bool
	Starting                          bool  // it has never had a communicator
	Joined                            int64 // ns of CLOCK_MONOTONIC
	ExitExpected                      bool  // its death is, see Rank.Exit
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
			Slot: i, PID: int(e.PID), Job: int(e.Job), Rank: int(e.Rank), Node: int(e.Node), World: int(e.World),
			Alive: f.Alive(i), Starting: e.starting(), Joined: atomic.LoadInt64(&e.Joined), ExitExpected: e.Exit != 0,
			Rings: atomic.LoadUint64(&e.Rings), Budget: e.Budget, HostID: e.HostID, GPU: cString(e.GPU[:]),
		})
	}
	return out
}

// HasStarting says whether a participant has never had a communicator. It makes no system call.
func (f *File) HasStarting() bool {
	for i := range f.participants() {
		if e := &f.participants()[i]; atomic.LoadUint32(&e.State) == slotOn && e.starting() {
			return true
		}
	}
	return false
}

// DaemonRank is the rank, and the node, of a fabric's daemon as a participant.
const DaemonRank = -1

// JoinJob finds the running job with this key, or makes it. If no place is free, the new job replaces the oldest job
// that is over. It is an error if the jobs of all places are running.
func (f *File) JoinJob(key uint64) (Job, error) {
	unlock, err := f.lock(joining, lockTimeout)
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
