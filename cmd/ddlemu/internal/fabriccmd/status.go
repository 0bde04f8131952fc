// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		Long: cli.Long("docs/top.md", `
Show the fabric that is up, or all of them if there are several and none is named: the parameters
and counters of each link, and the jobs. With --last, show the last job of all fabrics.

With --watch, print a line for each active link and each job every interval, until Ctrl-C or until
the fabric is taken down (exit status 0 for both). Rates are per second of the fabric's clock.`),
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
	return cli.Ruled(cmd, cli.AtMostOne("last watch", ""))
}

// runStatus prints the state of one fabric or of all fabrics.
func runStatus(_ context.Context, g *cli.Global, o *statusOptions) error {
	dir, names, err := openFabrics(g)
	if err != nil {
		return err
	}
	defer dir.Close()
	switch {
	case o.Last:
		return printLast(g, dir, names)
	case len(names) == 0:
		return g.NoFabric("")
	case len(names) == 1:
		file, err := g.OpenIn(dir, names[0])
		if err != nil {
			return err
		}
		defer file.Close()
		s, err := statusOf(file)
		if err != nil {
			return err
		}
		return g.Print(s, s.print)
	}
	return printAll(g, dir, names)
}

// printStatusJSON prints the state of a fabric as JSON.
func printStatusJSON(g *cli.Global, file *state.File) error {
	s, err := statusOf(file)
	if err != nil {
		return err
	}
	return g.PrintJSON(s)
}

// printAll prints every fabric that can be used.
func printAll(g *cli.Global, dir *state.Dir, names []string) error {
	all, err := statusOfAll(g, dir, names)
	if err != nil {
		return err
	}
	return g.Print(struct {
		Fabrics []*fabricStatus `json:"fabrics"`
	}{all}, func(w io.Writer) {
		for i, s := range all {
			if i > 0 {
				fmt.Fprintln(w)
			}
			s.print(w)
		}
	})
}

// openFabrics opens the folder of fabrics. names are those in it, or the one that the user named.
func openFabrics(g *cli.Global) (dir *state.Dir, names []string, err error) {
	dir, err = g.OpenDir(false)
	switch name := g.Named(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, g.NoFabric(name)
	case err != nil:
		return nil, nil, err
	case name != "":
		return dir, []string{name}, nil
	}
	if names, err = dir.Names(); err != nil {
		dir.Close()
	}
	return dir, names, err
}

// eachFabric calls read with each of the fabrics. One that cannot be used is an error if the user named it, else a
// warning; one that was taken down meanwhile is left out.
func eachFabric(g *cli.Global, dir *state.Dir, names []string, read func(*state.File) error) error {
	for _, name := range names {
		file, err := g.OpenIn(dir, name)
		if err == nil {
			err = errors.Join(read(file), file.Close())
		}
		switch {
		case err == nil:
		case g.Named() != "":
			return err
		case errors.Is(err, fs.ErrNotExist): // taken down meanwhile
		case errors.Is(err, state.ErrNotUsable):
			g.Warn("%v", err)
		default:
			return err
		}
	}
	return nil
}

// statusOfAll is the state of the fabrics that can be used.
func statusOfAll(g *cli.Global, dir *state.Dir, names []string) (all []*fabricStatus, err error) {
	all = []*fabricStatus{}
	err = eachFabric(g, dir, names, func(file *state.File) error {
		s, err := statusOf(file)
		if err == nil {
			all = append(all, s)
		}
		return err
	})
	return all, err
}
