// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// drawn keeps a timeline.
type drawn struct {
	t        interface{ Fatalf(string, ...any) }
	tracks   map[int]Track
	open     map[int][]Event // slices that have not ended
	ends     map[int]int64   // the last time of each track
	slices   []slice
	instants []Event
	arrows   map[uint64][]Event
	counts   map[int][]count
}

type slice struct {
	Event
	end int64
}

type count struct {
	at    int64
	value float64
}

func (d *drawn) path(track int) string {
	x := d.tracks[track]
	if x.Parent == 0 {
		return x.Name
	}
	return d.path(x.Parent) + "/" + x.Name
}

func (d *drawn) Track(t Track) {
	if _, ok := d.tracks[t.ID]; ok || t.ID == 0 || t.Parent != 0 && d.tracks[t.Parent].ID == 0 {
		d.t.Fatalf("track %+v", t)
	}
	d.tracks[t.ID] = t
}

// time is called with each time of a track.
func (d *drawn) time(track int, at int64) {
	if d.tracks[track].ID == 0 || at < d.ends[track] {
		d.t.Fatalf("%d on track %q, which is at %d", at, d.path(track), d.ends[track])
	}
	d.ends[track] = at
}

func (d *drawn) Begin(e Event) {
	d.time(e.Track, e.At)
	d.open[e.Track] = append(d.open[e.Track], e)
	d.arrow(e)
}

func (d *drawn) End(track int, at int64) {
	d.time(track, at)
	open := d.open[track]
	if len(open) == 0 {
		d.t.Fatalf("an end without a begin on %q", d.path(track))
	}
	d.slices = append(d.slices, slice{open[len(open)-1], at})
	d.open[track] = open[:len(open)-1]
}

func (d *drawn) Instant(e Event) {
	d.time(e.Track, e.At)
	d.instants = append(d.instants, e)
	d.arrow(e)
}

func (d *drawn) arrow(e Event) {
	if e.Arrow != 0 {
		d.arrows[e.Arrow] = append(d.arrows[e.Arrow], e)
	}
}

func (d *drawn) Count(track int, at int64, value float64) {
	d.time(track, at)
	d.counts[track] = append(d.counts[track], count{at, value})
}

// draw draws a job.
func draw(t interface{ Fatalf(string, ...any) }, p *replay.Replayed, clock Clock, window int64) *drawn {
	r, err := why.Of(p)
	if err != nil {
		t.Fatalf("%v", err)
	}
	d := &drawn{t: t, tracks: map[int]Track{}, open: map[int][]Event{}, ends: map[int]int64{},
		arrows: map[uint64][]Event{}, counts: map[int][]count{}}
	line := New(p, clock, window)
	line.Groups(d)
	line.Ranks(d)
	line.Hops(d)
	line.CriticalPaths(d, r)
	for track, open := range d.open {
		if len(open) > 0 {
			t.Fatalf("%q has slices that do not end", d.path(track))
		}
	}
	return d
}

// counter is the counter with a name.
func (d *drawn) counter(name string) []count {
	for id, t := range d.tracks {
		if t.Name == name {
			return d.counts[id]
		}
	}
	return nil
}

