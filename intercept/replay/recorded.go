// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// LoadFabric reads the fabric that is described beside ledgers.
func LoadFabric(dir string, timeScale int64) (*Fabric, error) {
	text, path, err := ledger.ReadFabric(dir)
	if err != nil {
		return nil, err
	}
	config, err := configs.Decode(path, text)
	if err != nil {
		return nil, fmt.Errorf("read the fabric of the ledgers: %w", err)
	}
	fab, err := fabric.New(config)
	if err != nil {
		return nil, fmt.Errorf("read the fabric of the ledgers: %w", err)
	}
	changes, err := ledger.ReadChanges(dir)
	if err != nil {
		return nil, err
	}
	return &Fabric{Fabric: fab, TimeScale: int(timeScale), Changes: changes}, nil
}

// DownSince is the time since which a hop was down at a time, 0 if it was so from the start. down is false if the hop
// was up.
func (f *Fabric) DownSince(hop int, at int64) (since int64, down bool) {
	down = f.Hops[hop].Spec.Down
	for _, c := range f.Changes {
		if c.Time > at {
			break
		}
		if c.Hop != hop {
			continue
		}
		if c.Spec.Down && !down {
			since = c.Time
		}
		down = c.Spec.Down
	}
	return since, down
}

// Down is the hop of a flow between two NICs, whose path is drawn by id, that was down for the longest at a time, and
// since when; -1 if none was, or the fabric has no path between them.
func (f *Fabric) Down(src, dst int, id uint64, at int64) (hop int, since int64) {
	hop = -1
	if !f.hasPath(src, dst) {
		return hop, 0
	}
	for _, step := range f.FlowPath(src, dst, id) {
		if t, down := f.DownSince(step.Hop, at); down && (hop < 0 || t < since) {
			hop, since = step.Hop, t
		}
	}
	return hop, since
}

// Crossed are the hops that the messages of a trace cross, but for those of some jobs; some are there several times.
func (f *Fabric) Crossed(t *messages.Trace, without map[int]bool) (hops []int) {
	used := map[messages.FlowKey]bool{}
	for i := range t.Messages {
		used[t.Messages[i].Key()] = true
	}
	for _, c := range t.Connections {
		if !used[c.Key()] || without[c.Job] || !f.hasPath(c.Src, c.Dst) {
			continue
		}
		for _, step := range f.FlowPath(c.Src, c.Dst, c.Path) {
			hops = append(hops, step.Hop)
		}
	}
	return hops
}

func (f *Fabric) hasPath(src, dst int) bool {
	nics := f.NICs()
	return src >= 0 && dst >= 0 && src < nics && dst < nics && f.NodeOfNIC(src) != f.NodeOfNIC(dst)
}

// Recorded is recorded messages, as flows.
type Recorded struct {
	Flows    []Flow
	Messages [][]int // of each flow, in their order: places in Trace.Messages
	FlowOf   []int   // of each message, -1 if it is not played
	At       []int   // of each message, its place in its flow
	Skipped  int     // messages that are not played: their post is not known, or one before them is missing
}

// Prepare makes flows of the messages whose post is known. A message is played only if all that its
// connection sent since its first known one are known too.
func Prepare(t *messages.Trace) *Recorded {
	r := &Recorded{FlowOf: make([]int, len(t.Messages)), At: make([]int, len(t.Messages))}
	byFlow := map[messages.FlowKey][]int{}
	for i := range t.Messages {
		r.FlowOf[i] = -1
		key := t.Messages[i].Key()
		byFlow[key] = append(byFlow[key], i)
	}
	for _, x := range t.Connections {
		all := byFlow[x.Key()]
		slices.SortFunc(all, func(a, b int) int { return cmp.Compare(t.Messages[a].Number, t.Messages[b].Number) })
		var played []int
		for _, i := range all {
			m := &t.Messages[i]
			if !m.HasSend || len(played) > 0 && m.Number != t.Messages[played[0]].Number+uint64(len(played)) {
				break
			}
			r.FlowOf[i], r.At[i] = len(r.Flows), len(played)
			played = append(played, i)
		}
		r.Skipped += len(all) - len(played)
		r.Flows = append(r.Flows, Flow{ID: x.Flow, Src: x.Src, Dst: x.Dst, Order: x.Order, Path: x.Path})
		r.Messages = append(r.Messages, played)
	}
	return r
}

