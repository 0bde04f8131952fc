// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const logPrefix = "ddlemu-bench-"

// makeLogDir makes a folder for NCCL's logs. It is in use, for [RemoveLeftLogs], until the returned file is closed.
func makeLogDir() (string, *os.File, error) {
	dir, err := os.MkdirTemp("", logPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for NCCL's logs: %w", err)
	}
	f, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock the folder for NCCL's logs: %w", err), os.Remove(dir))
	}
	return dir, f, nil
}

// RemoveLeftLogs removes the log folders of this user's runs that were killed, and returns their paths.
func RemoveLeftLogs() ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), logPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("look for logs of runs that were killed: %w", err)
	}
	var removed []string
	for _, dir := range dirs {
		if !abandoned(dir) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return removed, fmt.Errorf("remove logs of a run that was killed: %w", err)
		}
		removed = append(removed, dir)
	}
	return removed, nil
}

// abandoned says whether dir is a folder of this user that no run uses and that has nothing but the files of ranks.
func abandoned(dir string) bool {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || int(st.Uid) != os.Getuid() || unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		isOurs, _ := filepath.Match("rank*.*", e.Name())
		return !isOurs || !e.Type().IsRegular()
	})
}
