// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Packets is what a shaper of the kernel datapath says of the packets that crossed
// the fabric while a job ran. Times of messages are judged by it, since the plugin
// does not know there when a message was due: the model's times of packets do not
// depend on how late others were, so a message is as late as its last packet.
type Packets struct {
	Shaper string
	Seen   bool // by the shaper, packet by packet; otherwise Traffic is empty
	// Traffic is the job that stands for all traffic.
	Traffic state.JobStatus
}

// PacketsOf reads what the shaper of f has counted so far, nil if fab is not on the
// kernel datapath.
func PacketsOf(f *state.File, fab *fabric.Fabric) *Packets {
	if !fab.Config.OnKernel() {
		return nil
	}
	p := &Packets{Shaper: f.Shaper()}
	for _, j := range f.Jobs() {
		if j.Traffic() {
			p.Seen, p.Traffic = true, j.Status()
		}
	}
	return p
}

// packets judges what is known of the packets of the whole fabric.
func (j *judge) packets(p *Packets) {
	if !p.Seen {
		j.invalid(false, "the shaper %s does not see whether packets are on time: how late messages were is not verified", p.Shaper)
	}
	for _, words := range p.Traffic.Reasons.Words() {
		j.invalid(true, "%s", words)
	}
}

// byPackets is the cell c of link h with the times that its packets say.
func (j *judge) byPackets(h *state.HopStatus, c state.Cell, packets *state.Cell) state.Cell {
	var all state.Class // packets of every size: a message's last one may be of any
	for i := range packets.Size {
		k := &packets.Size[i]
		all.Messages, all.SumLate, all.MaxLate = all.Messages+k.Messages, all.SumLate+k.SumLate, max(all.MaxLate, k.MaxLate)
		for b, n := range k.Late {
			all.Late[b] += n
		}
	}
	if all.Messages == 0 {
		j.invalid(false, "%s: messages were sent, but no packet crossed it: they went around the emulated links", j.in.Name(h.Index))
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

// least is the time that a message of size bytes takes over a link at least, scaled.
func (j *judge) least(h *state.HopStatus, size uint64) int64 {
	latency, longest := int64(0), int64(0)
	for _, step := range j.in.Path(int(h.Src), int(h.Dst)) {
		p, err := link.NewParams(j.in.Hops[step.Hop].Spec, j.in.TimeScale)
		if err != nil {
			continue // what is in force was checked when it came
		}
		latency += p.Latency
		longest = max(longest, p.Serialise(uint32(min(size, math.MaxUint32))))
	}
	return latency + longest
}

// later is which part of the packets was later than limit, in ns. Of the bucket that
// limit lies in it is all.
func later(all *state.Class, limit int64) float64 {
	n := uint64(0)
	for b, count := range all.Late {
		if state.BucketFloor(b+1) > limit {
			n += uint64(count)
		}
	}
	return float64(n) / float64(all.Messages)
}

// share is that part of n messages.
func share(n uint64, part float64) uint64 { return uint64(math.Round(part * float64(n))) }

// quantiles are p50 and p99 of a class's lateness. A histogram of packets counts more
// than there are messages.
func quantiles(k *state.Class) (p50, p99 int64) {
	h := *k
	h.Messages = 0
	for _, n := range k.Late {
		h.Messages += uint64(n)
	}
	return quantile(&h, 0.5), quantile(&h, 0.99)
}
