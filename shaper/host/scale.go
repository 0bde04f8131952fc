// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/shaper/state"
)

// MaxScale is the largest time scale that Scale chooses.
const MaxScale = 1024

// Of what a run asks, this much must be there: twice the bandwidth, half the delay.
// A prediction that held exactly would be INVALID every other time.
const margin = 2

// Limits are the verdict's on the lateness that one message in a hundred may
// exceed, in scaled time: max(Floor, Share x T) with T the message's own time.
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

// Demand is what a run asks of a host, in the emulated network's own time.
type Demand struct {
	Rate float64       // payload bytes per second that each rank sends and receives; 0 = nothing
	T    time.Duration // the least time that a message takes: latency and serialisation
}

// Scale is the smallest time scale, a power of two, at which h carries d: at least
// twice the bandwidth asked, and a p99 poll delay of at most half the verdict's
// limit. reason says in words what decided. The error says what the host lacks
// when MaxScale would not do.
//
// It is a prediction: the run itself also spends time on NCCL and, without a GPU, on
// the software CUDA's kernels. The verdict decides.
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
		return 1, fmt.Sprintf("%d busy threads on %.3g cores copy %s each and poll %v late (p99)", h.Threads, h.CPUs, gigabytes(h.Rate), round(h.Delay(0.99, d.Rate))), nil
	}
	return k, fmt.Sprintf("at %d, %s", k/2, reason), nil
}

// lacks says what h has too little of at time scale k, in words.
func (h *Host) lacks(k int, d Demand, l Limits) (slow, late string) {
	rate := d.Rate / float64(k)
	if h.Rate < margin*rate {
		slow = fmt.Sprintf("each of %d busy threads on %.3g cores copies %s, wanted is at least %s", h.Threads, h.CPUs, gigabytes(h.Rate), gigabytes(margin*rate))
	}
	limit := time.Duration(k) * l.p99(d.T)
	if p99 := h.Delay(0.99, rate); margin*p99 > limit {
		late = fmt.Sprintf("%d busy threads on %.3g cores poll %v late (p99), wanted is at most %v", h.Threads, h.CPUs, round(p99), round(limit/margin))
	}
	return slow, late
}

// What the kernel datapath's delay line does on a host of two cores whose ranks poll
// all the time: how late one packet in a hundred leaves it, and how many bytes per
// second it carries in all. The verdict decides, and a run that is INVALID because of
// the host is made again at a larger scale.
const (
	kernelLate = 250 * time.Microsecond
	kernelRate = 200e6
)

// KernelScale is Scale for the kernel datapath, where a process of ours carries every
// packet. A link's latency, the least of which is given, must be more than what a
// packet is late.
func KernelScale(d Demand, latency time.Duration, l Limits) (k int, reason string, err error) {
	for k = 1; ; k *= 2 {
		rate, limit := d.Rate/float64(k), min(time.Duration(k)*l.p99(d.T), margin*time.Duration(k)*latency)
		slow, late := margin*rate > kernelRate, margin*kernelLate > limit
		switch {
		case !slow && !late && k == 1:
			return 1, "the delay line carries it", nil
		case !slow && !late:
			return k, fmt.Sprintf("at %d %s", k/2, reason), nil
		case slow:
			reason = fmt.Sprintf("the delay line carries %s, wanted is twice %s", gigabytes(kernelRate), gigabytes(rate))
		default:
			reason = fmt.Sprintf("packets leave the delay line %v late (p99), wanted is half of %v", kernelLate, round(limit))
		}
		if k >= MaxScale {
			return 0, "", fmt.Errorf("the kernel datapath is too slow for it even at time scale %d: %s", k, reason)
		}
	}
}

// LargestRate is the largest payload rate per rank, in bytes per second, that Scale
// finds good at time scale 1 for messages that take t; 0 if none is, because polls
// come too late.
func LargestRate(h Host, t time.Duration, l Limits) float64 {
	good := func(rate float64) bool {
		slow, late := h.lacks(1, Demand{Rate: rate, T: t}, l)
		return slow == "" && late == ""
	}
	if !good(1) {
		return 0
	}
	low, high := 1.0, h.Rate
	// high is above low: a host without a rate is good for none.
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

// round leaves three digits or so.
func round(d time.Duration) time.Duration {
	for unit := time.Nanosecond; unit < time.Second; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Second)
}
