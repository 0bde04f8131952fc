// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
)

// hostfileStyles are the formats of a line of a hostfile, by launcher.
var hostfileStyles = map[string]string{
	"openmpi":   "%s slots=%d\n",
	"deepspeed": "%s slots=%d\n",
	"hydra":     "%s:%d\n",
}

// NewHostfileCommand is `ddlemu hostfile`.
func NewHostfileCommand(g *cli.Global) *cobra.Command {
	var (
		style string
		slots int
	)
	cmd := &cobra.Command{
		Use:   "hostfile",
		Short: "Print a launcher's list of a kernel fabric's nodes",
		Long: cli.Long("docs/kernel.md", `
Print the nodes of a fabric that was brought up with --set datapath=kernel, as a launcher's
hostfile. A node has one slot per GPU, or one slot.`),
		Example: `  ddlemu hostfile > hosts
  ddlemu hostfile --style hydra --slots 2`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runHostfile(g, style, slots) },
	}
	cmd.Flags().StringVar(&style, "style", "openmpi", "`launcher`: openmpi, hydra (MPICH, Intel MPI) or deepspeed")
	cmd.Flags().IntVar(&slots, "slots", 0, "`number` of ranks on each node (default: its GPUs, or 1)")
	g.AddFabricFlag(cmd.Flags())
	return cli.Ruled(cmd, cli.Among("style", slices.Sorted(maps.Keys(hostfileStyles))...), cli.Least("slots", 1))
}

func runHostfile(g *cli.Global, style string, slots int) error {
	up, err := g.OpenKernel()
	if err != nil {
		return err
	}
	defer up.Close()
	fab, err := fabricfile.Read(up.File)
	if err != nil {
		return err
	}
	if err := OnKernel(g, up.File, fab); err != nil {
		return err
	}
	if slots == 0 {
		slots = max(1, ShareOf(fab).PerNode)
	}
	for n := range fab.Config.Nodes {
		fmt.Fprintf(g.Stdout, hostfileStyles[style], fmt.Sprintf("node%d", n), slots)
	}
	return nil
}
