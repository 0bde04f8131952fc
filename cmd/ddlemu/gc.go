// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/shaper/kernel/build"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/plan"
	"github.com/ddlemu/ddlemu/shaper/state"
)

func newGCCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what dead jobs left",
		Long: `Remove the fabrics that nobody can use any more: those that jobs made for
themselves, or commands for them, and whose processes are all gone, and files that are damaged or from
another boot or version. Fabrics that somebody brought up stay.

` + exitHelp,
		Example: `  ddlemu gc`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runGC(cmd.Context(), g) },
	}
	return cmd
}

// runGC removes what is left over.
func runGC(_ context.Context, g *global) error {
	dir, err := g.openDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(g.Stdout, "nothing to remove")
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return err
	}
	removed := 0
	for _, name := range names {
		why, err := leftOver(dir, name)
		if err != nil {
			return err
		}
		if why == "" {
			continue
		}
		if err := dir.Remove(name); err != nil {
			return err
		}
		fmt.Fprintf(g.Stdout, "removed %s: %s\n", name, why)
		removed++
	}
	orphans, err := removeOrphans(dir)
	if err != nil {
		return err
	}
	for _, name := range orphans {
		fmt.Fprintf(g.Stdout, "removed network namespace %s: its fabric is gone\n", name)
		removed++
	}
	if removed == 0 {
		fmt.Fprintln(g.Stdout, "nothing to remove")
	}
	return nil
}

// leftOver says why the fabric called name can go, "" if it must stay.
func leftOver(dir *state.Dir, name string) (string, error) {
	file, err := dir.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil // somebody was faster
	case errors.Is(err, state.ErrNotUsable):
		return err.Error(), nil
	case err != nil:
		return "", err
	}
	defer file.Close()
	if file.Down() || !file.Served() && !file.Owned() {
		if gone, err := deadKernel(dir, file); gone || err != nil {
			return "its daemon is gone", err
		}
	}
	if strings.HasPrefix(name, state.AdHocPrefix) && forsaken(file) {
		return "its job is gone", nil
	}
	if strings.HasPrefix(name, state.JobPrefix) && !file.Owned() && forsaken(file) {
		return "the command that made it is gone", nil
	}
	return "", nil
}

// deadKernel removes what a fabric without a daemon has in the kernel, and says
// whether it had one.
func deadKernel(dir *state.Dir, file *state.File) (bool, error) {
	fab, err := file.Fabric()
	if err != nil || !fab.Config.OnKernel() {
		return false, nil // a file that cannot be read back is no fabric of this version
	}
	file.TakeDown()
	return true, endKernel(dir, file)
}

// removeOrphans removes the namespaces of fabrics whose files are gone.
func removeOrphans(dir *state.Dir) ([]string, error) {
	abs, err := filepath.Abs(dir.Path)
	if err != nil {
		return nil, err
	}
	all, err := netns.List(plan.DirTag(abs))
	if err != nil {
		return nil, err
	}
	fabrics, err := dir.Names()
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, name := range all {
		fabric, ok := plan.FabricOf(abs, name)
		if !ok || slices.Contains(fabrics, fabric) {
			continue
		}
		if err := build.RemoveNamespace(name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// joining is longer than a job takes from making its fabric to joining it.
const joining = 10 * time.Second

// forsaken says whether nobody takes part in a fabric that a job made for itself,
// nor is about to.
func forsaken(file *state.File) bool {
	file.Reap()
	if aliveIn(file) > 0 {
		return false
	}
	joined := false
	for _, j := range file.Jobs() {
		s := j.Status()
		if s.Joined > 0 && s.Running {
			return false
		}
		joined = joined || s.Joined > 0
	}
	return joined || time.Duration(state.Now()-file.Fixed().Created) > joining
}
