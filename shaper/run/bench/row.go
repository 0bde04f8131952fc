// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// OffPercent is the deviation from the expected time above which [Measurement.Off] is set.
const OffPercent = 5.0

// Row is one line of nccl-tests' table.
type Row struct {
	Size, Count int64 // bytes and elements, as in nccl-tests
	Type        nccl.DataType
	Op          string // "none" if nothing is reduced
	Root        int    // -1 if there is none
	OutOfPlace  Measurement
	InPlace     *Measurement // nil if the collective has no in-place form
}

// Measurements returns the halves of the row that were measured.
func (r Row) Measurements() []Measurement {
	if r.InPlace == nil {
		return []Measurement{r.OutOfPlace}
	}
	return []Measurement{r.OutOfPlace, *r.InPlace}
}

// Place names a half of a row.
func Place(inPlace bool) string {
	if inPlace {
		return "in place"
	}
	return "out of place"
}

// Measurement is a row's out-of-place or in-place half. Times are of one iteration, divided by the time scale.
type Measurement struct {
	InPlace bool
	// Time is the average over the ranks by the selected clock, TimeMin and TimeMax the extremes.
	Time, TimeMin, TimeMax time.Duration
	// Wall and Device are the averages by each clock, see [Clock].
	Wall, Device time.Duration
	// AlgBW and BusBW are size / time, times the factors of the collective, in GB/s (10^9 bytes).
	AlgBW, BusBW float64
	// Checked says whether the elements were compared. Wrong is the number of wrong elements on all ranks.
	Checked bool
	Wrong   int64
	// Mismatch describes the first wrong element in words.
	Mismatch string
	// Decision is NCCL's; nil if its log does not have it, and for send and receive.
	Decision *nccllog.Decision
	// Channels is the number of NCCL's channels that the call used, from its log or, before 2.23, from the model; 0 if
	// not known.
	Channels int
	// Expected is the expected time, if Known. Diff is the percentage by which the measured time exceeds it.
	Known    bool
	Expected time.Duration
	Diff     float64
	// Spread is the possible deviation of Expected in either direction in percent, see [Expectation].
	Spread float64
	// Extrapolated is from [Expectation].
	Extrapolated bool
	// Off says that Diff exceeds [OffPercent] plus Spread in either direction.
	Off bool

	Case Case // that was measured, with NCCL's decision
}

// bandwidths sets AlgBW and BusBW from the time, if that is above 0.
func (m *Measurement) bandwidths(c Case) {
	if m.Time <= 0 {
		return
	}
	rate := float64(c.Count*c.Type.Size()*c.Collective.Shares(c.Ranks)) / float64(m.Time.Nanoseconds())
	m.AlgBW, m.BusBW = rate*c.Collective.AlgFactor(c.Ranks), rate*c.Collective.PortFactor(c.Ranks)
}

// decided sets Decision, and Channels if the log has them.
func (m *Measurement) decided(c *nccllog.Decision) {
	m.Decision = c
	if c != nil && c.ChannelLo >= 0 && c.ChannelHi >= c.ChannelLo {
		m.Channels = c.ChannelHi - c.ChannelLo + 1
	}
}

// compare sets Expected, Diff and Off, and Channels if the log did not have them.
func (m *Measurement) compare(e Expectation) {
	m.Channels = cmp.Or(m.Channels, e.Channels)
	m.Known, m.Expected, m.Spread, m.Extrapolated = true, e.Time, 100*e.Spread, e.Extrapolated
	if e.Time <= 0 {
		return
	}
	m.Diff = 100 * (float64(m.Time)/float64(e.Time) - 1)
	m.Off = math.Abs(m.Diff) > OffPercent+m.Spread
}
