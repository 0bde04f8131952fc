// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"math"
	"slices"
	"time"
)

// latencies measures the latency of each path with single messages.
func (x *measurement) latencies(ctx context.Context) error {
	all := groups(x.paths, math.Inf(1))
	each := time.Duration(latencyPart * float64(x.Time) / float64(len(all)))
	for i, g := range all {
		x.progress(ratePart + latencyPart*float64(i)/float64(len(all)))
		if err := x.how.latencyOf(ctx, g.paths, each); err != nil {
			return err
		}
		for k := range g.paths {
			x.whole[x.index(&g.paths[k])] = true
		}
	}
	return nil
}

// latencyOf measures the latencies of paths that share no hop.
func (x *messages) latencyOf(ctx context.Context, paths []pathSpec, d time.Duration) error {
	var flows []Flow
	end, tail := time.Duration(0), time.Duration(0)
	for i := range paths {
		f := x.probes(&paths[i], maxProbes)
		f.Messages = min(max(int(d/f.Spacing), minProbes), maxProbes)
		if x.fab.Config.IsVirtual() {
			f.Messages = maxProbes // a pause between messages costs nothing
		}
		flows = append(flows, f)
		end = max(end, 2*f.Spacing*time.Duration(f.Messages))
		tail = max(tail, time.Duration(2*paths[i].round+x.spread(&paths[i])))
	}
	tail += x.timeouts(paths)
	traces, err := x.sender.Run(ctx, flows, end, tail)
	if err != nil {
		return err
	}
	due := x.dueOf(flows, traces)
	for i := range paths {
		l, f := x.link(&paths[i])
		l.Latency, l.Jitter = x.latency(&paths[i], &traces[i], &due[i])
		if !paths[i].unshaped() {
			f.latency(paths[i].name, &l.Latency, l.Jitter, x.limits(l.Latency.Asked))
		}
	}
	return nil
}

// latencyTime is the time until minProbes messages have arrived on each path.
func (m *Model) latencyTime(paths []pathSpec) time.Duration {
	d := time.Duration(0)
	for i := range paths {
		f := m.probes(&paths[i], minProbes)
		d = max(d, minProbes*f.Spacing+f.Least)
	}
	return d
}

// latency evaluates the single messages of a path; due is the trace of the model.
func (x *messages) latency(path *pathSpec, got, due *Trace) (Latency, *Jitter) {
	n := min(len(got.Visible), len(due.Visible))
	k := float64(x.scale)
	l := Latency{Asked: float64(path.latency) / 1e3, Messages: n}
	tolerance := 1e3 * x.limits(l.Asked).p50
	var least, took, late, seen []float64
	for i := range n {
		// The message was posted at some time during the call.
		posting := got.Returned[i] - got.Posted[i]
		late = append(late, float64(max(got.Missing[i]-due.Visible[i]-posting, 0))/k/1e3)
		seen = append(seen, float64(got.Visible[i]-due.Visible[i])/k/1e3)
		if path.lossy && float64(due.Visible[i]-got.Posted[i]) > (float64(path.latency)+tolerance)*k+
			float64(x.spread(path)) {
			l.Held++
			continue
		}
		// If this process was not running when a message arrived, its latency is not known.
		a, b := float64(max(got.Missing[i]-got.Posted[i], 0)), float64(got.Visible[i]-got.Posted[i])
		if (b-a+float64(posting))/k <= tolerance {
			least, took = append(least, a/k), append(took, b/k)
		}
	}
	for _, s := range [][]float64{least, took, late, seen} {
		slices.Sort(s)
	}
	if l.Known = len(took); l.Known == 0 {
		return l, nil
	}
	l.P50, l.P99 = quantile(took, 0.5)/1e3, quantile(took, 0.99)/1e3
	l.LateP50, l.LateP99, l.SeenP99 = quantile(late, 0.5), quantile(late, 0.99), quantile(seen, 0.99)
	var j *Jitter
	if len(path.jitter) > 0 {
		asked := x.askedLatencies(path)
		l.Asked = quantile(asked, 0.5) / 1e3
		j = jitterOf(least, took, asked, tolerance)
	}
	l.Error = l.P50 - l.Asked
	return l, j
}

// jitterOf compares latencies with the distribution that was asked for. Latency i is between least[i] and most[i]. All
// are sorted, in ns.
func jitterOf(least, most, asked []float64, tolerance float64) *Jitter {
	j := &Jitter{Limit: criticalDistance(len(most)), Distance: distance(least, most, asked, tolerance)}
	for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.99} {
		j.Quantiles = append(j.Quantiles, Quantile{q, quantile(asked, q) / 1e3, quantile(most, q) / 1e3})
	}
	return j
}
