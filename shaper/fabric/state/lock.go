// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The locks of a fabric are record locks on bytes of its header. The kernel releases them when the process that has
// them ends, in whatever manner, and a fork does not inherit them. No lock is acquired on the path of a message.
const (
	changing int64 = iota // protects the blocks, and which blocks hops use
	joining               // protects the jobs, and which slots are in use
	inUse                 // of the command that made the fabric for one job, or that is bringing it up
	serving               // of the daemon of a fabric of the kernel datapath
)

// inProcess excludes other goroutines of this process, which a record lock does not. It also makes Close wait: closing
// a file releases every record lock that the process has on it.
var inProcess [2]sync.Mutex

// How long to wait for a lock. A process needs it for microseconds, or for the grace period if it waits for blocks; in
// a fabric of many ranks for milliseconds. If nobody acquires it for as long as lockTimeout, whoever has it is stopped.
const (
	lockTimeout  = 10 * time.Second
	shortTimeout = 100 * time.Millisecond // if the caller can try again later, however busy the others are
)

// The longest time between two attempts to acquire a lock is pausePerProcess for each process
// that takes part, within the limits. In each attempt the kernel compares all locks of the
// file: hundreds of ranks that try every millisecond leave no processor for the one that has
// the lock. A few that try rarely would lose it to one that acquires it again and again.
const (
	leastPause      = time.Millisecond
	pausePerProcess = 100 * time.Microsecond
	mostPause       = 50 * time.Millisecond
)

// longestPause is the longest time between two attempts.
func (f *File) longestPause() time.Duration {
	n := 0
	for i := range f.participants() {
		if atomic.LoadUint32(&f.participants()[i].State) != slotFree {
			n++
		}
	}
	return min(max(time.Duration(n)*pausePerProcess, leastPause), mostPause)
}

// fairPause is how long a process that had a lock for that long leaves it to others.
const fairPause = time.Millisecond

// lock acquires one of the fabric's locks. It waits as long as others acquire it one after
// another, but at most for the given time for one of them; with shortTimeout for all.
func (f *File) lock(which int64, wait time.Duration) (unlock func(), err error) {
	uses := &f.head().LockUses[which]
	seen, deadline := atomic.LoadUint64(uses), time.Now().Add(wait)
	longest := time.Duration(0) // not known yet
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, longest) {
		if inProcess[which].TryLock() {
			if err = f.record(unix.F_SETLK, unix.F_WRLCK, which); err == nil {
				atomic.AddUint64(uses, 1)
				return f.unlocker(which), nil
			}
			inProcess[which].Unlock()
			if !isLocked(err) {
				return nil, fmt.Errorf("lock fabric %s: %w", f.Name(), err)
			}
		}
		if n := atomic.LoadUint64(uses); n != seen && wait > shortTimeout {
			seen, deadline = n, time.Now().Add(wait)
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("lock fabric %s: %s", f.Name(), f.holder(which, wait))
		}
		if longest == 0 {
			longest = f.longestPause()
		}
		time.Sleep(pause/2 + rand.N(pause/2))
	}
}

// unlocker returns the function that releases a lock that was acquired just now.
func (f *File) unlocker(which int64) func() {
	acquired := time.Now()
	return func() {
		// This fails only if the file is closed, and then the lock is released.
		_ = f.record(unix.F_SETLK, unix.F_UNLCK, which)
		inProcess[which].Unlock()
		// After a long time with the lock, let others acquire it before this process tries again.
		if time.Since(acquired) > fairPause {
			time.Sleep(2 * fairPause)
		}
	}
}

// holder says which process has had a lock for so long, and what to do.
func (f *File) holder(which int64, wait time.Duration) string {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: which, Len: 1}
	if unix.FcntlFlock(uintptr(f.fd), unix.F_GETLK, &l) != nil || l.Type == unix.F_UNLCK || l.Pid <= 0 {
		return fmt.Sprintf(
			"another process has had it for %v: look for one that is stopped (state T in `ps aux`), and continue or "+
				"end it", wait)
	}
	return fmt.Sprintf(
		"process %d has had it for %v: it is stopped, or this machine is too busy: continue it (kill -CONT %[1]d) or "+
			"end it", l.Pid, wait)
}

// record sets or clears this process's record lock on one byte of the file.
func (f *File) record(cmd int, kind int16, at int64) error {
	l := unix.Flock_t{Type: kind, Start: at, Len: 1}
	return unix.FcntlFlock(uintptr(f.fd), cmd, &l)
}

// isLocked reports whether an error of record means that another process has the lock.
func isLocked(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) }

// MarkInUse marks the fabric as in use by this process, until it ends or closes the file: gc leaves the fabric alone.
func (f *File) MarkInUse() error {
	if err := f.record(unix.F_SETLK, unix.F_WRLCK, inUse); err != nil {
		return fmt.Errorf("mark fabric %s as in use: %w", f.Name(), err)
	}
	return nil
}

// ClearInUse ends MarkInUse.
func (f *File) ClearInUse() { _ = f.record(unix.F_SETLK, unix.F_UNLCK, inUse) }

// InUse reports whether another process has marked the fabric as in use.
func (f *File) InUse() bool { return f.lockedByOther(inUse) }

// User is the id of the process that has marked the fabric as in use, 0 if none has or it cannot be seen from here.
func (f *File) User() int {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: inUse, Len: 1}
	if unix.FcntlFlock(uintptr(f.fd), unix.F_GETLK, &l) != nil || l.Type == unix.F_UNLCK {
		return 0
	}
	return max(int(l.Pid), 0)
}

// Serve marks this process as the fabric's daemon until it ends or closes the file.
func (f *File) Serve() error {
	if err := f.record(unix.F_SETLK, unix.F_WRLCK, serving); err != nil {
		return fmt.Errorf("become the daemon of fabric %s: %w", f.Name(), err)
	}
	return nil
}

// Served reports whether another process is the fabric's daemon.
func (f *File) Served() bool { return f.lockedByOther(serving) }

// lockedByOther reports whether another process has a lock on a byte of the file. If the kernel returns an
// error, the answer is yes.
func (f *File) lockedByOther(at int64) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	return unix.FcntlFlock(uintptr(f.fd), unix.F_GETLK, &l) != nil || l.Type != unix.F_UNLCK
}
