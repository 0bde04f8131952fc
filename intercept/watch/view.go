// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// View is what a fabric did between two samples. Times are of the emulated network, except UpNs and RealNs. Fields
// that `ddlemu status --json` has too mean the same: counters since the fabric was brought up.
type View struct {
	Fabric  string        `json:"fabric"`
	Clock   string        `json:"clock"`         // real or virtual
	UpNs    int64         `json:"up_ns"`         // real time since the fabric was brought up
	ClockNs int64         `json:"clock_ns"`      // of the emulated network since then
	RealNs  int64         `json:"real_ns"`       // real time between the samples
	Ns      int64         `json:"interval_ns"`   // between the samples; rates are per second of this time
	Ratio   float64       `json:"clock_to_real"` // Ns divided by RealNs
	Links   []HopActivity `json:"links"`         // and links between switches
	Ports   []HopActivity `json:"ports"`
	Jobs    []Job         `json:"jobs"`
	Problem string        `json:"problem,omitempty"` // why no job can use the fabric
}

// HopActivity is what a link, a link between switches, or one direction of a NIC's port did between two samples.
type HopActivity struct {
	Name          string        `json:"name"`
	From          string        `json:"from,omitempty"`
	To            string        `json:"to,omitempty"`
	NIC           string        `json:"nic,omitempty"`       // of a port
	Direction     string        `json:"direction,omitempty"` // of a port: tx or rx
	Trunk         bool          `json:"trunk,omitempty"`
	Up            bool          `json:"up"`
	link.Counters               // since the fabric was brought up
	New           link.Counters `json:"-"` // between the samples; in JSON their names begin with new_

	RateBps     float64 `json:"rate_bps"`      // payload, between the samples
	MayCarryBps uint64  `json:"may_carry_bps"` // the rate of the slowest hop of a link's path, 0 = unlimited
	// bytes on the line, headers and framing included, as a share of MayCarryBps
	Load float64 `json:"load"`
	// how long a packet waits now, at the hop of the path where it waits longest; null if it is not known
	QueueNs     *int64   `json:"queue_ns"`
	NewMessages uint64   `json:"new_messages"` // that have arrived between the samples
	LatePercent *float64 `json:"late_percent"` // how late these were, of their time together; null if there are none
	LateP99Us   *float64 `json:"late_p99_us"`  // 99 in 100 of them at most; on the kernel datapath, of packets
}

// MarshalJSON writes the fields, and New.
func (h HopActivity) MarshalJSON() ([]byte, error) {
	type fields HopActivity
	text, err := json.Marshal(fields(h))
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-1]
	for _, c := range link.ShownCounters() {
		text = fmt.Appendf(text, ",%q:%d", "new_"+c.Name, c.Of(&h.New))
	}
	return append(text, '}'), nil
}

// Active reports whether the hop carried, lost, marked or delayed anything between the samples.
func (h *HopActivity) Active() bool {
	return h.RateBps > 0 || h.NewMessages > 0 || h.New != link.Counters{}
}

// Job is a job that runs or has run.
type Job struct {
	status.Job
	Judged
	RateBps float64 `json:"rate_bps"` // of what arrived between the samples, of all ranks together
	over    bool    // at both samples
}

// Compare says what a fabric did from sample a to the later sample b.
func Compare(a, b *Sample) *View {
	v := &View{
		Fabric: b.Name, Clock: b.Clock, UpNs: int64(b.Up), ClockNs: int64(b.Time), RealNs: int64(b.Up - a.Up),
		Ns:    int64(b.Time - a.Time),
		Links: []HopActivity{}, Ports: []HopActivity{}, Jobs: []Job{}, Problem: b.Problem,
	}
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
		j, shown := &b.Jobs[i], Job{Job: b.Jobs[i], Judged: b.Verdicts[i]}
		var before *status.Job
		bytes := j.Bytes
		if k := slices.IndexFunc(a.Jobs, func(o status.Job) bool { return o.ID() == j.ID() }); k >= 0 {
			before = &a.Jobs[k]
			bytes, shown.over = since(bytes, before.Bytes), !j.Running && !before.Running
		}
		shown.RateBps = v.perSecond(8 * float64(bytes))
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
	h := HopActivity{
		Name: now.Name, From: now.From, To: now.To, NIC: now.NIC, Direction: now.Direction,
		Trunk: now.Kind == link.Trunk, Up: !now.Spec.Down,
		Counters: now.Counters, New: now.Counters.Since(then.Counters), MayCarryBps: mayCarry(i, a, b),
	}
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
