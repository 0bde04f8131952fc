// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// leastClipped is by which part of the latency its mean must be off to be spoken of: the
// tails of a normal jitter of a third of the latency are not.
const leastClipped = 0.005

// Clipped says in a line that jitter makes some of the hops given late in the mean, which
// is what becomes of jitter that is more than the latency; "" if it does not.
func (f *Fabric) Clipped(hops []int) string {
	type shape struct {
		latency time.Duration
		jitter  link.Jitter
	}
	known := map[shape]time.Duration{} // there are few, and many hops
	var late []int
	for _, hop := range hops {
		s := f.Hops[hop].Spec
		by, ok := known[shape{s.Latency, s.Jitter}]
		if !ok {
			by = f.clipped(s)
			known[shape{s.Latency, s.Jitter}] = by
		}
		if by != 0 && float64(by) >= leastClipped*float64(s.Latency) {
			late = append(late, hop)
		}
	}
	if late == nil {
		return ""
	}
	s := f.Hops[late[0]].Spec
	l := LinkOf(s)
	by := known[shape{s.Latency, s.Jitter}].Round(10 * time.Nanosecond)
	return fmt.Sprintf("link %s%s: the jitter %v takes more off than the latency of %v: in the mean that is %v longer than asked", f.HopName(late[0]), andOthers(late[1:]), l.Jitter, l.Latency, by)
}

func andOthers(hops []int) string {
	switch n := len(hops); n {
	case 0:
		return ""
	case 1:
		return " (and 1 other)"
	default:
		return fmt.Sprintf(" (and %d others)", n)
	}
}

// clipped is how much longer than asked the latency of s is in the mean, because no
// packet arrives before it was sent.
func (f *Fabric) clipped(s link.Spec) time.Duration {
	var table *link.JitterTable
	switch s.Jitter.Kind {
	case link.Uniform:
		if past := s.Jitter.Value - s.Latency; past > 0 {
			// Draws from -value to -latency are short of 0 by half of past in the mean.
			return time.Duration(float64(past) / 2 * float64(past) / float64(2*s.Jitter.Value))
		}
	case link.Normal:
		table = link.NormalTable()
	case link.Table:
		table = f.JitterTable()
	}
	if table == nil {
		return 0 // nothing is taken off the latency
	}
	sum := 0.0
	for _, q := range table {
		sum += max(0, -float64(s.Latency)-float64(s.Jitter.Value)*float64(q)/(1<<16))
	}
	return time.Duration(sum / float64(len(table)))
}

// SlowerPort is the port at an end of the link at hop that is slower than the link, if
// one is: the link's rate does not count there.
func (f *Fabric) SlowerPort(hop int) (port int, slower bool) {
	h := f.Hops[hop]
	for _, port := range []int{2 * h.Src, 2*h.Dst + 1} {
		if limit := f.Hops[port].Spec.Bandwidth; limit != 0 && (h.Spec.Bandwidth == 0 || h.Spec.Bandwidth > limit) {
			return port, true
		}
	}
	return 0, false
}

// FasterThanPorts says in a line that links were made faster than the ports at their
// ends, which has no effect; "" if none was. A link to a NIC that was made faster as a
// whole has that one's rate.
func (f *Fabric) FasterThanPorts() string {
	var faster []int
	for hop, h := range f.Hops {
		if h.Kind != Link {
			continue
		}
		rate := h.Spec.Bandwidth
		if _, slower := f.SlowerPort(hop); !slower || rate == f.Hops[2*h.Src].Spec.Bandwidth || rate == f.Hops[2*h.Dst+1].Spec.Bandwidth {
			continue
		}
		faster = append(faster, hop)
	}
	if faster == nil {
		return ""
	}
	first := faster[0]
	port, _ := f.SlowerPort(first)
	return fmt.Sprintf("link %s%s: it has %v, but port %s has %v: change the ports too, with a match of whole nodes or NICs", f.HopName(first), andOthers(faster[1:]), LinkOf(f.Hops[first].Spec).Bandwidth, f.HopName(port), LinkOf(f.Hops[port].Spec).Bandwidth)
}
