// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// View is what a fabric did between two samples, of which it has the later one.
type View struct {
	*status.Reading
	status.Interval
	Links []HopActivity // and links between switches
	Ports []HopActivity
	Jobs  []Job
}

// HopActivity is what a link, a link between switches, or one direction of a NIC's port did between two samples.
type HopActivity struct {
	*status.HopReading
	status.Activity
	Up  bool
	hop int
}

// Document is v as JSON, with the links and ports that were active.
func (v *View) Document() *status.Document {
	head := *v.Reading
	head.Participants, head.Events, head.VirtualClock = nil, nil, nil // they would be most of a line
	d := &status.Document{Reading: &head, Interval: &v.Interval, Links: []status.Link{}, Ports: []status.Port{},
		Jobs: []status.JobView{}}
	for _, h := range active(v.Links) {
		l := v.Link(h.hop)
		l.Activity = &h.Activity
		d.Links = append(d.Links, l)
	}
	for _, h := range active(v.Ports) {
		p := v.Port(h.hop)
		p.Activity = &h.Activity
		d.Ports = append(d.Ports, p)
	}
	for i := range v.Jobs {
		d.Jobs = append(d.Jobs, v.Jobs[i].JobView)
	}
	return d
}

func active(hops []HopActivity) []HopActivity {
	return slices.DeleteFunc(slices.Clone(hops), func(h HopActivity) bool { return !h.Active() })
}

// Active reports whether the hop carried, lost, marked or delayed anything between the samples.
func (h *HopActivity) Active() bool {
	return h.RateBps > 0 || h.NewMessages > 0 || h.New != link.Counters{}
}

// Job is a job that runs or has run.
type Job struct {
	status.JobView
	over bool // at both samples
}

// Compare says what a fabric did from sample a to the later sample b.
func Compare(a, b *Sample) *View {
	v := &View{Reading: b.Reading, Interval: status.Interval{RealNs: int64(b.Up - a.Up), Ns: int64(b.Time - a.Time)}}
	if v.RealNs > 0 {
		v.Ratio = float64(v.Ns) / float64(v.RealNs)
	}
	late, arrived := v.addJobs(a, b)
	for i := range b.Hops {
		h := v.hop(i, a, b)
		h.NewMessages = arrived[i]
		h.judge(late[i], b.TimeScale)
		if b.Hops[i].IsPort() {
			v.Ports = append(v.Ports, h)
		} else {
			v.Links = append(v.Links, h)
		}
	}
	return v
}

// perSecond is an amount per second of the emulated network's time, 0 if that stood still, as a virtual clock does
// while no job runs.
func (v *View) perSecond(amount float64) float64 {
	if v.Ns <= 0 {
		return 0
	}
	return max(amount, 0) / time.Duration(v.Ns).Seconds()
}

// addJobs adds the jobs. It returns, by hop, how late the messages were that arrived between the samples, nil if no job
// has sent any, and how many arrived.
func (v *View) addJobs(a, b *Sample) (late []*lateness, arrived []uint64) {
	late, arrived = make([]*lateness, len(b.Hops)), make([]uint64, len(b.Hops))
	for i := range b.Jobs {
		j, shown := &b.Jobs[i], Job{JobView: status.JobView{Job: b.Jobs[i], Judged: b.Verdicts[i]}}
		var before *status.Job
		bytes := j.Bytes
		if k := slices.IndexFunc(a.Jobs, func(o status.Job) bool { return o.ID() == j.ID() }); k >= 0 {
			before = &a.Jobs[k]
			bytes, shown.over = since(bytes, before.Bytes), !j.Running && !before.Running
		}
		shown.RateBps = new(v.perSecond(8 * float64(bytes)))
		v.Jobs = append(v.Jobs, shown)
		for hop := range j.Counted.LinkStats {
			now, then := &j.Counted.LinkStats[hop], (*state.LinkStats)(nil)
			if now.FirstPosted == 0 {
				continue
			}
			arrived[hop] += j.Arrived(hop)
			if before != nil {
				then = &before.Counted.LinkStats[hop]
				arrived[hop] -= before.Arrived(hop)
			}
			if b.OnKernel() != j.Traffic {
				continue // the plugin does not know there when a message is due
			}
			if late[hop] == nil {
				late[hop] = &lateness{}
			}
			late[hop].addSince(now, then)
			if b.OnKernel() {
				late[hop].took = 0 // of packets: the verdict's limits are for the time of messages
			}
		}
	}
	return late, arrived
}

// hop is hop i without how late its messages were.
func (v *View) hop(i int, a, b *Sample) HopActivity {
	then, now := &a.Hops[i], &b.Hops[i]
	h := HopActivity{HopReading: now, Up: !now.Spec.Down, hop: i,
		Activity: status.Activity{New: now.Counters.Since(then.Counters), MayCarryBps: mayCarry(i, a, b)}}
	bytes, line := carried(now)
	bytesThen, lineThen := carried(then)
	h.RateBps = v.perSecond(8 * (bytes - bytesThen))
	if h.MayCarryBps > 0 {
		h.Load = v.perSecond(8*(line-lineThen)) / float64(h.MayCarryBps)
		if mayCarry(i, a, a) != mayCarry(i, b, b) {
			// How much waits is known by the present rate alone.
			h.RateBps, h.Load = min(h.RateBps, float64(h.MayCarryBps)), min(h.Load, 1)
		}
	}
	if !b.OnKernel() {
		wait := int64(0)
		for _, hop := range now.Path {
			wait = max(wait, int64(b.Hops[hop].Reserved))
		}
		h.QueueNs = &wait
	}
	return h
}

// judge says how late the messages between the samples were.
func (h *HopActivity) judge(l *lateness, timeScale int) {
	if l == nil {
		return
	}
	if ns, ok := l.p99(); ok {
		h.LateP99Us = new(float64(ns) / float64(timeScale) / 1e3)
	}
	if l.took > 0 {
		h.LatePercent = new(100 * float64(l.late) / float64(l.took))
	}
}

// since is how much a counter has grown, 0 if the reader of another process saw it smaller.
func since(now, then uint64) uint64 { return max(now, then) - then }

// mayCarry is the rate of the slowest hop of the path of a hop in bits per second, 0 if none has a limit. If the rate
// was changed between two samples, it is the higher one.
func mayCarry(hop int, samples ...*Sample) (most uint64) {
	for i, l := range samples {
		bps := uint64(0)
		for _, on := range l.Hops[hop].Path {
			if b := l.Hops[on].Spec.Bandwidth; b > 0 && (bps == 0 || b < bps) {
				bps = b
			}
		}
		if bps == 0 {
			return 0
		}
		if i == 0 || bps > most {
			most = bps
		}
	}
	return most
}

// carried is the payload and the bytes on the line that have passed the hop: those counted without those that only have
// reserved it.
func carried(h *status.HopReading) (bytes, line float64) {
	bytes, line = float64(h.Bytes), float64(h.LineBytes)
	waiting := min(h.Reserved.Seconds()*float64(h.Spec.Bandwidth)/8, line)
	if line > 0 {
		bytes -= waiting * bytes / line
	}
	return bytes, line - waiting
}
