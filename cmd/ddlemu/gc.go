// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/job"
)

func newGCCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what killed jobs left behind",
		Long: `Remove fabrics that nobody can use any more: those that a job or command made for
itself and whose processes have all ended, and files that are damaged or from another
boot or version. Remove what remains of fabrics of the kernel datapath whose daemon has
ended, and the logs of killed benches. Fabrics that a user brought up are kept.

` + exitHelp,
		Example: `  ddlemu gc`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runGC(cmd.Context(), g) },
	}
	return cmd
}

// runGC removes what nobody uses any more.
func runGC(_ context.Context, g *global) error {
	uid, err := g.uid()
	if err != nil {
		return err
	}
	count := 0
	removed := func(what, why string) {
		fmt.Fprintf(g.Stdout, "removed %s: %s\n", what, why)
		count++
	}
	dir, err := g.openDir(false)
	if err == nil {
		err = errors.Join(job.RemoveAbandoned(dir, removed), dir.Close())
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	if err := job.RemoveNamespaces(g.dirPath(uid), func(name string) { removed("network namespace "+name, "its fabric is gone") }); err != nil {
		return err
	}
	logs, err := bench.RemoveLeftLogs()
	for _, path := range logs {
		removed(path, "its run was killed")
	}
	if err == nil && count == 0 {
		fmt.Fprintln(g.Stdout, "nothing to remove")
	}
	return err
}
