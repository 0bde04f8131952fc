// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// printVerify prints what was asked for and what was measured, the reasons, and the verdict in the last line. more is
// the option that shows all reasons, see [verdict.Verdict.Lines].
func printVerify(w io.Writer, r *verify.Report, more string) {
	clock := fmt.Sprintf("time scale %d", r.TimeScale)
	if r.Exact != nil {
		clock = "virtual clock"
	}
	fmt.Fprintf(w, "fabric %s (%s), %s, seed %d, measured for %.1f s\n", r.Fabric, r.Profile, clock, r.Seed,
		r.Seconds)
	if r.InForce.Text != "" {
		fmt.Fprintf(w, "in force: %s\n", r.InForce.Text)
	}
	fmt.Fprintln(w)
	t := cli.NewTable(w, "link", "model Gb/s ", "got ", "off % ", "asked us ", "p50 ", "off ", "late p99 ", "seen ",
		"lost packets", "")
	for i := range r.Links {
		l := &r.Links[i]
		asked, off, lost := "unlimited", "", ""
		if l.Rate.Asked > 0 {
			asked, off = cli.Gbps(l.Rate.Model), fmt.Sprintf("%+.2f", l.Rate.Error)
		}
		got := cli.Gbps(l.Rate.Got)
		if l.Rate.Got == 0 {
			got, off = "-", ""
		}
		p50, late, worst, seen := "-", "-", "-", "-"
		if l.Latency.Known > 0 {
			p50, late, worst, seen = verify.Digits(l.Latency.P50), fmt.Sprintf("%+.3f", l.Latency.Error),
				verify.Digits(l.Latency.LateP99), verify.Digits(l.Latency.SeenP99)
		}
		if l.Loss != nil {
			lost = fmt.Sprintf("%d, asked %.4g", l.Loss.Got, l.Loss.Asked)
		}
		t.AppendRow(table.Row{l.Name, asked, got, off, verify.Digits(l.Latency.Asked), p50, late, worst, seen, lost,
			okOr(l.Problems)})
	}
	t.Render()
	for i := range r.Links {
		if l := &r.Links[i]; l.Jitter != nil {
			printJitter(w, r.Links)
			break
		}
	}
	printShared(w, "all to all", r.Together)
	printShared(w, "incast", r.Incast)
	fmt.Fprintln(w)
	if e := r.Exact; e != nil {
		fmt.Fprintf(w, "%d of %d messages were visible at the model's time, to the ns\n", e.Messages-e.Off, e.Messages)
	}
	lines.Print(w, "note: %s\n", r.Notes)
	lines.Print(w, "ddlemu: %s\n", r.Conclusion.Lines(more))
	if r.Needed > 0 {
		fmt.Fprintf(w,
			"ddlemu: if this host is too slow, take the fabric down with `ddlemu down %s`, and repeat your `ddlemu "+
				"up` with --set time_scale=%d\n", r.Fabric, r.Needed)
	}
	fmt.Fprintf(w, "verdict: %s\n", r.Verdict)
}

func printJitter(w io.Writer, links []verify.Link) {
	fmt.Fprint(w, "\nwith jitter the distribution is judged instead of p50:\n")
	header := []string{"link"}
	for _, l := range links {
		if l.Jitter == nil {
			continue
		}
		for _, q := range l.Jitter.Quantiles {
			header = append(header, fmt.Sprintf("p%.3g us ", 100*q.Q))
		}
		break
	}
	t := cli.NewTable(w, append(header, "distance ", "limit ")...)
	for _, l := range links {
		if l.Jitter == nil {
			continue
		}
		row := table.Row{l.Name}
		for _, q := range l.Jitter.Quantiles {
			row = append(row, fmt.Sprintf("%s of %s", verify.Digits(q.Got), verify.Digits(q.Asked)))
		}
		t.AppendRow(append(row, fmt.Sprintf("%.3f", l.Jitter.Distance), fmt.Sprintf("%.3f", l.Jitter.Limit)))
	}
	t.Render()
}

func printShared(w io.Writer, what string, s *verify.Shared) {
	if s == nil {
		return
	}
	each := "single flows are not judged"
	if s.Judged {
		each = fmt.Sprintf("flows off by %+.2f to %+.2f %%, fairness relative to the model %.4f", s.Low, s.High,
			s.Fairness)
	}
	fmt.Fprintf(w, "\n%s, %s: %s of %s Gb/s (%+.2f %%), %s  %s\n", what, units.Count(len(s.Flows), "flow"),
		cli.Gbps(s.Got), cli.Gbps(s.Model), s.Error, each, okOr(s.Problems))
	if what != "incast" {
		return
	}
	for _, f := range s.Flows {
		fmt.Fprintf(w, "  %s %s Gb/s, %.2f %% of all\n", f.Name, cli.Gbps(f.Got), 100*f.Share)
	}
}

func okOr(problems []string) string {
	if len(problems) == 0 {
		return "ok"
	}
	return "OFF"
}
