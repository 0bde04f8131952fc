// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// Packets is what a shaper of the kernel datapath recorded of the packets that crossed the fabric while a job ran. The
// lateness of messages is derived from it, because the plugin does not know there when a message was due. The model's
// time of a packet does not depend on the lateness of others, so a message is as late as its last packet.
type Packets struct {
	Shaper string
	Seen   bool // the shaper records each packet; otherwise Traffic is empty
	// Traffic has the counters of all packets on the fabric.
	Traffic state.JobStatus
}

// PacketsOf is what the shaper of a fabric has recorded so far; nil if it is not on the kernel datapath.
func PacketsOf(f *status.Reading) *Packets {
	if !f.OnKernel() {
		return nil
	}
	p := &Packets{Shaper: f.Shaper}
	for i := range f.Jobs {
		if f.Jobs[i].Traffic {
			p.Seen, p.Traffic = true, f.Jobs[i].Counted
		}
	}
	return p
}

// packets judges what the shaper recorded of all packets.
func (j *judge) packets(p *Packets) {
	if !p.Seen {
		j.invalid(CauseFabric,
			"the shaper %s does not record whether packets are on time: the lateness of messages is not verified",
			p.Shaper)
	}
	for _, f := range fromTraffic(p.Traffic.Reasons) {
		j.v.Add(f)
	}
}

// byPackets is the statistics c of link h with lateness and busy times from its packets.
func (j *judge) byPackets(h *state.HopStatus, c state.LinkStats, packets *state.LinkStats) state.LinkStats {
	all := packets.Total() // of all sizes, because the last packet of a message may have any
	if all.Messages == 0 {
		j.invalid(CauseBypass, "%s: messages were sent, but no packet crossed it: they went around the emulated links",
			j.in.Name(h.Index))
		return c
	}
	c.ModelBusy, c.WallBusy = packets.ModelBusy, packets.WallBusy
	for i := range c.Size {
		k := &c.Size[i]
		if k.Messages == 0 {
			continue
		}
		took := j.least(h, k.Bytes/k.Messages)
		k.OverP50 = share(k.Messages, later(&all, max(state.P50FloorNs*int64(j.in.TimeScale), took/state.P50Part)))
		k.OverP99 = share(k.Messages, later(&all, max(state.P99FloorNs*int64(j.in.TimeScale), took/state.P99Part)))
		k.SumLate = int64(float64(all.SumLate) / float64(all.Messages) * float64(k.Messages))
		k.SumTime, k.MaxLate, k.Late = took*int64(k.Messages), all.MaxLate, all.Late
	}
	return c
}

// least is the minimum time in real ns of a message of size bytes over a link.
func (j *judge) least(h *state.HopStatus, size uint64) int64 {
	latency, longest := int64(0), int64(0)
	for _, step := range j.in.Path(int(h.Src), int(h.Dst)) {
		p, err := link.NewParams(j.in.Hops[step.Hop].Spec, j.in.TimeScale)
		if err != nil {
			continue // the parameters were checked when they were set
		}
		latency += p.Latency
		longest = max(longest, p.Serialization(uint32(min(size, math.MaxUint32))))
	}
	return latency + longest
}

// later is the fraction of packets that were later than limit ns. It includes the whole bucket of the histogram that
// contains limit.
func later(all *state.Class, limit int64) float64 {
	n := uint64(0)
	for b, count := range all.Late {
		if state.BucketFloor(b+1) > limit {
			n += uint64(count)
		}
	}
	return float64(n) / float64(all.Messages)
}

// share is the given fraction of n messages.
func share(n uint64, part float64) uint64 { return uint64(math.Round(part * float64(n))) }

// quantiles are p50 and p99 of a class's lateness; 0 if it has no messages.
func quantiles(k *state.Class) (p50, p99 int64) {
	p50, _ = state.Quantile(&k.Late, 0.5, k.MaxLate)
	p99, _ = state.Quantile(&k.Late, 0.99, k.MaxLate)
	return p50, p99
}
