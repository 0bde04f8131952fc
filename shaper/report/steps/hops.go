// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"strconv"

	"github.com/ddlemu/ddlemu/configs/units"
)

// mostHops is how many hops a table shows. JSON has all.
const mostHops = 4

// hops writes the busiest hops.
func (t *text) hops() {
	if len(t.Hops) == 0 || t.Time <= 0 {
		return
	}
	width := len("hop")
	shown := t.Hops[:min(len(t.Hops), mostHops)]
	for i := range shown {
		width = max(width, len(shown[i].Name))
	}
	const rest = "  %12s  %14s  %12s  %8s  %8s"
	t.line("# %-*s"+rest, width, "hop", "bandwidth", "bytes", "average", "busy", "peak")
	t.line("# %-*s"+rest, width, "", "", "(B)", "(Gb/s)", "(%)", "(%)")
	percent := func(share *float64) string {
		if share == nil {
			return "-"
		}
		return strconv.FormatFloat(100**share, 'f', 1, 64)
	}
	for i := range shown {
		h := &shown[i]
		t.line("  %-*s"+rest, width, h.Name, h.Bandwidth, strconv.FormatUint(h.Bytes, 10),
			strconv.FormatFloat(h.Rate(t.Time)/1e9, 'f', 4, 64), percent(h.Share(t.Time)), percent(h.Peak))
	}
	if more := len(t.Hops) - len(shown); more > 0 {
		t.line("# and %s, less busy: see --json", units.Count(more, "more hop"))
	}
	if t.Window > 0 {
		t.line("# peak: the busiest of the windows of %s us, by the model", microseconds(t.Window))
	}
	t.line("#")
}

// HopReport is a [HopUse] as JSON.
type HopReport struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Bandwidth is null if it is unlimited, and so are Busy and Peak.
	Bandwidth *uint64  `json:"bandwidth_bps"`
	Bytes     uint64   `json:"bytes"`
	Rate      float64  `json:"average_bps"`
	Busy      *float64 `json:"busy"`
	Peak      *float64 `json:"peak"`
}

func (r *Result) hopReports() []HopReport {
	out := []HopReport{}
	for i := range r.Hops {
		h := &r.Hops[i]
		report := HopReport{Name: h.Name, Kind: h.Kind, Bytes: h.Bytes, Rate: h.Rate(r.Time), Busy: h.Share(r.Time),
			Peak: h.Peak}
		if h.Bandwidth != 0 {
			report.Bandwidth = new(uint64(h.Bandwidth))
		}
		out = append(out, report)
	}
	return out
}
