// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/shaper/bench/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// OffPercent is how far a measured time may be from the expected one before [Measurement.Off] is set.
const OffPercent = 5.0

// Row is one line of nccl-tests' table.
type Row struct {
	Size, Count int64 // bytes and elements, as nccl-tests counts them
	Type        nccl.DataType
	Op          string // "none" where there is no reduction
	Root        int    // -1 where there is none
	OutOfPlace  Measurement
	InPlace     *Measurement // nil where the collective has no in-place form
}

// Measurements returns what was measured.
func (r Row) Measurements() []Measurement {
	if r.InPlace == nil {
		return []Measurement{r.OutOfPlace}
	}
	return []Measurement{r.OutOfPlace, *r.InPlace}
}

// Measurement is a row's out-of-place or in-place half. Times are those of one iteration, divided by the
// time scale.
type Measurement struct {
	InPlace bool
	// Time is the average over the ranks by the clock that was asked for, TimeMin and TimeMax the extremes.
	Time, TimeMin, TimeMax time.Duration
	// Wall and Device are the averages by either clock, see [Clock].
	Wall, Device time.Duration
	// AlgBW is the size over the time and BusBW that times the bus factor, in GB/s (10^9 bytes).
	AlgBW, BusBW float64
	// Checked tells whether the elements were compared; Wrong of them, of all ranks together, were not as they must be.
	Checked bool
	Wrong   int64
	// Mismatch describes the first wrong element, for a person.
	Mismatch string
	// Decision is what NCCL decided; nil if its log does not tell, and for send and receive.
	Decision *nccllog.Decision
	// Channels is how many of NCCL's channels the call used: by its log, before 2.23 by the rules that the model has of
	// it; 0 if not known.
	Channels int
	// Expected is the time that was expected, if Known; Diff how much longer in percent the measurement took.
	Known    bool
	Expected time.Duration
	Diff     float64
	// Spread is how far in percent the expected time is open either way, see [Expectation].
	Spread float64
	// Off marks a Diff of more than [OffPercent] and Spread either way.
	Off bool
}

// bandwidths fills AlgBW and BusBW from the time, which must be above 0 for them to mean something.
func (m *Measurement) bandwidths(c Case) {
	if m.Time <= 0 {
		return
	}
	m.AlgBW = algorithmBytes(c) / float64(m.Time.Nanoseconds())
	m.BusBW = m.AlgBW * c.Collective.BusFactor(c.Ranks)
}

// algorithmBytes is the size that the algorithm bandwidth counts: the whole of what the ranks share.
func algorithmBytes(c Case) float64 {
	bytes := float64(c.Count * c.Type.Size())
	switch c.Collective {
	case nccl.AllGather, nccl.ReduceScatter, nccl.AllToAll:
		return bytes * float64(c.Ranks)
	}
	return bytes
}

// decided fills Decision, and Channels as far as the log has them.
func (m *Measurement) decided(c *nccllog.Decision) {
	m.Decision = c
	if c != nil && c.ChannelLo >= 0 && c.ChannelHi >= c.ChannelLo {
		m.Channels = c.ChannelHi - c.ChannelLo + 1
	}
}

// compare fills Expected, Diff and Off, and Channels if the log did not have them.
func (m *Measurement) compare(e Expectation) {
	m.Channels = cmp.Or(m.Channels, e.Channels)
	m.Known, m.Expected, m.Spread = true, e.Time, 100*e.Spread
	if e.Time <= 0 {
		return
	}
	m.Diff = 100 * (float64(m.Time)/float64(e.Time) - 1)
	m.Off = math.Abs(m.Diff) > OffPercent+m.Spread
}
