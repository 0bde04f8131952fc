// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/watch"
)

var (
	bold  = lipgloss.NewStyle().Bold(true)
	heads = lipgloss.NewStyle().Reverse(true)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
)

// Lines that are always there: two at the top and one at the bottom.
const fixedLines = 3

// View draws the screen. No line is wider than the terminal, and there are no more lines than it has.
func (m Model) View() tea.View {
	lines := []string{}
	if m.width > 0 && m.height > 0 {
		lines = m.lines()
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "")
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}

func (m Model) lines() []string {
	if m.view == nil {
		return []string{bold.Render("fabric " + m.fabric)}
	}
	status := m.view.ActivityText()
	if m.view.Problem != "" {
		status = bad.Render(m.view.Problem)
	}
	lines := []string{bold.Render("fabric "+m.fabric+": ") + status, m.view.ClockText()}
	if m.verdicts {
		all := m.verdictLines()
		lines = append(lines, all[m.scroll:min(m.scroll+m.page(), len(all))]...)
	} else {
		lines = append(lines, m.jobLines()...)
		lines = append(lines, m.linkLines()...)
	}
	if len(lines) >= m.height {
		lines = lines[:max(m.height-1, 0)]
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines, m.footer())
}

func (m Model) footer() string {
	if m.typing {
		return "part of a name: " + m.filter + "_"
	}
	text := "q quit  s sort  / filter  p ports  v verdicts  r reverse"
	if m.filter != "" {
		text = "names with " + m.filter + " (esc: all)  " + text
	}
	return lipgloss.NewStyle().Faint(true).Render(text)
}

// jobRows is how many jobs are listed beside the links: those that run, and the one that was over last, whose verdict
// is news. They are at most a quarter of the screen.
func (m Model) jobRows() int {
	if m.view == nil || m.height < fixedLines+4 {
		return 0
	}
	n := 0
	for i := range m.view.Jobs {
		if m.view.Jobs[i].Running {
			n++
		}
	}
	return min(len(m.view.Jobs), n+1, max((m.height-fixedLines)/4, 1))
}

// page is how many rows can be scrolled through at once.
func (m Model) page() int {
	n := m.height - fixedLines
	if !m.verdicts {
		n-- // the heads of the links
		if jobs := m.jobRows(); jobs > 0 {
			n -= jobs + 1
		}
	}
	return max(n, 1)
}

// rows is how many rows there are to scroll through.
func (m Model) rows() int {
	if m.view == nil {
		return 0
	}
	if m.verdicts {
		return len(m.verdictLines())
	}
	return len(m.hops)
}

func (m Model) linkLines() []string {
	hops := m.hops
	shown := hops[min(m.scroll, len(hops)):min(m.scroll+m.page(), len(hops))]
	columns := slices.Clone(linkColumns)
	for _, c := range watch.Columns(hops) {
		columns = append(columns, column[watch.HopActivity]{
			head: c.Column, by: -1, right: true, least: len(c.Column), rank: 5,
			text: func(h *watch.HopActivity) string { return h.CounterText(&c) },
		})
	}
	arrow := "↓"
	if m.reverse != (m.by == watch.ByName) { // figures come largest first, names in order
		arrow = "↑"
	}
	for i := range columns {
		if columns[i].by == m.by {
			columns[i].head += arrow
		}
	}
	columns[0].head = fmt.Sprintf("%s %d-%d of %d", columns[0].head, min(m.scroll+1, len(hops)), m.scroll+len(shown),
		len(hops))
	return table(columns, shown, m.width, func(h *watch.HopActivity) bool { return !h.Up || h.New.Drops > 0 })
}

// jobsInOrder are the jobs: those that run first, and of these and of the others the newest first.
func (m Model) jobsInOrder() []watch.Job {
	jobs := slices.Clone(m.view.Jobs)
	slices.SortStableFunc(jobs, func(a, b watch.Job) int {
		if a.Running != b.Running {
			return map[bool]int{true: -1, false: 1}[a.Running]
		}
		return cmp.Compare(b.Counted.Started, a.Counted.Started)
	})
	return jobs
}

func (m Model) jobLines() []string {
	n := m.jobRows()
	if n == 0 {
		return nil
	}
	columns := slices.Clone(jobColumns)
	if all := len(m.view.Jobs); n < all {
		columns[0].head = fmt.Sprintf("job (%d of %d)", n, all)
	}
	return table(columns, m.jobsInOrder()[:n], m.width,
		func(j *watch.Job) bool { return j.Verdict == "INVALID" || j.Died > 0 })
}

// verdictLines are the jobs with all reasons.
func (m Model) verdictLines() []string {
	lines := []string{}
	for _, j := range m.jobsInOrder() {
		reasons := j.Reasons
		j.Reasons = nil
		lines = append(lines, strings.Split(ansi.Wrap(bold.Render(j.Line()), m.width, ""), "\n")...)
		for _, r := range reasons {
			for i, part := range strings.Split(ansi.Wrap(r, max(m.width-4, 1), ""), "\n") {
				lines = append(lines, []string{"  - ", "    "}[min(i, 1)]+part)
			}
		}
	}
	if len(lines) == 0 {
		return []string{"no job has run on this fabric"}
	}
	return lines
}

var linkColumns = []column[watch.HopActivity]{
	{head: "link", by: watch.ByName, least: 12, text: func(h *watch.HopActivity) string { return h.Name }},
	{head: "rate", by: watch.ByRate, right: true, least: 10, text: (*watch.HopActivity).RateText},
	{head: "of", by: -1, right: true, least: 9, rank: 2, text: (*watch.HopActivity).MayCarryText},
	{head: "load", by: watch.ByLoad, right: true, least: 6, text: (*watch.HopActivity).LoadText},
	{head: "queue", by: watch.ByQueue, right: true, least: 7, rank: 1, text: (*watch.HopActivity).QueueText},
	{head: "drops", by: watch.ByDrops, right: true, least: 7, rank: 3, text: (*watch.HopActivity).DropsText},
	{head: "late", by: watch.ByLate, right: true, least: 16, rank: 4, text: (*watch.HopActivity).LateText},
}

var jobColumns = []column[watch.Job]{
	{head: "job", least: 3, text: func(j *watch.Job) string { return fmt.Sprint(j.Number) }},
	{head: "state", least: 7, rank: 1, text: (*watch.Job).State},
	{head: "joined", right: true, least: 6, text: func(j *watch.Job) string { return fmt.Sprint(j.Joined) }},
	{head: "left", right: true, least: 4, rank: 4, text: func(j *watch.Job) string { return fmt.Sprint(j.Left) }},
	{head: "died", right: true, least: 4, rank: 2, text: func(j *watch.Job) string { return fmt.Sprint(j.Died) }},
	{head: "bytes", right: true, least: 7, rank: 5, text: func(j *watch.Job) string { return units.Volume(j.Bytes) }},
	{head: "messages", right: true, least: 8, rank: 6,
		text: func(j *watch.Job) string { return fmt.Sprint(j.Messages) }},
	{head: "rate", right: true, least: 9, rank: 3, text: (*watch.Job).RateText},
	{head: "verdict", least: 14, text: (*watch.Job).VerdictWithReason},
}
