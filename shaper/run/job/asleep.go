// SPDX-License-Identifier: Apache-2.0

package job

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// waitCalls are the system calls in which a shell waits for the programs that it has started: bash in the first one,
// dash in the last one.
var waitCalls = []int{unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_RT_SIGSUSPEND}

// onlyWait says whether all programs of the job but those in ranks (process ids) only wait for programs that they have
// started. Then nobody can start another rank. If it is not known, they do not.
func onlyWait(id string, ranks map[int]bool) bool {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return false
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || ranks[pid] || pid == os.Getpid() || !belongsTo(folder, id) {
			continue
		}
		if !waitsForChildren(folder, id, ranks) {
			return false
		}
	}
	return true
}

// waitsForChildren says whether the process has one thread, which waits for programs that it has started, and all of
// them are ranks or are seen as programs of the job: one with another environment may start a rank, too.
func waitsForChildren(folder, id string, ranks map[int]bool) bool {
	threads, err := filepath.Glob(filepath.Join(folder, "task", "*"))
	if err != nil || len(threads) != 1 {
		return false
	}
	children, err := os.ReadFile(filepath.Join(threads[0], "children"))
	if err != nil || len(children) == 0 {
		return false
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if of := "/proc/" + child; err != nil || !ranks[pid] && !belongsTo(of, id) && !hasEnded(of) {
			return false
		}
	}
	call, err := os.ReadFile(filepath.Join(folder, "syscall")) // "running", or the number and the arguments
	if err != nil {
		return false
	}
	number, err := strconv.Atoi(strings.SplitN(string(call), " ", 2)[0])
	if err != nil {
		return false
	}
	return slices.Contains(waitCalls, number)
}

// hasEnded says whether a process has ended. Its parent may not have asked for its status yet.
func hasEnded(folder string) bool {
	text, err := os.ReadFile(filepath.Join(folder, "stat")) // PID (COMMAND) STATE ...
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	_, rest, found := strings.Cut(string(text), ") ")
	return found && strings.HasPrefix(rest, "Z")
}
