// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// devOptions are the flags of dev.
type devOptions struct {
	Restore bool
	flags   *pflag.FlagSet
}

func newDevCommand(g *global) *cobra.Command {
	o := &devOptions{}
	cmd := &cobra.Command{
		Use:   "dev INTERFACE [--bw RATE ... | --restore]",
		Short: "Shape an interface of this host (not a fabric's)",
		Long: `Give what leaves by an existing interface, such as eth0, the rate, latency, jitter
and loss of a link, and take that back with --restore. It is the only command that
touches anything that ddlemu did not make; nothing else of the interface changes.
Latency, jitter and loss need netem in the kernel. What a call does not give is as
without ddlemu: no limit of the rate, no latency, a queue without bound.

An interface that has a queueing discipline of somebody else's is refused.
Without flags it says whether it is shaped.

` + exitHelp,
		Example: `  sudo ddlemu dev eth0 --bw 100Mbps
  sudo ddlemu dev eth0 --restore`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badInput("dev takes one interface: ddlemu dev eth0 --bw 1Gbps")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			err := runDev(g, o, args[0])
			if errors.Is(err, tc.ErrUnavailable) {
				err = &inputError{err}
			}
			return err
		},
	}
	o.flags = cmd.Flags()
	flags.AddLinks(o.flags)
	o.flags.BoolVar(&o.Restore, "restore", false, "take back what this command has done")
	return cmd
}

func runDev(g *global, o *devOptions, name string) error {
	patch, err := flags.Links(o.flags)
	if err != nil {
		return err
	}
	if o.Restore && !patch.Empty() {
		return badInput("--restore takes no other flag")
	}
	if daemon.CheckPrivileges() != nil {
		return badInput("dev needs root, or CAP_NET_ADMIN: use sudo")
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
		fmt.Fprintf(g.Stdout, "%s is as it was\n", name)
	case on:
		fmt.Fprintf(g.Stdout, "%s is shaped: see `tc class show dev %[1]s` and `tc qdisc show dev %[1]s`; `ddlemu dev %[1]s --restore` ends it\n", name)
	default:
		fmt.Fprintf(g.Stdout, "%s is not shaped by ddlemu\n", name)
	}
	return nil
}

// shapeDevice puts a link into force on an interface.
func shapeDevice(g *global, d *tc.Device, name string, patch configs.LinkPatch) error {
	l := configs.Default().Link
	l.Bandwidth, l.MTU, l.Queue = units.Unlimited, min(max(d.MTU(), configs.MinMTU), configs.MaxMTU), configs.Queue{Policy: configs.Lossless}
	patch.Apply(&l)
	if err := l.Validate(); err != nil {
		return err
	}
	kernel := &shapers.Kernel{}
	tables := link.NewJitterTables(nil)
	if err := d.Shape(fabric.Spec(l), kernel.Probe("netem") == nil, tables); err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s is shaped: %s, latency %v, queue %v; `ddlemu dev %[1]s --restore` ends it\n", name, l.Bandwidth, l.Latency, l.Queue)
	return nil
}
