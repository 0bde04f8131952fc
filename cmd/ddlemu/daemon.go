// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
)

// newDaemonCommand is the process that `up` starts for a fabric of the kernel
// datapath. Not for users.
func newDaemonCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:    daemon.CommandName + " NAME",
		Short:  "Keep a fabric of the kernel datapath (started by up, run and bench)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return runDaemon(cmd.Context(), g, args[0]) },
	}
}

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
		fmt.Fprint(g.Stdout, daemon.ReadyLine)
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
