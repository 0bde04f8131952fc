// SPDX-License-Identifier: Apache-2.0

package state

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pause sleeps with one raw system call, for a fork that has no Go runtime.
//
//go:norace
//go:nosplit
func pause(t *unix.Timespec) {
	syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(t)), 0, 0, 0)
}