// Result is what the model says.
type Result struct {
	Times      []Times          // of each message of the trace; link.Never if it was not played or has not happened
	HopRecords []link.HopRecord // what each segment did, in the order of its steps
}

// AsPosted plays the messages as they were posted.
func AsPosted(f *Fabric, t *messages.Trace, r *Recorded) (*Result, error) {
	s, err := newSimulation(f, r.Flows, true)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.records = make([]link.HopRecord, 0, hopRecordsOf(f, t, r))
	d := newTimetable(t, r)
	s.allActs = len(d.acts)
	if err := s.run(d); err != nil {
		return nil, fmt.Errorf("play the messages again: %w", err)
	}
	return &Result{Times: s.timesOf(t, r), HopRecords: s.records}, nil
}

// hopRecordsOf is about how many records the messages make.
func hopRecordsOf(f *Fabric, t *messages.Trace, r *Recorded) int {
	n := 0
	for i, all := range r.Messages {
		x := &r.Flows[i]
		hops := len(f.FlowPath(x.Src, x.Dst, x.Path))
		for _, m := range all {
			n += hops * (1 + int(min(t.Messages[m].Size, 1<<30)/link.MaxSegment))
		}
	}
	return n
}

// timesOf are the times of each message of the trace.
func (s *simulation) timesOf(t *messages.Trace, r *Recorded) []Times {
	out := make([]Times, len(t.Messages))
	for i := range out {
		out[i] = Times{Due: link.Never, Sent: link.Never}
		if f := r.FlowOf[i]; f >= 0 && r.At[i] < len(s.flows[f].times) {
			out[i] = s.flows[f].times[r.At[i]]
		}
	}
	return out
}

// timetable is a driver that posts at recorded times.
type timetable struct {
	acts []act
}

// act is one post or receive.
type act struct {
	time    int64
	flow    int
	size    uint64
	receive bool
	number  int // acts at one time are made in this order
}

func newTimetable(t *messages.Trace, r *Recorded) *timetable {
	d := &timetable{acts: make([]act, 0, 2*len(t.Messages))}
	for f, all := range r.Messages {
		for _, i := range all {
			m := &t.Messages[i]
			d.acts = append(d.acts, act{time: m.Posted, flow: f, size: m.Size})
		}
		for _, i := range all {
			if m := &t.Messages[i]; m.HasReceive {
				d.acts = append(d.acts, act{time: m.ReceivePosted, flow: f, receive: true})
			} else {
				break
			}
		}
	}
	for i := range d.acts {
		d.acts[i].number = i
	}
	slices.SortFunc(d.acts,
		func(a, b act) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.number, b.number)) })
	return d
}

func (d *timetable) start(s *simulation) {
	if len(d.acts) > 0 {
		s.at(d.acts[0].time, 0, func() error { return d.act(s) })
	}
}

// act makes all that is due, and comes back for the rest.
func (d *timetable) act(s *simulation) error {
	for ; len(d.acts) > 0 && d.acts[0].time <= s.now; d.acts = d.acts[1:] {
		var err error
		if a := d.acts[0]; a.receive {
			err = s.receive(a.flow)
		} else {
			err = s.post(a.flow, a.size)
		}
		if err != nil {
			return err
		}
	}
	d.start(s)
	return nil
}

func (*timetable) due(*simulation, int, int)  {}
func (*timetable) sent(*simulation, int, int) {}
