// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// View is what a fabric did between two looks. Times are those of the emulated network, except UpNs and RealNs. Fields
// that `ddlemu status --json` has too mean the same: counters since the fabric was brought up.
type View struct {
	Fabric  string  `json:"fabric"`
	Clock   string  `json:"clock"`         // real or virtual
	UpNs    int64   `json:"up_ns"`         // real time since the fabric was brought up
	ClockNs int64   `json:"clock_ns"`      // of the emulated network since then
	RealNs  int64   `json:"real_ns"`       // real time between the looks
	Ns      int64   `json:"interval_ns"`   // between the looks; rates are per second of this time
	Ratio   float64 `json:"clock_to_real"` // Ns divided by RealNs
	Links   []Hop   `json:"links"`         // and links between switches
	Ports   []Hop   `json:"ports"`
	Jobs    []Job   `json:"jobs"`
	Problem string  `json:"problem,omitempty"` // why no job can use the fabric
}

// Hop is a link, a link between switches, or one direction of a NIC's port.
type Hop struct {
	Name          string        `json:"name"`
	From          string        `json:"from,omitempty"`
	To            string        `json:"to,omitempty"`
	NIC           string        `json:"nic,omitempty"`       // of a port
	Direction     string        `json:"direction,omitempty"` // of a port: tx or rx
	Trunk         bool          `json:"trunk,omitempty"`
	Up            bool          `json:"up"`
	link.Counters               // since the fabric was brought up
	New           link.Counters `json:"-"` // between the looks; in JSON their names begin with new_

	RateBps     float64  `json:"rate_bps"`      // payload, between the looks
	MayCarryBps uint64   `json:"may_carry_bps"` // the rate of the slowest hop of a link's path, 0 = unlimited
	Load        float64  `json:"load"`          // bytes on the line, headers and framing included, as a share of MayCarryBps
	QueueNs     *int64   `json:"queue_ns"`      // how long a packet waits now, at the hop of the path where it waits longest; null if it is not known
	NewMessages uint64   `json:"new_messages"`  // that have arrived between the looks
	LatePercent *float64 `json:"late_percent"`  // how late these were, of their time together; null if there are none
	LateP99Us   *float64 `json:"late_p99_us"`   // 99 in 100 of them at most; on the kernel datapath, of packets
}

