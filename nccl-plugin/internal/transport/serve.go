// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoDescriptor is what a peer is told whose connection this process has no descriptor
// for.
var ErrNoDescriptor = errors.New("it has no file descriptor left: raise its limit (ulimit -n)")

// Serve accepts what connects until done is closed, and calls answer for each in a
// goroutine of its own. It keeps one descriptor in reserve: when there is no other, it can
// still accept and call refuse, where the peer would otherwise wait.
func Serve[C any](done <-chan struct{}, accept func() (C, error), answer, refuse func(C)) {
	reserve := openReserve()
	defer func() { closeReserve(reserve) }()
	for {
		c, err := accept()
		if reserve >= 0 && (errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) {
			closeReserve(reserve)
			c, err = accept()
			if reserve = openReserve(); err == nil && reserve < 0 {
				refuse(c)
				reserve = openReserve()
				continue
			}
		}
		if err == nil {
			go answer(c) // not waited for: it ends by itself, and with the process
			continue
		}
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond): // descriptors may become free
		}
		if reserve < 0 {
			reserve = openReserve()
		}
	}
}

// openReserve opens a descriptor that is only good for closing it, -1 if there is none.
func openReserve() int {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

func closeReserve(fd int) { _ = unix.Close(fd) } // nothing was written; -1 is harmless
