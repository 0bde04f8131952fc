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

// panicked is in what a kernel says that cannot go on.
const panicked = "Kernel panic - not syncing"

// How long a machine has to boot, how often it is tried, and how long its tests have.
// An emulated processor of qemu before 10 hangs or faults now and then while a kernel
// patches its own code, most often early at boot.
const (
	bootTime = 2 * time.Minute
	attempts = 3
	testTime = 10 * time.Minute
)

// What is tried again: a machine that did not come up, or whose kernel broke down.
var (
	errHung  = fmt.Errorf("it did not boot in %v", bootTime)
	errPanic = errors.New("its kernel panicked")
)

// boot runs a machine until its tests are over, and passes on what it says.
func boot(ctx context.Context, image, initrd string, say func(string)) error {
	for i := range attempts {
		err := machine(ctx, image, initrd, say)
		if !errors.Is(err, errHung) && !errors.Is(err, errPanic) || i == attempts-1 {
			return err
		}
		say("lab: " + err.Error() + ", which under qemu sometimes happens: once more")
	}
	return nil
}

func machine(ctx context.Context, image, initrd string, say func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	// Time is counted in instructions, 2 ns each, and waiting takes none: what else this
	// machine does is not seen inside. q35 has a timer (hpet) by which the kernel's
	// timers have a high resolution.
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
	hung := time.AfterFunc(bootTime, cancel)
	up, result := false, ""
	lines := bufio.NewScanner(out)
	for result == "" && lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		switch {
		case strings.Contains(line, booted):
			up = true
			hung.Stop()
		case strings.HasSuffix(line, passed), strings.HasSuffix(line, failed), strings.Contains(line, panicked):
			result = line
		}
		if up {
			say(line)
		}
	}
	timedOut := ctx.Err() != nil
	cancel()
	// It was killed, or has ended itself.
	_ = cmd.Wait()
	switch {
	case strings.Contains(result, panicked):
		return errPanic
	case !up:
		return errHung
	case timedOut && result == "":
		return fmt.Errorf("the tests were not over after %v", testTime)
	case !strings.HasSuffix(result, passed):
		return errors.New("tests failed")
	}
	return nil
}
