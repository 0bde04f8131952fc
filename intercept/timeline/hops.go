// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// Hops draws each port and link on which something happened.
func (t *Timeline) Hops(s Sink) {
	d := &hopDrawing{drawing{Sink: s, Timeline: t}, make([]int32, len(t.Trace.Messages))}
	changes := map[int][]ledger.Change{}
	for _, c := range d.Fabric.Changes {
		changes[c.Hop] = append(changes[c.Hop], c)
	}
	for _, h := range t.hopsInOrder() {
		if len(d.OnHop(h)) == 0 && len(changes[h]) == 0 {
			continue
		}
		group := d.links
		if hop := d.Fabric.Hops[h]; hop.Kind == link.TxPort || hop.Kind == link.RxPort {
			group = d.nodes[d.Fabric.NodeOfNIC(hop.Src)] // 0 for a port that only has changes
		}
		d.changes(group, h, changes[h])
		d.occupations(group, h)
		d.rate(group, h)
		d.queue(group, h)
		d.sentAgain(group, h)
	}
}

// hopsInOrder are the hops in the order in which messages cross them: what happens at the same time is
// drawn in that order.
func (t *Timeline) hopsInOrder() (all []int) {
	for _, receives := range []bool{false, true} {
		for h, hop := range t.Fabric.Hops {
			if (hop.Kind == link.RxPort) == receives {
				all = append(all, h)
			}
		}
	}
	return all
}

// hopDrawing is the drawing of hops.
type hopDrawing struct {
	drawing
	drawn []int32 // of each message, 1 + the last hop on which an occupation of it is drawn
}

// The order of a hop's tracks.
const (
	changesTrack = iota
	occupationTrack
	rateTrack
	queueTrack
	againTrack
	tracksOfHop
)

// changes draws the changes of a hop's parameters, and the times in which it was down.
func (d *drawing) changes(group, h int, all []ledger.Change) {
	if len(all) == 0 {
		return
	}
	track := d.track(group, d.Fabric.HopName(h)+" changes", tracksOfHop*h+changesTrack)
	before := d.Fabric.Hops[h].Spec
	for _, c := range all {
		if before.Down && !c.Spec.Down {
			d.End(track, d.at(c.Time))
		}
		if text := difference(before, c.Spec); text != "" {
			d.Instant(Event{Track: track, At: d.at(c.Time), Name: text})
		}
		if c.Spec.Down && !before.Down {
			d.Begin(Event{Track: track, At: d.at(c.Time), Name: "down"})
		}
		before = c.Spec
	}
	if before.Down {
		d.End(track, d.at(max(d.end, all[len(all)-1].Time)))
	}
}

// difference says what a change has changed, apart from up and down.
func difference(a, b link.Spec) string {
	var parts []string
	add := func(changed bool, format string, value any) {
		if changed {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add(a.Bandwidth != b.Bandwidth, "bandwidth %s", units.Bandwidth(b.Bandwidth))
	add(a.Latency != b.Latency, "latency %s", b.Latency)
	add(a.Jitter != b.Jitter, "jitter %s", b.Jitter.Value)
	add(a.Loss != b.Loss, "loss changed%.0s", "")
	add(a.Reorder != b.Reorder, "reordering changed%.0s", "")
	a.Bandwidth, a.Latency, a.Jitter, a.Loss, a.Reorder, a.Down = b.Bandwidth, b.Latency, b.Jitter, b.Loss, b.Reorder,
		b.Down
	add(a != b, "other parameters changed%.0s", "")
	return strings.Join(parts, ", ")
}

// occupation is one message that occupies a hop without a pause.
type occupation struct {
	message    int
	begin, end int64
	bytes      int64
	first      bool // the message's first one there
}

// occupations draws whose message occupied a hop when.
func (d *hopDrawing) occupations(group, h int) {
	lanes := newLanes(&d.drawing, group, d.Fabric.HopName(h), tracksOfHop*h+occupationTrack)
	last := occupation{message: -1}
	for _, n := range d.OnHop(h) {
		p := &d.HopRecords[n]
		if p.Dur == 0 {
			continue
		}
		i := d.MessageOf(p)
		if i == last.message && p.Start == last.end {
			last.end += p.Dur
			last.bytes += int64(p.Bytes)
			continue
		}
		d.occupation(lanes, last)
		last = occupation{i, p.Start, p.Start + p.Dur, int64(p.Bytes), d.drawn[i] != int32(h)+1}
		d.drawn[i] = int32(h) + 1
	}
	d.occupation(lanes, last)
}

func (d *drawing) occupation(lanes *lanes, o occupation) {
	if o.message < 0 {
		return
	}
	m := &d.Trace.Messages[o.message]
	lane := lanes.take(o.begin, o.end)
	d.args = append(d.args[:0], Arg{Name: "from rank", Value: int64(m.Sender)},
		Arg{Name: "to rank", Value: int64(m.Receiver)}, Arg{Name: "message", Value: int64(m.Number)},
		Arg{Name: "bytes", Value: o.bytes})
	e := Event{Track: lane, At: d.at(o.begin), Name: d.nameOf(m), Args: d.args}
	if o.first {
		e.Arrow = d.arrowOf(int32(o.message))
	}
	d.Begin(e)
	d.End(lane, d.at(o.end))
}
