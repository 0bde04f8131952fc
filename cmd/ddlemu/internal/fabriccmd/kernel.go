// SPDX-License-Identifier: Apache-2.0

// Package fabriccmd has the commands for fabrics and this host: profiles, gpus, up, down, shape, fabric, status, top,
// serve, metrics, gc, doctor, exec, ssh, hostfile, dev and daemon.
package fabriccmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
)

// canShape returns a function that checks whether the shaper of the fabric supports a link.
func canShape(file *state.File, fab *fabric.Fabric) func(link.Spec) error {
	if !fab.Config.OnKernel() {
		return func(link.Spec) error { return nil }
	}
	return func(s link.Spec) error {
		if err := shapers.CheckLink(file.Shaper(), s); err != nil {
			return &cli.InputError{Err: err}
		}
		return nil
	}
}

// warnFloor measures the floor of the shaper wire and prints a warning if the fabric uses it and a link has a shorter
// latency.
func warnFloor(ctx context.Context, g *cli.Global, file *state.File, fab *fabric.Fabric) error {
	if file.Shaper() != configs.WireShaper {
		return nil
	}
	f, err := wire.MeasureFloor(ctx)
	if err != nil {
		return err
	}
	for i, h := range fab.Hops {
		if real := h.Spec.Latency * time.Duration(fab.TimeScale()); h.Kind == link.Link && real < f.P50 {
			g.Warn(
				"the latency of %s, %v, is below the floor of the shaper wire on this host now, %v: the verdict will "+
					"be INVALID; give a longer --lat, --set time_scale=K, or --set datapath=shm", fab.HopName(i),
				h.Spec.Latency, f.P50.Round(100*time.Nanosecond))
			return nil
		}
	}
	return nil
}

// nodeOf returns the number of the node with a name or address, see netns.Plan.FindNode.
func nodeOf(p *netns.Plan, name string) (int, error) {
	if n := p.FindNode(name); n >= 0 {
		return n, nil
	}
	last := fmt.Sprintf(" to node%d", len(p.Nodes)-1)
	if len(p.Nodes) == 1 {
		last = ""
	}
	return 0, cli.BadInput("%q is not a node of fabric %s: it has node0%s", name, p.Fabric, last)
}

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
