// SPDX-License-Identifier: Apache-2.0

package link

// #include "arith.h"
import "C"

import (
	"fmt"
	"math/bits"
	"time"
	"unsafe"
)

// Limits of a segment. A segment is as long as SegmentTime at the hop's rate, in whole
// packets, at least one packet and at most MaxSegment bytes. The time keeps flows that share
// a slow link interleaved; the size keeps one copy short.
const (
	MaxSegment  = C.DDLEMU_SEGMENT_BYTES
	SegmentTime = 100 * time.Microsecond
)

// Spec describes one hop as the user states it: in the fabric's own time, not scaled. The
// zero Bandwidth means no limit: no serialization time at all.
type Spec struct {
	Bandwidth   uint64        // line rate, bit/s; 0 = no limit
	Latency     time.Duration // one way
	Jitter      Jitter
	Loss        Loss
	QueueBytes  uint64 // that may wait; 0 = no limit
	QueuePolicy Policy
	ECN         uint64  // a packet with more bytes ahead of it is marked; 0 = never
	Reorder     Reorder `json:",omitzero"`
	MTU         uint32  // bytes of a packet that count against the MTU
	Header      uint32  // of these, bytes that are not payload
	Framing     uint32  // further bytes on the line per packet
	Down        bool
}

// Params is a Spec prepared for the engine: every time is multiplied by the time scale. It
// is struct ddlemu_params of link.h.
type Params struct {
	NsNum, NsDen uint64 // b line bytes occupy the hop for ceil(b*NsNum/NsDen) ns; NsDen 0 = no time
	Latency      int64  // ns
	Jitter       JitterParams
	Loss         LossParams
	Queue        QueueParams
	Reorder      ReorderParams
	Payload      uint32 // payload bytes of a full packet
	PerPacket    uint32 // line bytes of a packet that are not payload
	Framing      uint32 // of these, bytes that do not count against the MTU
	Segment      uint32 // payload bytes of a segment
	Down         bool
	_            [7]uint8
}

// NewParams prepares s for a fabric that runs timeScale times slower than what it emulates.
// The error names the field that is out of range.
func NewParams(s Spec, timeScale int) (Params, error) {
	if err := s.check(timeScale); err != nil {
		return Params{}, err
	}
	k := int64(timeScale)
	p := Params{
		Latency: int64(s.Latency) * k, Down: s.Down,
		Payload: s.MTU - s.Header, PerPacket: s.Header + s.Framing, Framing: s.Framing,
	}
	p.Segment = segmentBytes(s.Bandwidth, p.Payload)
	if s.Bandwidth != 0 {
		num, den := uint64(8_000_000_000)*uint64(k), s.Bandwidth
		g := gcd(num, den)
		p.NsNum, p.NsDen = num/g, den/g
	}
	var err error
	if p.Jitter, err = s.Jitter.params(k); err != nil {
		return Params{}, err
	}
	if p.Loss, err = s.Loss.params(); err != nil {
		return Params{}, err
	}
	if p.Queue, err = p.queue(&s); err != nil {
		return Params{}, err
	}
	if p.Reorder, err = s.Reorder.params(k); err != nil {
		return Params{}, err
	}
	return p, nil
}

