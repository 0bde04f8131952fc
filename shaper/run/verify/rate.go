// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// fillRounds is the minimum length of a stream in round trips: some to fill the path, and more to measure a rate.
const fillRounds = 12

// rates measures the rate of each path with a stream.
func (x *measurement) rates(ctx context.Context) error {
	all := groups(x.paths, x.parallelRate)
	each := time.Duration(ratePart * float64(x.Time) / float64(len(all)))
	for i, g := range all {
		x.progress(ratePart * float64(i) / float64(len(all)))
		if err := x.how.rateOf(ctx, g.paths, each); err != nil {
			return err
		}
	}
	return nil
}

// rateOf measures the rates of paths that share no hop.
func (x *messages) rateOf(ctx context.Context, paths []pathSpec, d time.Duration) error {
	d = max(min(d, maxStream), x.rateTime(paths))
	tail := 2 * longestRound(paths)
	var flows []Flow
	var first []int
	for i := range paths {
		first = append(first, len(flows))
		flows = append(flows, x.streams(&paths[i], d)...)
	}
	first = append(first, len(flows))
	if slices.ContainsFunc(paths, func(path pathSpec) bool { return path.lossy }) {
		// Recovery of a loss by a timer may take longer than d.
		d = min(x.timeFor(flows, 2*minSamples, d), max(d, x.Time))
	}
	before := x.run.Hops()
	traces, err := x.sender.Run(ctx, flows, d, tail+x.timeouts(paths))
	if err != nil {
		return err
	}
	after := x.run.Hops()
	for i := range paths {
		path := &paths[i]
		l, f := x.link(path)
		part := flows[first[i]:first[i+1]]
		bursts := 1.0
		if path.lossy {
			l.Loss, bursts = x.loss(path, part[0].Size, before, after)
		}
		l.Rate = x.rate(path, part, traces[first[i]:first[i+1]], d, l.Loss)
		if path.lossy && l.Rate.Got == 0 && complete(traces[first[i]:first[i+1]]) {
			x.note(
				"%s: with recovery: rto too few messages arrived between losses to measure the rate: give a longer "+
					"--time", path.name)
			l.Rate.Error = 0
		} else {
			f.rate(path.name, &l.Rate)
		}
		if l.Rate.Limit > 100*maxLossyOff {
			x.note(
				"%s: with %.0f losses on %d connections the limit of the rate is %.0f %%: a longer --time makes it "+
					"smaller", path.name, l.Loss.Asked, l.Rate.Connections, l.Rate.Limit)
		}
		f.loss(path.name, l.Loss, bursts)
		if l.Rate.Asked > 0 && l.Rate.Model < 0.99*l.Rate.Asked {
			x.belowRate++
		}
	}
	return nil
}

// rateTime is the time until a stream has filled its path and sent a few segments.
func (x *messages) rateTime(paths []pathSpec) time.Duration {
	d := x.least
	for i := range paths {
		if path := &paths[i]; !math.IsInf(path.payload, 1) {
			d = max(d, time.Duration(fillRounds*path.round),
				time.Duration(minMessages/2*float64(path.segment)/path.payload))
		}
	}
	return d
}

// longestRound is the longest round trip of paths, real time.
func longestRound(paths []pathSpec) time.Duration {
	longest := time.Duration(0)
	for i := range paths {
		longest = max(longest, time.Duration(paths[i].round))
	}
	return longest
}

// complete says whether every posted message arrived.
func complete(traces []Trace) bool {
	return !slices.ContainsFunc(traces, func(t Trace) bool { return len(t.Visible) < len(t.Posted) })
}

// timeouts is an upper bound of the time for recovering losses at the end of a run.
func (x *messages) timeouts(paths []pathSpec) time.Duration {
	if slices.ContainsFunc(paths, func(path pathSpec) bool { return path.lossy }) {
		return time.Duration(4 * x.transport.RTO)
	}
	return 0
}

// link returns the results of a path and its findings.
func (x *measurement) link(path *pathSpec) (*Link, *finder) {
	i := x.index(path)
	x.links[i].Name = path.name
	return &x.links[i], &x.findings[i]
}

// bps converts bytes per ns of real time to bits per second of the emulated network.
func (m *Model) bps(rate float64) float64 { return rate * 8e9 * float64(m.scale) }

