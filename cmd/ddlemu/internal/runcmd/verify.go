// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/nccl-plugin/drive"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
	"github.com/ddlemu/ddlemu/shaper/run/verify/datagrams"
)

// Limits of verify's --time.
const (
	leastVerify = time.Second
	mostVerify  = time.Hour

	leastVirtualVerify = time.Millisecond // on a virtual clock
)

type verifyOptions struct {
	Time  time.Duration
	junit junitFile
}

func (o *verifyOptions) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Time, "time", 0,
		"approximate `duration` of the measurement, by the fabric's clock (default 10s; 20ms on a virtual clock)")
	o.junit.addFlag(fs, "link")
}

// NewVerifyCommand is `ddlemu verify`.
func NewVerifyCommand(g *cli.Global) *cobra.Command {
	o := &verifyOptions{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Measure the fabric that is up, and compare it with what was asked for",
		Long: `Measure the fabric that is up, link by link and all links together: rate, latency, jitter, losses,
and how flows share hops. Compare that with what was asked for and with the link model. No job may
use the fabric. On the kernel datapath it sends datagrams between the nodes, which needs root.
Limits: rates 1 %, latencies 1 us or 2 % (median) and 5 us or 5 % (p99), shares 3 %. A result
outside its limit is measured again, up to three times. docs/kernel.md has that datapath's limits.

Exit status: 0 if VALID; 1 on failure; 2 for no such fabric or one in use; 3 if INVALID;
130 if interrupted (the report has what was measured).
Page: docs/fabric.md`,
		Example: `  ddlemu up --profile eth10 --nodes 4 --set time_scale=auto
  ddlemu verify
  ddlemu verify --time 1m --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runVerify(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	g.AddFabricFlag(cmd.Flags())
	g.AddJSONFlag(cmd.Flags())
	g.AddVerboseFlag(cmd.Flags())
	g.AddQuietFlag(cmd.Flags())
	return cmd
}

// check sets the default and checks the limits, which are smaller on a virtual clock.
func (o *verifyOptions) check(virtual bool) error {
	least, usual := leastVerify, 10*time.Second
	if virtual {
		least, usual = leastVirtualVerify, verify.VirtualTime
	}
	if o.Time == 0 {
		o.Time = usual
	}
	if o.Time < least || o.Time > mostVerify {
		return cli.BadInput("--time %v: must be %v to %v", o.Time, least, mostVerify)
	}
	return nil
}

// runVerify measures the fabric and prints the report.
func runVerify(ctx context.Context, g *cli.Global, o *verifyOptions) error {
	if err := o.junit.begin(); err != nil {
		return err
	}
	up, err := g.Open()
	if err != nil {
		return err
	}
	defer up.Close()
	fab, err := fabricfile.Read(up.File)
	if err != nil {
		return err
	}
	if err := o.check(up.File.Virtual()); err != nil {
		return err
	}
	name := up.File.Name()
	up.File.Reap()
	if ranks := up.File.Ranks(); len(ranks) > 0 {
		return cli.BadInput(
			"fabric %s is in use by %s (process %d and others): wait for the job to end, or bring up another fabric "+
				"to verify", name, units.Count(len(ranks), "rank"), ranks[0].PID)
	}
	in, err := cli.InForceOf(fab)
	if err != nil {
		return err
	}
	model, err := verify.NewModel(up.File)
	if err != nil {
		return err
	}
	measure := measureMessages
	if fab.Config.OnKernel() {
		measure = func(ctx context.Context, up *cli.Opened, fab *fabric.Fabric, model *verify.Model,
			o verify.Options) (*verify.Report, error) {
			return measurePackets(ctx, g, up, fab, model, o)
		}
	}
	display, done := g.ShowProgress("verify")
	defer done()
	show := func(part float64) { display.Part("links and flows are measured", part) }
	slow := func(least time.Duration) { fmt.Fprintln(g.Stderr, slowVerify(least, fab.TimeScale())) }
	load := host.WatchLoad()
	defer load.Stop()
	report, err := measure(ctx, up, fab, model,
		verify.Options{Time: o.Time, Progress: show, Slow: slow, Load: load.Load})
	if report != nil {
		report.Fabric, report.InForce = name, in
	}
	if o.junit.path != "" {
		err = errors.Join(err, o.junit.write(verifySuite(name, report, err)))
	}
	if _, ok := errors.AsType[*cli.InputError](err); ok {
		return err
	}
	if err != nil {
		err = fmt.Errorf("verify fabric %s: %w", name, err)
	}
	if report == nil {
		return err
	}
	err = errors.Join(err, g.Print(report, func(w io.Writer) { printVerify(w, report, g.More()) }))
	if err == nil && report.Verdict != "VALID" {
		err = &cli.ExitError{Code: cli.ExitInvalid}
	}
	return err
}

// slowVerify is the message for a measurement that takes long.
func slowVerify(least time.Duration, scale int) string {
	text := fmt.Sprintf("ddlemu: verify needs at least %v, because it takes that long to fill the slowest link",
		least.Round(time.Second))
	if scale > 1 {
		text += fmt.Sprintf(" at time scale %d; on a fabric brought up with a smaller time scale it takes less",
			scale)
	}
	return text
}

// measureMessages measures a fabric of the datapath shm.
func measureMessages(ctx context.Context, up *cli.Opened, fab *fabric.Fabric, model *verify.Model,
	o verify.Options) (*verify.Report, error) {
	world, err := drive.Join(up.File, fab)
	if err != nil {
		return nil, err
	}
	defer world.Close()
	return verify.Measure(ctx, model, world, o)
}

// measurePackets measures a fabric of the datapath kernel.
func measurePackets(ctx context.Context, g *cli.Global, up *cli.Opened, fab *fabric.Fabric, model *verify.Model,
	o verify.Options) (*verify.Report, error) {
	if err := fabriccmd.OnKernel(g, up.File, fab); err != nil {
		return nil, err
	}
	if err := daemon.CheckPrivileges(); err != nil {
		return nil, &cli.InputError{Err: fmt.Errorf("enter the nodes of fabric %s: %w", up.File.Name(), err)}
	}
	p, err := daemon.Plan(up.Dir.Path, fab, up.File.Name())
	if err != nil {
		return nil, err
	}
	world, err := datagrams.Open(up.File, fab, p)
	if err != nil {
		return nil, err
	}
	defer world.Close()
	if err := world.CheckIdle(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, cli.BadInput("fabric %s is in use: %w", up.File.Name(), err)
	}
	return verify.MeasurePackets(ctx, model, world, o)
}
