// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"slices"
	"time"
)

// latencyOf measures the latencies of paths that share no hop with single packets.
func (x *packets) latencyOf(ctx context.Context, paths []pathSpec, d time.Duration) error {
	var streams []Stream
	end, tail := time.Duration(0), time.Duration(0)
	for i := range paths {
		path := &paths[i]
		f := x.probes(path, maxProbes)
		n := min(max(int(d/f.Spacing), minProbes), maxProbes)
		s := Stream{Src: path.src, Dst: path.dst, Size: probeSize, Burst: 1, Window: n, Spacing: f.Spacing, Most: n}
		streams = append(streams, s)
		end, tail = max(end, 4*f.Spacing*time.Duration(n)), max(tail, x.tail(path, &s, path.payload))
	}
	traces, err := x.sender.Send(ctx, streams, end, tail)
	if err != nil {
		return err
	}
	for i := range paths {
		path := &paths[i]
		l, f := x.link(path)
		l.Latency, l.Jitter = x.latency(path, &traces[i])
		if !path.unshaped() {
			f.latency(path.name, &l.Latency, l.Jitter, x.limits(l.Latency.Asked))
		}
		loss, bursts := x.losses(path, &traces[i])
		f.loss(path.name, loss, bursts)
	}
	return nil
}

// latency evaluates the single packets of a path.
func (x *packets) latency(path *pathSpec, p *Packets) (Latency, *Jitter) {
	var took, seen []float64
	for i, at := range p.Arrived {
		if at != 0 {
			took = append(took, float64(at-p.Sent[i])/float64(x.scale))
			seen = append(seen, float64(p.Seen[i]-p.Sent[i])/float64(x.scale))
		}
	}
	slices.Sort(took)
	slices.Sort(seen)
	l := Latency{Asked: float64(path.latency) / 1e3, Messages: len(took), Known: len(took)}
	if len(took) == 0 {
		return l, nil
	}
	l.P50, l.P99 = quantile(took, 0.5)/1e3, quantile(took, 0.99)/1e3
	if len(path.jitter) > 0 {
		asked := x.askedLatencies(path)
		l.Asked = quantile(asked, 0.5) / 1e3
		l.Error = l.P50 - l.Asked
		l.SeenP99 = max(quantile(seen, 0.99)-quantile(asked, 0.99), 0) / 1e3
		return l, jitterOf(took, took, asked, 1e3*x.limits(l.Asked).p50)
	}
	l.Error = l.P50 - l.Asked
	l.LateP50, l.LateP99 = max(l.Error, 0), max(l.P99-l.Asked, 0)
	l.SeenP99 = max(quantile(seen, 0.99)/1e3-l.Asked, 0)
	return l, nil
}
