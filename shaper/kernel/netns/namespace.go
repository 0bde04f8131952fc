// SPDX-License-Identifier: Apache-2.0

// Package netns creates, finds and removes named network namespaces, in the folder of `ip netns`, and runs functions in
// them. Its Plan has the names and addresses of all that the kernel datapath creates for one fabric.
//
// The plugin links this package, so it imports little: no netlink and no configuration.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Folder has a file for each named namespace, as for `ip netns`.
const Folder = "/run/netns"

// Path returns the path of the file that stands for the namespace called name.
func Path(name string) string { return filepath.Join(Folder, name) }

// Create makes a network namespace called name. If the name is in use, the error wraps fs.ErrExist.
func Create(name string) error {
	if err := os.MkdirAll(Folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of network namespaces: %w", err)
	}
	if err := shareFolder(); err != nil {
		return err
	}
	f, err := os.OpenFile(Path(name), os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	f.Close()
	err = onNewThread(func() error {
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

// shareFolder makes Folder a shared mount, as `ip netns` does. Mounts and unmounts in it then propagate to the other
// mount namespaces of the host. Without it, a network namespace that was removed would continue to exist in them.
func shareFolder() error {
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

// Remove removes the name of a namespace. The kernel deletes the namespace when its last process ends. It is no error
// if there is no such name.
func Remove(name string) error {
	// EINVAL: the file is no mount point, because Create was killed before it mounted the namespace.
	if err := unix.Unmount(Path(name), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	if err := os.Remove(Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}

// Exists reports whether name stands for a namespace. If Create was killed, there may be a file of that name and no
// namespace.
func Exists(name string) bool {
	var st unix.Statfs_t
	return unix.Statfs(Path(name), &st) == nil && st.Type == unix.NSFS_MAGIC
}

// List returns the names that begin with prefix, sorted.
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

// Do calls f on a thread that is in the namespace called name. Goroutines that f starts are not in it.
func Do(name string, f func() error) error {
	return onNewThread(func() error {
		if err := Enter(name); err != nil {
			return err
		}
		return f()
	})
}

// Enter moves the calling thread into the namespace called name. The caller has locked the thread and must not unlock
// it.
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

// onNewThread calls f on a new thread, which ends afterwards. No other goroutine runs in the namespaces that f entered.
func onNewThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// ListenUDP opens a UDP socket in the namespace called name, with an unused port of addr.
func ListenUDP(name string, addr netip.Addr) (c *net.UDPConn, err error) {
	err = Do(name, func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	return c, err
}

// DialUDP opens a UDP socket in the namespace called name that sends from addr, with an unused port, to an address.
func DialUDP(name string, addr netip.Addr, to *net.UDPAddr) (c *net.UDPConn, err error) {
	err = Do(name, func() (err error) {
		c, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)), to)
		return err
	})
	return c, err
}
