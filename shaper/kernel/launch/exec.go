// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric/temporary"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// ExecOptions say on which node and as which user Exec runs a program.
type ExecOptions struct {
	Node   *netns.Node
	Hosts  string // file that the program sees as /etc/hosts
	UID    int    // user to run as; Exec changes no credentials if it is this process's user
	GID    int
	Groups []int  // all groups of the user
	Dir    string // working folder; if it does not exist, Exec uses "/". "" keeps the current one
}

// Exec replaces this process by the program at path. The program has the node's network, host name, /etc/hosts and
// interfaces. Everything else, such as files, processes and GPUs, is the host's. Exec returns only if it fails.
func Exec(o ExecOptions, path string, args, env []string) error {
	// Namespaces belong to a thread. execve ends all other threads, so the program has this thread's namespaces.
	runtime.LockOSThread()
	if err := netns.Enter(o.Node.Namespace); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("make the mount namespace of %s: %w", o.Node.Name, err)
	}
	if err := unix.Sethostname([]byte(o.Node.Name)); err != nil {
		return fmt.Errorf("set the host name %s: %w", o.Node.Name, err)
	}
	if err := mountNodeFiles(o.Hosts); err != nil {
		return fmt.Errorf("mount the files of %s: %w", o.Node.Name, err)
	}
	if err := setUser(o); err != nil {
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

// mountNodeFiles mounts the node's /etc/hosts and list of interfaces in this process's mount namespace.
func mountNodeFiles(hosts string) error {
	// Slave mounts do not propagate to the host.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s on /etc/hosts: %w", hosts, err)
	}
	return mountInterfaces()
}

const sysPrefix = "ddlemu-sys-"

// LeftMountPoints returns the empty folders of programs that were killed while they were started on a node.
func LeftMountPoints() ([]string, error) { return temporary.Left(sysPrefix, temporary.IsFile()) }

// mountInterfaces makes /sys/class/net list the interfaces of this network namespace. A sysfs lists the interfaces of
// the namespace in which it was mounted, so two folders of a new sysfs are mounted over the old ones. The rest of /sys
// remains the host's.
func mountInterfaces() error {
	sysfs, lock, err := temporary.Make(sysPrefix)
	if err != nil {
		return fmt.Errorf("make a mount point: %w", err)
	}
	defer lock.Close()
	defer os.Remove(sysfs)
	if err := unix.Mount("sysfs", sysfs, "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	var errs []error
	// The symbolic links in class/net point into devices/virtual/net.
	for _, sub := range []string{"class/net", "devices/virtual/net"} {
		if err := unix.Mount(filepath.Join(sysfs, sub), filepath.Join("/sys", sub), "", unix.MS_BIND, ""); err != nil {
			errs = append(errs, fmt.Errorf("mount /sys/%s: %w", sub, err))
		}
	}
	errs = append(errs, unix.Unmount(sysfs, unix.MNT_DETACH))
	return errors.Join(errs...)
}

// setUser changes the process's user and groups to those that o names, unless it already runs as that user.
func setUser(o ExecOptions) error {
	if o.UID == os.Getuid() {
		return nil
	}
	if err := unix.Setgroups(o.Groups); err != nil {
		return fmt.Errorf("set the groups of user %d: %w", o.UID, err)
	}
	if err := unix.Setresgid(o.GID, o.GID, o.GID); err != nil {
		return fmt.Errorf("set group %d: %w", o.GID, err)
	}
	if err := unix.Setresuid(o.UID, o.UID, o.UID); err != nil {
		return fmt.Errorf("set user %d: %w", o.UID, err)
	}
	return nil
}
