// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

type statusOptions struct {
	Last  bool
	Watch string // the interval, empty to print the state once
}

func (o *statusOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Last, "last", false, "show the last job, also after its processes were killed, with its verdict")
	fs.StringVar(&o.Watch, "watch", "", "print what the fabric does, every `interval` (default 1s)")
	fs.Lookup("watch").NoOptDefVal = defaultInterval.String()
}

// NewStatusCommand is `ddlemu status`.
func NewStatusCommand(g *cli.Global) *cobra.Command {
	o := &statusOptions{}
	cmd := &cobra.Command{
		Use:   "status [--watch [INTERVAL]]",
		Short: "Show the fabrics that are up, and their traffic",
		Long: `Show the fabric that is up, or all of them if there are several and none is named:
the parameters and counters of each link, and the jobs.

With --last, show the last job of all fabrics and its verdict.

With --watch, print a heading every interval, a line for each link that was active since
the last one, and a line for each job with its verdict so far; with --json an object in one
line. Rates are per second of the fabric's clock. The heading has the time of that clock,
and how many of its seconds pass in a real one. It ends with Ctrl-C, or when the fabric is
taken down, both with exit status 0. "ddlemu top" shows the same live in a terminal.

` + cli.ExitHelp,
		Example: `  ddlemu status
  ddlemu status --json | jq '.links[], .ports[] | select(.drops > 0)'
  ddlemu status --last
  ddlemu status --watch 5s | grep 'link node0:'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.Watch == "" {
				return cli.NoArgs(cmd, args)
			}
			return cli.AtMostOneArg(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Watch == "" {
				return runStatus(cmd.Context(), g, o)
			}
			if o.Last {
				return cli.BadInput("--last and --watch cannot both be given")
			}
			interval, err := o.interval(args)
			if err != nil {
				return err
			}
			return runWatch(cmd.Context(), g, interval)
		},
	}
	o.AddFlags(cmd.Flags())
	g.AddFabricFlag(cmd.Flags())
	g.AddJSONFlag(cmd.Flags())
	g.AddVerboseFlag(cmd.Flags())
	return cmd
}

// runStatus prints the state of one fabric or of all fabrics.
func runStatus(_ context.Context, g *cli.Global, o *statusOptions) error {
	dir, err := g.OpenDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return g.NoFabric(g.Named())
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if o.Last {
		return printLast(g, dir)
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	if name := g.Named(); name != "" {
		names = []string{name}
	}
	switch len(names) {
	case 0:
		return g.NoFabric("")
	case 1:
		s, err := readStatus(g, dir, names[0])
		if err != nil {
			return err
		}
		if g.JSON {
			return g.PrintJSON(s)
		}
		s.print(g.Stdout)
		return nil
	}
	return printAll(g, dir, names)
}

// readStatus is the state of the fabric called name.
func readStatus(g *cli.Global, dir *state.Dir, name string) (*fabricStatus, error) {
	file, err := g.OpenIn(dir, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return StatusOf(file)
}

// printAll prints every fabric. For one that cannot be used it prints a warning.
func printAll(g *cli.Global, dir *state.Dir, names []string) error {
	all := []*fabricStatus{}
	for _, name := range names {
		s, err := readStatus(g, dir, name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // taken down meanwhile
		case errors.Is(err, state.ErrNotUsable):
			g.Warn("%v", err)
		case err != nil:
			return err
		default:
			all = append(all, s)
		}
	}
	if g.JSON {
		return g.PrintJSON(struct {
			Fabrics []*fabricStatus `json:"fabrics"`
		}{all})
	}
	for i, s := range all {
		if i > 0 {
			fmt.Fprintln(g.Stdout)
		}
		s.print(g.Stdout)
	}
	return nil
}
