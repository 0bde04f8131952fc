// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
)

// NewDaemonCommand returns the command of the daemon of a fabric of the kernel datapath. Users do not call it.
func NewDaemonCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:    daemon.CommandName + " NAME",
		Short:  "Run the daemon of a fabric of the kernel datapath (started by up, run and bench)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return runDaemon(cmd.Context(), g, args[0]) },
	}
}

func runDaemon(ctx context.Context, g *cli.Global, name string) error {
	dir, err := g.OpenDir(false)
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
