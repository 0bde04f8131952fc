// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// circumstances are what the expected times do not include.
type circumstances struct {
	beside  int  // other jobs that ran beside this one
	changed bool // links were changed while it ran
}

// judgeRows adds reasons for rows with wrong values, or with times that the model excludes, unless the links were
// changed.
func judgeRows(v *verdict.Verdict, result bench.Result, c circumstances) {
	longer := 0.0
	for _, r := range result.Rows {
		for _, m := range r.Measurements() {
			switch {
			case m.Checked && m.Wrong > 0:
				v.Add(verdict.Finding{Cause: verdict.CauseJob, Row: rowOf(r, m),
					Text: fmt.Sprintf("%s: %d wrong elements: %s", rowOf(r, m), m.Wrong, m.Mismatch)})
			case m.Off && c.changed:
				// JudgeLinkChanges tells that expected times no longer hold.
			case m.Off && m.Diff > 0 && c.beside > 0:
				longer = max(longer, m.Diff)
			case m.Off:
				v.Add(offFinding(rowOf(r, m), m, result.Virtual))
			}
		}
	}
	if longer > 0 {
		v.Notes = append(v.Notes,
			fmt.Sprintf(
				"rows took up to %.1f %% more than expected: the expected time is for this job alone, and %s used the "+
					"fabric at the same time", longer, units.Count(c.beside, "other job")))
	}
}

// rowOf names a half of a row.
func rowOf(r bench.Row, m bench.Measurement) string {
	return fmt.Sprintf("%d bytes %s", r.Size, bench.Place(m.InPlace))
}

// offFinding says what a time means that is not the expected one.
func offFinding(row string, m bench.Measurement, virtual bool) verdict.Finding {
	f := verdict.Finding{Cause: verdict.CauseHost, Row: row, Over: math.Abs(m.Diff) / (bench.OffPercent + m.Spread),
		Slow: true}
	than, why := "more", "limited by this host"
	switch {
	case m.Diff <= 0:
		f.Cause, f.Slow = verdict.CauseModel, false
		than, why = "less", "some traffic went around the emulated links, or the model is wrong"
	case virtual:
		f.Cause, f.Slow = verdict.CauseModel, false
		why = "the host cannot cause that with a virtual clock, so the model plays another schedule than NCCL"
	}
	const unit = 10 * time.Nanosecond
	f.Figure = fmt.Sprintf("%s took %.1f %% %s time than expected, wanted at most %.3g %%", row, math.Abs(m.Diff), than,
		bench.OffPercent+m.Spread)
	f.Text = fmt.Sprintf("%s took %v, %.1f %% %s than the model's %v: %s", row, m.Time.Round(unit), math.Abs(m.Diff),
		than, m.Expected.Round(unit), why)
	return f
}

// Unchecked adds what could not be checked, because of cause; "" adds nothing. It is a reason for INVALID if the run is
// strict, else a note.
func (o *Options) Unchecked(v *verdict.Verdict, cause verdict.Cause, what string) {
	switch {
	case what == "":
	case o.Strict:
		v.Add(verdict.Finding{Cause: cause, Text: what})
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
	return fmt.Sprintf("%d of %d times have no expected time and are judged by their messages alone: %s", without,
		times, strings.Join(problems, "; "))
}

// withoutLog says what cannot be checked of the connections because it lacks NCCL's log; "" if it has the log.
func withoutLog(info bench.Info) string {
	if info.Topology != nil {
		return ""
	}
	return fmt.Sprintf("the nodes that NCCL counted and its connections are not checked: %s",
		cmp.Or(info.LogProblem, "NCCL's log does not tell: unset NCCL_DEBUG"))
}

// JudgeConnections checks that NCCL counted the emulated nodes of a communicator, and used the plugin between them. t
// is nil if its log does not tell.
func JudgeConnections(v *verdict.Verdict, t *nccllog.Topology, transports map[string]int, nodes int) {
	if t != nil && t.Nodes != nodes {
		bypass(v, "NCCL counted %d nodes, the ranks are on %d: some traffic went around the emulated links", t.Nodes,
			nodes)
	}
	for transport, n := range transports {
		if strings.HasPrefix(transport, "NET/") && transport != "NET/goemu" {
			bypass(v, "%d connections went over %s, not over the plugin", n, transport)
		}
	}
}

// JudgeTraffic checks that the NICs of each node carried at least the bytes that the collectives must move between the
// node and the others, for any schedule.
func JudgeTraffic(v *verdict.Verdict, least map[int]job.Traffic, got []job.Traffic) {
	for node, g := range got {
		l := least[node]
		if g.Out < l.Out || g.In < l.In {
			bypass(v,
				"node%d sent %d bytes and received %d, the collectives need %d and %d at least: some traffic went "+
					"around the emulated links", node, g.Out, g.In, l.Out, l.In)
		}
	}
}

// bypass adds that traffic went around the emulated links.
func bypass(v *verdict.Verdict, format string, args ...any) {
	v.Add(verdict.Finding{Cause: verdict.CauseBypass, Text: fmt.Sprintf(format, args...)})
}
