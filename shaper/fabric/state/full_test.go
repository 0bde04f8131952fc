// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A folder that is too small for a fabric is an error that says so, with nothing
// left behind, and not a SIGBUS later on. The folder is in the mount namespace of
// another process and disappears with it.
func TestFolderTooSmall(t *testing.T) {
	dir := t.TempDir()
	attr := &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if os.Getuid() == 0 {
		attr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWNS}
	}
	p, err := launch("full", attr, dir)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("no mount namespace may be made here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.t = t
	t.Cleanup(p.kill)
	for said := range p.lines {
		if reason, ok := strings.CutPrefix(said, "skip: "); ok {
			t.Skip(reason)
		}
		t.Log(said)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("still mounted: %v", err)
	}
}

// fullChild brings up fabrics in a folder of 1 MiB until it is full.
func fullChild(args []string) error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Println("skip: no mount may be made here:", err)
		return nil
	}
	if err := unix.Mount("tmpfs", args[0], "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		fmt.Println("skip: no tmpfs may be mounted here:", err)
		return nil
	}
	d, err := OpenDir(args[0], 0, false)
	if err != nil {
		return err
	}
	var free unix.Statfs_t
	for i := range 10 {
		if err := unix.Statfs(args[0], &free); err != nil {
			return err
		}
		left := free.Bfree
		f, err := d.Create(twoNodes(fmt.Sprint(i)))
		if err != nil {
			return checkFull(d, err, i, left)
		}
		f.Event("up")
		if err := f.Close(); err != nil {
			return err
		}
	}
	return errors.New("10 fabrics fit into 1 MiB")
}

// checkFull checks the error of the fabric that did not fit, and that it used no memory.
func checkFull(d *Dir, err error, made int, before uint64) error {
	const want = "reserve [0-9]+ KiB in .* (is it full? see df): no space left on device"
	text := err.Error()
	var size int
	if _, serr := fmt.Sscanf(text, "reserve %d KiB in ", &size); serr != nil || size < 100 ||
		!errors.Is(err, unix.ENOSPC) ||
		!strings.HasSuffix(text, d.Path+" (is it full? see df): no space left on device") {
		return fmt.Errorf("error %q, want %s", text, want)
	}
	if made == 0 {
		return fmt.Errorf("not even one fabric fits: %w", err)
	}
	var free unix.Statfs_t
	if err := unix.Statfs(d.Path, &free); err != nil || free.Bfree != before {
		return fmt.Errorf("%d blocks were free before, %d after, %w", before, free.Bfree, err)
	}
	if files, err := d.files(); err != nil || len(files) != made {
		return fmt.Errorf("left behind: %v %w", files, err)
	}
	// With one fabric less there is space again.
	if err := d.Remove("0"); err != nil {
		return err
	}
	f, err := d.Create(twoNodes("again"))
	if err != nil {
		return err
	}
	return f.Close()
}
