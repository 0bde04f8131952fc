// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Minimum messages of the slowest flow: if there are many flows, and if there are few and their shares are the
// question.
const (
	fewShares  = 32
	manyShares = 256
)

// together measures flows that share hops, for d or as long as the slowest needs for few messages; nil if there are no
// flows.
func (x *measurement) together(ctx context.Context, what string, flows []Flow, few int, d time.Duration) (*Shared,
	error) {
	if len(flows) == 0 {
		x.note("%s: not measured, no bandwidth is asked for", what)
		return nil, nil
	}
	d = x.how.prepare(flows, few, max(d, 2*x.least))
	each, most := x.how.promised(flows)
	var best *Shared
	var found finder
	for try := 1; try <= x.tries; try++ {
		x.progress(ratePart + latencyPart + togetherPart*float64(try)/float64(x.tries))
		s, err := x.how.sharedOnce(ctx, flows, d)
		if err != nil {
			return nil, err
		}
		s.Tries, s.Judged = try, each
		var f finder
		f.shared(what, s, each, most)
		if s.Problems = f.words(); best == nil || len(f.found) == 0 || math.Abs(s.Error) < math.Abs(best.Error) {
			best, found = s, f
		}
		best.Tries = try
		if len(f.found) == 0 || f.hopeless() || x.outOfTime() {
			break
		}
	}
	x.shared.found = append(x.shared.found, found.found...)
	return best, nil
}

// prepare limits the messages of flows that share hops and returns how long to send them.
func (x *messages) prepare(flows []Flow, few int, d time.Duration) time.Duration {
	for i := range flows {
		path := x.pathOf(flows[i].Src, flows[i].Dst)
		d = max(d, time.Duration(fillRounds*path.round))
	}
	d = x.timeFor(flows, few, d)
	for i := range flows {
		path := x.pathOf(flows[i].Src, flows[i].Dst)
		flows[i].Messages = manyMessages(2*path.payload, flows[i].Size, d)
	}
	return d
}

// timeFor is the time that the slowest flow needs for few messages in the model, at least d.
func (x *messages) timeFor(flows []Flow, few int, d time.Duration) time.Duration {
	trial := slices.Clone(flows)
	for i := range trial {
		trial[i].Messages = 4 * few
	}
	last := int64(0)
	for _, t := range x.play(trial, make([]uint64, len(trial)), nil, forever) {
		if n := min(few, len(t.Visible)); n > 0 {
			last = max(last, t.Visible[n-1])
		}
	}
	return max(d, time.Duration(float64(last)*1.2))
}

// sharedOnce makes one measurement. Each flow is compared with the model in which all post as they did, the sum with
// the model in which all post as soon as they can.
func (x *messages) sharedOnce(ctx context.Context, flows []Flow, d time.Duration) (*Shared, error) {
	tail := time.Duration(0)
	for _, f := range flows {
		path := x.pathOf(f.Src, f.Dst)
		tail = max(tail, time.Duration(2*path.round))
	}
	traces, err := x.sender.Run(ctx, flows, d, tail+4*time.Duration(x.transport.RTO))
	if err != nil {
		return nil, err
	}
	due := x.dueOf(flows, traces)
	s, all, names := &Shared{}, pace{}, x.names(flows)
	for i, f := range flows {
		p := paceOf(flows[i:i+1], traces[i:i+1], due[i:i+1], nil)
		if x.loses() { // a loss stops a flow for long
			p = pace{got: meanRate(f.Size, traces[i], d), want: meanRate(f.Size, due[i], d)}
			all.got, all.want = all.got+p.got, all.want+p.want
		}
		s.Flows = append(s.Flows, SharedFlow{Name: names[i], Model: x.bps(p.want), Got: x.bps(p.got)})
	}
	s.compare()
	if !x.loses() {
		all = paceOf(flows, traces, due, x.ideal(flows, traces, d))
		all.want = all.ideal
	}
	s.Model, s.Got = x.bps(all.want), x.bps(all.got)
	s.Error = deviation(s.Got, s.Model)
	return s, nil
}

// names are the names of the flows' links, with a number if several flows use one link.
func (m *Model) names(flows []Flow) []string {
	var names []string
	total, seen := map[int]int{}, map[int]int{}
	for _, f := range flows {
		total[m.fab.Link(f.Src, f.Dst)]++
	}
	for _, f := range flows {
		link := m.fab.Link(f.Src, f.Dst)
		seen[link]++
		name := m.fab.HopName(link)
		if total[link] > 1 {
			name = fmt.Sprintf("%s (flow %d)", name, seen[link])
		}
		names = append(names, name)
	}
	return names
}

// compare fills in the deviations of the flows' rates from the model, their shares and the fairness.
func (s *Shared) compare() {
	var sum, squares, all float64
	for i := range s.Flows {
		f := &s.Flows[i]
		f.Error = deviation(f.Got, f.Model)
		ratio := 1 + f.Error/100
		sum, squares, all = sum+ratio, squares+ratio*ratio, all+f.Got
		s.Low, s.High = min(s.Low, f.Error), max(s.High, f.Error)
	}
	for i := range s.Flows {
		s.Flows[i].Share = s.Flows[i].Got / max(all, 1)
	}
	s.Fairness = sum * sum / (float64(len(s.Flows)) * max(squares, 1e-9))
}
