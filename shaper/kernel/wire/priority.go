// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// highestPriority is the smallest nice value.
const highestPriority = -20

// autogroupFile sets the nice value of this process's session, see sched(7).
const autogroupFile = "/proc/self/autogroup"

// raisePriority gives the calling thread priority over the emulated programs, which use the same CPUs. If the kernel
// divides the CPU time among sessions (autogroup), a nice value has an effect within the session only. Therefore the
// session gets the nice value too, if this process leads it.
func raisePriority() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), highestPriority); err != nil {
		return fmt.Errorf("set the thread's priority: %w", err)
	}
	if sid, err := unix.Getsid(0); err != nil || sid != os.Getpid() {
		return err
	}
	err := os.WriteFile(autogroupFile, []byte(strconv.Itoa(highestPriority)), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // this kernel has none
		return fmt.Errorf("set the session's priority: %w", err)
	}
	return nil
}
