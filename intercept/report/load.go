// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// fabric draws the fabric. Links between NICs are listed if something happened there, and drawn if they were down.
func (m *maker) fabric() {
	var lines []Line
	changed := m.changedHops()
	m.data.Fabric.Drawing, lines, m.hops = Draw(m.atBegin(), func(h int) bool { return len(m.OnHop(h)) > 0 },
		func(h int) bool { return len(m.down(h)) > 0 })
	m.data.Fabric.Hops = []HopTraffic{}
	place := map[int]int{}
	for i, l := range lines {
		place[m.hops[i]] = i
		m.data.Fabric.Hops = append(m.data.Fabric.Hops, HopTraffic{Line: l, Changes: changed[m.hops[i]]})
	}
	m.changes(place)
	m.data.Load.Hops = []HopLoads{}
}

// atBegin is the fabric with what its links had in force at the begin of the report.
func (m *maker) atBegin() *fabric.Fabric {
	f := *m.Fabric.Fabric
	f.Hops = slices.Clone(f.Hops)
	for h, s := range m.Fabric.SpecsAt(m.first) {
		f.Hops[h].Spec = s
	}
	return &f
}

// changedHops are the parameters of each hop after the begin of the report.
func (m *maker) changedHops() map[int][]HopChange {
	all := map[int][]HopChange{}
	specs := m.Fabric.SpecsAt(m.first)
	for _, c := range m.Fabric.Changes {
		if c.Time <= m.first {
			continue
		}
		what := configs.LinkDifference(fabric.LinkOf(specs[c.Hop]), fabric.LinkOf(c.Spec))
		specs[c.Hop] = c.Spec
		if what != "" {
			all[c.Hop] = append(all[c.Hop], HopChange{Time: m.time(c.Time), What: what, Bandwidth: rateOf(&c.Spec),
				Latency: c.Spec.Latency.Nanoseconds(), Loss: c.Spec.Loss != link.Loss{}, Down: c.Spec.Down})
		}
	}
	return all
}

// changes lists the changes of links. place is the place of each hop in the document.
func (m *maker) changes(place map[int]int) {
	m.data.Changes = []Change{}
	for _, c := range m.Fabric.LinkChanges(m.first) {
		x := Change{Time: m.time(c.Time), Text: c.Text(m.Fabric.Fabric), Hops: []int{}}
		for _, h := range c.Hops {
			if i, ok := place[h]; ok {
				x.Hops = append(x.Hops, i)
			}
		}
		m.data.Changes = append(m.data.Changes, x)
	}
}

// How fine the load over time is: so many windows, fewer on a large fabric, so that a page stays small.
const (
	mostWindows  = 400
	leastWindows = 40
	mostPoints   = 400_000
)

// load sums what each hop did in each window.
func (m *maker) load() {
	windows := int64(max(leastWindows, min(mostWindows, mostPoints/max(len(m.hops), 1))))
	window := max(m.scale, (m.last-m.first+windows)/windows)
	m.data.Load.Window = m.ns(window)
	for i, h := range m.hops {
		hop := &m.data.Fabric.Hops[i]
		busy, queue := make([]int64, windows), make([]int64, windows)
		var waits []level
		for _, n := range m.OnHop(h) {
			p := &m.HopRecords[n]
			hop.Bytes, hop.Busy = hop.Bytes+uint64(p.Bytes), hop.Busy+p.Dur
			if p.Hop == 0 {
				hop.Again += uint64(p.Retransmitted)
			}
			occupy(busy, window, p.Start-m.first, p.Start-m.first+p.Dur)
			if p.Start > p.Ready && p.Bytes > 0 {
				waits = append(waits, level{p.Ready - m.first, int64(p.Bytes)},
					level{p.Start - m.first, -int64(p.Bytes)})
			}
		}
		hop.Busy = m.ns(hop.Busy)
		most(queue, window, waits)
		loads := HopLoads{Busy: []int{}, Queue: []int64{}, Down: m.down(h)}
		hop.Down = hop.Down || len(loads.Down) > 0
		if len(m.OnHop(h)) > 0 {
			for w := range busy {
				loads.Busy = append(loads.Busy, int((1000*busy[w]+window/2)/window))
			}
			loads.Queue = queue
		}
		m.data.Load.Hops = append(m.data.Load.Hops, loads)
	}
}

// occupy adds a time to the windows in which it is.
func occupy(busy []int64, window, begin, end int64) {
	for begin < end {
		w := begin / window
		if w < 0 || w >= int64(len(busy)) {
			return
		}
		next := min(end, (w+1)*window)
		busy[w] += next - begin
		begin = next
	}
}

// level is bytes that begin or cease to wait.
type level struct{ time, bytes int64 }

// most is the most bytes that waited in each window.
func most(queue []int64, window int64, all []level) {
	slices.SortFunc(all,
		func(a, b level) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.bytes, b.bytes)) })
	now, at := int64(0), int64(0) // what waits before the next change, and the window that it is counted in
	for i, l := range all {
		last := min(max((l.time-1)/window, 0), int64(len(queue))-1) // the window just before the change
		for at < last {
			at++
			queue[at] = max(queue[at], now)
		}
		now += l.bytes
		if i+1 < len(all) && all[i+1].time == l.time {
			continue
		}
		at = min(max(l.time/window, 0), int64(len(queue))-1)
		queue[at] = max(queue[at], now)
	}
}

// down are the times in which a hop was down.
func (m *maker) down(h int) (all []Period) {
	is, since := m.Fabric.Hops[h].Spec.Down, m.first
	for _, c := range m.Fabric.Changes {
		switch {
		case c.Hop != h:
		case c.Spec.Down && !is:
			is, since = true, max(c.Time, m.first)
		case !c.Spec.Down && is:
			is = false
			all = append(all, Period{m.time(since), m.time(max(c.Time, since))})
		}
	}
	if is {
		all = append(all, Period{m.time(since), m.time(m.last)})
	}
	return all
}
