// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
)

// devOptions are the flags of dev.
type devOptions struct {
	Restore bool
	flags   *pflag.FlagSet
}

// NewDevCommand is `ddlemu dev`.
func NewDevCommand(g *cli.Global) *cobra.Command {
	o := &devOptions{}
	cmd := &cobra.Command{
		Use:   "dev INTERFACE [--bw RATE ... | --restore]",
		Short: "Shape an interface of this host (not a fabric's)",
		Long: `Give the packets that an existing interface such as eth0 sends the rate, latency, jitter and loss
of a link. --restore undoes it. This is the only command that changes something that ddlemu did
not create. A property that is not given is as without ddlemu. An interface whose queueing
discipline another program has set is refused. Without flags, print whether it is shaped.

` + cli.ExitHelp + `
Page: docs/kernel.md`,
		Example: `  sudo ddlemu dev eth0 --bw 100Mbps
  sudo ddlemu dev eth0 --restore`,
		Args: cli.Exactly(1, "dev takes one interface: ddlemu dev eth0 --bw 1Gbps"),
		RunE: func(_ *cobra.Command, args []string) error {
			err := runDev(g, o, args[0])
			if errors.Is(err, tc.ErrUnavailable) {
				err = &cli.InputError{Err: err}
			}
			return err
		},
	}
	o.flags = cmd.Flags()
	flags.AddDevice(o.flags)
	o.flags.BoolVar(&o.Restore, "restore", false, "remove what this command has added")
	return cmd
}

func runDev(g *cli.Global, o *devOptions, name string) error {
	patch, err := flags.Links(o.flags)
	if err != nil {
		return err
	}
	if o.Restore && !patch.Empty() {
		return cli.BadInput("--restore takes no other flag")
	}
	if daemon.CheckPrivileges() != nil {
		return cli.BadInput("dev needs root, or CAP_NET_ADMIN: use sudo")
	}
	d, err := tc.OpenDevice(name)
	if err != nil {
		return err
	}
	defer d.Close()
	on, err := d.Shaped()
	if err != nil {
		return err
	}
	switch {
	case !patch.Empty():
		return shapeDevice(g, d, name, patch)
	case o.Restore && on:
		if err := d.Restore(); err != nil {
			return err
		}
		fmt.Fprintf(g.Stdout, "%s is restored\n", name)
	case on:
		fmt.Fprintf(g.Stdout,
			"%s is shaped: see `tc class show dev %[1]s` and `tc qdisc show dev %[1]s`; `ddlemu dev %[1]s --restore` "+
				"undoes it\n", name)
	default:
		fmt.Fprintf(g.Stdout, "%s is not shaped by ddlemu\n", name)
	}
	return nil
}

// shapeDevice shapes an interface and prints the parameters.
func shapeDevice(g *cli.Global, d *tc.Device, name string, patch configs.LinkPatch) error {
	l := configs.Default().Link
	l.Bandwidth, l.MTU, l.Queue = units.Unlimited, min(max(d.MTU(), configs.MinMTU), configs.MaxMTU),
		configs.Queue{Policy: configs.Lossless}
	patch.Apply(&l)
	if err := l.Validate(); err != nil {
		return err
	}
	if !l.Queue.OnKernel() {
		return cli.BadInput("--queue: %v is for fabrics: give lossless or taildrop", l.Queue)
	}
	kernel := &shapers.Kernel{}
	tables := link.NewJitterTables(nil)
	if err := d.Shape(fabric.Spec(l), kernel.Probe("netem") == nil, tables); err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s is shaped: %s, latency %v, queue %v; `ddlemu dev %[1]s --restore` undoes it\n", name,
		l.Bandwidth, l.Latency, l.Queue)
	return nil
}
