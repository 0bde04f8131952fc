// SPDX-License-Identifier: Apache-2.0

// Command init is the first and only program of a machine of the lab: it loads the
// modules of /modules in the order of their names, runs the test binaries of /tests,
// and powers off. Its last line says whether all passed.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Lines that test/lab waits for.
const (
	booted = "lab: booted"
	passed = "lab: passed"
	failed = "lab: FAILED"
)

func main() {
	fmt.Println(booted)
	last := passed
	if err := run(); err != nil {
		fmt.Println("lab:", err)
		last = failed
	}
	fmt.Println(last)
	unix.Sync()
	// Without power management it halts, and test/lab ends it by the line above.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := mounts(); err != nil {
		return err
	}
	if err := modules(); err != nil {
		return err
	}
	if err := highResolution(); err != nil {
		return err
	}
	return tests()
}

func mounts() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"}, {"bpf", "/sys/fs/bpf"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}

func modules() error {
	files, err := filepath.Glob("/modules/*")
	if err != nil {
		return err
	}
	for _, name := range files { // sorted
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// highResolution refuses a machine whose timers are rounded to milliseconds: every
// delay would be.
func highResolution() error {
	b, err := os.ReadFile("/proc/timer_list")
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), ".hres_active    : 1") {
		return errors.New("timers have no high resolution here")
	}
	return nil
}

// wanted are the tests that an emulated processor is fast enough for.
const wanted = "Vectors|Delay|HTBCounts"

func tests() error {
	files, err := filepath.Glob("/tests/*")
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range files {
		fmt.Println("lab: running", filepath.Base(path))
		cmd := exec.Command(path, "-test.v", "-test.timeout=240s", "-test.run="+wanted)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
		cmd.Env = []string{"DDLEMU_LAB=1", "PATH=/", "HOME=/tmp"}
		if err := cmd.Run(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(path), err))
		}
	}
	return errors.Join(errs...)
}
