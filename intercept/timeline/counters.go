// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"maps"
	"slices"
)

// rate draws the payload that passed a hop, averaged over windows.
func (d *drawing) rate(group, h int) {
	sums := map[int64]float64{} // bytes in each window
	window, sum := int64(-1), 0.0
	for _, n := range d.OnHop(h) {
		p := &d.HopRecords[n]
		if p.Dur == 0 {
			continue
		}
		for at, end := p.Start, p.Start+p.Dur; at < end; {
			w := at / d.window
			if w != window {
				sums[window] += sum
				window, sum = w, 0
			}
			next := min(end, (w+1)*d.window)
			sum += float64(p.Bytes) * float64(next-at) / float64(p.Dur)
			at = next
		}
	}
	if window < 0 {
		return
	}
	sums[window] += sum
	delete(sums, -1)
	windows := slices.Sorted(maps.Keys(sums))
	track := d.counter(group, d.Fabric.HopName(h)+" rate", "Gb/s", tracksOfHop*h+rateTrack)
	ns := float64(d.window) / float64(d.clock.Scale)
	for i, w := range windows {
		d.Count(track, d.at(w*d.window), 8*sums[w]/ns)
		if i+1 == len(windows) || windows[i+1] != w+1 {
			d.Count(track, d.at((w+1)*d.window), 0)
		}
	}
}

// level is bytes that begin or cease to wait.
type level struct{ time, bytes int64 }

// queue draws the payload that waited for a hop: the most of each window.
func (d *drawing) queue(group, h int) {
	var all []level
	for _, n := range d.OnHop(h) {
		if p := &d.HopRecords[n]; p.Start > p.Ready && p.Dur > 0 {
			all = append(all, level{p.Ready, int64(p.Bytes)}, level{p.Start, -int64(p.Bytes)})
		}
	}
	if len(all) == 0 {
		return
	}
	// At one time those that cease come first: nobody waits twice.
	slices.SortFunc(all,
		func(a, b level) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.bytes, b.bytes)) })
	track := d.counter(group, d.Fabric.HopName(h)+" queue", "bytes", tracksOfHop*h+queueTrack)
	now, most, window := int64(0), int64(0), all[0].time/d.window
	for _, l := range all {
		if w := l.time / d.window; w != window {
			d.Count(track, d.at(window*d.window), float64(most))
			if w != window+1 {
				d.Count(track, d.at((window+1)*d.window), float64(now))
			}
			window, most = w, now
		}
		now += l.bytes
		most = max(most, now)
	}
	d.Count(track, d.at(window*d.window), float64(most))
	d.Count(track, d.at((window+1)*d.window), float64(now))
}

// sentAgain draws how many packets a port had sent again, because they were lost on their way.
func (d *drawing) sentAgain(group, h int) {
	sum, track := uint64(0), 0
	for _, n := range d.OnHop(h) {
		p := &d.HopRecords[n]
		if p.Hop != 0 || p.Retransmitted == 0 {
			continue
		}
		if track == 0 {
			track = d.counter(group, d.Fabric.HopName(h)+" packets sent again", "packets", tracksOfHop*h+againTrack)
		}
		sum += uint64(p.Retransmitted)
		d.Count(track, d.at(p.Start), float64(sum))
	}
}
