// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// newGuardCommand returns the command that ends the programs of a job if `ddlemu run` is killed. Users do not call it.
func newGuardCommand(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:    job.GuardCommand + " JOB",
		Short:  "End the programs of a job if the command that runs it is killed (started by run)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			ended, err := job.Guard(g.Stdin, args[0])
			if ended > 0 {
				fmt.Fprintf(g.Stderr,
					"ddlemu: run was killed: ended %s that it had started; `ddlemu gc` removes the fabric\n",
					units.Count(ended, "program"))
			}
			return err
		},
	}
}
