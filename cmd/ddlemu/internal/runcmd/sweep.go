// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
)

// sweepUsage is the help of --sweep.
const sweepUsage = "%s for several values of a parameter of all links, such as `bw=10G..800G`, lat=1us,10us or " +
	"loss=1e-6..1%%"

// parseSweep reads the value of --sweep, which needs a fabric of its own for each value.
func parseSweep(g *cli.Global, text string) (*sweep.Values, error) {
	if g.Fabric != "" {
		return nil, cli.BadInput("--sweep needs fabrics of its own: leave out --fabric, and give --profile or --file")
	}
	v, err := sweep.Parse(text)
	if err != nil {
		return nil, cli.BadInput("--sweep %s: %w", text, err)
	}
	return v, nil
}

// sweepFlags are the flags of a fabric that the user gave, with one value of a sweep.
func sweepFlags(given *pflag.FlagSet, v *sweep.Values, i int) (*pflag.FlagSet, error) {
	fs, err := with(given, func(flag string) bool { return flag == v.Param })
	if err == nil {
		err = flags.Set(fs, v.Param, v.List[i].Text)
	}
	if err != nil {
		return nil, cli.BadInput("--sweep %s=%s: %w", v.Param, v.List[i].Text, err)
	}
	return fs, nil
}
