// SPDX-License-Identifier: Apache-2.0

// Package temporary makes folders for the time of a command. It finds folders that a killed command has left.
package temporary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Make makes a folder in $TMPDIR whose name begins with prefix. It is in use, for [Left], until lock is closed or the
// process has ended.
func Make(prefix string) (dir string, lock *os.File, err error) {
	dir, err = os.MkdirTemp("", prefix)
	if err != nil {
		return "", nil, err
	}
	f, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock folder %s: %w", dir, err), os.Remove(dir))
	}
	return dir, f, nil
}

// Left returns the folders in $TMPDIR whose names begin with prefix, that are this user's, that no process uses, and in
// which all is ours.
func Left(prefix string, ours func(fs.DirEntry) bool) (dirs []string, err error) {
	all, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("look for folders %s*: %w", prefix, err)
	}
	return slices.DeleteFunc(all, func(dir string) bool { return !isLeft(dir, ours) }), nil
}

func isLeft(dir string, ours func(fs.DirEntry) bool) bool {
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
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !ours(e) })
}

// IsFile returns a function for [Left]: it reports whether an entry is a regular file with one of these names, which
// are patterns of [filepath.Match].
func IsFile(names ...string) func(fs.DirEntry) bool {
	return func(e fs.DirEntry) bool {
		return e.Type().IsRegular() && slices.ContainsFunc(names, func(name string) bool {
			match, _ := filepath.Match(name, e.Name())
			return match
		})
	}
}
