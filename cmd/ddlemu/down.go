// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
)

type downOptions struct {
	Name string // empty for the default fabric
	All  bool
}

func (o *downOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.All, "all", false, "take down every fabric")
}

func newDownCommand(g *global) *cobra.Command {
	o := &downOptions{}
	cmd := &cobra.Command{
		Use:   "down [NAME | --all]",
		Short: "Take down a fabric",
		Long: `Take down a fabric: jobs on it get an error, and everything that belongs to it is
removed. The default is $DDLEMU_FABRIC or the only fabric that is up. A file that cannot
be used, such as one from before the last boot, is removed if it is named.

` + exitHelp,
		Example: `  ddlemu down
  ddlemu down lossy
  ddlemu down --all`,
		Args: atMostOneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Name = args[0]
			}
			return runDown(cmd.Context(), g, o)
		},
	}
	o.AddFlags(cmd.Flags())
	g.addFabricFlag(cmd.Flags())
	return cmd
}

// runDown takes down the fabrics that o names.
func runDown(_ context.Context, g *global, o *downOptions) error {
	if o.All && (o.Name != "" || g.Fabric != "") {
		return badInput("both a fabric and --all are given: give one of them")
	}
	if o.Name != "" && g.Fabric != "" && o.Name != g.Fabric {
		return badInput("two fabrics are named, %s and %s: name one", o.Name, g.Fabric)
	}
	dir, err := g.openDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		if o.All {
			fmt.Fprintln(g.Stdout, "no fabric is up")
			return nil
		}
		return g.noFabric(firstOf(o.Name, g.named()))
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := g.namesToTakeDown(dir, o)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, g.takeDown(dir, name))
	}
	if len(names) == 0 {
		fmt.Fprintln(g.Stdout, "no fabric is up")
	}
	return errors.Join(errs...)
}

func (g *global) namesToTakeDown(dir *state.Dir, o *downOptions) ([]string, error) {
	all, err := dir.Names()
	if err != nil {
		return nil, err
	}
	if o.All {
		return all, nil
	}
	name := firstOf(o.Name, g.named())
	if name == "" {
		if name, err = dir.Only(); err != nil {
			return nil, badInput("%w, as the argument, or give --all", err)
		}
	}
	if name == "" {
		return nil, g.noFabric("")
	}
	if !slices.Contains(all, name) {
		_, err := g.openIn(dir, name)
		return nil, err
	}
	return []string{name}, nil
}

// takeDown takes one fabric down in any state.
func (g *global) takeDown(dir *state.Dir, name string) error {
	was := "it was not usable any more"
	file, err := dir.Open(name)
	if err == nil {
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

// firstOf is the first of its arguments that is not empty.
func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}
