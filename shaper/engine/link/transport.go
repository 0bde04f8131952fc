// SPDX-License-Identifier: Apache-2.0

package link

// #include "arith.h"
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// TransportKind is the protocol above the links.
type TransportKind uint32

// Transports.
const (
	TCP  TransportKind = C.DDLEMU_TCP  // a send completes when the send buffer has accepted it
	RDMA TransportKind = C.DDLEMU_RDMA // a send waits for the receiver and completes when acknowledged
)

// Transport holds the parameters of the protocol above the links, times in real
// (scaled) nanoseconds.
type Transport struct {
	Kind            TransportKind
	SelectiveRepeat bool // rdma: otherwise go-back-N
	_               [3]uint8
	SendBuffer      uint64     // tcp: bytes accepted from the sender and not yet acknowledged
	Window          uint64     // tcp: bytes sent and not yet read by the receiver
	Congestion      Congestion // tcp: what else limits the bytes in flight
	Rails           uint32     // rdma: lines that a NIC stands for, which messages are divided among; 0 as 1
	Second          int64      // one second of the fabric's time, for Cubic
	RTO             int64      // a loss that no later packet reveals is found after this
	DownTimeout     int64      // a path down for this long is an error
	Overhead        int64      // LogGP o, paid at each end
	Gap             int64      // LogGP g, least time between the starts of two messages at a port
	Host            Host       `json:",omitzero"` // what the machines at the ends cost

	// MinStripe is the least number of bytes of a message for each further rail, above 0 if there are several.
	MinStripe uint64 `json:",omitzero"`
}

// Scaled is t in a fabric that runs k times slower.
func (t Transport) Scaled(k int64) Transport {
	for _, ns := range []*int64{&t.Second, &t.RTO, &t.DownTimeout, &t.Overhead, &t.Gap, &t.Host.PerMessage} {
		*ns *= k
	}
	t.Host.NsNum *= uint64(k)
	return t
}

// direct is the transport of a flow within a node of a fabric with t.
func (t *Transport) direct() Transport {
	return Transport{Kind: RDMA, Second: t.Second, RTO: t.RTO, DownTimeout: t.DownTimeout}
}

// Congestion says what sets the congestion window of tcp.
type Congestion uint32

// Congestion control.
const (
	NoCongestion Congestion = C.DDLEMU_NO_CONGESTION // no window but the send buffer and the receiver's
	Reno         Congestion = C.DDLEMU_RENO          // RFC 5681, losses found as by RFC 6675
	Cubic        Congestion = C.DDLEMU_CUBIC         // RFC 9438, without fast convergence
)

// Host is what each message costs the machines at its two ends besides the NIC and
// the link: the thread that hands it over, and copies between the GPU's memory, a
// staging buffer and the NIC's. At every NIC there is one worker in each direction.
// It takes messages whole, in the order they come, and each for
//
//	Time(size) = PerMessage + size*NsNum/NsDen
//
// so that a message of a sending host is ready for the port when the worker is done
// with all of it, and a message is due when the receiving worker is. The zero Host
// costs nothing.
type Host struct {
	PerMessage   int64  // ns
	NsNum, NsDen uint64 // NsDen 0: copies take no time
}

// maxHostMessage bounds the sizes that Time is right for. It keeps Time in 64 bits at
// every rate and time scale: 2^36 bytes x 8e9 x 1024 / MinBandwidth < 2^60 ns.
const maxHostMessage = 1 << 36

// NewHost is a Host that takes perMessage (0 to MaxLatency) for each message and
// copies at rate bit/s (MinBandwidth to MaxBandwidth, 0 for no time), not scaled.
func NewHost(perMessage time.Duration, rate uint64) (Host, error) {
	if perMessage < 0 || perMessage > MaxLatency {
		return Host{}, fmt.Errorf("host's time per message %v: must be 0 to %v", perMessage, MaxLatency)
	}
	h := Host{PerMessage: int64(perMessage)}
	if rate == 0 {
		return h, nil
	}
	if rate < MinBandwidth || rate > MaxBandwidth {
		return Host{}, fmt.Errorf("host's copy rate %d bit/s: must be %d to %d", rate, uint64(MinBandwidth),
			uint64(MaxBandwidth))
	}
	g := gcd(8_000_000_000, rate)
	h.NsNum, h.NsDen = 8_000_000_000/g, rate/g
	return h, nil
}

// Any says whether h costs anything.
func (h *Host) Any() bool { return h.PerMessage != 0 || h.NsDen != 0 }

// Time is how long, in ns, a message of size bytes keeps a host worker busy, rounded up.
func (h *Host) Time(size uint64) int64 {
	return int64(C.host_time((*C.struct_ddlemu_host)(unsafe.Pointer(h)), C.uint64_t(size)))
}
