// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// unknown stands for a figure that is not known.
const unknown = "-"

// RateText is the rate: "38.2 Gbps".
func (h *HopActivity) RateText() string { return bps(h.RateBps) }

func bps(rate float64) string {
	if rate < 1 { // less is the rounding of what waits
		return "0"
	}
	return units.SI(rate) + "bps"
}

// MayCarryText is what the link may carry: "400Gbps", "unlimited", or "down".
func (h *HopActivity) MayCarryText() string {
	if !h.Up {
		return "down"
	}
	return units.Bandwidth(h.MayCarryBps).String()
}

// LoadText is the load: "12 %".
func (h *HopActivity) LoadText() string {
	if h.MayCarryBps == 0 {
		return unknown
	}
	return percent(100 * h.Load)
}

// percent has two digits: "0.05 %", "1.5 %", "97 %".
func percent(x float64) string {
	switch {
	case x < 0.005:
		return "0 %"
	case x < 0.95:
		return fmt.Sprintf("%.2f %%", x)
	case x < 9.95:
		return fmt.Sprintf("%.1f %%", x)
	}
	return fmt.Sprintf("%.0f %%", x)
}

// QueueText is how long a packet waits now.
func (h *HopActivity) QueueText() string {
	if h.QueueNs == nil {
		return unknown
	}
	return units.Short(time.Duration(*h.QueueNs))
}

// DropsText is all losses, and in brackets those between the samples: "120 (+3)".
func (h *HopActivity) DropsText() string {
	return sumText(fmt.Sprint(h.Drops), fmt.Sprint(h.New.Drops))
}

// CounterText is a counter, and in brackets how much it grew between the samples.
func (h *HopActivity) CounterText(c *link.Counter) string {
	return sumText(c.Text(&h.Counters), c.Text(&h.New))
}

func sumText(all, added string) string {
	if added == "0" {
		return all
	}
	return all + " (+" + added + ")"
}

// Columns are the counters with a column that is above 0 in some of the hops.
func Columns(hops []HopActivity) []link.Counter {
	return link.WithColumn(hops, func(h *HopActivity) *link.Counters { return &h.Counters })
}

// LateText is how late the messages between the samples were, of their time together, and 99 in 100 of them at most:
// "0.1 %, p99 1.2us".
func (h *HopActivity) LateText() string {
	if h.LateP99Us == nil {
		return unknown
	}
	p99 := "p99 " + units.Short(time.Duration(*h.LateP99Us*1e3))
	if h.LatePercent == nil {
		return p99
	}
	return percent(*h.LatePercent) + ", " + p99
}

// Line is the link as a line of text.
func (h *HopActivity) Line() string {
	kind := "link"
	if h.NIC != "" {
		kind = "port"
	}
	line := fmt.Sprintf("%s %s: rate %s of %s, load %s, queue %s, drops %s, late %s",
		kind, h.Name, h.RateText(), h.MayCarryText(), h.LoadText(), h.QueueText(), h.DropsText(), h.LateText())
	for _, c := range Columns([]HopActivity{*h}) {
		line += ", " + c.Column + " " + h.CounterText(&c)
	}
	return line
}

// State is running or over.
func (j *Job) State() string {
	if j.Running {
		return "running"
	}
	return "over"
}

// VerdictText is the verdict so far, without the reasons.
func (j *Job) VerdictText() string {
	switch {
	case j.Traffic:
		return "all traffic"
	case j.Verify:
		return "probes of verify"
	case j.Verdict == "":
		return "no verdict yet"
	case j.Running:
		return j.Verdict + " so far"
	}
	return j.Verdict
}

// RateText is the rate: "38.2 Gbps".
func (j *Job) RateText() string { return bps(*j.RateBps) }

// GoneText says how many ranks of a job left, died, or were stopped by the launcher.
func GoneText(left, died, stopped int) string {
	text := fmt.Sprintf("%d left, %d died", left, died)
	if stopped > 0 {
		text += fmt.Sprintf(", %d stopped", stopped)
	}
	return text
}

// Line is the job as a line of text.
func (j *Job) Line() string {
	what := "messages"
	if j.Traffic {
		what = "packets"
	}
	return fmt.Sprintf("job %d: %s, %d joined, %s; %s in %d %s, rate %s; %s",
		j.Number, j.State(), j.Joined, GoneText(j.Left, j.Died, j.Stopped), units.Volume(j.Bytes), j.Messages, what,
		j.RateText(), j.VerdictWithReason())
}

// VerdictWithReason is the verdict so far, the first reason, and how many others there are.
func (j *Job) VerdictWithReason() string {
	text := j.VerdictText()
	if len(j.Reasons) > 0 {
		text += ": " + j.Reasons[0]
	}
	if more := len(j.Reasons) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// ClockText says what the fabric's clock shows, and how fast it runs.
func (v *View) ClockText() string {
	text := fmt.Sprintf("clock %s at %s, ", v.Clock, units.Short(v.Time))
	if v.Ns <= 0 {
		return text + "stands still"
	}
	return text + fmt.Sprintf("%s s per real second", ratio(v.Ratio))
}

// ratio has three digits, without an exponent.
func ratio(x float64) string {
	if x < 0.0001 {
		return fmt.Sprintf("%.2g", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// ActivityText says how many links are active, and how many jobs run.
func (v *View) ActivityText() string {
	active, running := 0, 0
	for i := range v.Links {
		if v.Links[i].Active() {
			active++
		}
	}
	for i := range v.Jobs {
		if v.Jobs[i].Running && !v.Jobs[i].Traffic {
			running++
		}
	}
	return fmt.Sprintf("%d of %s active, %s running", active, units.Count(len(v.Links), "link"),
		units.Count(running, "job"))
}

// Lines are v as lines of text: a heading, the links that are active, the ports that dropped packets, the jobs
// that run or have just ended.
func (v *View) Lines() []string {
	at := "+" + v.Up.Round(100*time.Millisecond).String() + " "
	lines := []string{at + "fabric " + v.Name + ": " + v.ClockText() + "; " + v.ActivityText()}
	if v.Problem != "" {
		lines = append(lines, at+"fabric "+v.Name+": "+v.Problem)
	}
	hops := v.Shown("", false)
	for i := range hops {
		if hops[i].Active() {
			lines = append(lines, at+hops[i].Line())
		}
	}
	for i := range v.Jobs {
		if !v.Jobs[i].over {
			lines = append(lines, at+v.Jobs[i].Line())
		}
	}
	return lines
}
