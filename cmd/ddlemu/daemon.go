// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/state"
)

const daemonCommand = "daemon"

// newDaemonCommand is the process that `up` starts for a fabric of the kernel
// datapath. Not for users.
func newDaemonCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:    daemonCommand + " NAME",
		Short:  "Keep a fabric of the kernel datapath (started by up, run and bench)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return runDaemon(cmd.Context(), g, args[0]) },
	}
}

// daemonReady is what the daemon writes when the fabric can be used.
const daemonReady = "ready\n"

func runDaemon(ctx context.Context, g *global, name string) error {
	dir, err := g.openDir(false)
	if err != nil {
		return err
	}
	defer dir.Close()
	file, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return daemon.Run(ctx, dir, file, func() {
		fmt.Fprint(g.Stdout, daemonReady)
		// Whoever started it goes on. What is to be said from here on is in the
		// fabric's events.
		detach()
	})
}

// detach lets go of the terminal of whoever started this process.
func detach() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // it keeps a terminal open, no more
	}
	defer null.Close()
	for fd := range 3 {
		_ = syscall.Dup3(int(null.Fd()), fd, 0)
	}
	_ = os.Chdir("/")
}

// startDaemon starts the daemon of a fabric and waits until the fabric can be used.
// After an error there is no daemon.
func (g *global) startDaemon(dir *state.Dir, uid int, name string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the ddlemu command: %w", err)
	}
	cmd := exec.Command(self, "--dir", dir.Path, "--owner", fmt.Sprint(uid), daemonCommand, name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C here is not for it
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the fabric's daemon: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the fabric's daemon: %w", err)
	}
	text := make([]byte, len(daemonReady))
	if _, err := io.ReadFull(out, text); err == nil {
		return nil // it lives on; init reaps it
	}
	err = cmd.Wait()
	return &inputError{fmt.Errorf("%s", firstOf(strings.TrimPrefix(strings.TrimSpace(said.String()), "ddlemu: "), fmt.Sprintf("the fabric's daemon ended: %v", err)))}
}

// daemonPatience is how long a daemon has to take a fabric down: it deletes
// hundreds of interfaces, each in milliseconds.
const daemonPatience = 30 * time.Second

// endKernel removes what a fabric that has been taken down has in the kernel: waits
// for its daemon to do so or, if that is gone, does it.
func endKernel(dir *state.Dir, file *state.File) error {
	for end := time.Now().Add(daemonPatience); file.Served(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the daemon of fabric %s has not removed it in %v: is it stopped?", file.Name(), daemonPatience)
		}
	}
	fab, err := file.Fabric()
	if err != nil {
		return err
	}
	p, err := daemon.Plan(dir.Path, fab, file.Name())
	if err != nil {
		return err
	}
	if err := daemon.Remove(dir, p); err != nil {
		if errors.Is(err, os.ErrPermission) {
			return badInput("%w: the daemon of fabric %s was killed, so only root can remove what it made: use sudo", err, file.Name())
		}
		return err
	}
	return nil
}
