// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// Limits of the verdict. The limits of latencies are from package state.
const (
	maxRateOff  = 0.01 // of one link's rate
	maxTotalOff = 0.02 // of the rate of all flows together
	maxShareOff = 0.03 // of one flow's share
	// Of the rate of all flows together if packets are lost. Which flow a loss delays, and when, depends on the order
	// of posts.
	maxLossyOff = 0.1

	lateSlowdown = 1.5 // assumed of a host on which the shaper is late, because nothing else is known
)

// limits are the largest deviations of a latency, in us: of the median, and of the 99th percentile.
type limits struct{ p50, p99 float64 }

// limits are the limits of a path with a latency of us microseconds.
func (m *Model) limits(us float64) limits {
	l := limits{limit(us, state.P50FloorNs, state.P50Part), limit(us, state.P99FloorNs, state.P99Part)}
	if m.traits().hosts {
		l.p50, l.p99 = max(l.p50, hostP50/float64(m.scale)), max(l.p99, hostP99/float64(m.scale))
	}
	return l
}

// limit is the largest lateness in us of a message that takes us microseconds.
func limit(us float64, floorNs, part int) float64 {
	return max(float64(floorNs)/1e3, us/float64(part))
}

// finding is a problem. slowdown is the factor by which the host was too slow; 1 if the host is not the cause.
type finding struct {
	verdict.Finding
	slowdown float64
}

// finder collects problems.
type finder struct{ found []finding }

// add adds a problem of this host if slow is above 1, otherwise of the model: what was measured is not what it says.
func (f *finder) add(slow float64, format string, args ...any) {
	x := verdict.Finding{Cause: verdict.CauseModel, Text: fmt.Sprintf(format, args...), Over: slow}
	if slow > 1 {
		x.Cause = verdict.CauseHost
	}
	f.found = append(f.found, finding{x, slow})
}

func (f *finder) words() []string {
	words := []string{}
	for _, x := range f.found {
		words = append(words, x.Text)
	}
	return words
}

// hopeless says whether the host is so slow that measuring again cannot help.
func (f *finder) hopeless() bool {
	return slices.ContainsFunc(f.found, func(x finding) bool { return x.slowdown > 8 })
}

func (f *finder) rate(name string, r *Rate) {
	switch {
	case r.Asked == 0:
	case r.Got == 0:
		f.add(2, "%s: fewer than %d messages arrived; the rate asked for is %.4g Gb/s", name, minSamples, r.Model/1e9)
	case math.Abs(r.Error) > r.Limit:
		slow := 1.0
		if r.Error < 0 {
			slow = 100 / max(100+r.Error, 0.1)
		}
		f.add(slow, "%s: rate %.4g Gb/s, asked %.4g: %+.1f %% (limit %.0f %%)", name, r.Got/1e9, r.Model/1e9, r.Error,
			r.Limit)
	}
}

func (f *finder) latency(name string, l *Latency, jitter *Jitter, most limits) {
	p50, p99 := most.p50, most.p99
	if l.Messages < minSamples {
		f.add(1, "%s: %d single messages arrived, fewer than %d", name, l.Messages, minSamples)
		return
	}
	unheld := l.Messages - l.Held
	if unheld < minSamples {
		return // judged by its losses
	}
	if l.Known < max(unheld/10, minSamples) {
		f.add(2, "%s: of %d messages only %d were observed exactly: this process gets too little processor time", name,
			unheld, l.Known)
		return
	}
	if math.Abs(l.Error) > p50 && jitter == nil {
		slow := 1.0
		if l.Error > 0 {
			slow = l.Error / p50
		}
		f.add(slow, "%s: latency p50 %s us, asked %s: %s us (limit %s)", name, Digits(l.P50), Digits(l.Asked),
			signed(l.Error), Digits(p50))
	}
	if l.LateP50 > p50 && jitter != nil {
		f.add(l.LateP50/p50, "%s: messages come %s us late (p50, limit %s)", name, Digits(l.LateP50), Digits(p50))
	}
	if l.LateP99 > p99 {
		f.add(l.LateP99/p99, "%s: messages come %s us late (p99, limit %s)", name, Digits(l.LateP99), Digits(p99))
	}
	if jitter != nil && jitter.Distance > jitter.Limit {
		f.add(1, "%s: latencies are not distributed as the jitter asked for: distance %.3f (limit %.3f)", name,
			jitter.Distance, jitter.Limit)
	}
}

