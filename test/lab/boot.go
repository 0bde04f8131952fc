// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const qemu = "qemu-system-x86_64"

// Lines of test/lab/init.
const (
	booted = "lab: booted"
	passed = "lab: passed"
	failed = "lab: FAILED"
)

// panicked is in the output of a kernel panic.
const panicked = "Kernel panic - not syncing"

const (
	bootTimeout = 2 * time.Minute
	testTimeout = 10 * time.Minute // for booting and all tests

	// bootAttempts is how often a machine is started. Before version 10, qemu's emulated processor sometimes hangs or
	// faults while a kernel patches its own code, usually early during boot.
	bootAttempts = 3
)

// After these errors, a machine is started again.
var (
	errHung  = fmt.Errorf("the machine did not boot in %v", bootTimeout)
	errPanic = errors.New("the machine's kernel panicked")
)

// boot runs a machine until its tests have ended. It passes the lines of output to say.
func boot(ctx context.Context, image, initrd string, say func(string)) error {
	for i := range bootAttempts {
		err := runMachine(ctx, image, initrd, say)
		if !errors.Is(err, errHung) && !errors.Is(err, errPanic) || i == bootAttempts-1 {
			return err
		}
		say("lab: " + err.Error() + ", which sometimes happens in qemu: starting it again")
	}
	return nil
}

func runMachine(ctx context.Context, image, initrd string, say func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	// In the machine, time is counted in instructions of 2 ns, and idle time is skipped. So the load of this host has
	// no effect there. q35 has a timer (hpet) that gives the kernel's timers a high resolution.
	cmd := exec.CommandContext(ctx, qemu, "-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off",
		"-machine", "q35", "-cpu", "max", "-smp", "1", "-m", "768",
		"-nographic", "-nodefaults", "-no-user-config", "-serial", "stdio", "-no-reboot",
		"-kernel", image, "-initrd", initrd, "-append", "console=ttyS0 panic=-1 quiet")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start qemu: %w", err)
	}
	hung := time.AfterFunc(bootTimeout, cancel)
	isUp, result := false, ""
	lines := bufio.NewScanner(out)
	for result == "" && lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		switch {
		case strings.Contains(line, booted):
			isUp = true
			hung.Stop()
		case strings.HasSuffix(line, passed), strings.HasSuffix(line, failed), strings.Contains(line, panicked):
			result = line
		}
		if isUp {
			say(line)
		}
	}
	timedOut := ctx.Err() != nil
	cancel()
	_ = cmd.Wait() // an error: it was killed
	switch {
	case strings.Contains(result, panicked):
		return errPanic
	case !isUp:
		return errHung
	case timedOut && result == "":
		return fmt.Errorf("the tests had not ended after %v", testTimeout)
	case !strings.HasSuffix(result, passed):
		return errors.New("tests failed")
	}
	return nil
}
