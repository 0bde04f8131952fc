// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Participant states. A slot whose state is on but whose lock nobody holds
// belonged to a process that died.
const (
	slotFree  uint32 = iota
	slotTaken        // locked, being filled in
	slotOn
	slotReaped // its owner died, being cleaned up
)

// Participant is a process that takes part in a fabric.
type Participant struct {
	f    *File
	slot int
	job  Job
}

// Rank is what a participant says of itself.
type Rank struct {
	Rank, Node, World int
	GPU               string // PCI bus id, empty if not known
	Budget            uint64 // bytes of shared memory it may reserve
}

// Join takes a slot for this process in the job. The slot stays this process's
// until Leave or its end, whichever way it ends: liveness is a POSIX record lock,
// which a fork does not inherit. A process must not open the fabric's file a
// second time while it takes part: closing that would drop the lock.
func (f *File) Join(j Job, r Rank) (*Participant, error) {
	f.Reap()
	for i := range f.participants() {
		e := &f.participants()[i]
		if atomic.LoadUint32(&e.State) != slotFree || f.own(i) {
			continue
		}
		err := f.lockSlot(i, unix.F_WRLCK)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("join fabric %s: %w", f.Name(), err)
		}
		if !atomic.CompareAndSwapUint32(&e.State, slotFree, slotTaken) {
			continue
		}
		ownSlots.Store(ownSlot{f.ID(), i}, true)
		f.enter(e, j, r)
		return &Participant{f, i, j}, nil
	}
	return nil, fmt.Errorf("join fabric %s: all %d places are taken", f.Name(), maxParticipants)
}

func (f *File) enter(e *participantEntry, j Job, r Rank) {
	*e = participantEntry{
		State: slotTaken, PID: uint32(os.Getpid()), Job: uint32(j.index), Rank: int32(r.Rank), Node: int32(r.Node), World: int32(r.World),
		Joined: Now(), Budget: r.Budget,
	}
	copy(e.GPU[:len(e.GPU)-1], r.GPU)
	atomic.AddUint32(&j.entry().Ranks, 1)
	if r.Node >= 0 && r.Node < 256 {
		atomic.OrUint64(&j.entry().NodeSet[r.Node/64], 1<<(r.Node%64))
	}
	atomic.StoreUint32(&e.State, slotOn)
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
		if n > 0 && v+uint64(n) > e.Budget {
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

// Leave gives the slot back and says whether this was the last of its job.
func (p *Participant) Leave() (last bool) {
	e := &p.f.participants()[p.slot]
	atomic.AddUint32(&p.job.entry().Left, 1)
	ownSlots.Delete(ownSlot{p.f.ID(), p.slot})
	atomic.StoreUint32(&e.State, slotFree)
	// A failing unlock would mean that the file is closed, and then so is the lock.
	_ = p.f.lockSlot(p.slot, unix.F_UNLCK)
	return p.job.end()
}

// Alive says whether the process in slot is. A stopped process is alive.
func (f *File) Alive(slot int) bool {
	if slot < 0 || slot >= maxParticipants || atomic.LoadUint32(&f.participants()[slot].State) == slotFree {
		return false
	}
	return f.own(slot) || f.locked(slot)
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

func (f *File) slotLock(slot int, kind int16) unix.Flock_t {
	return unix.Flock_t{
		Type: kind, Whence: 0, Len: 1,
		Start: int64(f.head().ParticipantsOff) + int64(slot)*int64(unsafe.Sizeof(participantEntry{})),
	}
}

func (f *File) lockSlot(slot int, kind int16) error {
	l := f.slotLock(slot, kind)
	return unix.FcntlFlock(uintptr(f.fd), unix.F_SETLK, &l)
}

func (f *File) locked(slot int) bool {
	l := f.slotLock(slot, unix.F_WRLCK)
	// When the kernel cannot say, nobody is declared dead.
	return unix.FcntlFlock(uintptr(f.fd), unix.F_GETLK, &l) != nil || l.Type != unix.F_UNLCK
}

// ParticipantStatus is what the file knows of a participant.
type ParticipantStatus struct {
	Slot, PID, Job, Rank, Node, World int
	Alive                             bool
	Rings, Budget                     uint64
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
			Rings: atomic.LoadUint64(&e.Rings), Budget: e.Budget, GPU: cString(e.GPU[:]),
		})
	}
	return out
}

// Reap frees the slots of processes that died, notes their deaths in their jobs
// and returns the slots.
func (f *File) Reap() []int {
	var dead []int
	for i := range f.participants() {
		e := &f.participants()[i]
		state := atomic.LoadUint32(&e.State)
		if (state != slotOn && state != slotTaken) || f.Alive(i) || !atomic.CompareAndSwapUint32(&e.State, state, slotReaped) {
			continue
		}
		if state == slotOn {
			f.bury(e)
			dead = append(dead, i)
		}
		atomic.StoreUint32(&e.State, slotFree)
	}
	return dead
}

func (f *File) bury(e *participantEntry) {
	if int(e.Job) < len(f.jobs()) {
		j := Job{f, int(e.Job)}
		atomic.AddUint32(&j.entry().Died, 1)
		j.Invalidate(PeerDied)
		j.end()
	}
	f.Event(fmt.Sprintf("rank %d (node %d) died", e.Rank, e.Node))
}
