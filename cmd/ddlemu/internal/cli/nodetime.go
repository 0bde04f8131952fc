// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

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
