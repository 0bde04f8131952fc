// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/steps"
)

// replaySuite makes a test case of each step. r is nil if there is no result; err is why the replay ended early, if it
// did.
func replaySuite(path string, r *steps.Result, err error) junit.Suite {
	const class = "replay"
	s := junit.Suite{Name: "replay " + filepath.Base(path)}
	if r == nil {
		s.Cases = []junit.Case{failedCase(class, err)}
		return s
	}
	report, v := r.Report(), &r.Verdict
	s.Properties = properties(v.Word, v.Cause, v.Summary, &report.Fabric,
		"profile", report.Profile, "nccl", report.NCCL, "cuda", report.CUDA, "datapath", report.Datapath, "clock",
		report.Clock, "time_scale", number(float64(report.TimeScale)), "ranks", strconv.Itoa(report.Ranks), "nodes",
		number(float64(report.Nodes)))
	for i := range max(len(r.Steps), r.Interrupted) {
		c := junit.Case{Class: class, Name: fmt.Sprintf("step %d", i+1)}
		switch {
		case i >= len(r.Steps):
			c.Skipped = "not played"
		default:
			c.Time = r.Steps[i].Time
			judgeStep(&c, r, i)
		}
		s.Cases = append(s.Cases, c)
	}
	s.Cases = append(s.Cases, ending(class, v.Word, v.Summary, err)...)
	s.Out = strings.Join(report.Notes, "\n")
	return s
}

// judgeStep sets the failure or the error of step number i. Values are compared for the whole replay.
func judgeStep(c *junit.Case, r *steps.Result, i int) {
	switch v := &r.Verdict; {
	case r.Wrong > 0:
		c.Failure = &junit.Problem{Type: "wrong", Message: units.Count(int(r.Wrong), "wrong element")}
	case v.Word != "VALID" && v.Word != verdict.Incomplete:
		c.Error = invalidProblem(v.Cause, v.Summary, v.Lines(cli.VerboseFlag))
	case r.Baseline.SlowerAt(i) != nil:
		c.Failure = &junit.Problem{Type: "baseline", Message: r.Baseline.SlowerAt(i).String()}
	}
}
