// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/draw"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

func newFabricCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fabric",
		Short: "Look at a fabric's topology",
		Long: `Look at a fabric's topology.

` + exitHelp,
		Example: `  ddlemu fabric show -f fabric.yaml`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFabricShowCommand(g))
	return cmd
}

type fabricShowOptions struct {
	sourceOptions
	DOT, SVG, Check bool
	Path            string // pattern of pairs; empty for the whole fabric
}

func (o *fabricShowOptions) AddFlags(fs *pflag.FlagSet) {
	o.sourceOptions.AddFlags(fs)
	fs.BoolVar(&o.DOT, "dot", false, "write it in the language of Graphviz")
	fs.BoolVar(&o.SVG, "svg", false, "write it as a picture")
	fs.BoolVar(&o.Check, "check", false, "say what is likely a mistake, and exit with 2 if something is")
	fs.StringVar(&o.Path, "path", "", "print the ways of `pairs`, hop by hop: A:B for both directions, 'A>B' for one, as node0:node5 or node0.nic1:node5.nic1")
}

func newFabricShowCommand(g *global) *cobra.Command {
	o := &fabricShowOptions{}
	cmd := &cobra.Command{
		Use:   "show [--profile P | -f FILE | --fabric NAME]",
		Short: "Draw a fabric: its switches, its links and their rates",
		Long: `Draw a fabric from a profile or a file, or one that is up, as it is now: its
switches, the NICs on them, the links between them with rate and latency, and the
bandwidth between the halves of its nodes (the least cut of the links).

With --check, say what is likely a mistake: links that no way leads over, ways over
links that are down, switches without capacity, links faster than their ports, jitter
that the latency has no room for, more links than there is room for. A fabric that
cannot be (a NIC that is not reached, a way of too many links) is refused with the
reason in any case.

` + exitHelp,
		Example: `  ddlemu fabric show -f fabric.yaml
  ddlemu fabric show -f fabric.yaml --svg > fabric.svg
  ddlemu fabric show -f fabric.yaml --check
  ddlemu fabric show -f fabric.yaml --path 'node0>node5'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFabricShow(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	g.addFabricFlag(cmd.Flags())
	return cmd
}

// runFabricShow draws a fabric.
func runFabricShow(_ context.Context, g *global, o *fabricShowOptions) error {
	asked := 0
	for _, is := range []bool{o.DOT, o.SVG, o.Check, o.Path != ""} {
		if is {
			asked++
		}
	}
	if asked > 1 {
		return badInput("--dot, --svg, --check and --path exclude each other: give one of them")
	}
	fab, err := o.fabric(g)
	if err != nil {
		return err
	}
	switch {
	case o.DOT:
		draw.DOT(g.Stdout, fab)
	case o.SVG:
		draw.SVG(g.Stdout, fab)
	case o.Check:
		return g.checkFabric(fab)
	case o.Path != "":
		return g.printPaths(fab, o.Path)
	default:
		draw.Tree(g.Stdout, fab)
		if err := refused(fab); err != nil {
			fmt.Fprintf(g.Stdout, "ddlemu up refuses it: %v\n", err)
		}
	}
	return nil
}

// checkFabric prints what is likely a mistake.
func (g *global) checkFabric(fab *fabric.Fabric) error {
	found := draw.Check(fab)
	if err := refused(fab); err != nil {
		found = append(found, err.Error())
	}
	for _, line := range found {
		fmt.Fprintln(g.Stdout, line)
	}
	if len(found) > 0 {
		return badInput("%s found in fabric %s", units.Count(len(found), "likely mistake"), fab.Config.Name)
	}
	fmt.Fprintf(g.Stdout, "fabric %s: no mistake found\n", fab.Config.Name)
	return nil
}

// refused is why a fabric cannot be brought up under any name, such as more links than
// its file has room for.
func refused(fab *fabric.Fabric) error {
	name := fab.Config.Name
	if state.CheckName(name) != nil {
		name = "fabric" // as --name may have it
	}
	spec, err := live.Spec(fab, name)
	if err != nil {
		return err
	}
	return spec.Check()
}

// fabric is the one that the flags name, or else the one that is up.
func (o *fabricShowOptions) fabric(g *global) (*fabric.Fabric, error) {
	if o.Profile != "" || o.File != "" {
		if g.Fabric != "" {
			return nil, badInput("--fabric names one that is up, --profile and -f one that is not: give one of them")
		}
		return o.load(g, "")
	}
	up, err := g.open()
	if err != nil {
		return nil, err
	}
	defer up.Close()
	return live.Fabric(up.File)
}
