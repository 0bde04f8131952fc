// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
)

// Signals returns a channel of the signals that a job's programs get when this process does. The caller stops it.
func Signals() chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, append(launch.Interrupts(), syscall.SIGUSR1, syscall.SIGUSR2)...)
	return signals
}

// signalled is the exit status to which a shell adds the number of the signal that ended a program.
const signalled = 128

// Run runs cmd, passes signals on to it, and returns its exit status as a shell gives it: 128 + N for signal N. If cmd
// got a signal, or a signal has ended it or what it waited for, the processes that it did not end are ended.
func (j *Job) Run(ctx context.Context, cmd *exec.Cmd) (int, error) {
	signals := Signals()
	defer signal.Stop(signals)
	if err := ctx.Err(); err != nil {
		return 0, err // a signal came before Signals
	}
	AdoptOrphans()
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return 0, configs.Errorf("", "%s: no such command", cmd.Args[0])
		}
		return 0, fmt.Errorf("start %s: %w", strings.Join(cmd.Args, " "), err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var last os.Signal
	for {
		select {
		case last = <-signals:
			if launch.IsInterrupt(last) {
				j.Stop() // before a rank ends: it has not died. The end of ctx may come later
			}
			_ = cmd.Process.Signal(last) // an error means that it has ended already
		case err := <-done:
			status, err := launch.ExitStatus(err)
			if last == nil && err == nil && status > signalled {
				j.file.Reap() // before Stop: these have died
				if !j.stuck.Load() {
					// Else the job has failed: it was not stopped.
					j.Stop()
				}
				j.EndOrphans()
			}
			if last != nil {
				j.EndOrphans()
			}
			return status, err
		}
	}
}
