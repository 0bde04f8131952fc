// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math/bits"
	"time"
)

// Segment limits. A segment is as long as SegmentTime at the hop's rate, in
// whole packets, at least one packet and at most MaxSegment bytes. The time
// keeps flows that share a slow link interleaved; the size keeps one copy short.
const (
	MaxSegment  = 64 << 10
	SegmentTime = 100 * time.Microsecond
)

// Limits of the values a Spec may hold. They keep every product of Params in
// 64 bits: 256 KiB of wire bytes x 8e9 x 1024 < 2^61.
const (
	MaxTimeScale = 1024
	MaxBandwidth = 10_000_000_000_000 // bit/s
	MinBandwidth = 1_000_000          // bit/s
	MaxLatency   = 10 * time.Second
	MinMTU       = 256
	MaxMTU       = 65536
)

// Policy says what a hop does with a segment that finds more than the queue
// bound ahead of it.
type Policy uint32

// Queue policies.
const (
	Lossless Policy = iota // hold the line before, as PFC and InfiniBand credits do
	TailDrop               // drop the segment
	Fair                   // a queue for each flow, served in turn: hold the flow alone
)

// Spec describes one hop as the user states it: unscaled, in the fabric's own
// time. The zero Bandwidth means unshaped: no serialisation time at all.
type Spec struct {
	Bandwidth   uint64        // line rate, bit/s; 0 = unshaped
	Latency     time.Duration // one way
	Jitter      Jitter
	Loss        Loss
	QueueBytes  uint64 // 0 = unbounded
	QueuePolicy Policy
	ECN         uint64 // bytes ahead of a packet from which on it is marked; 0 = never
	MTU         uint32 // bytes of a packet that count against the MTU
	Header      uint32 // of these, bytes that are not payload
	Framing     uint32 // further bytes on the wire per packet
	Down        bool
}

// Params is a Spec prepared for the arithmetic: in real nanoseconds, that is
// with every time multiplied by the time scale.
type Params struct {
	NsNum, NsDen uint64 // w wire bytes take ceil(w*NsNum/NsDen) ns; NsDen 0 = no time
	Latency      int64  // ns
	Jitter       JitterParams
	Loss         LossParams
	QueueNs      int64 // queue bound as time at the hop's rate; 0 = unbounded
	ECNNs        int64 // the ECN threshold likewise; 0 = no marks
	Policy       Policy
	Payload      uint32 // payload bytes per packet
	PerPacket    uint32 // wire bytes per packet that are not payload
	Segment      uint32 // segment size, payload bytes
	Down         bool
}

// NewParams prepares s for a fabric that runs timeScale times slower than what
// it emulates. The error names the field that is out of range.
func NewParams(s Spec, timeScale int) (Params, error) {
	if timeScale < 1 || timeScale > MaxTimeScale {
		return Params{}, fmt.Errorf("time scale %d: must be 1 to %d", timeScale, MaxTimeScale)
	}
	if s.Bandwidth != 0 && (s.Bandwidth < MinBandwidth || s.Bandwidth > MaxBandwidth) {
		return Params{}, fmt.Errorf("bandwidth %d bit/s: must be %d to %d", s.Bandwidth, uint64(MinBandwidth), uint64(MaxBandwidth))
	}
	if s.Latency < 0 || s.Latency > MaxLatency {
		return Params{}, fmt.Errorf("latency %v: must be 0 to %v", s.Latency, MaxLatency)
	}
	if s.MTU < MinMTU || s.MTU > MaxMTU {
		return Params{}, fmt.Errorf("mtu %d: must be %d to %d", s.MTU, MinMTU, MaxMTU)
	}
	if s.Header >= s.MTU || s.Framing > MaxMTU {
		return Params{}, fmt.Errorf("header %d and framing %d: the header must be below the mtu %d, the framing at most %d", s.Header, s.Framing, s.MTU, MaxMTU)
	}
	k := int64(timeScale)
	p := Params{
		Latency: int64(s.Latency) * k, Policy: s.QueuePolicy, Down: s.Down,
		Payload: s.MTU - s.Header, PerPacket: s.Header + s.Framing,
	}
	var err error
	if p.Jitter, err = s.Jitter.params(k); err != nil {
		return Params{}, err
	}
	if p.Loss, err = s.Loss.params(); err != nil {
		return Params{}, err
	}
	p.Segment = segmentBytes(s.Bandwidth, p.Payload)
	if s.Bandwidth != 0 {
		num, den := uint64(8_000_000_000)*uint64(k), s.Bandwidth
		g := gcd(num, den)
		p.NsNum, p.NsDen = num/g, den/g
		if p.QueueNs, err = p.queueTime(s.QueueBytes); err != nil {
			return Params{}, fmt.Errorf("queue %w", err)
		}
		if p.ECNNs, err = p.queueTime(s.ECN); err != nil {
			return Params{}, fmt.Errorf("ecn %w", err)
		}
	}
	return p, nil
}

// queueTime is the time that so many bytes in a queue take, in 128 bits on the way: a
// queue may hold gigabytes.
func (p *Params) queueTime(bytes uint64) (int64, error) {
	hi, lo := bits.Mul64(bytes, p.NsNum)
	if hi >= p.NsDen {
		return 0, fmt.Errorf("%d bytes: too large for this bandwidth", bytes)
	}
	ns, _ := bits.Div64(hi, lo, p.NsDen)
	return int64(min(ns, 1<<62)), nil
}

func segmentBytes(bandwidth uint64, payload uint32) uint32 {
	limit := uint64(MaxSegment)
	if bandwidth != 0 {
		limit = min(limit, bandwidth/8*uint64(SegmentTime)/uint64(time.Second))
	}
	packets := limit / uint64(payload)
	return uint32(max(packets, 1)) * payload
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Packets is the number of packets that carry n payload bytes: an empty message
// is one packet.
func (p *Params) Packets(n uint32) uint32 {
	if n == 0 {
		return 1
	}
	return (n + p.Payload - 1) / p.Payload
}

// Wire is the number of bytes on the wire for n payload bytes.
func (p *Params) Wire(n uint32) uint64 {
	return uint64(n) + uint64(p.Packets(n))*uint64(p.PerPacket)
}

// Serialise is the time in ns that n payload bytes (at most 2*MaxSegment) occupy
// the hop, rounded up so that the rate is never exceeded.
func (p *Params) Serialise(n uint32) int64 { return p.Occupy(p.Wire(n)) }

// Occupy is the time in ns that so many bytes on the wire (at most 4*MaxSegment)
// occupy the hop, rounded up.
func (p *Params) Occupy(wire uint64) int64 {
	if p.NsDen == 0 {
		return 0
	}
	return int64((wire*p.NsNum + p.NsDen - 1) / p.NsDen)
}
