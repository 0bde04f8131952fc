// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/progress"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
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

// LoadTimed loads the fabric that the flags and the environment describe, for any job, and what it has in force. It
// refuses a fabric that cannot be emulated. soft: the job's ranks have the software CUDA.
func LoadTimed(g *Global, profile, file string, soft bool, fs *pflag.FlagSet) (fab *fabric.Fabric, in configs.InForce,
	err error) {
	origins := map[string]string{}
	var unset configs.Fabric
	c, err := flags.Load(configs.Source{Profile: profile, File: file, Origins: origins, Unset: &unset, Getenv: g.Getenv},
		fs)
	if err != nil {
		return nil, in, err
	}
	auto, err := SettleClock(fs, c)
	if err != nil {
		return nil, in, err
	}
	gpuTime, err := timeNodes(c, origins["node_time"], soft, auto || c.TimeScale > 1)
	if err != nil {
		return nil, in, err
	}
	if err := c.CheckEmulated(); err != nil {
		return nil, in, err
	}
	fab, err = fabric.New(c)
	return fab, c.InForce(&unset).Settle(c, gpuTime), err
}

// InForceOf is what a fabric that is up has in force.
func InForceOf(fab *fabric.Fabric) (configs.InForce, error) {
	in, err := fab.InForce()
	in.GPUTime = GPUTimeOfUp(&fab.Config)
	return in, err
}

// errRealClock is why a profile alone does not give a job on a real clock the time of nodes: at time scale 1 no host
// plays actions of a microsecond in time, and the verdict would be INVALID.
var errRealClock = errors.New("on a real clock hosts play nodes late: add --clock virtual, --set time_scale=K or --set node_time=on")

// timeNodes makes the nodes of a fabric for any job cost time if a profile, a flag, a variable or a file says so, and
// returns what a header says of it. asked is the flag, variable or file, "" for a profile alone: what cannot be is then
// left out. scaled: the clock
// has a time scale.
func timeNodes(c *configs.Fabric, asked string, soft, scaled bool) (text string, err error) {
	if asked != "" && c.NodeTime {
		if err := c.TimeNodes(); err != nil {
			return "", BadInput("%s: %w", asked, err)
		}
		return c.GPUTimeText(nil), nil
	}
	not := c.CheckTimedNodes(soft)
	if not == nil && c.CostsGPUTime() {
		if c.IsVirtual() || scaled {
			return c.GPUTimeText(nil), c.TimeNodes()
		}
		not = errRealClock
	}
	return c.GPUTimeText(not), nil
}

// GPUTimeOfUp says what GPUs cost in jobs on a fabric that is up, and if nothing, why, or which flags of `ddlemu up`
// change that.
func GPUTimeOfUp(c *configs.Fabric) string {
	if c.TimedNodes {
		return c.GPUTimeText(nil)
	}
	not := c.CheckTimedNodes(true)
	if not == nil {
		not = ErrUpWithout(c)
	}
	return c.GPUTimeText(not)
}

// ErrUpWithout says how to bring a fabric that is up without the time of nodes up with it.
func ErrUpWithout(c *configs.Fabric) error {
	if c.GPU == nil {
		return errors.New("bring the fabric up with --gpu KIND --set node_time=on")
	}
	return errors.New("bring the fabric up with --set node_time=on")
}
