// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math/bits"
	"time"
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
		return Host{}, fmt.Errorf("host's copy rate %d bit/s: must be %d to %d", rate, uint64(MinBandwidth), uint64(MaxBandwidth))
	}
	g := gcd(8_000_000_000, rate)
	h.NsNum, h.NsDen = 8_000_000_000/g, rate/g
	return h, nil
}

// Scaled is h in a fabric that runs k times slower.
func (h Host) Scaled(k int64) Host {
	return Host{PerMessage: h.PerMessage * k, NsNum: h.NsNum * uint64(k), NsDen: h.NsDen}
}

// Any says whether h costs anything.
func (h *Host) Any() bool { return h.PerMessage != 0 || h.NsDen != 0 }

// Time is how long, in ns, a message of size bytes (at most maxHostMessage) keeps a
// worker busy, rounded up.
func (h *Host) Time(size uint64) int64 {
	if h.NsDen == 0 {
		return h.PerMessage
	}
	hi, lo := bits.Mul64(min(size, maxHostMessage), h.NsNum)
	lo, carry := bits.Add64(lo, h.NsDen-1, 0)
	ns, _ := bits.Div64(hi+carry, lo, h.NsDen)
	return h.PerMessage + int64(ns)
}

// takeIn gives the messages that were posted to the sending host's worker.
func (f *Flow) takeIn(now int64) {
	for ; f.hosted < f.posted; f.hosted++ {
		m := f.msg(f.hosted)
		m.ready = f.work(f.Path[0].Hop, f.hosted, m.Posted, now)
	}
}

// handOver gives the message that ends with segment s to the receiving host's worker,
// once its last byte is there, and returns when it is due.
func (f *Flow) handOver(s *segment, now int64) int64 {
	m := f.msg(s.msg)
	if m.Due == Never {
		// The worker is asked when the message before is done, see arrive, but not for
		// want of a step.
		m.Due = f.work(f.Path[len(f.Path)-1].Hop, s.msg, max(s.due, f.handed), now)
		f.handed = m.Due
	}
	return m.Due
}

// work has the worker at a port take message i, which is there at ready, and returns
// when it is done.
func (f *Flow) work(port *Hop, i uint64, ready, now int64) int64 {
	dur := f.Transport.Host.Time(f.msg(i).Size)
	start := max(ready, port.HostFree)
	port.HostFree = start + dur
	f.distort(i, start, ready, now)
	return start + dur
}
