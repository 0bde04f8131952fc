// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphanGrace is how long ranks whose launcher is gone get to end by themselves.
const orphanGrace = 2 * time.Second

// adoptOrphans makes this process the parent of its descendants whose own parent
// ends. Where the kernel cannot, they stay with init.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// endOrphans ends what a launcher left that was ended by a signal: ranks would poll
// for ever on a fabric that is gone. First SIGTERM, then SIGKILL. keep is a child
// that is left alone, 0 for none.
func endOrphans(keep int) {
	deadline := time.Now().Add(orphanGrace)
	for signal := unix.SIGTERM; ; time.Sleep(20 * time.Millisecond) {
		left := slices.DeleteFunc(children(), func(pid int) bool { return pid == keep })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			signal = unix.SIGKILL
		}
		for _, pid := range left {
			// It may have ended meanwhile, or end now.
			_ = unix.Kill(pid, signal)
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// children are the process ids of this process's children.
func children() []int {
	var all []int
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is a good one
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}
