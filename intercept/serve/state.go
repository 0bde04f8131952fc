// SPDX-License-Identifier: Apache-2.0

// Package serve shows a fabric that is up in a browser, while jobs run on it.
package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/live"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/verdict"
)

// Format is the name of the document State.
const Format = "ddlemu.live/1"

// State is a fabric at one moment. Counters count from when it was brought up; the page shows how they grow. Times are
// those of the emulated network, in ns.
type State struct {
	Format    string         `json:"format"`
	ID        string         `json:"id"` // another one if the fabric was brought up again
	Name      string         `json:"name"`
	Clock     string         `json:"clock"` // real or virtual
	TimeScale int            `json:"time_scale"`
	Now       int64          `json:"now_ns"` // since the fabric was brought up
	Fabric    report.Drawing `json:"fabric"`
	// Hops are all ports and trunks. Of links they are all on a small fabric, else those that have carried bytes, are
	// slower than their port, or were changed.
	Hops   []Hop   `json:"hops"`
	Jobs   []Job   `json:"jobs"`   // those that run, and the last ones that have ended
	Events []Event `json:"events"` // the newest last
}

// Hop is a port, link or trunk: how it is drawn and set, and its counters.
type Hop struct {
	report.Line
	Link    string   `json:"link"`    // what names this direction of a link for `ddlemu shape`; empty for ports
	Set     []string `json:"set"`     // the values of Params, in their order
	Changed bool     `json:"changed"` // since the fabric was brought up
	link.Counters
}

// Job is a job that runs or has run.
type Job struct {
	Number   int      `json:"number"`
	Running  bool     `json:"running"`
	Joined   int      `json:"joined"` // ranks
	Left     int      `json:"left"`
	Died     int      `json:"died"`
	Stopped  int      `json:"stopped"`  // the launcher ended them before the job was done
	Messages uint64   `json:"messages"` // that have arrived
	Bytes    uint64   `json:"bytes"`    // of these messages
	Reasons  []string `json:"reasons"`  // why the job is not VALID
}

// smallFabric is the most NICs of a fabric whose idle links are in State too: 240 links, about 60 KB.
const smallFabric = 16

// Event is a line of the fabric's log.
type Event struct {
	At   int64  `json:"at_ns"` // real time since the fabric was brought up
	Text string `json:"text"`
}

// Read reads the state of a fabric.
func Read(file *state.File) (*State, error) {
	fab, err := live.Fabric(file)
	if err != nil {
		return nil, fmt.Errorf("read fabric %s: %w", file.Name(), err)
	}
	file.Reap() // a job whose ranks were killed has ended
	fixed, hops := file.Fixed(), file.Hops()
	for i := range hops {
		fab.Hops[i].Spec = hops[i].Spec // those of the same moment as the counters
	}
	s := &State{
		Format: Format, ID: fmt.Sprint(fixed.Created), Name: file.Name(), Clock: fab.Config.ClockName(), TimeScale: fixed.TimeScale,
		Now: int64(live.Time(file)), Hops: []Hop{}, Jobs: []Job{}, Events: []Event{},
	}
	listed := func(h int) bool { return fab.NICs() <= smallFabric || hops[h].Counters.Bytes > 0 || hops[h].Changed }
	drawing, lines, places := report.Draw(fab, listed, func(h int) bool { return hops[h].Spec.Down })
	s.Fabric = drawing
	for i, h := range places {
		s.Hops = append(s.Hops, hopOf(fab, lines[i], hops[h], fixed.TimeScale))
	}
	for _, j := range file.Jobs() {
		s.Jobs = append(s.Jobs, jobOf(j))
	}
	for _, e := range file.Events() {
		s.Events = append(s.Events, Event{At: int64(e.Time / time.Nanosecond), Text: e.Text})
	}
	return s, nil
}

func hopOf(fab *fabric.Fabric, line report.Line, h state.HopStatus, scale int) Hop {
	l := fabric.LinkOf(h.Spec)
	hop := Hop{Line: line, Set: []string{}, Counters: h.Counters.Stated(scale), Changed: h.Changed}
	for _, m := range params() {
		hop.Set = append(hop.Set, m.Text(&l))
	}
	if h.Kind == state.Link || h.Kind == state.Trunk {
		from, to := fab.EndNames(fabric.Kind(h.Kind), h.Src, h.Dst)
		hop.Link = from + ">" + to
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

func jobOf(j state.Job) Job {
	st := j.Status()
	out := Job{Number: j.Index(), Running: st.Running, Joined: st.Joined, Left: st.Left, Died: st.Died, Stopped: st.Stopped, Reasons: append([]string{}, st.Reasons.Words()...)}
	if st.Stopped > 0 {
		out.Reasons = append(out.Reasons, verdict.StoppedText(st.Stopped))
	}
	for hop := range st.LinkStats {
		for _, c := range st.LinkStats[hop].Size {
			out.Messages, out.Bytes = out.Messages+c.Messages, out.Bytes+c.Bytes
		}
	}
	return out
}
