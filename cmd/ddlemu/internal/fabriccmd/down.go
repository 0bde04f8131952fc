// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
)

// NewDownCommand is `ddlemu down`.
func NewDownCommand(g *cli.Global) *cobra.Command {
	all := false
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
		RunE: func(_ *cobra.Command, args []string) error { return runDown(g, strings.Join(args, ""), all) },
	}
	cmd.Flags().BoolVar(&all, "all", false,
		"take down every fabric but those that running commands made for themselves")
	g.AddFabricFlag(cmd.Flags())
	return cli.Ruled(cmd, cli.Excludes("all", "NAME fabric", ""))
}

// runDown takes down one fabric, the default one without a name, or all.
func runDown(g *cli.Global, name string, all bool) error {
	if name != "" && g.Fabric != "" && name != g.Fabric {
		return cli.BadInput("two fabrics are named, %s and %s: name one", name, g.Fabric)
	}
	dir, err := g.OpenDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		if all {
			fmt.Fprintln(g.Stdout, "no fabric is up")
			return nil
		}
		return g.NoFabric(cmp.Or(name, g.Named()))
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := namesToTakeDown(g, dir, name, all)
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

func namesToTakeDown(g *cli.Global, dir *state.Dir, name string, all bool) ([]string, error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	if all {
		return slices.DeleteFunc(names, func(name string) bool { return inPrivateUse(g, dir, name) }), nil
	}
	if name = cmp.Or(name, g.Named()); name == "" {
		if name, err = g.Default(dir); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, g.NoFabric("")
	}
	if !slices.Contains(names, name) {
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
		n := file.LiveRanks()
		if was = fmt.Sprintf("%d ranks were using it", n); n == 1 {
			was = "1 rank was using it"
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
