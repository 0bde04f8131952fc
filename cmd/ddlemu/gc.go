// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/bringup"
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
another boot or version; what is left of fabrics of the kernel datapath whose daemon
is gone; and logs of benches that were killed. Fabrics that somebody brought up stay.

` + exitHelp,
		Example: `  ddlemu gc`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runGC(cmd.Context(), g) },
	}
	return cmd
}

// runGC removes what is left over.
func runGC(_ context.Context, g *global) error {
	uid, err := g.uid()
	if err != nil {
		return err
	}
	removed, err := g.gcFabrics()
	if err != nil {
		return err
	}
	orphans, err := removeOrphans(g.dirPath(uid))
	if err != nil {
		return err
	}
	for _, name := range orphans {
		fmt.Fprintf(g.Stdout, "removed network namespace %s: its fabric is gone\n", name)
	}
	logs, err := bench.RemoveLeftLogs()
	if err != nil {
		return err
	}
	for _, path := range logs {
		fmt.Fprintf(g.Stdout, "removed %s: its run was killed\n", path)
	}
	if removed+len(orphans)+len(logs) == 0 {
		fmt.Fprintln(g.Stdout, "nothing to remove")
	}
	return nil
}

// gcFabrics removes the fabrics that nobody can use and returns their number.
func (g *global) gcFabrics() (removed int, err error) {
	dir, err := g.openDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		why, err := leftOver(dir, name)
		if err != nil {
			return removed, err
		}
		if why == "" {
			continue
		}
		if err := dir.Remove(name); err != nil {
			return removed, err
		}
		fmt.Fprintf(g.Stdout, "removed %s: %s\n", name, why)
		removed++
	}
	return removed, nil
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
	fab, err := file.Fabric()
	if errors.Is(err, state.ErrNotUsable) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	why := forsakenWhy(file, fab)
	if why != "" && fab.Config.OnKernel() {
		file.TakeDown()
		return why, bringup.End(dir, file)
	}
	return why, nil
}

// forsakenWhy says why nobody can use a fabric any more, "" if somebody can.
func forsakenWhy(file *state.File, fab *fabric.Fabric) string {
	name := file.Name()
	switch {
	case fab.Config.OnKernel() && !file.Served() && !file.Owned():
		return "its daemon is gone"
	case strings.HasPrefix(name, state.AdHocPrefix) && forsaken(file):
		return "its job is gone"
	case strings.HasPrefix(name, state.JobPrefix) && !file.Owned() && forsaken(file):
		return "the command that made it is gone"
	}
	return ""
}

// removeOrphans removes the namespaces of fabrics in the folder dir whose files are
// gone.
func removeOrphans(dir string) ([]string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find folder %s: %w", dir, err)
	}
	all, err := netns.List(plan.DirTag(abs))
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, name := range all {
		fabric, ok := plan.FabricOf(abs, name)
		if !ok {
			continue
		}
		if _, err := os.Lstat(filepath.Join(abs, fabric+state.Suffix)); !errors.Is(err, fs.ErrNotExist) {
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
		if j.Traffic() {
			continue // the daemon's own, which goes with the fabric
		}
		s := j.Status()
		if s.Joined > 0 && s.Running {
			return false
		}
		joined = joined || s.Joined > 0
	}
	return joined || time.Duration(state.Now()-file.Fixed().Created) > joining
}
