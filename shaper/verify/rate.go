// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// fillRounds is how many round trips a stream lasts at least: a few to fill its path, and
// more to have a rate.
const fillRounds = 12

// rates fills each path with a stream.
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
		// A loss that only a timer recovers may take longer than all of d.
		d = min(x.enough(flows, 2*minSamples, d), max(d, x.Time))
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
		if path.lossy && l.Rate.Got == 0 && whole(traces[first[i]:first[i+1]]) {
			x.note("%s: too few messages came between losses to tell the rate (of recovery: rto): a longer --time tells it", path.name)
			l.Rate.Error = 0
		} else {
			f.rate(path.name, &l.Rate)
		}
		if l.Rate.Limit > 100*maxLossyOff {
			x.note("%s: with %.0f losses on %d connections the rate is held to %.0f %% only: a longer --time narrows it", path.name, l.Loss.Asked, l.Rate.Connections, l.Rate.Limit)
		}
		f.loss(path.name, l.Loss, bursts)
		if l.Rate.Asked > 0 && l.Rate.Model < 0.99*l.Rate.Asked {
			x.short++
		}
	}
	return nil
}

// rateTime is until a stream has filled its path, and has sent a few segments.
func (x *messages) rateTime(paths []pathSpec) time.Duration {
	d := x.least
	for i := range paths {
		if path := &paths[i]; !math.IsInf(path.payload, 1) {
			d = max(d, time.Duration(fillRounds*path.round), time.Duration(minMessages/2*float64(path.segment)/path.payload))
		}
	}
	return d
}

// longestRound is the longest round trip of paths, on the clock.
func longestRound(paths []pathSpec) time.Duration {
	longest := time.Duration(0)
	for i := range paths {
		longest = max(longest, time.Duration(paths[i].round))
	}
	return longest
}

// whole says whether all that was posted came.
func whole(traces []Trace) bool {
	return !slices.ContainsFunc(traces, func(t Trace) bool { return len(t.Visible) < len(t.Posted) })
}

// timeouts is what recovering from losses at the end of a run may take.
func (x *messages) timeouts(paths []pathSpec) time.Duration {
	if slices.ContainsFunc(paths, func(path pathSpec) bool { return path.lossy }) {
		return time.Duration(4 * x.transport.RTO)
	}
	return 0
}

// link is the place of a path's results.
func (x *measurement) link(path *pathSpec) (*Link, *finder) {
	i := x.index(path)
	x.links[i].Name = path.name
	return &x.links[i], &x.parts[i]
}

// bps turns bytes per ns on the clock into bits per second of the emulated network.
func (m *Model) bps(rate float64) float64 { return rate * 8e9 * float64(m.scale) }

// rate is that of a path; loss is nil if it loses nothing.
func (x *messages) rate(path *pathSpec, flows []Flow, traces []Trace, d time.Duration, loss *Loss) Rate {
	due := x.play(flows, ids(traces), postsOf(traces), forever)
	r := Rate{Limit: 100 * maxRateOff, Connections: len(flows), Message: flows[0].Size}
	for _, t := range traces {
		r.Messages += len(t.Visible)
	}
	if math.IsInf(path.payload, 1) {
		r.Got = x.bps(paceOf(flows, traces, due, nil).got)
		return r
	}
	p := paceOf(flows, traces, due, x.free(flows, traces, d))
	r.Asked, r.Model, r.Got = x.bps(path.payload), x.bps(p.free), x.bps(p.got)
	if p.free == 0 {
		r.Model = r.Asked
	}
	if loss != nil {
		open := 100 * maxLossyOff
		if len(flows) > 1 {
			open = lossesOpen(loss)
			if x.transport.Kind == link.TCP {
				r.Limit = open
			}
		}
		// When somebody posts decides which segments a loss window up, so the model posts as
		// this host did, unless that is too slow.
		if math.Abs(off(p.want, p.free)) < open {
			r.Model = x.bps(p.want)
		}
	}
	r.Error = off(r.Got, r.Model)
	return r
}

// lossesOpen is by how many percent the rate of several flows over one path is open when
// the draws of loss are given. What a loss costs changes with 100 ns more or less of a
// host's, by which one flow or the other is first at the port; with tcp above all, where
// it halves a window. The rate has about the relative deviation of the number of losses:
// 3.5 of these, [maxLossyOff] at least.
func lossesOpen(l *Loss) float64 {
	return 100 * max(maxLossyOff, 3.5/math.Sqrt(max(l.Asked, 1)))
}

// free is what would have become of flows if what was posted had been posted as soon as
// there was room: for a little longer than d, so that each message is among it.
func (x *messages) free(flows []Flow, traces []Trace, d time.Duration) []Trace {
	flows = slices.Clone(flows)
	for i, t := range traces {
		flows[i].Messages = min(flows[i].Messages, 2*len(t.Posted)+2*MaxDepth)
	}
	return x.play(flows, ids(traces), nil, int64(d+d/8))
}

// forever is later than anything that is played with given posts.
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

// loss compares what a path's hops dropped of messages of so many bytes with what was asked.
func (x *messages) loss(path *pathSpec, message int, before, after []state.HopStatus) (l *Loss, bursts float64) {
	l, bursts = &Loss{}, 1
	// Each hop gets what the ones before did not lose. It does not count all of that itself:
	// not what it loses of a go-back-N flow by itself.
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

// packets is how many a hop carried.
func (x *messages) packets(hop int, before, after []state.HopStatus) uint64 {
	p, a, b := &x.params[hop], before[hop].Counters, after[hop].Counters
	if p.PerPacket > 0 {
		return (b.Wire - a.Wire - (b.Bytes - a.Bytes)) / uint64(p.PerPacket)
	}
	return (b.Bytes - a.Bytes) / uint64(p.Payload)
}
