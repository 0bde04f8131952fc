// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
)

// SourceOptions are the flags that describe the fabric to bring up.
type SourceOptions struct {
	Profile, File string

	Flags *pflag.FlagSet // with those that change the fabric
}

// AddFlags adds --profile, --file and all flags that change a fabric.
func (o *SourceOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Profile, "profile", "", "`name` of a profile, see `ddlemu profiles` (default: $"+configs.ProfileEnv+")")
	fs.StringVarP(&o.File, "file", cli.FileLetter, "", "fabric `file` (default: $"+configs.FileEnv+")")
	flags.AddFabric(fs)
	o.Flags = fs
}

// load is the fabric that the flags and the environment describe.
func (o *SourceOptions) load(g *cli.Global) (*fabric.Fabric, error) {
	c, err := flags.Load(configs.Source{Profile: o.Profile, File: o.File, Getenv: g.Getenv}, o.Flags)
	if err != nil {
		return nil, err
	}
	return fabric.New(c)
}

type upOptions struct {
	SourceOptions
	Name      string
	NoMeasure bool
}

// NewUpCommand is `ddlemu up`.
func NewUpCommand(g *cli.Global) *cobra.Command {
	o := &upOptions{}
	cmd := &cobra.Command{
		Use:   "up [--profile P | -F FILE]",
		Short: "Bring up a fabric",
		Long: cli.Long("docs/jobs.md", `
Bring up a fabric from a profile or a file, changed by the flags, and print the environment that a
job needs to run on it. It is up until "ddlemu down". A short measurement follows, and a warning
if this host is too slow for the fabric. --set time_scale=auto measures longer and sets the scale.`),
		Example: `  ddlemu up --profile roce100 --nodes 4
  ddlemu up --profile eth10 --lat 1ms --set link.loss=0.01% --name lossy
  ddlemu up -F fabric.yaml
  eval "$(ddlemu up --profile eth1 | grep ^export)"`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUp(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.Name, "name", "", "`name` of the fabric (default: the profile's)")
	cmd.Flags().BoolVar(&o.NoMeasure, "no-measure", false, "do not measure whether this host is fast enough")
	g.AddJSONFlag(cmd.Flags())
	return cmd
}

// runUp brings up a fabric and prints its description.
func runUp(ctx context.Context, g *cli.Global, o *upOptions) error {
	fab, in, err := cli.LoadTimed(g, o.Profile, o.File, !locate.HasGPU(), o.Flags)
	if err != nil {
		return err
	}
	if len(fab.Config.Faults) > 0 && !fab.Config.IsVirtual() {
		return cli.BadInput("faults: a fabric that is up has no faults on the real clock: give --clock virtual, or " +
			"start the job by `ddlemu run`")
	}
	name := cmp.Or(o.Name, fab.Config.Name)
	if fab.Config.OnKernel() {
		if err := daemon.Prepare(fab); err != nil {
			return err
		}
	}
	measured, err := g.SettleScale(ctx, o.Flags, fab)
	if err != nil {
		return err
	}
	o.NoMeasure = o.NoMeasure || measured
	up, err := g.Create(fab, name)
	if errors.Is(err, fs.ErrExist) {
		return upAlready(g, name)
	}
	if err != nil {
		return err
	}
	defer up.Close()
	if fab.Config.OnKernel() {
		show, stop := g.ShowProgress("up")
		show.Set(units.Count(fab.Config.Nodes, "node")+" are made", progress.Unknown)
		err := startKernel(ctx, up)
		stop()
		if err != nil {
			return err
		}
	}
	up.File.Event("up")
	g.WarnOneNode(fab)
	if _, err := g.TellVariables(&fab.Config, "", !locate.HasGPU()); err != nil {
		g.Warn("%v", err) // the fabric is up nevertheless
	}
	warnClipped(g, fab, fab.All())
	g.WarnUncontrolled(fab, fab.All())
	if !o.NoMeasure {
		if err := errors.Join(g.WarnTooMuch(ctx, fab), warnFloor(ctx, g, up.File, fab)); err != nil {
			g.Warn("%v", err) // the fabric is up nevertheless
		}
	}
	if g.JSON {
		return printStatusJSON(g, up.File)
	}
	printUp(g, fab, name, &in)
	if fab.Config.OnKernel() {
		fmt.Fprintf(g.Stdout, "shaper %s, nodes in %s; on node0 runs: ddlemu exec node0 -- COMMAND\n", up.File.Shaper(),
			fab.Config.Subnet)
	}
	g.PrintEnvironment(up)
	return nil
}

// startKernel starts the daemon of a fabric of the kernel datapath. After an error it takes the fabric down.
func startKernel(ctx context.Context, up *cli.Opened) error {
	err := up.File.MarkInUse() // until its daemon serves it, gc must leave it alone
	if err == nil {
		_, err = daemon.Start(ctx, up.Dir, up.File)
	}
	if err != nil {
		up.File.TakeDown()
		return errors.Join(err, up.Dir.Remove(up.File.Name()))
	}
	up.File.ClearInUse()
	return nil
}

// upAlready is the error for a name that a fabric has already.
func upAlready(g *cli.Global, name string) error {
	next := fmt.Sprintf(
		"take it down with `ddlemu down %s`, change its links (see `ddlemu shape --help`), or give another --name",
		name)
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
	fab, err := fabricfile.Read(file)
	if err != nil {
		return err
	}
	if fab.Config.OnKernel() && !file.Served() {
		return DaemonGone(name)
	}
	return cli.BadInput("fabric %s is up already (%s), with %s on it: %s", name, describe(fab),
		units.Count(len(file.Ranks()), "rank"), next)
}

// printUp prints the line about a fabric that came up, and what it has in force.
func printUp(g *cli.Global, fab *fabric.Fabric, name string, in *configs.InForce) {
	fmt.Fprintf(g.Stdout, "fabric %s is up: %s\n", name, describe(fab))
	fmt.Fprintf(g.Stdout, "in force: %s\n", in.Text)
	if fab.Config.GPU != nil {
		fmt.Fprintf(g.Stdout, "GPU time: %s\n", in.GPUTime)
	}
}

// describe is one line about a fabric as it was brought up.
func describe(fab *fabric.Fabric) string {
	c := &fab.Config
	s := fmt.Sprintf("%s, links of %s and %s, %s", summary(fab), c.Link.Bandwidth, c.Link.Latency, c.Transport.Kind)
	if len(c.Links) > 0 {
		s += ", some of them different"
	}
	return s
}

// summary is one line about what cannot change in a fabric.
func summary(fab *fabric.Fabric) string {
	c := &fab.Config
	origin := "file"
	if slices.Contains(configs.AllProfileNames(), c.Name) {
		origin = "profile"
	}
	s := fmt.Sprintf("%s %s, %s, %s each", origin, c.Name, units.Count(c.Nodes, "node"),
		units.Count(c.NICsPerNode, "NIC"))
	if c.GPU != nil {
		s += ", GPUs " + c.GPU.Name
	}
	if fab.Net != nil {
		s += fmt.Sprintf(", %s of %s", c.Topology.Kind, units.Count(len(fab.Net.Switches), "switch"))
	}
	if k := fab.TimeScale(); k != 1 {
		s += fmt.Sprintf(", time scale %d", k)
	}
	if c.IsVirtual() {
		s += ", virtual clock"
	}
	return s
}

// warnClipped warns of jitter and reordering that the latency of some of the hops limits.
func warnClipped(g *cli.Global, fab *fabric.Fabric, hops []int) {
	for _, text := range fab.Clipped(hops) {
		g.Warn("%s", text)
	}
}