// MarshalJSON writes the fields, and New.
func (h Hop) MarshalJSON() ([]byte, error) {
	type fields Hop
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

// Active reports whether the hop carried, lost, marked or delayed anything between the looks.
func (h *Hop) Active() bool {
	return h.RateBps > 0 || h.NewMessages > 0 || h.New != link.Counters{}
}

// Job is a job that runs or has run.
type Job struct {
	Job      int      `json:"job"`
	Running  bool     `json:"running"`
	Started  int64    `json:"-"`                 // tells it from others that have had its number
	Traffic  bool     `json:"traffic,omitempty"` // it stands for all traffic of the kernel datapath
	Verify   bool     `json:"verify,omitempty"`  // the probes of `ddlemu verify`, which has a verdict of its own
	Joined   int      `json:"joined"`            // ranks
	Left     int      `json:"left"`
	Died     int      `json:"died"`
	Stopped  int      `json:"stopped"`           // the launcher ended them before the job was done
	Messages uint64   `json:"messages"`          // that have arrived
	Bytes    uint64   `json:"bytes"`             // of these
	RateBps  float64  `json:"rate_bps"`          // of what arrived between the looks, of all ranks together
	Verdict  string   `json:"verdict,omitempty"` // VALID, INVALID or incomplete so far; empty if there is nothing to judge yet
	Reasons  []string `json:"reasons"`           // why it is not VALID so far
	over     bool     // at both looks
}

// Compare says what a fabric did from look a to the later look b.
func Compare(f *Fabric, a, b *Look) *View {
	v := &View{
		Fabric: f.Name, Clock: f.Clock, UpNs: int64(b.Up), ClockNs: int64(b.Clock), RealNs: int64(b.Up - a.Up), Ns: int64(b.Clock - a.Clock),
		Links: []Hop{}, Ports: []Hop{}, Jobs: []Job{}, Problem: b.Problem,
	}
	if v.RealNs > 0 {
		v.Ratio = float64(v.Ns) / float64(v.RealNs)
	}
	late, arrived := v.addJobs(a, b)
	for i := range f.Hops {
		h := v.hop(f, i, a, b)
		h.NewMessages = arrived[i]
		h.judge(late[i], f.TimeScale)
		if f.Hops[i].Kind == Port {
			v.Ports = append(v.Ports, h)
		} else {
			v.Links = append(v.Links, h)
		}
	}
	return v
}

// perSecond is an amount per second of the emulated network's time, 0 if that stood still, as a virtual clock does while
// no job runs.
func (v *View) perSecond(amount float64) float64 {
	if v.Ns <= 0 {
		return 0
	}
	return max(amount, 0) / time.Duration(v.Ns).Seconds()
}

// addJobs adds the jobs. It returns, by hop, how late the messages were that arrived between the looks, and how many.
func (v *View) addJobs(a, b *Look) (late map[int]*Lateness, arrived map[int]uint64) {
	late, arrived = map[int]*Lateness{}, map[int]uint64{}
	for i := range b.Jobs {
		j, before, over := &b.Jobs[i], &JobLook{}, false
		for k := range a.Jobs {
			if a.Jobs[k].Number == j.Number && a.Jobs[k].Started == j.Started {
				before, over = &a.Jobs[k], !j.Running && !a.Jobs[k].Running
			}
		}
		v.Jobs = append(v.Jobs, Job{
			Job: j.Number, Started: j.Started, Running: j.Running, Traffic: j.Traffic, Verify: j.Verify, Joined: j.Joined, Left: j.Left, Died: j.Died, Stopped: j.Stopped,
			Messages: j.Messages, Bytes: j.Bytes,
			RateBps: v.perSecond(8 * (float64(j.Bytes) - float64(before.Bytes))), Verdict: j.Verdict, Reasons: append([]string{}, j.Reasons...), over: over,
		})
		for hop, l := range j.Late {
			if late[hop] == nil {
				late[hop] = &Lateness{}
			}
			late[hop].addSince(l, before.Late[hop])
		}
		for hop, n := range j.Arrived {
			arrived[hop] += n - before.Arrived[hop]
		}
	}
	return late, arrived
}

// hop is hop i without how late its messages were.
func (v *View) hop(f *Fabric, i int, a, b *Look) Hop {
	p, then, now := &f.Hops[i], &a.Hops[i], &b.Hops[i]
	h := Hop{
		Name: p.Name, Trunk: p.Kind == Trunk, Up: !now.Down, Counters: now.Counters, New: now.Counters.Since(then.Counters), MayCarryBps: mayCarry(p, a, b),
	}
	if p.Kind == Port {
		h.NIC, h.Direction = p.From, p.To
	} else {
		h.From, h.To = p.From, p.To
	}
	bytes, line := now.carried()
	bytesThen, lineThen := then.carried()
	h.RateBps = v.perSecond(8 * (bytes - bytesThen))
	if h.MayCarryBps > 0 {
		h.Load = v.perSecond(8*(line-lineThen)) / float64(h.MayCarryBps)
		if mayCarry(p, a, a) != mayCarry(p, b, b) {
			// How much waits is known by the present rate alone.
			h.RateBps, h.Load = min(h.RateBps, float64(h.MayCarryBps)), min(h.Load, 1)
		}
	}
	if !f.Kernel {
		wait := int64(0)
		for _, hop := range p.Path {
			wait = max(wait, int64(b.Hops[hop].Reserved))
		}
		h.QueueNs = &wait
	}
	return h
}

// judge says how late the messages between the looks were.
func (h *Hop) judge(l *Lateness, timeScale int) {
	if l == nil {
		return
	}
	if ns, ok := l.p99(); ok {
		us := float64(ns) / float64(timeScale) / 1e3
		h.LateP99Us = &us
	}
	if l.Took > 0 {
		percent := 100 * float64(l.Late) / float64(l.Took)
		h.LatePercent = &percent
	}
}

// mayCarry is the rate of the slowest hop of a path in bits per second, 0 if none has a limit. If the rate was changed
// between two looks, it is the higher one.
func mayCarry(p *Place, looks ...*Look) (most uint64) {
	for i, l := range looks {
		bps := uint64(0)
		for _, hop := range p.Path {
			if b := l.Hops[hop].Bandwidth; b > 0 && (bps == 0 || b < bps) {
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
func (c *Counted) carried() (bytes, line float64) {
	bytes, line = float64(c.Counters.Bytes), float64(c.Counters.LineBytes)
	waiting := min(c.Reserved.Seconds()*float64(c.Bandwidth)/8, line)
	if line > 0 {
		bytes -= waiting * bytes / line
	}
	return bytes, line - waiting
}
