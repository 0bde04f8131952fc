// SPDX-License-Identifier: Apache-2.0

// Package timeline draws what a job has sent as tracks with slices, arrows and counters: a track for each
// connection's end at each rank, for each port and link, and for the critical path of each call.
package timeline

import (
	"fmt"
	"sync/atomic"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/why"
)

// Sink takes a timeline, in a file format. A track is there before its events. Slices of a track nest,
// and the events of one track come in the order of time; equal times keep their order.
type Sink interface {
	Track(t Track)
	Begin(e Event)
	End(track int, at int64)
	Instant(e Event)
	Count(track int, at int64, value float64)
}

// Track is a row of the timeline, or a group of rows. Tracks with the same parent and name are one row
// for the reader.
type Track struct {
	ID     int // from 1
	Parent int // 0: none
	Name   string
	Unit   string // of a counter; else ""
	Order  int    // among those with the same parent
}

// Event is the begin of a slice, or something that takes no time. Times are ns.
type Event struct {
	Track int
	At    int64
	Name  string
	Arrow uint64 // arrows lead from event to event with the same number, in the order of time; 0: none
	Last  bool   // the arrow ends here
	Args  []Arg  // valid only during the call
}

// Arg is something to know about an event: a text, or a number if there is no text.
type Arg struct {
	Name  string
	Text  string
	Value int64
}

// Clock says which times a timeline has: Offset is added to times of the fabric's clock, and Scale divides
// them before.
type Clock struct {
	Scale, Offset int64
}

// Timeline is the recording to be drawn. Groups comes first; the other parts may then be drawn at the same time,
// each with a sink of its own.
type Timeline struct {
	*replay.Replayed
	clock  Clock
	window int64    // ns of the fabric's clock
	end    int64    // when the last segment was at its end
	last   int64    // the last time that is known
	names  []string // of calls
	nodes  []int    // the group of each node, 0: no rank is there, and no NIC of it is used
	links  int      // the group of links
	tracks atomic.Int64
}

// New prepares a timeline. window is the time, in ns of the timeline, over which counters are averaged.
func New(p *replay.Replayed, clock Clock, window int64) *Timeline {
	t := &Timeline{Replayed: p, clock: clock, window: window * clock.Scale, names: make([]string, len(p.Trace.Calls)),
		nodes: make([]int, p.Fabric.Config.Nodes)}
	for i := range p.HopRecords {
		t.end = max(t.end, p.HopRecords[i].Finish)
	}
	_, t.last = p.Trace.Span()
	t.last = max(t.last, t.end)
	for i := range p.Trace.Ranges {
		t.last = max(t.last, p.Trace.Ranges[i].Begun, p.Trace.Ranges[i].Ended)
	}
	for i := range p.Trace.Calls {
		t.names[i] = fmt.Sprintf("%s #%d", p.Trace.Calls[i].Name, p.Trace.Calls[i].Seq)
	}
	return t
}

// drawing is a part of a timeline in the making.
type drawing struct {
	Sink
	*Timeline
	args []Arg // used again for each event
}

// track makes a track.
func (d *drawing) track(parent int, name string, order int) int {
	return d.counter(parent, name, "", order)
}

// counter makes a track with a counter, in a unit.
func (d *drawing) counter(parent int, name, unit string, order int) int {
	id := int(d.tracks.Add(1))
	d.Track(Track{ID: id, Parent: parent, Name: name, Unit: unit, Order: order})
	return id
}

// at is a time of the fabric's clock, in the timeline.
func (t *Timeline) at(ns int64) int64 { return ns/t.clock.Scale + t.clock.Offset }

// Groups makes a group for each node that a rank is on, or a NIC that is used, and one for the links
// between NICs.
func (t *Timeline) Groups(s Sink) {
	d := &drawing{Sink: s, Timeline: t}
	used := make([]bool, len(t.nodes))
	for _, node := range t.Trace.Nodes {
		if node < len(used) { // else damaged
			used[node] = true
		}
	}
	for _, c := range t.Trace.Connections {
		used[t.Fabric.NodeOfNIC(c.Src)], used[t.Fabric.NodeOfNIC(c.Dst)] = true, true
	}
	for node, is := range used {
		if is {
			t.nodes[node] = d.track(0, fmt.Sprintf("node%d", node), node)
		}
	}
	t.links = d.track(0, "links", len(t.nodes))
}

// nameOf is what a message is for.
func (t *Timeline) nameOf(m *messages.Message) string {
	if c := t.Trace.CallOf(m); c >= 0 {
		return t.names[c]
	}
	return "message"
}

// CriticalPaths draws where the time of each call went.
func (t *Timeline) CriticalPaths(s Sink, r *why.Report) {
	d := &drawing{Sink: s, Timeline: t}
	lanes := newLanes(d, 0, "critical paths", -1)
	for i := range r.Calls {
		c := &r.Calls[i]
		lane := lanes.take(c.Start, c.End)
		job := d.Trace.Jobs[d.Trace.Tasks[c.Tasks[0]].Job]
		d.args = append(d.args[:0], Arg{Name: "job", Text: job}, Arg{Name: "last byte at", Text: c.Rank},
			Arg{Name: "bytes", Value: int64(c.Bytes)}, Arg{Name: "messages", Value: int64(len(c.Messages))})
		d.Begin(Event{Track: lane, At: d.at(c.Start), Name: fmt.Sprintf("%s #%d", c.Name, c.Seq), Args: d.args})
		now := c.Start
		for _, part := range c.Path {
			d.Begin(Event{Track: lane, At: d.at(now), Name: part.String()})
			now += part.Ns
			d.End(lane, d.at(now))
		}
		d.End(lane, d.at(c.End))
	}
}