// Digits formats v with four significant digits, or with no decimals from 10000 on.
func Digits(v float64) string {
	if math.Abs(v) >= 9999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func signed(v float64) string {
	if v < 0 {
		return Digits(v)
	}
	return "+" + Digits(v)
}

func (f *finder) loss(name string, l *Loss, cluster float64) {
	if l != nil && !plausible(float64(l.Got), l.Asked, cluster) {
		f.add(1, "%s: %d of %d packets were lost, %.4g were expected", name, l.Got, l.Packets, l.Asked)
	}
}

// shared judges flows that share hops: each flow if each is set, and the rate of all flows together, which may be off
// by the fraction most.
func (f *finder) shared(what string, s *Shared, each bool, most float64) {
	slow := 1.0
	if math.Abs(s.Error) > 100*most {
		if s.Error < 0 {
			slow = 100 / max(100+s.Error, 0.1)
		}
		f.add(slow, "%s: %.4g Gb/s together, the model's %.4g: %+.1f %% (limit %.0f %%)%s", what, s.Got/1e9,
			s.Model/1e9, s.Error, 100*most, s.least())
	}
	if s.Late != "" {
		f.add(lateSlowdown, "%s: the shaper is late: %s", what, s.Late)
	}
	if s.Lost > 0 {
		f.add(1, "%s: %d packets were lost, although no loss was asked for%s", what, s.Lost, s.least())
	}
	if !each {
		return
	}
	for i := range s.Flows {
		x := &s.Flows[i]
		if math.Abs(x.Error) > 100*maxShareOff {
			// A flow below its share is not slowed by this host, unless all together are: another flow has what it
			// lacks.
			f.add(slow, "%s, %s: %.4g Gb/s, the model's share %.4g: %+.1f %% (limit %.0f %%)", what, x.Name, x.Got/1e9,
				x.Model/1e9, x.Error, 100*maxShareOff)
			return // one flow is enough
		}
	}
}

// sharesPromised says whether the model determines the share of each flow. It does not if bounded queues of several
// switches pause each other, unless each flow has a queue of its own, because small delays change the shares. With tail
// drop the shares depend on the phase of the flows, and with losses on when they happen.
func (m *Model) sharesPromised() bool {
	if m.loses() {
		return false
	}
	if m.fab.Net == nil {
		return !m.drops()
	}
	for i := range m.params {
		if p := &m.params[i]; p.Queue.LimitNs > 0 && p.Queue.Policy != link.Fair {
			return false
		}
	}
	return true
}

// least names the flow with the lowest rate against its share.
func (s *Shared) least() string {
	if len(s.Flows) == 0 {
		return ""
	}
	f := slices.MinFunc(s.Flows, func(a, b SharedFlow) int { return cmp.Compare(a.Error, b.Error) })
	return fmt.Sprintf("; %s has %.4g of %.4g", f.Name, f.Got/1e9, f.Model/1e9)
}

// promised returns whether each flow is judged, and the limit for all together. With losses only the sum is judged, by
// a larger limit.
func (x *messages) promised([]Flow) (each bool, most float64) {
	if x.loses() {
		return false, maxLossyOff
	}
	return x.sharesPromised(), maxTotalOff
}

func (m *Model) loses() bool {
	return slices.ContainsFunc(m.params, func(p link.Params) bool { return p.Loss.Any() })
}

func (m *Model) drops() bool {
	for i := range m.params {
		if m.params[i].Queue.LimitNs > 0 && m.params[i].Queue.Policy == link.TailDrop {
			return true
		}
	}
	return false
}

// needed is the time scale, a power of two, at which this host would be fast enough: a quarter more than what was
// missing. 0 if there is no such time scale, or if the host is not the cause.
func needed(scale int, found []finding) int {
	slow := 1.0
	for _, f := range found {
		slow = max(slow, f.slowdown)
	}
	if slow == 1 {
		return 0
	}
	k := scale
	for float64(k) < 1.25*slow*float64(scale) {
		k *= 2
	}
	if k > link.MaxTimeScale {
		return 0
	}
	return k
}
