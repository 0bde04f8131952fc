// SPDX-License-Identifier: Apache-2.0

package link

import "math/bits"

// Hop is one resource that segments occupy: a NIC's port or a link. It may be
// shared by any number of flows. Not safe for concurrent use: the C copy does
// Reserve and speak by compare-and-swap, here a caller steps flows one at a time.
type Hop struct {
	ID       uint32 // names the hop in random draws
	Params   *Params
	NextFree int64 // ns
	Buffer   int64 // ns; until when the buffer behind this hop is spoken for, see Flow.held
	HostFree int64 // ns; when the worker of the host at this port is free again
	Counters Counters
}

// Counters are what a hop has carried. The tags are the names that `ddlemu status` has
// for them: in JSON, and as columns that are there if a counter is above 0. Counters of
// times are int64 and in ns, all others uint64.
type Counters struct {
	Bytes    uint64 `json:"bytes"`                         // payload, each transmission counted
	Wire     uint64 `json:"wire_bytes"`                    // line bytes
	Segments uint64 `json:"-"`                             // and packets sent again
	Drops    uint64 `json:"drops"`                         // packets lost here
	BusyNs   int64  `json:"-"`                             // time occupied
	Marks    uint64 `json:"ecn_marked" column:"ECN marks"` // packets that found more than the ECN threshold ahead of them
	Pauses   uint64 `json:"pauses" column:"pauses"`        // times that the queue of the next hop held this one
	PausedNs int64  `json:"paused_ns" column:"paused for"` // by how much
}

// Stated is c with its times divided by the time scale.
func (c Counters) Stated(timeScale int) Counters {
	c.BusyNs /= int64(timeScale)
	c.PausedNs /= int64(timeScale)
	return c
}

// Reserve takes the hop for dur ns from ready on and returns the start. What takes
// no time leaves the hop as it was: it is in nobody's way.
func (h *Hop) Reserve(ready, dur int64) int64 {
	start := max(ready, h.NextFree)
	if dur > 0 {
		h.NextFree = start + dur
	}
	return start
}

// charge is for how long n bytes that are sent to the hop now speak for the buffer that
// they wait in; 0 if nobody is held for it.
func (h *Hop) charge(n uint32, now int64) int64 {
	p := h.Params
	if p.Policy != Lossless || p.QueueNs == 0 {
		return 0
	}
	dur, ahead := p.Serialise(n), h.NextFree-now
	room := max(p.QueueNs, dur)
	if ahead <= room {
		return 0
	}
	hi, lo := bits.Mul64(uint64(ahead), uint64(dur))
	ns, _ := bits.Div64(hi, lo, uint64(room))
	return int64(ns)
}

// geometricMean is that of two positive numbers, rounded down: Newton's method from above.
func geometricMean(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	length := bits.Len64(lo)
	if hi > 0 {
		length = 64 + bits.Len64(hi)
	}
	x := uint64(1) << ((length + 1) / 2)
	for {
		q, _ := bits.Div64(hi, lo, x)
		y := (x + q) / 2
		if y >= x {
			return int64(x)
		}
		x = y
	}
}

// speak has what starts at start speak for the buffer behind the hop for so many ns.
func (h *Hop) speak(start, ns int64) {
	if ns > 0 {
		h.Buffer = max(h.Buffer, start) + ns
	}
}

// MaxHops is the largest number of hops of a path.
const MaxHops = 8

// PathHop is a hop as seen from one path.
type PathHop struct {
	*Hop
	// Private means that everything on this hop comes through the path's
	// previous hop. As long as it is not slower than that one, it never has to
	// queue and is not reserved.
	Private bool
}

// TransportKind is the protocol above the links.
type TransportKind uint32

// Transports.
const (
	TCP  TransportKind = iota // a send completes when the send buffer has taken it
	RDMA                      // a send waits for the receiver and completes when acknowledged
)

// Transport holds the parameters of the protocol above the links, times in real
// (scaled) nanoseconds.
type Transport struct {
	Kind            TransportKind
	SelectiveRepeat bool       // rdma: otherwise go-back-N
	SendBuffer      uint64     // tcp: bytes taken from the sender and not yet acknowledged
	Window          uint64     // tcp: bytes sent and not yet read by the receiver
	Congestion      Congestion // tcp: what else bounds the bytes under way
	Second          int64      // a second of the fabric's time, for Cubic
	RTO             int64      // a loss that no later packet reveals is found after this
	DownTimeout     int64      // a path down for this long is an error
	Overhead        int64      // LogGP o, paid at each end
	Gap             int64      // LogGP g, least time between the starts of two messages at a port
	Host            Host       `json:",omitzero"` // what the machines at the ends cost
}
