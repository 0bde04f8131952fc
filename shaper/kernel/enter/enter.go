// SPDX-License-Identifier: Apache-2.0

// Package enter turns this process into a program that runs on an emulated node.
package enter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/plan"
)

// Options say where and as whom to run.
type Options struct {
	Node   *plan.Node
	Hosts  string // file that the program sees as /etc/hosts
	UID    int    // user to run as; if it is this process's, it stays who it is
	GID    int
	Groups []int  // all of the user's
	Dir    string // folder to start in, or / if there is none; "" for where we are
}

// Exec replaces this process by the program at path, which sees the node's network,
// host name, /etc/hosts and interfaces. The rest of the host is as it was: files,
// processes, GPUs. It returns only with an error.
func Exec(o Options, path string, args, env []string) error {
	// execve ends all other threads, so what is done to this one is the program's.
	runtime.LockOSThread()
	if err := netns.Enter(o.Node.Namespace); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("make a view of %s: %w", o.Node.Name, err)
	}
	if err := unix.Sethostname([]byte(o.Node.Name)); err != nil {
		return fmt.Errorf("set the host name %s: %w", o.Node.Name, err)
	}
	if err := view(o.Hosts); err != nil {
		return fmt.Errorf("make a view of %s: %w", o.Node.Name, err)
	}
	if err := become(o); err != nil {
		return err
	}
	if o.Dir != "" && os.Chdir(o.Dir) != nil {
		if err := os.Chdir("/"); err != nil {
			return err
		}
	}
	if err := unix.Exec(path, args, env); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

// view shows this process its node's /etc/hosts and interfaces.
func view(hosts string) error {
	// Nothing that is mounted here is seen outside.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts here: %w", err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s on /etc/hosts: %w", hosts, err)
	}
	return interfaces()
}

// interfaces makes /sys/class/net show the namespace's interfaces: a sysfs shows
// those of the namespace that mounted it. The rest of /sys stays as it is.
func interfaces() error {
	at, err := os.MkdirTemp("", "ddlemu-sys-")
	if err != nil {
		return fmt.Errorf("make a folder to mount on: %w", err)
	}
	defer os.Remove(at)
	if err := unix.Mount("sysfs", at, "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	var errs []error
	// The links in class/net lead to devices/virtual/net.
	for _, sub := range []string{"class/net", "devices/virtual/net"} {
		if err := unix.Mount(filepath.Join(at, sub), filepath.Join("/sys", sub), "", unix.MS_BIND, ""); err != nil {
			errs = append(errs, fmt.Errorf("mount /sys/%s: %w", sub, err))
		}
	}
	errs = append(errs, unix.Unmount(at, unix.MNT_DETACH))
	return errors.Join(errs...)
}

// become gives up root for the user of o, if this process is root for somebody.
func become(o Options) error {
	if o.UID == os.Getuid() {
		return nil
	}
	if err := unix.Setgroups(o.Groups); err != nil {
		return fmt.Errorf("become user %d: %w", o.UID, err)
	}
	if err := unix.Setresgid(o.GID, o.GID, o.GID); err != nil {
		return fmt.Errorf("become group %d: %w", o.GID, err)
	}
	if err := unix.Setresuid(o.UID, o.UID, o.UID); err != nil {
		return fmt.Errorf("become user %d: %w", o.UID, err)
	}
	return nil
}
