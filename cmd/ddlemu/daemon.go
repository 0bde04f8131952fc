// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
)

// newDaemonCommand returns the command of the daemon of a fabric of the kernel datapath. Users do not call it.
func newDaemonCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:    daemon.CommandName + " NAME",
		Short:  "Run the daemon of a fabric of the kernel datapath (started by up, run and bench)",
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
		// The command that started the daemon continues. From here on, messages are events of the fabric.
		daemon.Detach()
	})
}
