// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/host"
)

// SettleClock makes the clock real if the time scale is auto, which says nothing about a virtual one. It reports
// whether the time scale is auto.
func SettleClock(fs *pflag.FlagSet, c *configs.Fabric) (auto bool, err error) {
	if !fs.Changed("time-scale") || c.TimeScale != 0 {
		return false, nil
	}
	if c.IsVirtual() {
		return false, errNoScale
	}
	c.Clock = configs.RealClock
	return true, nil
}

// SettleScale selects fab's time scale if it is auto, and prints it. measured says whether it measured this
// host.
func (g *Global) SettleScale(ctx context.Context, fs *pflag.FlagSet, fab *fabric.Fabric) (measured bool, err error) {
	if auto, err := SettleClock(fs, &fab.Config); !auto {
		return false, err
	}
	show, stop := g.ShowProgress("time scale")
	defer stop()
	show.Set("this host is measured", progress.Unknown)
	s, err := host.SelectScale(ctx, host.JobSizeOf(fab))
	if err != nil {
		return false, err
	}
	fab.Config.TimeScale = s.Scale
	fmt.Fprintf(g.Stderr, "ddlemu: time scale %d, %s\n", s.Scale, s.Reason)
	return true, nil
}

// errNoScale refuses a time scale that this host would choose.
var errNoScale = BadInput("--set time_scale=auto: a virtual clock has no time scale: leave out one of the two")

// WarnOneNode warns if fab has one node, and so no link.
func (g *Global) WarnOneNode(fab *fabric.Fabric) {
	if fab.Config.Nodes == 1 {
		g.Warn("%s has one node, so no traffic crosses an emulated link: give --nodes 2 or more", fab.Config.Name)
	}
}

// WarnTooMuch warns if this host cannot carry fab at its time scale.
func (g *Global) WarnTooMuch(ctx context.Context, fab *fabric.Fabric) error {
	if fab.Config.IsVirtual() {
		return nil // nothing is too much: time waits
	}
	text, err := host.Warning(ctx, host.JobSizeOf(fab))
	if text != "" {
		g.Warn("%s", text)
	}
	return err
}

// WarnUncontrolled warns of hops on which flows do not slow down.
func (g *Global) WarnUncontrolled(fab *fabric.Fabric, hops []int) {
	if text := fab.Uncontrolled(hops, false); text != "" {
		g.Warn("%s", text)
	}
}
