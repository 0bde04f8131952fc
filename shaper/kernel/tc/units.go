// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"math"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// ethernet is the size of the header that the kernel counts with every packet.
const ethernet = 14

// unlimited is the rate in bytes per second of what is not limited: far above what
// any host moves.
const unlimited = 1_000_000_000_000

// burstTime is how much of its rate a class may send at once. A timer that is late by
// less costs no rate; what is sent after a pause goes that much faster.
const burstTime = 400 * time.Microsecond

// frameRate is the rate of s in the bytes per second that the kernel counts: frames
// with their Ethernet header, not with what else the wire carries (preamble, gap,
// checksum). It is exact for packets of the MTU.
func frameRate(s link.Spec, timeScale int) (uint64, error) {
	p, err := link.NewParams(s, timeScale)
	if err != nil {
		return 0, err
	}
	if p.NsDen == 0 {
		return unlimited, nil
	}
	wire := 1e9 * float64(p.NsDen) / float64(p.NsNum)
	share := float64(s.MTU+ethernet) / float64(s.MTU+s.Framing)
	return min(uint64(math.Round(wire*share)), unlimited), nil
}

// htbClass is a class of an HTB with rates in bytes per second. quantum is what it
// sends in its turn, in bytes.
func htbClass(index int, parent, handle uint32, rate, ceil uint64, mtu, quantum uint32) *netlink.HtbClass {
	return &netlink.HtbClass{
		ClassAttrs: netlink.ClassAttrs{LinkIndex: index, Parent: parent, Handle: handle},
		Rate:       nudged(rate), Ceil: nudged(ceil),
		Buffer: ticks(rate, mtu), Cbuffer: ticks(ceil, mtu),
		Quantum: quantum,
	}
}

// nudged is a rate that the kernel takes: it refuses those of which the lower 32 bits
// are 0.
func nudged(rate uint64) uint64 {
	if rate == 0 || uint32(rate) == 0 {
		return rate + 1
	}
	return rate
}

// ticks is the burst of a rate as the kernel wants it: as the time it takes.
func ticks(rate uint64, mtu uint32) uint32 {
	burst := float64(rate) * burstTime.Seconds()
	return netlink.Xmittime(nudged(rate), uint32(min(max(burst, float64(mtu+ethernet)), math.MaxUint32)))
}