func played(t testing.TB, lines ...string) *replay.Replayed {
	t.Helper()
	f := replaytest.Fabric(t, 3, lines...)
	tr := replaytest.TwoJobs(t, f)
	p, err := replay.Play(f, tr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What the timeline of two jobs says of each message and each hop.
func TestDraw(t *testing.T) {
	p := played(t)
	d := draw(t, p, Clock{Scale: 1}, 1000)
	var names []string
	for id := range d.tracks {
		if d.tracks[id].Unit == "" {
			names = append(names, d.path(id))
		}
	}
	slices.Sort(names)
	for _, want := range []string{"critical paths", "node0/node0 tx", "node1/node1 rx",
		"node1/rank 1 of B/from rank 0, channel 0", "node2/rank 0 of B/calls",
		"node2/rank 0 of B/to rank 1, channel 0"} {
		if !slices.Contains(names, want) {
			t.Errorf("no track %q in %q", want, names)
		}
	}
	if len(d.arrows) != 3 {
		t.Errorf("%d arrows, want one of each message", len(d.arrows))
	}
	for _, all := range d.arrows {
		slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
		last := all[len(all)-1]
		if all[0].Name != "posted" || last.Name != "arrived" || !last.Last || len(all) < 4 {
			t.Errorf("an arrow leads over %+v", all)
		}
	}
	queue := d.counter("node1 rx queue")
	if most := slices.MaxFunc(queue, func(a, b count) int { return cmp.Compare(a.value, b.value) }); most.value <= 0 ||
		queue[len(queue)-1].value != 0 {
		t.Errorf("two jobs share a port, and its queue is %v", queue)
	}
}

// Whatever the window and the scale: the rates are those of all bytes, and occupations take as long as in
// the model.
func TestPropertyRates(t *testing.T) {
	p := played(t)
	rapid.Check(t, func(t *rapid.T) {
		clock := Clock{rapid.Int64Range(1, 7).Draw(t, "scale"), rapid.Int64Range(0, 1e9).Draw(t, "offset")}
		window := rapid.Int64Range(1, 1e6).Draw(t, "window")
		d := draw(t, p, clock, window)
		for h := range p.Fabric.Hops {
			bytes, dur := 0.0, int64(0)
			for _, n := range p.OnHop(h) {
				if x := &p.HopRecords[n]; x.Dur > 0 {
					bytes += float64(x.Bytes)
					dur += x.Dur
				}
			}
			if bytes == 0 {
				continue
			}
			got := 0.0
			for _, c := range d.counter(p.Fabric.HopName(h) + " rate") {
				got += c.value * float64(window) / 8
			}
			if math.Abs(got/bytes-1) > 1e-9 {
				t.Fatalf("%s: %.1f bytes by its rate, %.1f passed", p.Fabric.HopName(h), got, bytes)
			}
			took := int64(0)
			occupations := int64(0)
			for _, s := range d.slices {
				if d.tracks[s.Track].Name == p.Fabric.HopName(h) {
					took += s.end - s.At
					occupations++
				}
			}
			if off := took - dur/clock.Scale; off > occupations || off < -occupations-1 {
				t.Fatalf("%s: occupied for %d, want %d", p.Fabric.HopName(h), took, dur/clock.Scale)
			}
		}
	})
}

// A link goes down and comes back; a message is not complete.
func TestDrawChanges(t *testing.T) {
	p := played(t)
	hop := p.Fabric.Link(0, 1)
	down, up := p.Fabric.Hops[hop].Spec, p.Fabric.Hops[hop].Spec
	down.Down, up.Bandwidth = true, 50e9
	p.Fabric.Changes = []ledger.Change{{Time: 1000, Hop: hop, Spec: down}, {Time: 5000, Hop: hop, Spec: up}}
	p.Trace.Messages[2].Received = false
	d := draw(t, p, Clock{Scale: 1}, 1000)
	found := false
	for _, s := range d.slices {
		if s.Name == "down" && strings.HasSuffix(d.path(s.Track), "links/node0:node1 changes") {
			found = s.At == 1000 && s.end == 5000
		}
	}
	if !found || len(d.arrows) != 2 {
		t.Errorf("down: %v, %d arrows", found, len(d.arrows))
	}
}

func TestDifference(t *testing.T) {
	a := replaytest.Fabric(t, 2).Hops[0].Spec
	b := a
	b.Bandwidth, b.Latency = 50e9, 3000
	c := a
	c.QueueBytes = 7
	for _, tc := range []struct{ got, want string }{
		{difference(a, a), ""},
		{difference(a, b), "bandwidth 50Gbps, latency 3µs"},
		{difference(a, c), "other parameters changed"},
	} {
		if tc.got != tc.want {
			t.Errorf("%q, want %q", tc.got, tc.want)
		}
	}
}
