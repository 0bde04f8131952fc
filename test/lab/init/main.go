// SPDX-License-Identifier: Apache-2.0

// Command init is the only program in a machine of the lab, and its first process. It loads the modules in /modules
// in the order of their names, runs the test binaries in /tests, and powers off. Its last line says whether all tests
// passed.
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

// Lines of output that test/lab waits for.
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
	// Without power management, the machine halts. test/lab ends it after the line above.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := mountAll(); err != nil {
		return err
	}
	if err := loadModules(); err != nil {
		return err
	}
	if err := checkTimers(); err != nil {
		return err
	}
	return runTests()
}

func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
		{"bpf", "/sys/fs/bpf"},
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

func loadModules() error {
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

// checkTimers fails if timers have no high resolution: they would be rounded to milliseconds, and so would every delay.
func checkTimers() error {
	b, err := os.ReadFile("/proc/timer_list")
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), ".hres_active    : 1") {
		return errors.New("timers have no high resolution")
	}
	return nil
}

// selected matches the tests that an emulated processor is fast enough for.
const selected = "Vectors|Tap$|Delay|HTBCounts"

func runTests() error {
	files, err := filepath.Glob("/tests/*")
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range files {
		fmt.Println("lab: running", filepath.Base(path))
		cmd := exec.Command(path, "-test.v", "-test.timeout=240s", "-test.run="+selected)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
		cmd.Env = []string{"DDLEMU_LAB=1", "PATH=/", "HOME=/tmp"}
		if err := cmd.Run(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(path), err))
		}
	}
	return errors.Join(errs...)
}
