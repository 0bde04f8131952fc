// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The locks of a fabric are record locks on bytes of its header: the kernel
// releases them when their holder ends, however it ends, and a fork does not
// inherit them. Nothing on the path of a message takes one.
const (
	changing int64 = iota // guards the blocks and which of them hops use
	joining               // guards the jobs, and which slots are taken
	owning                // held by the command that made the fabric for one job, and while one brings it up
	serving               // held by the daemon of a fabric of the kernel datapath
)

// inProcess keeps the goroutines of one process apart, which a record lock does
// not. It also keeps Close away: closing a file drops every record lock that the
// process has on it.
var inProcess [2]sync.Mutex

// How long to wait for a lock. Its holder needs microseconds, the grace period
// where it waits for blocks, so one that keeps it for longer is stopped.
const (
	patience = 10 * time.Second
	glance   = 100 * time.Millisecond // where it can be tried again later
)

// look is how often those who wait for a lock look for it at least.
const look = time.Millisecond

// lock takes one of the fabric's locks, waiting for it at most for the given time.
func (f *File) lock(which int64, wait time.Duration) (unlock func(), err error) {
	deadline := time.Now().Add(wait)
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, look) {
		if inProcess[which].TryLock() {
			if err = f.record(unix.F_SETLK, unix.F_WRLCK, which); err == nil {
				taken := time.Now()
				return func() {
					// Nothing but a closed file makes this fail, and then the lock is gone.
					_ = f.record(unix.F_SETLK, unix.F_UNLCK, which)
					inProcess[which].Unlock()
					// Who held it for long and wants it again at once lets the others in.
					if time.Since(taken) > look {
						time.Sleep(2 * look)
					}
				}, nil
			}
			inProcess[which].Unlock()
			if !isHeld(err) {
				return nil, fmt.Errorf("lock fabric %s: %w", f.Name(), err)
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("lock fabric %s: others have held it for %v: look for a process that is stopped", f.Name(), wait)
		}
		time.Sleep(pause)
	}
}

// record sets or clears this process's record lock on one byte of the file.
func (f *File) record(cmd int, kind int16, at int64) error {
	l := unix.Flock_t{Type: kind, Start: at, Len: 1}
	return unix.FcntlFlock(uintptr(f.fd), cmd, &l)
}

// isHeld says whether err of record is that somebody else holds the lock.
func isHeld(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) }

// Own marks the fabric as this process's until it ends or closes the file.
func (f *File) Own() error {
	if err := f.record(unix.F_SETLK, unix.F_WRLCK, owning); err != nil {
		return fmt.Errorf("own fabric %s: %w", f.Name(), err)
	}
	return nil
}

// Disown gives up what Own took.
func (f *File) Disown() { _ = f.record(unix.F_SETLK, unix.F_UNLCK, owning) }

// Owned says whether another process owns the fabric.
func (f *File) Owned() bool { return f.heldByOther(owning) }

// Serve marks this process as the fabric's daemon until it ends or closes the file.
func (f *File) Serve() error {
	if err := f.record(unix.F_SETLK, unix.F_WRLCK, serving); err != nil {
		return fmt.Errorf("become the daemon of fabric %s: %w", f.Name(), err)
	}
	return nil
}

// Served says whether another process is the fabric's daemon.
func (f *File) Served() bool { return f.heldByOther(serving) }

// heldByOther says whether another process has a lock. When the kernel cannot say,
// it has.
func (f *File) heldByOther(which int64) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: which, Len: 1}
	return unix.FcntlFlock(uintptr(f.fd), unix.F_GETLK, &l) != nil || l.Type != unix.F_UNLCK
}