// check is about the fields that no type of their own checks.
func (s *Spec) check(timeScale int) error {
	if timeScale < 1 || timeScale > MaxTimeScale {
		return fmt.Errorf("time scale %d: must be 1 to %d", timeScale, MaxTimeScale)
	}
	if s.Bandwidth != 0 && (s.Bandwidth < MinBandwidth || s.Bandwidth > MaxBandwidth) {
		return fmt.Errorf("bandwidth %d bit/s: must be %d to %d", s.Bandwidth, uint64(MinBandwidth),
			uint64(MaxBandwidth))
	}
	if s.Latency < 0 || s.Latency > MaxLatency {
		return fmt.Errorf("latency %v: must be 0 to %v", s.Latency, MaxLatency)
	}
	if s.MTU < MinMTU || s.MTU > MaxMTU {
		return fmt.Errorf("mtu %d: must be %d to %d", s.MTU, MinMTU, MaxMTU)
	}
	if s.Header >= s.MTU || s.Framing > MaxMTU {
		return fmt.Errorf("header %d and framing %d: the header must be below the mtu %d, the framing at most %d",
			s.Header, s.Framing, s.MTU, MaxMTU)
	}
	return nil
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

func (p *Params) queue(s *Spec) (q QueueParams, err error) {
	q.Policy = s.QueuePolicy
	if q.LimitNs, err = p.timeOf(s.QueueBytes); err != nil {
		return q, fmt.Errorf("queue %w", err)
	}
	if q.ECNNs, err = p.timeOf(s.ECN); err != nil {
		return q, fmt.Errorf("ecn %w", err)
	}
	return q, nil
}

// timeOf is the time in ns that so many bytes in a queue take, computed in 128 bits: a queue
// may hold gigabytes. Without a bandwidth they take none.
func (p *Params) timeOf(bytes uint64) (int64, error) {
	if p.NsDen == 0 {
		return 0, nil
	}
	hi, lo := bits.Mul64(bytes, p.NsNum)
	if hi >= p.NsDen {
		return 0, fmt.Errorf("%d bytes: too large for this bandwidth", bytes)
	}
	ns, _ := bits.Div64(hi, lo, p.NsDen)
	return int64(min(ns, 1<<62)), nil
}

// Draws says whether anything on the hop is random.
func (p *Params) Draws() bool {
	return p.Jitter.Kind != NoJitter || p.Loss.Any() || p.Reorder.P != 0
}

func (p *Params) c() *C.struct_ddlemu_params { return (*C.struct_ddlemu_params)(unsafe.Pointer(p)) }

// Packets is the number of packets that carry n payload bytes. An empty message is one
// packet.
func (p *Params) Packets(n uint32) uint32 { return uint32(C.packets_of(p.c(), C.uint32_t(n))) }

// LineBytes is the number of bytes on the line for n payload bytes.
func (p *Params) LineBytes(n uint32) uint64 { return uint64(C.line_bytes(p.c(), C.uint32_t(n))) }

// Serialization is the time in ns for which n payload bytes (at most 2*MaxSegment) occupy
// the hop, rounded up so that the rate is never exceeded.
func (p *Params) Serialization(n uint32) int64 { return p.Occupancy(p.LineBytes(n)) }

// Occupancy is the time in ns for which so many line bytes (at most 4*MaxSegment) occupy the
// hop, rounded up.
func (p *Params) Occupancy(line uint64) int64 {
	return int64(C.occupancy(p.c(), C.uint64_t(line)))
}

// Delay is the latency in ns, jitter included, of segment or packet number n of a flow on
// the hop whose parameters p are. It is never below zero.
func (p *Params) Delay(seed uint64, hop uint32, flow, n uint64, tables *JitterTables) int64 {
	if p.Jitter.Kind == NoJitter {
		return p.Latency
	}
	draw := C.draw(C.uint64_t(seed), C.uint32_t(hop), C.DRAW_JITTER, C.uint64_t(flow), C.uint64_t(n))
	return max(0, p.Latency+p.Jitter.sample(uint64(draw), tables))
}

// Reorder describes packets that overtake others: a share of the packets, each drawn
// separately, arrives earlier by a given time, but not before it was sent. What that costs
// is the transport's matter, see loss.c.
type Reorder struct {
	Share float64       // of the packets, 0 to 1
	Early time.Duration // 0 to MaxLatency
}

// ReorderParams is Reorder prepared for the engine.
type ReorderParams struct {
	P       uint64 // threshold of a draw, as in LossParams
	EarlyNs int64
}

func (r Reorder) params(k int64) (ReorderParams, error) {
	if !(r.Share >= 0 && r.Share <= 1) || r.Early < 0 || r.Early > MaxLatency {
		return ReorderParams{}, fmt.Errorf("reorder %v of the packets by %v: must be 0 to 1, by 0 to %v", r.Share,
			r.Early, MaxLatency)
	}
	return ReorderParams{P: threshold(r.Share), EarlyNs: int64(r.Early) * k}, nil
}

// Draw draws whether a packet of a flow arrives early on a hop. counter names the packet.
func (r *ReorderParams) Draw(seed uint64, hop uint32, flow, counter uint64) bool {
	return bool(C.overtakes((*C.struct_ddlemu_reorder)(unsafe.Pointer(r)), C.uint64_t(seed), C.uint32_t(hop),
		C.uint64_t(flow), C.uint64_t(counter)))
}
