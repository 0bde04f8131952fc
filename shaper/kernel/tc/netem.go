// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vishvananda/netlink/nl"

	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// Attributes of netem (linux/pkt_sched.h) that have no name in package nl.
const (
	netemDelayDist = 2
	netemLoss      = 5
	netemRate      = 6
	netemRate64    = 8
	netemLatency64 = 10
	netemJitter64  = 11
	netemLossGE    = 2
)

// netemUnit is the standard deviation in netem's tables of quantiles.
const netemUnit = 8192

// StartNetem starts the shaper netem: htb, and in its queues what netem does to the
// packets of a link.
func StartNetem(w nodes.Network) (*Shaper, error) {
	tables := w.File.Tables()
	scale := int64(w.Fabric.TimeScale())
	return start(w, func(port, l link.Spec) (qdisc, error) { return netem(port, l, scale, tables) })
}

// netem is the queue of a link: latency and jitter, then, by the class that takes
// from it, the port's rate. Times are scaled.
func netem(port, l link.Spec, scale int64, tables *[3]*link.JitterTable) (qdisc, error) {
	loss := l.Loss
	if l.Down {
		loss = link.Loss{P: 1}
	}
	// struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter. The times are
	// in the attributes below, to the nanosecond.
	var opt []byte
	for _, v := range []uint32{0, netemLimit(port, l, scale), chance(loss.P), 0, 0, 0} {
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
		var stretch int64
		stretch, table = distribution(tables[l.Jitter.Kind-link.Normal])
		sigma *= stretch
		attr(netemDelayDist, table)
	}
	if l.Jitter.Kind == link.Uniform && sigma >= 1<<31 || sigma >= 1<<48 {
		return qdisc{}, fmt.Errorf("%w: netem has no jitter of %v", ErrUnavailable, l.Jitter.Value)
	}
	attr(netemJitter64, u64(sigma))
	// A rate, however high, keeps packets in order: none overtakes another.
	attr(netemRate, append(binary.NativeEndian.AppendUint32(nil, math.MaxUint32), make([]byte, 12)...))
	attr(netemRate64, u64(unlimited))
	return qdisc{"netem", opt}, nil
}

// gilbertElliott is struct tc_netem_gemodel: p, r, 1-h, 1-k.
func gilbertElliott(l link.Loss) []byte {
	var b []byte
	for _, v := range []float64{l.GoodToBad, l.BadToGood, 1 - l.BadP, l.P} {
		b = binary.NativeEndian.AppendUint32(b, chance(v))
	}
	return b
}

// chance is a probability as netem has it.
func chance(p float64) uint32 {
	return uint32(min(math.Round(p*(1<<32)), math.MaxUint32))
}

// distribution is t as netem's table of 16-bit quantiles, and by how much it is
// compressed to fit.
func distribution(t *link.JitterTable) (stretch int64, table []byte) {
	largest := int64(0)
	for _, q := range t {
		largest = max(largest, int64(q), -int64(q))
	}
	// q is in units of 2^-16, netem's in units of 2^-13 times stretch.
	stretch = max((largest>>3+math.MaxInt16)/(math.MaxInt16+1), 1)
	for _, q := range t {
		v := math.Round(float64(q) * netemUnit / (1 << 16) / float64(stretch))
		table = binary.NativeEndian.AppendUint16(table, uint16(int16(min(max(v, math.MinInt16), math.MaxInt16))))
	}
	return stretch, table
}

// manyPackets is the limit of a queue that is to lose nothing.
const manyPackets = 1 << 20

// netemLimit is how many packets may be under way and wait at the port: those of full
// size that the link holds, and those of the port's queue.
func netemLimit(port, l link.Spec, scale int64) uint32 {
	rate, err := frameRate(port, int(scale))
	if port.QueuePolicy != link.TailDrop || port.QueueBytes == 0 || err != nil || rate == unlimited {
		return manyPackets
	}
	held := float64(rate) * float64(int64(l.Latency+4*l.Jitter.Value)*scale) / 1e9
	return uint32(min((held+float64(port.QueueBytes))/float64(port.MTU+ethernet)+1, manyPackets))
}
