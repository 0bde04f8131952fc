// SPDX-License-Identifier: Apache-2.0

// Package serve shows a fabric that is up in a browser, while jobs run on it.
package serve

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// Format is the name of the document State.
const Format = "ddlemu.live/2"

// State is a fabric at one moment, as the page shows it. Counters count from when it was brought up; the page shows how
// they grow.
type State struct {
	Format string `json:"format"`
	ID     string `json:"id"` // another one if the fabric was brought up again
	// Without links, ports, participants and actors: hops are below as they are drawn.
	status.Document
	Drawing report.Drawing `json:"drawing"`
	// Hops are all ports and trunks. Of links they are all on a small fabric, else those that have carried bytes, are
	// slower than their port, or were changed.
	Hops []ShownHop `json:"hops"`
}

// ShownHop is a port, link or trunk: how it is drawn and set, and its counters.
type ShownHop struct {
	report.Line
	Link    string   `json:"link"`    // what names this direction of a link for `ddlemu shape`; empty for ports
	Set     []string `json:"set"`     // the values of Params, in their order
	Changed bool     `json:"changed"` // since the fabric was brought up
	link.Counters
}

// smallFabric is the most NICs of a fabric whose idle links are in State too: 240 links, about 60 KB.
const smallFabric = 16

// Read reads the state of a fabric.
func Read(file *state.File) (*State, error) {
	file.Reap() // a job whose ranks were killed has ended
	f, err := status.Read(file)
	if err != nil {
		return nil, fmt.Errorf("read fabric %s: %w", file.Name(), err)
	}
	f.Participants, f.VirtualClock = nil, nil
	s := &State{Format: Format, ID: fmt.Sprint(f.Created), Hops: []ShownHop{},
		Document: status.Document{Reading: f, Jobs: []status.JobView{}}}
	listed := func(h int) bool { return f.Fabric.NICs() <= smallFabric || f.Hops[h].Bytes > 0 || f.Hops[h].Changed }
	drawing, lines, places := report.Draw(f.Fabric, listed, func(h int) bool { return f.Hops[h].Spec.Down })
	s.Drawing = drawing
	for i, h := range places {
		s.Hops = append(s.Hops, hopOf(lines[i], &f.Hops[h]))
	}
	for i := range f.Jobs {
		s.Jobs = append(s.Jobs, verdict.ViewOf(&f.Jobs[i]))
	}
	return s, nil
}

func hopOf(line report.Line, h *status.HopReading) ShownHop {
	hop := ShownHop{Line: line, Set: []string{}, Counters: h.Counters, Changed: h.Changed}
	set := fabric.LinkOf(h.Spec)
	for _, m := range params() {
		hop.Set = append(hop.Set, m.Text(&set))
	}
	if !h.IsPort() {
		hop.Link = h.From + ">" + h.To
	}
	return hop
}

// Param is a parameter of links that the form of the page has.
type Param struct {
	Flag  string `json:"flag"` // of `ddlemu shape`
	Label string `json:"label"`
	Usage string `json:"usage"`
}

// Params are the parameters that the form has.
func Params() []Param {
	all := []Param{}
	for _, m := range params() {
		all = append(all, Param{Flag: m.Flag, Label: m.Label, Usage: strings.ReplaceAll(m.Usage, "`", "")})
	}
	return all
}

func params() (all []configs.LinkParam) {
	for _, m := range configs.LinkParams() {
		if m.Flag != "" {
			all = append(all, m)
		}
	}
	return all
}
