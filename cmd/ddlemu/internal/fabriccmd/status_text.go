// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/watch"
	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// Limits of the text form. JSON has everything.
const (
	shownEvents = 8
	shownLinks  = 64
)

// print writes the state as text.
func (s *fabricStatus) print(w io.Writer) {
	fmt.Fprintf(w, "fabric %s: %s, %s; up for %s\n", s.Name, summary(s.Fabric), s.Transport, cli.Ago(s.Up))
	fmt.Fprintf(w, "in force: %s\n", s.InForce.Text)
	if s.Fabric.Config.GPU != nil {
		fmt.Fprintf(w, "GPU time: %s\n", s.InForce.GPUTime)
	}
	fmt.Fprintln(w)
	if s.Shaper != "" {
		fmt.Fprintf(w, "datapath %s, shaper %s, nodes in %s\n\n", s.Datapath, s.Shaper, s.Subnet)
	}
	if s.VirtualClock != nil {
		s.printClock(w)
	}
	if s.Private != "" && s.LeftOver == "" {
		fmt.Fprintf(w, "fabric %s %s\n\n", s.Name, s.Private)
	}
	if s.LeftOver != "" {
		fmt.Fprintf(w, "%s: remove it with `ddlemu gc`\n\n", s.LeftOver)
	}
	s.printLinks(w)
	s.printQueues(w)
	s.printJobs(w)
	s.printEvents(w)
}

// printClock prints the state of the virtual clock, and the actors that keep it from moving.
func (s *fabricStatus) printClock(w io.Writer) {
	c := s.VirtualClock
	real := s.Up
	fmt.Fprintf(w, "clock virtual: %v in %v of real time, %s of flows, %.0f per second\n",
		s.Time, real.Round(time.Millisecond), units.Count(int(c.Steps), "step"), float64(c.Steps)/max(real.Seconds(),
			1e-3))
	if c.Deadlocked {
		fmt.Fprintln(w, s.Problem)
	}
	for _, a := range c.Actors {
		if a.State == clock.Works {
			fmt.Fprintf(w, "  rank %d works: %s, thread %d\n", s.rankIn(a.Participant), a.Name, a.Thread)
		}
	}
	fmt.Fprintln(w)
}

// rankIn is the rank of the participant in a slot, -1 if it has left meanwhile.
func (s *fabricStatus) rankIn(slot int) int {
	for _, p := range s.Participants {
		if p.Slot == slot {
			return p.Rank
		}
	}
	return -1
}

func (s *fabricStatus) printLinks(w io.Writer) {
	links := s.Links
	params := make([]configs.Link, len(links))
	for i := range links {
		params[i] = links[i].Set
	}
	columns := columnsOf(params)
	heads := linkHeads(columns, "from", "to")
	paths := slices.ContainsFunc(links, func(l status.Link) bool { return l.Path != nil })
	if paths {
		heads = append(heads, "path rate ", "path latency ")
	}
	heads = append(heads, "bytes ", "messages ", "drops ")
	extra := link.WithColumn(links, func(l *status.Link) *link.Counters { return &l.Counters })
	for _, c := range extra {
		heads = append(heads, c.Column+" ")
	}
	t := cli.NewTable(w, heads...)
	links = status.Busiest(links, shownLinks)
	for _, l := range links {
		row := linkRow(columns, &l.Set, l.From, l.To)
		if paths {
			row = append(row, pathRate(l.Path), pathLatency(l.Path))
		}
		row = append(row, units.Volume(l.Bytes), l.Messages, l.Drops)
		for _, c := range extra {
			row = append(row, c.Text(&l.Counters))
		}
		t.AppendRow(row)
	}
	t.Render()
	if more := len(s.Links) - len(links); more > 0 {
		fmt.Fprintf(w, "and %d more links, which --json shows\n", more)
	}
	for _, p := range s.Ports {
		if p.Drops > 0 {
			fmt.Fprintf(w, "%s %s: %s did not fit into its queue\n", p.NIC, p.Direction,
				units.Count(int(p.Drops), "packet"))
		}
	}
}

