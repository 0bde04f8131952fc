// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

type statusOptions struct {
	Last  bool
	Watch string // the interval, empty to print the state once
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
				return runStatus(g, o.Last)
			}
			interval, err := o.interval(args)
			if err != nil {
				return err
			}
			return runWatch(cmd.Context(), g, interval)
		},
	}
	cmd.Flags().BoolVar(&o.Last, "last", false,
		"show the last job, also after its processes were killed, with its verdict")
	cmd.Flags().StringVar(&o.Watch, "watch", "", "print what the fabric does, every `interval` (default 1s)")
	cmd.Flags().Lookup("watch").NoOptDefVal = defaultInterval.String()
	g.AddFabricFlag(cmd.Flags())
	g.AddJSONFlag(cmd.Flags())
	g.AddVerboseFlag(cmd.Flags())
	return cli.Ruled(cmd, cli.AtMostOne("last watch", ""))
}

// runStatus prints the state of one fabric or of all fabrics.
func runStatus(g *cli.Global, last bool) error {
	dir, names, err := openFabrics(g)
	if err != nil {
		return err
	}
	defer dir.Close()
	switch {
	case last:
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

// interval is the interval of --watch. Its value may also be the argument of the command, because pflag takes a value
// that may be left out only after an equals sign.
func (o *statusOptions) interval(args []string) (time.Duration, error) {
	text := o.Watch
	if len(args) > 0 {
		text = args[0]
	}
	return parseInterval("--watch", text)
}
