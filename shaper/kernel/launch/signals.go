// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Handlers of the kernel's struct sigaction.
const (
	sigDefault = 0 // SIG_DFL
	sigIgnore  = 1 // SIG_IGN
)

// inherited is which signals this process was started to ignore, as nohup and the background jobs of a shell are. It is
// read before main asks for signals.
var inherited = map[unix.Signal]bool{
	unix.SIGINT:  signal.Ignored(unix.SIGINT),
	unix.SIGTERM: signal.Ignored(unix.SIGTERM),
	unix.SIGHUP:  signal.Ignored(unix.SIGHUP),
}

// IsInterrupt reports whether a signal asks a process to end.
func IsInterrupt(s os.Signal) bool { return s == unix.SIGINT || s == unix.SIGTERM || s == unix.SIGHUP }

// Interrupts returns the signals that ask this process to end: SIGINT, SIGTERM, and SIGHUP unless it was started to
// ignore that, as nohup is. With a handler, the end of the terminal would end it and the programs that it starts.
func Interrupts() []os.Signal {
	all := []os.Signal{unix.SIGINT, unix.SIGTERM}
	if !inherited[unix.SIGHUP] {
		all = append(all, unix.SIGHUP)
	}
	return all
}

// EndBySignals makes the kernel end this process when SIGINT, SIGTERM or SIGHUP arrives, until Exec replaces it.
// Signals that were ignored when it was started stay ignored, in the new program too.
//
// Exec needs that: a signal that a handler of the Go runtime holds at the moment of execve is lost, and the new program
// runs on. signal.Reset does not help, as the runtime keeps handlers of its own and forgets what has just arrived.
func EndBySignals() error {
	const maskSize = 8 // bytes of the kernel's sigset_t
	for s, ignored := range inherited {
		// The kernel's struct sigaction, 32 bytes at most, begins with the handler. All else is zero: no flags, no
		// mask.
		action := [8]uintptr{sigDefault}
		if ignored {
			action[0] = sigIgnore
		}
		if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, maskSize,
			0, 0); e != 0 {
			return fmt.Errorf("restore the action of %v: %w", s, e)
		}
	}
	return nil
}
