// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
)

func newWorkloadCheckCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Find calls of a workload that do not match, and ranks that wait for each other",
		Long: `Finds what would make a job fail or hang: collectives that differ between the ranks of a
communicator, in their order or their arguments; sends without a receive, or of another
size; ranks that wait for each other, with the operations of the cycle.

A call occupies its stream until it has ended, and the calls of a rank on one communicator
execute in the order in which it makes them. A send ends with its receive: NCCL may
buffer small messages, but does not promise to.

EXIT STATUS
===========

0 if all calls match, 1 if not, 2 for a file that is no workload, 130 if interrupted.
`,
		Example: `  ddlemu workload check job.jsonl
  ddlemu workload check job.jsonl --json`,
		Args: oneWorkload,
		RunE: func(cmd *cobra.Command, args []string) error { return runWorkloadCheck(cmd.Context(), g, args[0]) },
	}
	g.addJSONFlag(cmd.Flags())
	return cmd
}

func runWorkloadCheck(ctx context.Context, g *global, path string) error {
	ix, err := g.readWorkload(path)
	if err != nil {
		return err
	}
	found, err := check.Run(ctx, ix)
	if err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	if g.JSON {
		if found == nil {
			found = []check.Finding{}
		}
		if err := g.printJSON(struct {
			File     string          `json:"file"`
			OK       bool            `json:"ok"`
			Findings []check.Finding `json:"findings"`
		}{path, len(found) == 0, found}); err != nil {
			return err
		}
		if len(found) > 0 {
			return &exitError{Code: exitFailure}
		}
		return nil
	}
	for _, f := range found {
		ranks := "rank"
		if len(f.Ranks) > 1 {
			ranks = "ranks"
		}
		fmt.Fprintf(g.Stdout, "%s:%d: %s of %s %s: %s\n", path, f.Line, f.Kind, ranks, f.Ranks, f.Text)
		for _, w := range f.Chain {
			fmt.Fprintf(g.Stdout, "  line %d, rank %d: %s\n", w.Line, w.Rank, w.Text)
		}
	}
	if len(found) > 0 {
		return &exitError{exitFailure, fmt.Errorf("%s: %s", path, units.Count(len(found), "finding"))}
	}
	fmt.Fprintf(g.Stdout, "%s: %s of %s: all calls match\n", path, units.Count(len(ix.Workload.Ops), "operation"), units.Count(ix.Workload.Head.Ranks, "rank"))
	return nil
}