// rate evaluates the streams of a path; loss is nil if the path loses nothing.
func (x *messages) rate(path *pathSpec, flows []Flow, traces []Trace, d time.Duration, loss *Loss) Rate {
	due := x.dueOf(flows, traces)
	r := Rate{Limit: 100 * maxRateOff, Connections: len(flows), Message: flows[0].Size}
	for _, t := range traces {
		r.Messages += len(t.Visible)
	}
	if math.IsInf(path.payload, 1) {
		r.Got = x.bps(paceOf(flows, traces, due, nil).got)
		return r
	}
	p := paceOf(flows, traces, due, x.ideal(flows, traces, d))
	r.Asked, r.Model, r.Got = x.bps(path.payload), x.bps(p.ideal), x.bps(p.got)
	if p.ideal == 0 {
		r.Model = r.Asked
	}
	if loss != nil {
		tolerance := 100 * maxLossyOff
		if len(flows) > 1 {
			tolerance = lossTolerance(loss)
			if x.transport.Kind == link.TCP {
				r.Limit = tolerance
			}
		}
		// When a message is posted decides which segments a loss delays. So the model posts when this host did,
		// unless the host posted too slowly.
		if math.Abs(deviation(p.want, p.ideal)) < tolerance {
			r.Model = x.bps(p.want)
		}
	}
	r.Error = deviation(r.Got, r.Model)
	return r
}

// lossTolerance is the deviation in percent that the rate of several flows over one path may have for given random
// losses. The effect of a loss changes with 100 ns in the timing of the host, because they decide which flow's segment
// is lost; most of all with tcp, where a loss halves the window. The relative deviation of the rate is about the
// deviation of the number of losses; this is 3.5 standard deviations, at least [maxLossyOff].
func lossTolerance(l *Loss) float64 {
	return 100 * max(maxLossyOff, 3.5/math.Sqrt(max(l.Asked, 1)))
}

// ideal returns the model's traces if every message had been posted as soon as the depth allowed it: for a little
// longer than d, so that it includes all messages.
func (x *messages) ideal(flows []Flow, traces []Trace, d time.Duration) []Trace {
	flows = slices.Clone(flows)
	for i, t := range traces {
		flows[i].Messages = min(flows[i].Messages, 2*len(t.Posted)+2*MaxDepth)
	}
	return x.play(flows, ids(traces), nil, int64(d+d/8))
}

// forever is later than any event of a simulation with given posts.
const forever = math.MaxInt64 / 2

func postsOf(traces []Trace) [][]int64 {
	var all [][]int64
	for _, t := range traces {
		all = append(all, t.Posted)
	}
	return all
}

func ids(traces []Trace) []uint64 {
	var all []uint64
	for _, t := range traces {
		all = append(all, t.ID)
	}
	return all
}

// loss compares the packets that a path's hops dropped, for messages of so many bytes, with the losses asked for.
func (x *messages) loss(path *pathSpec, message int, before, after []state.HopStatus) (l *Loss, bursts float64) {
	l, bursts = &Loss{}, 1
	// Each hop carries what the hops before it did not lose. The hop's own counter is not enough: it does not count
	// the packets of a go-back-N flow that the hop itself loses.
	packets := x.packets(path.hops[0], before, after)
	for _, hop := range path.hops {
		if !x.params[hop].Loss.Any() {
			continue
		}
		part, spread := x.lossOf(x.fab.Hops[hop].Spec.Loss, path, message)
		drops := after[hop].Counters.Drops - before[hop].Counters.Drops
		l.Packets += packets
		l.Got += drops
		l.Asked += float64(packets) * part
		bursts = max(bursts, spread)
		packets -= min(drops, packets)
	}
	return l, bursts
}

// packets is the number of packets that a hop carried.
func (x *messages) packets(hop int, before, after []state.HopStatus) uint64 {
	p, a, b := &x.params[hop], before[hop].Counters, after[hop].Counters
	if p.PerPacket > 0 {
		return (b.LineBytes - a.LineBytes - (b.Bytes - a.Bytes)) / uint64(p.PerPacket)
	}
	return (b.Bytes - a.Bytes) / uint64(p.Payload)
}
