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
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
)

type downOptions struct {
	Name string // empty for the default fabric
	All  bool
}

func (o *downOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.All, "all", false, "take down every fabric but those that running commands made for themselves")
}

// NewDownCommand is `ddlemu down`.
func NewDownCommand(g *cli.Global) *cobra.Command {
	o := &downOptions{}
	cmd := &cobra.Command{
		Use:   "down [NAME | --all]",
		Short: "Take down a fabric",
		Long: cli.Long("docs/jobs.md", `
Take down a fabric: jobs on it get an error, and everything that belongs to it is removed.
The default is $DDLEMU_FABRIC or the only fabric that a user brought up. A fabric that a running
command such as "ddlemu bench" made for itself must be named; --all leaves it. A file that cannot
be used, such as one from before the last boot, is removed if it is named.`),
		Example: `  ddlemu down
  ddlemu down lossy
  ddlemu down --all`,
		Args: cli.AtMostOneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Name = args[0]
			}
			return runDown(cmd.Context(), g, o)
		},
	}
	o.AddFlags(cmd.Flags())
	g.AddFabricFlag(cmd.Flags())
	return cli.Ruled(cmd, cli.Excludes("all", "NAME fabric", ""))
}

// runDown takes down the fabrics that o names.
func runDown(_ context.Context, g *cli.Global, o *downOptions) error {
	if o.Name != "" && g.Fabric != "" && o.Name != g.Fabric {
		return cli.BadInput("two fabrics are named, %s and %s: name one", o.Name, g.Fabric)
	}
	dir, err := g.OpenDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		if o.All {
			fmt.Fprintln(g.Stdout, "no fabric is up")
			return nil
		}
		return g.NoFabric(cmp.Or(o.Name, g.Named()))
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := namesToTakeDown(g, dir, o)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, takeDown(g, dir, name))
	}
	if len(names) == 0 {
		fmt.Fprintln(g.Stdout, "no fabric is up")
	}
	return errors.Join(errs...)
}

func namesToTakeDown(g *cli.Global, dir *state.Dir, o *downOptions) ([]string, error) {
	all, err := dir.Names()
	if err != nil {
		return nil, err
	}
	if o.All {
		return slices.DeleteFunc(all, func(name string) bool { return inPrivateUse(g, dir, name) }), nil
	}
	name := cmp.Or(o.Name, g.Named())
	if name == "" {
		if name, err = g.Default(dir); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, g.NoFabric("")
	}
	if !slices.Contains(all, name) {
		_, err := g.OpenIn(dir, name)
		return nil, err
	}
	return []string{name}, nil
}

// inPrivateUse reports whether the fabric called name is private to a command or a job that still runs, and says so.
func inPrivateUse(g *cli.Global, dir *state.Dir, name string) bool {
	owner := cli.OwnerInUse(dir, name)
	if owner != "" {
		g.Warn("fabric %s is left: it %s: `ddlemu down %[1]s` takes it down", name, owner)
	}
	return owner != ""
}

// takeDown takes one fabric down in any state.
func takeDown(g *cli.Global, dir *state.Dir, name string) error {
	was := "it was not usable any more"
	file, err := dir.Open(name)
	if err == nil {
		g.TellPrivate(file)
		if n := file.LiveRanks(); n == 1 {
			was = "1 rank was using it"
		} else {
			was = fmt.Sprintf("%d ranks were using it", n)
		}
		file.Event("down")
		file.TakeDown()
		if fab, ferr := fabricfile.Read(file); ferr == nil && fab.Config.OnKernel() {
			err = daemon.CleanUp(dir, file)
		}
		file.Close()
		if err != nil {
			return err
		}
	}
	if err := dir.Remove(name); err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "fabric %s is down: %s\n", name, was)
	return nil
}
