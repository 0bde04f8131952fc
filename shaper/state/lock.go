// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The locks of a fabric are record locks on bytes of its header. The kernel
// releases them when the process that has them ends, in whatever manner, and a fork
// does not inherit them. No lock is acquired on the path of a message.
const (
	changing int64 = iota // protects the blocks, and which blocks hops use
	joining               // protects the jobs, and which slots are in use
	claiming              // of the command that made the fabric for one job, or that is bringing it up
	serving               // of the daemon of a fabric of the kernel datapath
)

// inProcess excludes other goroutines of this process, which a record lock does not.
// It also makes Close wait: closing a file releases every record lock that the
// process has on it.
var inProcess [2]sync.Mutex

// How long to wait for a lock. A process needs it for microseconds, or for the grace
// period if it waits for blocks. If it has it for longer, it is stopped.
const (
	lockTimeout  = 10 * time.Second
	shortTimeout = 100 * time.Millisecond // if the caller can try again later
)

// maxPause is the longest time between two attempts to acquire a lock.
const maxPause = time.Millisecond

// lock acquires one of the fabric's locks. It waits at most for the given time.
func (f *File) lock(which int64, wait time.Duration) (unlock func(), err error) {
	deadline := time.Now().Add(wait)
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, maxPause) {
		if inProcess[which].TryLock() {
			if err = f.record(unix.F_SETLK, unix.F_WRLCK, which); err == nil {
				acquired := time.Now()
				return func() {
					// This fails only if the file is closed, and then the lock is released.
					_ = f.record(unix.F_SETLK, unix.F_UNLCK, which)
					inProcess[which].Unlock()
					// After a long time with the lock, let others acquire it before this
					// process tries again.
					if time.Since(acquired) > maxPause {
						time.Sleep(2 * maxPause)
					}
				}, nil
			}
			inProcess[which].Unlock()
			if !isLocked(err) {
				return nil, fmt.Errorf("lock fabric %s: %w", f.Name(), err)
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("lock fabric %s: other processes have had it for %v: look for a process that is stopped", f.Name(), wait)
		}
		time.Sleep(pause)
	}
}

// record sets or clears this process's record lock on one byte of the file.
func (f *File) record(cmd int, kind int16, at int64) error {
	l := unix.Flock_t{Type: kind, Start: at, Len: 1}
	return unix.FcntlFlock(uintptr(f.fd), cmd, &l)
}

// isLocked reports whether an error of record means that another process has the lock.
func isLocked(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) }

// Claim marks the fabric as in use by this process, until it ends or closes the file: gc
// leaves the fabric alone.
func (f *File) Claim() error {
	if err := f.record(unix.F_SETLK, unix.F_WRLCK, claiming); err != nil {
		return fmt.Errorf("claim fabric %s: %w", f.Name(), err)
	}
	return nil
}

// Unclaim ends Claim.
func (f *File) Unclaim() { _ = f.record(unix.F_SETLK, unix.F_UNLCK, claiming) }

// Claimed reports whether another process has claimed the fabric.
func (f *File) Claimed() bool { return f.lockedByOther(claiming) }

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
