// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vishvananda/netlink/nl"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// Attributes of netem (linux/pkt_sched.h) that package nl does not define.
const (
	netemDelayDist = 2
	netemLoss      = 5
	netemRate      = 6
	netemRate64    = 8
	netemLatency64 = 10
	netemJitter64  = 11
	netemLossGE    = 2
)

// netemUnit is one standard deviation in netem's distribution tables.
const netemUnit = 8192

// StartNetem starts the shaper netem on w: as htb, with a netem qdisc as the queue of each link.
func StartNetem(w nodes.Network) (*Shaper, error) {
	tables := w.File.Tables()
	scale := int64(w.Fabric.TimeScale())
	return start(w, func(port, l link.Spec) (qdisc, error) { return netem(port, l, scale, tables) })
}

// netem returns the queue of link l in front of a port. It delays packets by the link's latency and jitter. Then its
// class sends them at the port's rate. scale is the time scale.
func netem(port, l link.Spec, scale int64, tables *link.JitterTables) (qdisc, error) {
	loss := l.Loss
	if l.Down {
		loss = link.Loss{P: 1}
	}
	// struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter. Attributes below set the times in ns.
	var opt []byte
	for _, v := range []uint32{0, netemLimit(port, l, scale), probability(loss.P), 0, 0, 0} {
		opt = binary.NativeEndian.AppendUint32(opt, v)
	}
	attr := func(kind int, data []byte) { opt = append(opt, nl.NewRtAttr(kind, data).Serialize()...) }
	u64 := func(v int64) []byte { return binary.NativeEndian.AppendUint64(nil, uint64(v)) }
	attr(netemLatency64, u64(int64(l.Latency)*scale))
	if loss.GoodToBad != 0 {
		attr(netemLoss, nl.NewRtAttr(netemLossGE, gilbertElliott(loss)).Serialize())
	}
	if l.Jitter.Kind == link.NoJitter || l.Jitter.Value == 0 {
		attr(netemJitter64, u64(0))
		attr(netemRate, make([]byte, 16))
		return qdisc{"netem", opt}, nil
	}
	sigma, table := int64(l.Jitter.Value)*scale, []byte(nil)
	if l.Jitter.Kind != link.Uniform {
		var factor int64
		factor, table = distribution(&tables[l.Jitter.Kind-link.Normal])
		sigma *= factor
		attr(netemDelayDist, table)
	}
	if l.Jitter.Kind == link.Uniform && sigma >= 1<<31 || sigma >= 1<<48 {
		return qdisc{}, fmt.Errorf("%w: netem does not support a jitter of %v", ErrUnavailable, l.Jitter.Value)
	}
	attr(netemJitter64, u64(sigma))
	// If a rate is set, netem keeps packets in order.
	attr(netemRate, append(binary.NativeEndian.AppendUint32(nil, math.MaxUint32), make([]byte, 12)...))
	attr(netemRate64, u64(unlimited))
	return qdisc{"netem", opt}, nil
}

// gilbertElliott returns struct tc_netem_gemodel: p, r, 1-h, 1-k.
func gilbertElliott(l link.Loss) []byte {
	var b []byte
	for _, v := range []float64{l.GoodToBad, l.BadToGood, 1 - l.BadP, l.P} {
		b = binary.NativeEndian.AppendUint32(b, probability(v))
	}
	return b
}

// probability converts p to netem's unit: 2^32 is 1.
func probability(p float64) uint32 {
	return uint32(min(math.Round(p*(1<<32)), math.MaxUint32))
}

// distribution converts t to netem's table of 16-bit quantiles. The quantiles are divided by factor, so that they fit.
func distribution(t *link.JitterTable) (factor int64, table []byte) {
	largest := int64(0)
	for _, q := range t {
		largest = max(largest, int64(q), -int64(q))
	}
	// The unit of q is 2^-16 standard deviations. That of netem is 2^-13, times factor.
	factor = max((largest>>3+math.MaxInt16)/(math.MaxInt16+1), 1)
	for _, q := range t {
		v := math.Round(float64(q) * netemUnit / (1 << 16) / float64(factor))
		table = binary.NativeEndian.AppendUint16(table, uint16(int16(min(max(v, math.MinInt16), math.MaxInt16))))
	}
	return factor, table
}

// manyPackets is the limit in packets of a queue that loses nothing.
const manyPackets = 1 << 20

// netemLimit returns how many packets may be in a link's queue: those in flight on the link, and those that wait at the
// port. It assumes packets of the MTU.
func netemLimit(port, l link.Spec, scale int64) uint32 {
	rate, err := frameRate(port, int(scale))
	if port.QueuePolicy != link.TailDrop || port.QueueBytes == 0 || err != nil || rate == unlimited {
		return manyPackets
	}
	inFlight := float64(rate) * float64(int64(l.Latency+4*l.Jitter.Value)*scale) / 1e9
	return uint32(min((inFlight+float64(port.QueueBytes))/float64(port.MTU+ethernet)+1, manyPackets))
}
