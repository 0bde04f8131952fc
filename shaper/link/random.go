// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math"
	"time"
)

// JitterKind is the distribution of the latency added to each segment.
type JitterKind uint32

// Jitter distributions. Tabled ones are drawn by inverting a table of
// JitterTableSize quantiles with integer interpolation, so that Go, C and eBPF
// draw the same value.
const (
	NoJitter JitterKind = iota
	Uniform             // between -Value and +Value
	Normal              // standard deviation Value
	Pareto              // shape 3, shifted to start at 0, mean Value
	Table               // the caller's quantiles, times Value
)

// JitterTableSize is the number of quantiles in a jitter table.
const JitterTableSize = 4096

// jitterUnit is the fixed-point unit of a table entry: 1.0 = 2^16.
const jitterUnit = 1 << 16

// Jitter describes the variation of a hop's latency. The total latency of a
// segment is never below zero, and never lets it overtake its predecessor.
type Jitter struct {
	Kind  JitterKind
	Value time.Duration
}

// JitterParams is Jitter prepared for the arithmetic: real nanoseconds.
type JitterParams struct {
	Kind  JitterKind
	Value int64
}

func (j Jitter) params(k int64) (JitterParams, error) {
	if j.Kind > Table {
		return JitterParams{}, fmt.Errorf("jitter kind %d: unknown", j.Kind)
	}
	if j.Value < 0 || j.Value > MaxLatency {
		return JitterParams{}, fmt.Errorf("jitter %v: must be 0 to %v", j.Value, MaxLatency)
	}
	return JitterParams{Kind: j.Kind, Value: int64(j.Value) * k}, nil
}

// JitterTable is a table of quantiles in units of 2^-16 of Jitter.Value:
// entry i is the quantile at (i + 1/2) / JitterTableSize.
type JitterTable [JitterTableSize]int32

// NormalTable is the standard normal distribution.
func NormalTable() *JitterTable {
	return quantiles(func(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) })
}

// ParetoTable is the Pareto distribution of shape 3, shifted to start at 0 and
// scaled to mean 1: x = 2*((1-p)^(-1/3) - 1).
func ParetoTable() *JitterTable {
	return quantiles(func(p float64) float64 { return 2 * (math.Pow(1-p, -1.0/3) - 1) })
}

func quantiles(inverse func(float64) float64) *JitterTable {
	var t JitterTable
	for i := range t {
		t[i] = int32(math.Round(inverse((float64(i)+0.5)/JitterTableSize) * jitterUnit))
	}
	return &t
}

// Loss describes the packet loss of a hop. P is the probability of a packet's
// loss in the good state. With BadP = 0 and GoodToBad = 0 that is Bernoulli
// loss; otherwise it is the Gilbert-Elliott chain, stepped once per packet.
type Loss struct {
	P         float64 // loss in the good state, 0 to 1
	BadP      float64 // loss in the bad state
	GoodToBad float64 // transition probability per packet
	BadToGood float64
}

// LossParams is Loss as thresholds: an event of probability p happens when a
// 64-bit draw is below p*2^64 (saturated).
type LossParams struct {
	P, BadP, GoodToBad, BadToGood uint64
}

func (l Loss) params() (LossParams, error) {
	for _, v := range []float64{l.P, l.BadP, l.GoodToBad, l.BadToGood} {
		if !(v >= 0 && v <= 1) {
			return LossParams{}, fmt.Errorf("loss probability %v: must be 0 to 1", v)
		}
	}
	return LossParams{threshold(l.P), threshold(l.BadP), threshold(l.GoodToBad), threshold(l.BadToGood)}, nil
}

func threshold(p float64) uint64 {
	t := math.Ldexp(p, 64)
	if t >= math.Ldexp(1, 64) {
		return math.MaxUint64
	}
	return uint64(t)
}

// Any says whether a packet can be lost at all.
func (l *LossParams) Any() bool { return l.P|l.GoodToBad != 0 }

// Draw streams: each kind of draw has its own, so that adding loss to a link
// does not change its jitter.
const (
	drawJitter = iota + 1
	drawLoss
	drawState
)

// Draw is the counter-based random number generator of the model: 64 bits that
// depend only on the arguments. It is the finaliser of SplitMix64 (Steele, Lea,
// Flood 2014) applied over the words in turn.
func Draw(seed uint64, hop, kind uint32, flow, counter uint64) uint64 {
	h := mix(seed ^ 0x9e3779b97f4a7c15*(uint64(hop)<<8|uint64(kind)))
	h = mix(h ^ flow)
	return mix(h ^ counter)
}

func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Delay is the latency in ns, jitter included, of segment number n of a flow on the
// hop whose parameters p are. It is never below zero.
func (p *Params) Delay(seed uint64, hop uint32, flow, n uint64, tables *[3]*JitterTable) int64 {
	draw := uint64(0)
	if p.Jitter.Kind != NoJitter {
		draw = Draw(seed, hop, drawJitter, flow, n)
	}
	return max(0, p.Latency+p.Jitter.sample(draw, tables))
}

// Lost draws whether a packet of a flow is lost on a hop. counter names the packet;
// bad is the state of the Gilbert-Elliott chain of the flow on the hop.
func (l *LossParams) Lost(seed uint64, hop uint32, flow, counter uint64, bad *bool) bool {
	p := l.P
	if l.GoodToBad != 0 {
		change := l.GoodToBad
		if *bad {
			p, change = l.BadP, l.BadToGood
		}
		if Draw(seed, hop, drawState, flow, counter) < change {
			*bad = !*bad
		}
	}
	return Draw(seed, hop, drawLoss, flow, counter) < p
}

// sample turns a 64-bit draw into the jitter in ns. tables holds the quantiles
// for Normal, Pareto and Table in this order.
func (j *JitterParams) sample(draw uint64, tables *[3]*JitterTable) int64 {
	switch j.Kind {
	case NoJitter:
		return 0
	case Uniform:
		// 31 bits of the draw: value (below 2^44 ns) times 2^32 stays in 64 bits
		// only in halves, hence the shift before the product.
		u := int64(draw>>44) - 1<<19 // -2^19 .. 2^19-1
		return j.Value * u >> 19
	}
	t := tables[j.Kind-Normal]
	i := draw >> 52                    // 12 bits choose the entry
	f := int64(draw>>36) & (1<<16 - 1) // 16 bits interpolate to the next
	a := int64(t[i])
	b := a
	if i+1 < JitterTableSize {
		b = int64(t[i+1])
	}
	q := a + ((b-a)*f)>>16
	return j.Value/jitterUnit*q + (j.Value%jitterUnit*q)>>16
}
