// SPDX-License-Identifier: Apache-2.0

package job

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphanGrace is the time that ranks whose launcher is gone have to end by themselves.
const orphanGrace = 2 * time.Second

// AdoptOrphans makes this process the parent of its descendants whose parent ends. If the kernel refuses that, init
// becomes their parent.
func AdoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// EndOrphans ends all child processes except those to keep, first by SIGTERM, then by SIGKILL. Use it after
// a launcher was ended by a signal: the ranks that it did not end would poll for ever on a fabric that is gone.
func EndOrphans(keep ...int) {
	deadline := time.Now().Add(orphanGrace)
	for signal := unix.SIGTERM; ; time.Sleep(20 * time.Millisecond) {
		others := slices.DeleteFunc(children(), func(pid int) bool { return slices.Contains(keep, pid) })
		if len(others) == 0 {
			return
		}
		if time.Now().After(deadline) {
			signal = unix.SIGKILL
		}
		for _, pid := range others {
			// An error means that the process has ended already.
			_ = unix.Kill(pid, signal)
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// children returns the process ids of the children of all threads of this process.
func children() []int {
	var all []int
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the only error is a malformed pattern
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}
