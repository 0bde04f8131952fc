// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// validateSuite makes a test case of each row of the table, named by its size. err is why the run ended early, if it
// did; r is nil if there is no report.
func validateSuite(name string, r *validate.Report, err error) junit.Suite {
	class := "validate." + name
	s := junit.Suite{Name: "validate " + name}
	if r == nil {
		s.Cases = ending(class, "", "", err)
		return s
	}
	s.Properties = properties(r.Verdict, r.Cause, r.Summary, &r.Fabric, "profile", r.Profile, "nccl", r.NCCL, "cuda",
		r.CUDA, "system", r.System, "source", r.Source)
	bytes := func(size int64) string { return fmt.Sprintf("%d bytes", size) }
	for _, l := range r.Lines {
		got := cmp.Or(l.Emulated, l.Expected)
		c := junit.Case{Class: class, Name: bytes(l.Size), Time: time.Duration(got * float64(time.Microsecond))}
		switch {
		case r.Verdict == "INVALID":
			c.Error = invalidProblem(r.Cause, r.Summary, r.Conclusion.Lines(cli.VerboseFlag))
		case !l.Within:
			c.Failure = &junit.Problem{Type: "limit",
				Message: fmt.Sprintf("%s us, published %s us: %+.1f %%, the limit is %g %%", cli.Us(got),
					cli.Us(l.Published), l.Error, l.Limit)}
		}
		s.Cases = append(s.Cases, c)
	}
	for _, l := range r.LeftOut {
		s.Cases = append(s.Cases, junit.Case{Class: class, Name: bytes(l.Size), Skipped: l.Reason})
	}
	s.Cases = append(s.Cases, ending(class, r.Verdict, r.Summary, err)...)
	return s
}
