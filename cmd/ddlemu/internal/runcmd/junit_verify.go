// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/junit"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// verifySuite makes a test case of each link that was measured, of all links together, of the incast, and of the fabric
// for all that is none of these. err is why the run ended early, if it did; r is nil if there is no report.
func verifySuite(fabric string, r *verify.Report, err error) junit.Suite {
	const class = "verify"
	s := junit.Suite{Name: class + " " + fabric}
	if r == nil {
		s.Cases = ending(class, "", "", err)
		return s
	}
	s.Properties = properties(r.Verdict, r.Cause, r.Summary, &r.InForce, "fabric", r.Fabric, "profile", r.Profile,
		"clock", r.Clock, "time_scale", strconv.Itoa(r.TimeScale), "seed", strconv.FormatUint(r.Seed, 10))
	s.Out = strings.Join(r.Notes, "\n")
	reported := map[string]bool{} // reasons that a case has
	add := func(name string, problems []string) {
		c := junit.Case{Class: class, Name: name}
		if len(problems) > 0 {
			c.Error = invalidProblem(causeOf(r.Findings, problems[0]), problems[0], problems)
		}
		for _, p := range problems {
			reported[p] = true
		}
		s.Cases = append(s.Cases, c)
	}
	for i := range r.Links {
		add(r.Links[i].Name, r.Links[i].Problems)
	}
	for _, shared := range []struct {
		name string
		of   *verify.Shared
	}{{"all to all", r.Together}, {"incast", r.Incast}} {
		if shared.of != nil {
			add(shared.name, shared.of.Problems)
		}
	}
	if early := ending(class, r.Verdict, r.Summary, err); early != nil {
		s.Cases = append(s.Cases, early...)
		return s
	}
	var rest []string
	for _, reason := range r.Reasons {
		if !reported[reason] {
			rest = append(rest, reason)
		}
	}
	add("fabric", rest)
	return s
}

// causeOf is the cause of a reason.
func causeOf(findings []verdict.Finding, reason string) verdict.Cause {
	for _, f := range findings {
		if f.Text == reason {
			return f.Cause
		}
	}
	return verdict.CauseModel
}
