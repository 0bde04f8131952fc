// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// leastClipped is the share of the latency by which clipping must raise the mean before
// Clipped reports it. A normal jitter of a third of the latency stays below.
const leastClipped = 0.005

// Clipped is lines that say on which of the given hops the jitter or the time of the
// reordering is too large for the latency. No packet arrives before it was sent, so that
// draws below -latency are clipped to 0, and the mean latency becomes longer than
// configured; and a packet that overtakes arrives at most a latency earlier.
func (f *Fabric) Clipped(hops []int) (lines []string) {
	early := slices.DeleteFunc(slices.Clone(hops), func(hop int) bool {
		s := &f.Hops[hop].Spec
		return s.Reorder.Share == 0 || s.Reorder.Early <= s.Latency
	})
	if len(early) > 0 {
		s := f.Hops[early[0]].Spec
		lines = append(lines,
			fmt.Sprintf(
				"link %s%s: the reordering by %v is more than the latency of %[4]v: no packet arrives before it was "+
					"sent, so packets arrive at most %[4]v earlier", f.HopName(early[0]), andOthers(early[1:]),
				s.Reorder.Early, s.Latency))
	}
	if text := f.clippedJitter(hops); text != "" {
		lines = append(lines, text)
	}
	return lines
}

// clippedJitter is the line of Clipped about the jitter; "" if there is none.
func (f *Fabric) clippedJitter(hops []int) string {
	type shape struct {
		latency time.Duration
		jitter  link.Jitter
	}
	known := map[shape]time.Duration{} // there are few, and many hops
	var clipped []int
	for _, hop := range hops {
		s := f.Hops[hop].Spec
		by, ok := known[shape{s.Latency, s.Jitter}]
		if !ok {
			by = f.clippedBy(s)
			known[shape{s.Latency, s.Jitter}] = by
		}
		if by != 0 && float64(by) >= leastClipped*float64(s.Latency) {
			clipped = append(clipped, hop)
		}
	}
	if clipped == nil {
		return ""
	}
	s := f.Hops[clipped[0]].Spec
	l := LinkOf(s)
	by := known[shape{s.Latency, s.Jitter}].Round(10 * time.Nanosecond)
	return fmt.Sprintf(
		"link %s%s: the jitter %v is too large for a latency of %v: no delay can be negative, so the mean latency "+
			"becomes %v longer", f.HopName(clipped[0]), andOthers(clipped[1:]), l.Jitter, l.Latency, by)
}

// andOthers says how many hops there are besides the one that was named.
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

// clippedBy is the time by which clipping raises the mean latency of s.
func (f *Fabric) clippedBy(s link.Spec) time.Duration {
	var table *link.JitterTable
	switch s.Jitter.Kind {
	case link.Uniform:
		if past := s.Jitter.Value - s.Latency; past > 0 {
			// Draws from -value to -latency are clipped, by past/2 in the mean.
			return time.Duration(float64(past) / 2 * float64(past) / float64(2*s.Jitter.Value))
		}
	case link.Normal:
		table = link.NormalTable()
	case link.Table:
		table = f.JitterTable()
	}
	if table == nil {
		return 0 // no draw is negative
	}
	sum := 0.0
	for _, q := range table {
		sum += max(0, -float64(s.Latency)-float64(s.Jitter.Value)*float64(q)/(1<<16))
	}
	return time.Duration(sum / float64(len(table)))
}

// SlowerPort is a port at an end of the link hop that is slower than the link. There the
// port's rate counts and the link's has no effect.
func (f *Fabric) SlowerPort(hop int) (port int, slower bool) {
	h := f.Hops[hop]
	for _, port := range []int{2 * h.Src, 2*h.Dst + 1} {
		if limit := f.Hops[port].Spec.Bandwidth; limit != 0 && (h.Spec.Bandwidth == 0 || h.Spec.Bandwidth > limit) {
			return port, true
		}
	}
	return 0, false
}

// FasterThanPorts is a line that names the links that are faster than the ports at their
// ends, which has no effect; "" if there are none. It leaves out links that have the rate
// of one of the two ports: these belong to a NIC that is faster as a whole.
func (f *Fabric) FasterThanPorts() string {
	var faster []int
	for hop, h := range f.Hops {
		if h.Kind != link.Link {
			continue
		}
		rate := h.Spec.Bandwidth
		if _, slower := f.SlowerPort(hop); !slower || rate == f.Hops[2*h.Src].Spec.Bandwidth ||
			rate == f.Hops[2*h.Dst+1].Spec.Bandwidth {
			continue
		}
		faster = append(faster, hop)
	}
	if faster == nil {
		return ""
	}
	first := faster[0]
	port, _ := f.SlowerPort(first)
	return fmt.Sprintf(
		"link %s%s: its bandwidth is %v, but port %s has %v: change the ports too, with a match of whole nodes "+
			"or NICs", f.HopName(first), andOthers(faster[1:]), LinkOf(f.Hops[first].Spec).Bandwidth, f.HopName(port),
		LinkOf(f.Hops[port].Spec).Bandwidth)
}
