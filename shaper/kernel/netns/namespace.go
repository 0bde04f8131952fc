// SPDX-License-Identifier: Apache-2.0

// Package netns makes, finds and removes named network namespaces, where `ip netns`
// keeps them, and runs functions inside of them.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Folder is where named namespaces are, as `ip netns` has it.
const Folder = "/run/netns"

// Path is the file that stands for the namespace called name.
func Path(name string) string { return filepath.Join(Folder, name) }

// Create makes a namespace called name, with its loopback interface up or down as
// the kernel makes it. The error wraps fs.ErrExist if there is one of that name.
func Create(name string) error {
	if err := os.MkdirAll(Folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of network namespaces: %w", err)
	}
	if err := sharedFolder(); err != nil {
		return err
	}
	f, err := os.OpenFile(Path(name), os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	f.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), Path(name), "", unix.MS_BIND, "")
	})
	if err != nil {
		return errors.Join(fmt.Errorf("make network namespace %s: %w", name, err), os.Remove(Path(name)))
	}
	return nil
}

// sharedFolder makes what is mounted in Folder seen in the mount namespaces that
// others have made, and what is unmounted gone there too: otherwise a namespace
// would live on in them. `ip netns` does the same.
func sharedFolder() error {
	err := unix.Mount("", Folder, "", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // not a mount point yet
		if err = unix.Mount(Folder, Folder, "", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", Folder, "", unix.MS_SHARED|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("share %s: %w", Folder, err)
	}
	return nil
}

// Remove removes the name; the namespace goes with its last process. It is no
// error if there is none.
func Remove(name string) error {
	// A file that is no mount point was left by a Create that was killed.
	if err := unix.Unmount(Path(name), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	if err := os.Remove(Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}

// Exists says whether name stands for a namespace: a Create that was killed leaves the
// name alone.
func Exists(name string) bool {
	var st unix.Statfs_t
	return unix.Statfs(Path(name), &st) == nil && st.Type == unix.NSFS_MAGIC
}

// List is the names that begin with prefix, sorted.
func List(prefix string) ([]string, error) {
	entries, err := os.ReadDir(Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Do calls f on a thread that is inside the namespace called name. f must not
// start goroutines that are to be inside as well.
func Do(name string, f func() error) error {
	return onThread(func() error {
		if err := Enter(name); err != nil {
			return err
		}
		return f()
	})
}

// Enter moves the calling thread into the namespace called name. The caller has
// locked it and never unlocks it.
func Enter(name string) error {
	fd, err := unix.Open(Path(name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", name, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", name, err)
	}
	return nil
}

// onThread calls f on a thread of its own, which ends with f: whatever f did to
// the thread's namespaces is nobody else's.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}
