// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// MaxScale is the largest time scale that Scale returns.
const MaxScale = 1024

// margin is the factor by which a host must exceed the demand: twice the bandwidth, half the delay. A host that just
// meets a demand would be INVALID in half of the runs.
const margin = 2

// Limits are the verdict's limits on lateness, in real time, that one message in a hundred may exceed: max(Floor, Share
// x T), with T the time of the message.
type Limits struct {
	Floor time.Duration
	Share float64
}

// VerdictLimits are the limits of package verdict.
func VerdictLimits() Limits { return Limits{Floor: state.P99FloorNs, Share: 1.0 / state.P99Part} }

// p99 is the limit for messages that take t.
func (l Limits) p99(t time.Duration) time.Duration {
	return max(l.Floor, time.Duration(l.Share*float64(t)))
}

// Demand is what a run asks of a host, in stated time.
type Demand struct {
	Rate float64       // payload bytes per second that each rank sends and receives; 0 = nothing
	T    time.Duration // minimum time of a message: latency and serialization
}

// Scale returns the smallest time scale, a power of two, at which h carries d: with at least twice the bandwidth asked
// for, and a p99 poll delay of at most half the verdict's limit. reason says in words what decided. If MaxScale is too
// small, the error says what the host lacks.
//
// It is a prediction: the run also spends time in NCCL and, without a GPU, in the kernels of the software CUDA.
func Scale(h Host, d Demand, l Limits) (k int, reason string, err error) {
	for k = 1; ; k *= 2 {
		slow, late := h.lacks(k, d, l)
		if slow == "" && late == "" {
			break
		}
		reason = slow
		if slow == "" {
			reason = late
		}
		if k >= MaxScale {
			what := "too little memory bandwidth"
			if slow == "" {
				what = "too few cores, or other work on them,"
			}
			return 0, "", fmt.Errorf("this host has %s even at time scale %d: %s", what, k, reason)
		}
	}
	if k == 1 {
		return 1, fmt.Sprintf("%d busy threads on %.3g cores copy %s each and poll %v late (p99)", h.Threads, h.CPUs,
			gigabytes(h.Rate), round(h.Delay(0.99, d.Rate))), nil
	}
	return k, fmt.Sprintf("at time scale %d, %s", k/2, reason), nil
}

// lacks says in words which part is too slow or too late at time scale k; "" if none is.
func (h *Host) lacks(k int, d Demand, l Limits) (slow, late string) {
	rate := d.Rate / float64(k)
	if h.Rate < margin*rate {
		slow = fmt.Sprintf("each of %d busy threads on %.3g cores copies %s, needed is at least %s", h.Threads, h.CPUs,
			gigabytes(h.Rate), gigabytes(margin*rate))
	}
	limit := time.Duration(k) * l.p99(d.T)
	if p99 := h.Delay(0.99, rate); margin*p99 > limit {
		late = fmt.Sprintf("%d busy threads on %.3g cores poll %v late (p99), needed is at most %v", h.Threads, h.CPUs,
			round(p99), round(limit/margin))
	}
	return slow, late
}

// The capacity of the kernel datapath on a host of two cores whose ranks poll all the time: the p99 lateness of
// packets, and the bytes per second of all packets. It is a rough prediction; if a run is INVALID because of it, the
// run is repeated at a larger time scale.
const (
	kernelLate = 250 * time.Microsecond
	kernelRate = 200e6
)

// KernelScale is Scale for the kernel datapath, where a process of ddlemu carries every packet. The smallest latency of
// a link must be larger than the lateness of a packet.
func KernelScale(d Demand, latency time.Duration, l Limits) (k int, reason string, err error) {
	for k = 1; ; k *= 2 {
		rate, limit := d.Rate/float64(k), min(time.Duration(k)*l.p99(d.T), margin*time.Duration(k)*latency)
		slow, late := margin*rate > kernelRate, margin*kernelLate > limit
		switch {
		case !slow && !late && k == 1:
			return 1, "the shaper carries it", nil
		case !slow && !late:
			return k, fmt.Sprintf("at time scale %d, %s", k/2, reason), nil
		case slow:
			reason = fmt.Sprintf("the shaper carries %s, needed is twice %s", gigabytes(kernelRate), gigabytes(rate))
		default:
			reason = fmt.Sprintf("packets leave the shaper %v late (p99), needed is half of %v", kernelLate,
				round(limit))
		}
		if k >= MaxScale {
			return 0, "", fmt.Errorf("the kernel datapath is too slow for it even at time scale %d: %s", k, reason)
		}
	}
}

// LargestRate is the largest payload rate per rank, in bytes per second, for which Scale returns 1 if messages take t;
// 0 if there is none because polls are too late.
func LargestRate(h Host, t time.Duration, l Limits) float64 {
	good := func(rate float64) bool {
		slow, late := h.lacks(1, Demand{Rate: rate, T: t}, l)
		return slow == "" && late == ""
	}
	if !good(1) {
		return 0
	}
	low, high := 1.0, h.Rate
	// h.Rate is above 1, because good(1) holds.
	for high/low > 1.001 {
		if mid := math.Sqrt(low * high); good(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func gigabytes(bytesPerSecond float64) string {
	return fmt.Sprintf("%.3g GB/s", bytesPerSecond/1e9)
}

// round rounds d to about three digits.
func round(d time.Duration) time.Duration {
	for unit := time.Nanosecond; unit < time.Second; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Second)
}
