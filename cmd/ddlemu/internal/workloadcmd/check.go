// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
)

func newWorkloadCheckCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Find calls of workloads that do not match, and ranks that wait for each other",
		Long: `Find what would make a job fail or hang: collectives that differ between the ranks of a
communicator, sends without a receive or of another size, and ranks that wait for each other, with
the cycle. A send ends with its receive: NCCL may buffer small messages, but does not promise to.

` + cli.ExitCheckHelp + `
Page: docs/workloads.md`,
		Example: `  ddlemu workload check job.jsonl
  ddlemu workload check job.jsonl --json`,
		Args: cli.AtLeast(1, "check takes at least one workload: see `ddlemu workload check --help`"),
		RunE: func(cmd *cobra.Command, args []string) error { return runWorkloadCheck(cmd.Context(), g, args) },
	}
	g.AddJSONFlag(cmd.Flags())
	return cmd
}

// checkedWorkload is the result for one file, for --json.
type checkedWorkload struct {
	File     string          `json:"file"`
	OK       bool            `json:"ok"`
	Error    string          `json:"error,omitempty"` // the file could not be read
	Findings []check.Finding `json:"findings"`
}

func runWorkloadCheck(ctx context.Context, g *cli.Global, paths []string) error {
	return cli.CheckFiles(g, paths, func(path string, w io.Writer) (d checkedWorkload, good bool, err error) {
		ix, err := ReadWorkload(g, path)
		if err != nil {
			return checkedWorkload{File: path, Error: err.Error(), Findings: []check.Finding{}}, false, err
		}
		found, err := check.Run(ctx, ix)
		if err != nil {
			return d, false, fmt.Errorf("check %s: %w", path, err)
		}
		printWorkloadFindings(w, path, ix, found)
		good = len(found) == 0
		return checkedWorkload{File: path, OK: good, Findings: append([]check.Finding{}, found...)}, good, nil
	})
}

func printWorkloadFindings(w io.Writer, path string, ix *workload.Index, found []check.Finding) {
	for _, f := range found {
		ranks := "rank"
		if len(f.Ranks) > 1 {
			ranks = "ranks"
		}
		fmt.Fprintf(w, "%s:%d: %s of %s %s: %s\n", path, f.Line, f.Kind, ranks, f.Ranks, f.Text)
		for _, wait := range f.Chain {
			fmt.Fprintf(w, "  line %d, rank %d: %s\n", wait.Line, wait.Rank, wait.Text)
		}
	}
	if len(found) > 0 {
		fmt.Fprintf(w, "%s: %s\n", path, units.Count(len(found), "finding"))
	} else {
		fmt.Fprintf(w, "%s: %s of %s: all calls match\n", path, units.Count(len(ix.Workload.Ops), "operation"),
			units.Count(ix.Workload.Head.Ranks, "rank"))
	}
}
