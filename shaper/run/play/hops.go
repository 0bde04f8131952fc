// SPDX-License-Identifier: Apache-2.0

package play

import (
	"cmp"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// HopUse is how much of a hop the steps used: of a port, of a trunk, or of a link that is slower than its ports.
type HopUse struct {
	Name string // node0 tx, leaf0:spine1
	Kind string // tx, rx, trunk or link
	// Bandwidth is the hop's, 0 for unlimited.
	Bandwidth units.Bandwidth
	Bytes     uint64 // payload, each transmission counted
	// Busy is for how long the hop was occupied, with the headers of packets.
	Busy time.Duration
	// Peak is the largest part of a window of [Result.Window] for which it was occupied, by the model; nil if not
	// known.
	Peak *float64
}

// Rate is the payload in bits per second, averaged over a time.
func (h *HopUse) Rate(over time.Duration) float64 {
	return float64(h.Bytes) * 8 / max(over, 1).Seconds()
}

// Share is the part of a time for which the hop was occupied; nil if it is unlimited.
func (h *HopUse) Share(of time.Duration) *float64 {
	if h.Bandwidth == 0 {
		return nil
	}
	return new(h.Busy.Seconds() / max(of, 1).Seconds())
}

// hopLoad is what a hop has carried.
type hopLoad struct {
	bytes uint64
	busy  time.Duration
}

// usesOf are the hops of a fabric that carried something, the busiest first. Load is by hop; model has their peaks,
// nil if they are not known.
func usesOf(f *fabric.Fabric, load func(hop int) hopLoad, model *occupation) (uses []HopUse) {
	for hop, h := range f.Hops {
		l := load(hop)
		if l.bytes == 0 || h.Kind == link.Link && !limits(f, h) {
			continue
		}
		use := HopUse{Name: f.HopName(hop), Kind: h.Kind.Name(), Bandwidth: fabric.LinkOf(h.Spec).Bandwidth,
			Bytes: l.bytes, Busy: l.busy}
		if model != nil && h.Spec.Bandwidth != 0 {
			use.Peak = model.peak(hop)
		}
		uses = append(uses, use)
	}
	slices.SortStableFunc(uses, func(a, b HopUse) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Bytes, a.Bytes))
	})
	return uses
}

// limits says whether a link is slower than the ports at its ends. Others are never as busy as these.
func limits(f *fabric.Fabric, h fabric.Hop) bool {
	rate := h.Spec.Bandwidth
	for _, port := range []int{2 * h.Src, 2*h.Dst + 1} {
		if limit := f.Hops[port].Spec.Bandwidth; rate == 0 || limit != 0 && rate >= limit {
			return false
		}
	}
	return true
}

// occupation is how busy hops were, in windows of equal width from the start of the job on.
type occupation struct {
	width int64 // ns
	most  int   // windows; when a time comes after them, each becomes twice as wide
	hops  map[int]*hopOccupation
}

type hopOccupation struct {
	hopLoad
	windows []int64 // ns occupied
}

// The windows of a step, and of a job.
const (
	stepWindows = 256
	jobWindows  = 4096
)

func newOccupation(steps int) *occupation {
	return &occupation{width: 1024, most: stepWindows * max(min(steps, jobWindows/stepWindows), 1),
		hops: map[int]*hopOccupation{}}
}

// add notes a segment on a hop.
func (o *occupation) add(hop int, p *link.HopRecord) {
	if p.Flags&link.Dropped != 0 {
		return
	}
	h := o.hops[hop]
	if h == nil {
		h = &hopOccupation{}
		o.hops[hop] = h
	}
	h.bytes += uint64(p.Bytes)
	h.busy += time.Duration(p.Dur)
	for p.Start+p.Dur > o.width*int64(o.most) {
		o.widen()
	}
	for start, left := p.Start, p.Dur; left > 0; {
		window := int(start / o.width)
		part := min(left, int64(window+1)*o.width-start)
		for len(h.windows) <= window {
			h.windows = append(h.windows, 0)
		}
		h.windows[window] += part
		start += part
		left -= part
	}
}

// widen makes the windows twice as wide.
func (o *occupation) widen() {
	o.width *= 2
	for _, h := range o.hops {
		n := (len(h.windows) + 1) / 2
		for i := range n {
			sum := h.windows[2*i]
			if 2*i+1 < len(h.windows) {
				sum += h.windows[2*i+1]
			}
			h.windows[i] = sum
		}
		h.windows = h.windows[:n]
	}
}

// peak is the largest part of a window for which a hop was occupied.
func (o *occupation) peak(hop int) *float64 {
	share := 0.0
	if h := o.hops[hop]; h != nil && len(h.windows) > 0 {
		share = float64(slices.Max(h.windows)) / float64(o.width)
	}
	return &share
}

// load is what a hop has carried by the model.
func (o *occupation) load(hop int) hopLoad {
	if h := o.hops[hop]; h != nil {
		return h.hopLoad
	}
	return hopLoad{}
}

// carried is what a hop has carried between two readings of the counters of all hops, in stated time.
func carried(before, after []link.Counters, timeScale int) func(hop int) hopLoad {
	return func(hop int) hopLoad {
		b, a := before[hop].Stated(timeScale), after[hop].Stated(timeScale)
		return hopLoad{bytes: a.Bytes - b.Bytes, busy: time.Duration(a.BusyNs - b.BusyNs)}
	}
}

// setHops sets the hops, with what each hop has carried in all steps.
func (r *Result) setHops(load func(hop int) hopLoad) {
	r.Hops = usesOf(r.Facts.Fabric, load, r.Facts.occupied)
	if r.Facts.occupied != nil {
		r.Window = time.Duration(r.Facts.occupied.width)
	}
}
