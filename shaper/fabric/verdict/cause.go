// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

type (
	// Cause says what made a run INVALID.
	Cause = status.Cause
	// Finding is one reason for INVALID.
	Finding = status.Finding
)

// The causes. The cause of a verdict is the first of these that a finding has, because it explains the later ones: if
// the fabric is taken down, its ranks fail; if ranks die, traffic is missing; if traffic goes around the links, times
// are not the times of the model; and if the model cannot represent the traffic, lateness says nothing about this host.
const (
	CauseFabric Cause = "fabric" // it was taken down or changed, or its counters are not of this job alone
	// ranks died, did not take part or computed wrong values, or what the job set prevents a check
	CauseJob    Cause = "job"
	CauseBypass Cause = "bypass" // traffic did not cross the emulated links
	CauseModel  Cause = "model"  // the link model cannot represent what happened, or differs from it
	CauseHost   Cause = "host"   // this host was too slow, too busy, or had too little memory
)

// precedence is the order of the causes, see there.
var precedence = []Cause{CauseFabric, CauseJob, CauseBypass, CauseModel, CauseHost}

// Load is how busy this host was while a job ran.
type Load struct {
	Runnable float64 `json:"runnable"` // threads of all programs that ran or waited for a processor, on average
	Cores    float64 `json:"cores"`    // that ddlemu and its job may use
}

func (l *Load) known() bool { return l != nil && l.Runnable > 0 }

func (l *Load) busy() bool { return l.known() && l.Runnable > l.Cores }

func (l *Load) String() string {
	return fmt.Sprintf("%.0f runnable on %.3g cores", l.Runnable, l.Cores)
}

// causes has the cause of each reason that participants set.
var causes = map[state.Reason]Cause{
	state.NotEmulated:   CauseBypass,
	state.SeveralRanks:  CauseBypass,
	state.SharedGPU:     CauseHost,
	state.NodesDiffer:   CauseBypass,
	state.PeerDied:      CauseJob,
	state.UnsafeLL128:   CauseJob,
	state.RingTooSmall:  CauseHost,
	state.ForeignHostID: CauseBypass,
	state.WireOverrun:   CauseHost,
	state.BelowFloor:    CauseHost,
	state.NotShaped:     CauseFabric,
	state.NotWaitedFor:  CauseHost,
	state.Deadlocked:    CauseJob,
}

// FromReasons returns a finding for each of the reasons that participants set.
func FromReasons(reasons state.Reason) []Finding {
	var out []Finding
	for _, r := range reasons.Split() {
		out = append(out, Finding{Cause: causes[r], Text: r.Words()[0]})
	}
	return out
}

// ViewOf is a job with the reasons that its participants set, and without its measured figures.
func ViewOf(j *status.Job) status.JobView {
	r := j.Counted.Reasons
	v := status.JobView{Job: *j, Judged: status.Judged{Reasons: append([]string{}, r.Words()...),
		Findings: append([]Finding{}, FromReasons(r)...)}}
	if j.Stopped > 0 {
		v.Reasons = append(v.Reasons, StoppedText(j.Stopped))
	}
	return v
}

// fromTraffic is FromReasons of all packets of a fabric, whose only participant is its daemon.
func fromTraffic(reasons state.Reason) []Finding {
	var out []Finding
	if reasons&state.PeerDied != 0 {
		reasons &^= state.PeerDied
		out = append(out, Finding{Cause: CauseFabric, Text: "the fabric's daemon died"})
	}
	for _, f := range FromReasons(reasons) {
		f.Slow = f.Cause == CauseHost
		out = append(out, f)
	}
	return out
}

// explains says whether f, rather than the finding o, is what a summary must say.
func explains(f, o *Finding) bool {
	if a, b := slices.Index(precedence, f.Cause), slices.Index(precedence, o.Cause); a != b {
		return a < b
	}
	if f.P99 != o.P99 {
		return f.P99
	}
	return f.Over > o.Over
}

// summaryOf says the cause of a verdict in a line. f is its most important finding.
func summaryOf(f *Finding, l *Load) string {
	text := cmp.Or(f.Figure, f.Text)
	switch {
	case f.Cause != CauseHost || !l.known():
		return fmt.Sprintf("%s: %s", f.Cause, text)
	case l.busy():
		return fmt.Sprintf("host busy: %v; %s", l, text)
	}
	return fmt.Sprintf("host too slow: %v; %s", l, text)
}

// shownFigures is the number of figures over their limits that Lines has without the rest.
const shownFigures = 3

// Lines are the reasons as a person reads them: the summary, each reason that is not about a figure, and the worst
// three links, then rows. The last line says how many more reasons there are, and that the option more shows them; if
// more is "", Lines has all of them. A VALID verdict has no lines, and reasons without findings are all there.
func (v *Verdict) Lines(more string) []string {
	if len(v.Findings) == 0 {
		return v.Reasons
	}
	lines := []string{v.Summary}
	rest := make([]Finding, 0, len(v.Findings))
	for i, f := range v.Findings {
		if i != v.first || f.Figure != "" || v.Word == Incomplete { // otherwise the summary has it
			rest = append(rest, f)
		}
	}
	hidden := 0
	if more != "" {
		rest, hidden = shown(rest)
	}
	for _, f := range rest {
		lines = append(lines, f.Text)
	}
	if hidden > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: %s", hidden, more))
	}
	return lines
}

// shown returns the findings that Lines shows, and the number of the others.
func shown(all []Finding) (out []Finding, hidden int) {
	var figures []Finding
	for _, f := range all {
		if f.Over > 0 {
			figures = append(figures, f)
		} else {
			out = append(out, f)
		}
	}
	// Links come first: a row is late because a link is.
	slices.SortStableFunc(figures, func(a, b Finding) int {
		if (a.Link == "") != (b.Link == "") {
			return cmp.Compare(b.Link, a.Link)
		}
		return cmp.Compare(b.Over, a.Over)
	})
	places := map[string]bool{}
	for _, f := range figures {
		place := cmp.Or(f.Link, f.Row)
		if len(places) == shownFigures || places[place] {
			hidden++
			continue
		}
		places[place] = true
		out = append(out, f)
	}
	return out, hidden
}
