// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/job"
	"github.com/ddlemu/ddlemu/shaper/verdict"
)

// judgeRows adds reasons for rows with wrong values, or with times that the model excludes. If other jobs ran beside
// this one, a row may take longer than in the model, which does not include them.
func judgeRows(v *verdict.Verdict, result bench.Result, beside int) {
	longer := 0.0
	for _, r := range result.Rows {
		for _, m := range r.Measurements() {
			place := "out of place"
			if m.InPlace {
				place = "in place"
			}
			switch {
			case m.Checked && m.Wrong > 0:
				v.Add(false, fmt.Sprintf("%d bytes %s: %d wrong elements: %s", r.Size, place, m.Wrong, m.Mismatch))
			case m.Off && m.Diff > 0 && beside > 0:
				longer = max(longer, m.Diff)
			case m.Off && m.Diff > 0 && result.Virtual:
				v.Add(false, fmt.Sprintf("%d bytes %s took %v, %.1f %% more than the model's %v: the host cannot cause that with a virtual clock, so the model plays another schedule than NCCL", r.Size, place, m.Time.Round(10*time.Nanosecond), m.Diff, m.Expected.Round(10*time.Nanosecond)))
			case m.Off && m.Diff > 0:
				v.Add(true, fmt.Sprintf("%d bytes %s took %v, %.1f %% more than the model's %v: limited by this host", r.Size, place, m.Time.Round(10*time.Nanosecond), m.Diff, m.Expected.Round(10*time.Nanosecond)))
			case m.Off:
				v.Add(false, fmt.Sprintf("%d bytes %s took %v, %.1f %% less than the model's %v: some traffic went around the emulated links, or the model is wrong", r.Size, place, m.Time.Round(10*time.Nanosecond), -m.Diff, m.Expected.Round(10*time.Nanosecond)))
			}
		}
	}
	if longer > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("rows took up to %.1f %% more than expected: the expected time is for this job alone, and %s used the fabric at the same time", longer, units.Count(beside, "other job")))
	}
}

// unchecked adds what could not be checked; "" adds nothing.
func (o *Options) unchecked(v *verdict.Verdict, what string) {
	switch {
	case what == "":
	case o.Strict:
		v.Add(false, what)
	default:
		v.Notes = append(v.Notes, what)
	}
}

// withoutExpected says how many times have no expected time, and why. Rows that move nothing need none.
func withoutExpected(result bench.Result, problems []string) string {
	times, without := 0, 0
	for _, r := range result.Rows {
		for _, m := range r.Measurements() {
			if times++; !m.Known && r.Size > 0 {
				without++
			}
		}
	}
	if without == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d times have no expected time and are judged by their messages alone: %s", without, times, strings.Join(problems, "; "))
}

// withoutLog says what judgeConnections cannot check because it lacks NCCL's log; "" if it has the log.
func withoutLog(info bench.Info) string {
	if info.Topology != nil {
		return ""
	}
	return fmt.Sprintf("the nodes that NCCL counted and its connections are not checked: %s", cmp.Or(info.LogProblem, "NCCL's log does not tell: unset NCCL_DEBUG"))
}

// judgeConnections checks that NCCL counted the emulated nodes, and used the plugin between them.
func judgeConnections(v *verdict.Verdict, result bench.Result, nodes int) {
	if t := result.Info.Topology; t != nil && t.Nodes != nodes {
		v.Add(false, fmt.Sprintf("NCCL counted %d nodes, the ranks are on %d: some traffic went around the emulated links", t.Nodes, nodes))
	}
	for transport, n := range result.Transports {
		if strings.HasPrefix(transport, "NET/") && transport != "NET/goemu" {
			v.Add(false, fmt.Sprintf("%d connections went over %s, not over the plugin", n, transport))
		}
	}
}

// judgeTraffic checks that the NICs of each node carried at least the bytes that the collectives must move between the
// node and the others, for any schedule.
func judgeTraffic(v *verdict.Verdict, least map[int]job.Traffic, got []job.Traffic) {
	for node, g := range got {
		l := least[node]
		if g.Out < l.Out || g.In < l.In {
			v.Add(false, fmt.Sprintf("node%d sent %d bytes and received %d, the collectives need %d and %d at least: some traffic went around the emulated links", node, g.Out, g.In, l.Out, l.In))
		}
	}
}
