// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/draw"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// NewFabricCommand is `ddlemu fabric`.
func NewFabricCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fabric",
		Short: "Show a fabric's topology, or make a fabric of another tool's file",
		Long:  cli.Long("docs/fabric.md", `Show a fabric's topology, or make a fabric of another tool's file.`),
		Example: `  ddlemu fabric show -F fabric.yaml
  ddlemu fabric import topo.xml --lat 2us -o fabric.yaml`,
		Args: cli.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFabricShowCommand(g), newFabricImportCommand(g))
	return cmd
}

type fabricShowOptions struct {
	SourceOptions
	DOT, SVG, Check bool
	Path            string // pattern of pairs; empty for the whole fabric
}

func (o *fabricShowOptions) AddFlags(fs *pflag.FlagSet) {
	o.SourceOptions.AddFlags(fs)
	fs.BoolVar(&o.DOT, "dot", false, "write it in the language of Graphviz")
	fs.BoolVar(&o.SVG, "svg", false, "write it as a picture")
	fs.BoolVar(&o.Check, "check", false, "list likely mistakes, and exit with 1 if there are any")
	fs.StringVar(&o.Path, "path", "",
		"print the paths of `pairs`, hop by hop: A:B (both directions) or 'A>B', as node0:node5 or node0.nic1:node5.nic1")
}

func newFabricShowCommand(g *cli.Global) *cobra.Command {
	o := &fabricShowOptions{}
	cmd := &cobra.Command{
		Use:   "show [--profile P | -F FILE | --fabric NAME]",
		Short: "Draw a fabric: its switches, its links and their rates",
		Long: cli.Long("docs/fabric.md", `
Draw a fabric from a profile or a file, or the fabric that is up, in its present state: switches,
NICs, the links between them, and the bandwidth between the halves of its nodes.

With --check, list likely mistakes, such as links that no path uses. A fabric that is not
possible, such as one with a NIC that no path reaches, is refused with the reason in any case.`),
		Example: `  ddlemu fabric show -F fabric.yaml
  ddlemu fabric show -F fabric.yaml --svg > fabric.svg
  ddlemu fabric show -F fabric.yaml --check
  ddlemu fabric show -F fabric.yaml --path 'node0>node5'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFabricShow(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	g.AddFabricFlag(cmd.Flags())
	return cli.Ruled(cmd,
		cli.AtMostOne("dot svg check path", ""),
		cli.Excludes("fabric", "profile file", "a fabric that is up has its own"))
}

// runFabricShow draws a fabric.
func runFabricShow(_ context.Context, g *cli.Global, o *fabricShowOptions) error {
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
		return checkFabric(g, fab)
	case o.Path != "":
		return printPaths(g, fab, o.Path)
	default:
		draw.Tree(g.Stdout, fab)
		if fab.Config.GPU != nil {
			fmt.Fprintf(g.Stdout, "GPU time: %s\n", o.gpuTime(&fab.Config))
		}
		if err := refused(fab); err != nil {
			fmt.Fprintf(g.Stdout, "ddlemu up refuses it: %v\n", err)
		}
	}
	return nil
}

// checkFabric prints likely mistakes.
func checkFabric(g *cli.Global, fab *fabric.Fabric) error {
	found := draw.Check(fab)
	if err := refused(fab); err != nil {
		found = append(found, err.Error())
	}
	lines.Print(g.Stdout, "%s\n", found)
	if len(found) > 0 {
		return &cli.ExitError{Code: cli.ExitFailure,
			Err: fmt.Errorf("%s found in fabric %s", units.Count(len(found), "likely mistake"), fab.Config.Name)}
	}
	fmt.Fprintf(g.Stdout, "fabric %s: no mistake found\n", fab.Config.Name)
	return nil
}

// refused is the reason why a fabric cannot be brought up under any name, such as more links than fit into its file.
func refused(fab *fabric.Fabric) error {
	name := fab.Config.Name
	if state.CheckName(name) != nil {
		name = "fabric" // the user may give another name
	}
	spec, err := fabricfile.Describe(fab, name)
	if err != nil {
		return err
	}
	return spec.Check()
}

// gpuTime says in which commands the GPUs of the fabric cost time.
func (o *fabricShowOptions) gpuTime(c *configs.Fabric) string {
	switch not := c.CheckTimedNodes(true); {
	case !o.isNamed():
		return cli.GPUTimeOfUp(c)
	case !c.CostsGPUTime():
		return c.GPUTimeText(nil)
	case not != nil:
		return fmt.Sprintf("%s in ddlemu expect; else none (%v)", c.GPUTimeText(nil), not)
	}
	return c.GPUTimeText(nil) + "; in run and up on a real clock: add --set node_time=on or --set time_scale=K"
}

// isNamed says whether flags name the fabric: else it is the one that is up.
func (o *fabricShowOptions) isNamed() bool { return o.Profile != "" || o.File != "" }

// fabric is the fabric that the flags name, else the one that is up.
func (o *fabricShowOptions) fabric(g *cli.Global) (*fabric.Fabric, error) {
	if o.isNamed() {
		return o.load(g)
	}
	up, err := g.OpenToRead()
	if err != nil {
		return nil, err
	}
	defer up.Close()
	return fabricfile.Read(up.File)
}
