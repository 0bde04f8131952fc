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

// highest is the nice value of what comes first.
const highest = -20

// autogroup is the file by which a session's group of processes gets a nice value.
const autogroup = "/proc/self/autogroup"

// comeFirst gives the calling thread priority over what is emulated, which runs on the
// same CPUs and may not hold up the network. Where the kernel shares CPUs between
// sessions first (autogroup), a nice value counts within the session alone: this
// process's session gets one too, if it is this process's own.
func comeFirst() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), highest); err != nil {
		return fmt.Errorf("set the thread's priority: %w", err)
	}
	if sid, err := unix.Getsid(0); err != nil || sid != os.Getpid() {
		return err
	}
	err := os.WriteFile(autogroup, []byte(strconv.Itoa(highest)), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // this kernel has none
		return fmt.Errorf("set the session's priority: %w", err)
	}
	return nil
}
