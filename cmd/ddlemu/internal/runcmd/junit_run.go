// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// runSuite makes a test case of the command, of the verdict, and of each exit that was expected. err is why the run
// failed before there was a verdict; in is what the fabric had in force.
func runSuite(args []string, status int, in *configs.InForce, v *verdict.Verdict, err error) junit.Suite {
	const class = "run"
	s := junit.Suite{Name: class + " " + filepath.Base(args[0])}
	if err != nil {
		s.Cases = []junit.Case{failedCase(class, err)}
		return s
	}
	s.Properties = properties(v.Word, v.Cause, v.Summary, in, "profile", in.Profile)
	command, judged := junit.Case{Class: class, Name: "command"}, junit.Case{Class: class, Name: "verdict"}
	if status != 0 {
		command.Failure = &junit.Problem{Type: "status",
			Message: fmt.Sprintf("the command ended with status %d", status), Text: strings.Join(args, " ")}
	}
	switch {
	case v.Word == verdict.Incomplete:
		judged.Error = &junit.Problem{Type: verdict.Incomplete, Message: v.Summary}
	case !v.Valid:
		judged.Error = invalidProblem(v.Cause, v.Summary, v.Lines(cli.VerboseFlag))
	}
	s.Cases = []junit.Case{command, judged}
	for _, e := range v.Exits {
		c := junit.Case{Class: class, Name: fmt.Sprintf("rank %d exits", e.Rank)}
		if err := missedExits([]verdict.Exit{e}); err != nil {
			c.Failure = &junit.Problem{Type: expectExitFlag, Message: err.Error()}
		}
		s.Cases = append(s.Cases, c)
	}
	s.Out = strings.Join(v.Notes, "\n")
	return s
}
