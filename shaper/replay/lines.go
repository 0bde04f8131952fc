// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// Line is how much of one direction of a NIC, of a trunk, or of a link that is slower than its NICs, the steps used.
type Line struct {
	Name string // node0 tx, leaf0:spine1
	Kind string // tx, rx, trunk or link
	// Bandwidth is the line's, 0 for unlimited.
	Bandwidth units.Bandwidth
	Bytes     uint64 // payload, each transmission counted
	// Busy is for how long the line was occupied, with the headers of packets.
	Busy time.Duration
	// Peak is the largest part of a window of [Result.Window] for which it was occupied, by the model; nil if not known.
	Peak *float64
}

// Rate is the payload in bits per second, averaged over a time.
func (l *Line) Rate(over time.Duration) float64 {
	return float64(l.Bytes) * 8 / max(over, 1).Seconds()
}

// Share is the part of a time for which the line was occupied; nil if it is unlimited.
func (l *Line) Share(of time.Duration) *float64 {
	if l.Bandwidth == 0 {
		return nil
	}
	share := l.Busy.Seconds() / max(of, 1).Seconds()
	return &share
}

var lineKinds = map[fabric.Kind]string{fabric.TxPort: "tx", fabric.RxPort: "rx", fabric.Link: "link", fabric.Trunk: "trunk"}

// hopLoad is what a hop has carried.
type hopLoad struct {
	bytes uint64
	busy  time.Duration
}

// linesOf are the lines of a fabric that carried something, the busiest first. Load is by hop; model has their peaks, nil if
// they are not known.
func linesOf(f *fabric.Fabric, load func(hop int) hopLoad, model *occupation) (lines []Line) {
	for hop, h := range f.Hops {
		l := load(hop)
		if l.bytes == 0 || h.Kind == fabric.Link && !limits(f, h) {
			continue
		}
		line := Line{Name: f.HopName(hop), Kind: lineKinds[h.Kind], Bandwidth: fabric.LinkOf(h.Spec).Bandwidth, Bytes: l.bytes, Busy: l.busy}
		if model != nil && h.Spec.Bandwidth != 0 {
			line.Peak = model.peak(hop)
		}
		lines = append(lines, line)
	}
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Bytes, a.Bytes))
	})
	return lines
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
	return &occupation{width: 1024, most: stepWindows * max(min(steps, jobWindows/stepWindows), 1), hops: map[int]*hopOccupation{}}
}

// add notes a segment on a hop.
func (o *occupation) add(hop int, p *link.Pass) {
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

// setLines sets the lines, with what each hop has carried in all steps.
func (r *Result) setLines(load func(hop int) hopLoad) {
	r.Lines = linesOf(r.Facts.Fabric, load, r.Facts.occupied)
	if r.Facts.occupied != nil {
		r.Window = time.Duration(r.Facts.occupied.width)
	}
}

// mostLines is how many lines a table shows. JSON has all.
const mostLines = 4

// lines writes the busiest lines.
func (t *text) lines() {
	if len(t.Lines) == 0 || t.Time <= 0 {
		return
	}
	width := len("line")
	shown := t.Lines[:min(len(t.Lines), mostLines)]
	for i := range shown {
		width = max(width, len(shown[i].Name))
	}
	const rest = "  %12s  %14s  %12s  %8s  %8s"
	t.line("# %-*s"+rest, width, "line", "bandwidth", "bytes", "average", "busy", "peak")
	t.line("# %-*s"+rest, width, "", "", "(B)", "(Gb/s)", "(%)", "(%)")
	percent := func(share *float64) string {
		if share == nil {
			return "-"
		}
		return strconv.FormatFloat(100**share, 'f', 1, 64)
	}
	for i := range shown {
		l := &shown[i]
		t.line("  %-*s"+rest, width, l.Name, l.Bandwidth, strconv.FormatUint(l.Bytes, 10), strconv.FormatFloat(l.Rate(t.Time)/1e9, 'f', 4, 64), percent(l.Share(t.Time)), percent(l.Peak))
	}
	if more := len(t.Lines) - len(shown); more > 0 {
		t.line("# and %s, less busy: see --json", units.Count(more, "more line"))
	}
	if t.Window > 0 {
		t.line("# peak: the busiest of the windows of %s us, by the model", microseconds(t.Window))
	}
	t.line("#")
}

// LineReport is a [Line] as JSON.
type LineReport struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Bandwidth is null if it is unlimited, and so are Busy and Peak.
	Bandwidth *uint64  `json:"bandwidth_bps"`
	Bytes     uint64   `json:"bytes"`
	Rate      float64  `json:"average_bps"`
	Busy      *float64 `json:"busy"`
	Peak      *float64 `json:"peak"`
}

func (r *Result) lineReports() []LineReport {
	out := []LineReport{}
	for i := range r.Lines {
		l := &r.Lines[i]
		report := LineReport{Name: l.Name, Kind: l.Kind, Bytes: l.Bytes, Rate: l.Rate(r.Time), Busy: l.Share(r.Time), Peak: l.Peak}
		if l.Bandwidth != 0 {
			bps := uint64(l.Bandwidth)
			report.Bandwidth = &bps
		}
		out = append(out, report)
	}
	return out
}
