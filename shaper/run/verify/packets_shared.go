// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// maxUnfairOff is the largest deviation of all flows together if links differ and the receiving port serves packets in
// order of arrival: the model does not tell which flow waits for which.
const maxUnfairOff = 0.1

// promised returns whether each flow is judged, and the limit for all together. A flow is judged if each sender has a
// traffic class of its own at the receiving port and nothing is lost.
func (x *packets) promised(flows []Flow) (each bool, most float64) {
	pairs := map[[2]int]bool{}
	for _, f := range flows {
		pairs[[2]int{f.Src, f.Dst}] = true
	}
	switch {
	case x.loses() || x.drops():
		return false, maxLossyOff
	case x.traits().shares:
		return len(pairs) == len(flows), maxTotalOff // flows of one pair share its class
	case !x.alike():
		return false, maxUnfairOff
	}
	return false, maxTotalOff
}

// alike says whether all ports and links have the same rate.
func (m *Model) alike() bool {
	return !slices.ContainsFunc(m.fab.Hops,
		func(h fabric.Hop) bool { return h.Spec.Bandwidth != m.fab.Hops[0].Spec.Bandwidth })
}

// prepare returns how long to send flows that share hops.
func (x *packets) prepare(flows []Flow, few int, d time.Duration) time.Duration {
	for i, rate := range x.fair(flows) {
		path := x.pathOf(flows[i].Src, flows[i].Dst)
		d = max(d, time.Duration(4*(float64(x.longest(&path))+senderQueueNs)),
			time.Duration(2*float64(few*x.payload)/rate))
	}
	return d
}

// sharedOnce makes one measurement. Rates are measured after a quarter of the time, in which queues fill, and before
// the first sender ends.
func (x *packets) sharedOnce(ctx context.Context, flows []Flow, d time.Duration) (*Shared, error) {
	var streams []Stream
	tail, late := time.Duration(0), int64(0)
	rates := x.fair(flows)
	for i, f := range flows {
		path := x.pathOf(f.Src, f.Dst)
		s := x.stream(&path, rates[i])
		streams, tail, late = append(streams, s), max(tail, x.tail(&path, &s, rates[i])), max(late, x.longest(&path))
	}
	traces, err := x.sender.Send(ctx, streams, d, tail)
	if err != nil {
		return nil, err
	}
	start := int64(math.MaxInt64)
	for _, p := range traces {
		if len(p.Sent) > 0 {
			start = min(start, p.Sent[0])
		}
	}
	total := 0.0
	for _, rate := range rates {
		total += rate
	}
	from, to := steady(within(traces, start+late+int64(d)/4, start+int64(d)), total/float64(x.payload))
	s, names := &Shared{Late: x.sender.Late()}, x.names(flows)
	for i, f := range flows {
		p, hop := &traces[i], x.fab.Link(f.Src, f.Dst)
		got := float64(p.between(from, to)*x.payload) / float64(max(to-from, 1))
		want := rates[i] * (1 - configs.Loss(x.fab.Hops[hop].Spec.Loss).Mean())
		s.Flows = append(s.Flows, SharedFlow{Name: names[i], Model: x.bps(want), Got: x.bps(got)})
		s.Model, s.Got = s.Model+x.bps(want), s.Got+x.bps(got)
		if !x.loses() && !x.drops() {
			s.Lost += uint64(len(p.Sent) - p.received())
		}
	}
	s.compare()
	s.Error = deviation(s.Got, s.Model)
	return s, nil
}

// within returns the arrivals after from, up to to, sorted; just from and to if there were too few.
func within(all []Packets, from, to int64) []int64 {
	var at []int64
	for _, p := range all {
		for _, t := range p.Arrived {
			if t > from && t <= to {
				at = append(at, t)
			}
		}
	}
	if len(at) < minSamples {
		return []int64{from, to}
	}
	slices.Sort(at)
	return at
}

// capacity is the payload rate of a hop in bytes per ns, real time; +Inf if it has no bandwidth.
func (m *Model) capacity(hop int) float64 {
	l := fabric.LinkOf(m.fab.Hops[hop].Spec)
	if r := l.PayloadRate(); r > 0 {
		return r / 1e9 / float64(m.scale)
	}
	return math.Inf(1)
}

// fair is the max-min fair rate of each flow in bytes of payload per ns. Repeatedly, the hop with the smallest equal
// share for its flows fixes their rates.
func (m *Model) fair(flows []Flow) []float64 {
	remaining := make([]float64, len(m.fab.Hops))
	for hop := range remaining {
		remaining[hop] = m.capacity(hop)
	}
	rates := slices.Repeat([]float64{-1}, len(flows)) // not known yet
	for {
		users := make([]float64, len(remaining))
		for i, f := range flows {
			for _, s := range m.fab.Path(f.Src, f.Dst) {
				if rates[i] < 0 {
					users[s.Hop]++
				}
			}
		}
		bottleneck := -1
		for hop, n := range users {
			if n > 0 && (bottleneck < 0 || remaining[hop]/n < remaining[bottleneck]/users[bottleneck]) {
				bottleneck = hop
			}
		}
		if bottleneck < 0 {
			return rates
		}
		m.assign(flows, rates, remaining, bottleneck, remaining[bottleneck]/users[bottleneck])
	}
}

// assign sets the rate of the flows over hop that have none yet, and subtracts it from all hops of their paths.
func (m *Model) assign(flows []Flow, rates, remaining []float64, hop int, rate float64) {
	for i, f := range flows {
		path := m.fab.Path(f.Src, f.Dst)
		if rates[i] >= 0 || !slices.ContainsFunc(path, func(s link.PathHop) bool { return s.Hop == hop }) {
			continue
		}
		rates[i] = rate
		for _, s := range path {
			remaining[s.Hop] = max(remaining[s.Hop]-rate, 0)
		}
	}
}
