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
