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
// refuses a fabric that cannot be emulated.
func LoadTimed(g *Global, profile, file string, fs *pflag.FlagSet) (fab *fabric.Fabric, in configs.InForce, err error) {
	origins := map[string]string{}
	var unset configs.Fabric
	c, err := flags.Load(configs.Source{Profile: profile, File: file, Origins: origins, Unset: &unset, Getenv: g.Getenv},
		fs)
	if err != nil {
		return nil, in, err
	}
	if err := timeNodes(c, origins); err != nil {
		return nil, in, err
	}
	if err := c.CheckEmulated(); err != nil {
		return nil, in, err
	}
	fab, err = fabric.New(c)
	return fab, c.InForce(&unset).Settle(c, GPUTime(c, false)), err
}

// InForceOf is what a fabric that is up has in force.
func InForceOf(fab *fabric.Fabric) (configs.InForce, error) {
	in, err := fab.InForce()
	in.GPUTime = GPUTime(&fab.Config, true)
	return in, err
}

// timeNodes makes the nodes of a fabric for any job cost time, if a flag, a variable or a file asks for it, as origins
// says. A profile alone does not.
func timeNodes(c *configs.Fabric, origins map[string]string) error {
	from := origins["node_time"]
	if from == "" || !c.NodeTime {
		return nil
	}
	if err := c.TimeNodes(); err != nil {
		return BadInput("%s: %w", from, err)
	}
	return nil
}

// GPUTime says what GPUs cost in jobs on a fabric for any job, and if nothing, why, or which flags change that: those
// of the command, or if the fabric is up, those of `ddlemu up`.
func GPUTime(c *configs.Fabric, isUp bool) string {
	if c.TimedNodes {
		return c.GPUTimeText(nil)
	}
	asked := *c
	asked.NodeTime = true
	not := c.CheckTimedNodes(true)
	switch {
	case not == nil && isUp:
		not = errors.New("bring the fabric up with --node-time")
	case not == nil:
		not = errors.New("add --node-time")
	}
	return asked.GPUTimeText(not)
}