// pathRate is the rate of a path for people, "" if there is no path.
func pathRate(p *status.Path) string {
	switch {
	case p == nil:
		return ""
	case !p.Up:
		return "down"
	}
	return units.Bandwidth(p.BandwidthBps).String()
}

// pathLatency is the latency of a path for people, "" if there is no path.
func pathLatency(p *status.Path) string {
	if p == nil {
		return ""
	}
	return time.Duration(p.LatencyNs).String()
}

// printQueues prints the counters with a column of each port, where one is above 0.
func (s *fabricStatus) printQueues(w io.Writer) {
	rows := 0
	for _, p := range s.Ports {
		var counted []string
		for _, c := range link.WithColumn([]status.Port{p}, func(p *status.Port) *link.Counters { return &p.Counters }) {
			counted = append(counted, c.Column+" "+c.Text(&p.Counters))
		}
		if counted == nil {
			continue
		}
		if rows++; rows > shownLinks {
			fmt.Fprintln(w, "and more ports, which --json shows")
			return
		}
		fmt.Fprintf(w, "port %s %s: %s\n", p.NIC, p.Direction, strings.Join(counted, ", "))
	}
}

// columnsOf are the parameters that a table of links has columns for.
func columnsOf(links []configs.Link) []configs.LinkParam {
	return slices.DeleteFunc(slices.Clone(configs.LinkParams()), func(m configs.LinkParam) bool {
		set := func(l configs.Link) bool { return m.Text(&l) != "none" }
		return m.Column == "" || m.Optional && !slices.ContainsFunc(links, set)
	})
}

// linkHeads are the headers of a table of links, after the heads of the columns that name them.
func linkHeads(columns []configs.LinkParam, heads ...string) []string {
	for _, m := range columns {
		heads = append(heads, m.Column)
	}
	return heads
}

// linkRow is the row of l below linkHeads.
func linkRow(columns []configs.LinkParam, l *configs.Link, names ...any) table.Row {
	row := table.Row(names)
	for _, m := range columns {
		row = append(row, m.Text(l))
	}
	return row
}

func (s *fabricStatus) printJobs(w io.Writer) {
	stopped := map[int]bool{}
	for _, j := range s.Jobs {
		stopped[j.Number] = j.Stopped > 0
		state := "over"
		if j.Running {
			state = "running"
		}
		fmt.Fprintf(w, "\njob %d: %s, %d joined, %s; %s in %d messages\n", j.Number, state, j.Joined,
			watch.GoneText(j.Left, j.Died, j.Stopped), units.Volume(j.Bytes), j.Messages)
		for _, f := range j.Findings {
			fmt.Fprintf(w, "  INVALID (%s): %s\n", f.Cause, f.Text)
		}
		if j.Stopped > 0 {
			fmt.Fprintf(w, "  %s: %s\n", verdict.Incomplete, verdict.StoppedText(j.Stopped))
		}
	}
	if len(s.Participants) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := cli.NewTable(w, "job ", "rank ", "node ", "pid ", "state", "shared memory ", "of ", "GPU")
	for _, p := range s.Participants {
		state := "alive"
		switch {
		case !p.Alive && stopped[p.Job]:
			state = "stopped"
		case !p.Alive:
			state = "DEAD"
		}
		t.AppendRow(table.Row{p.Job, p.Rank, p.Node, p.PID, state, kibibytes(p.MemoryUsed), kibibytes(p.MemoryBudget),
			p.GPU})
	}
	t.Render()
}

func (s *fabricStatus) printEvents(w io.Writer) {
	events := s.Events[max(len(s.Events)-shownEvents, 0):]
	if len(events) == 0 {
		return
	}
	fmt.Fprint(w, "\nevents, at the time since the fabric came up:\n")
	for _, e := range events {
		fmt.Fprintf(w, "%10s  %s\n", "+"+cli.Ago(time.Duration(e.At)), strings.TrimSpace(e.Text))
	}
}

// kibibytes prints an amount of memory.
func kibibytes(n uint64) string { return fmt.Sprintf("%d KiB", n>>10) }
