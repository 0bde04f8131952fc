// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"math"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// ethernet is the size of an Ethernet header in bytes. The kernel counts it with every packet.
const ethernet = 14

// unlimited is the rate of a class without limit, in bytes per second: far above what any host moves.
const unlimited = 1_000_000_000_000

// burstTime is the time for which a class may exceed its rate. A timer that fires late by less than this costs no rate.
// After idle time, the class sends the burst at once.
const burstTime = 400 * time.Microsecond

// frameRate returns the rate of s as the kernel counts it, in bytes per second: frames with their Ethernet header, but
// without preamble, gap and checksum. It is exact for packets of the MTU.
func frameRate(s link.Spec, timeScale int) (uint64, error) {
	p, err := link.NewParams(s, timeScale)
	if err != nil {
		return 0, err
	}
	if p.NsDen == 0 {
		return unlimited, nil
	}
	lineRate := 1e9 * float64(p.NsDen) / float64(p.NsNum)
	share := float64(s.MTU+ethernet) / float64(s.MTU+s.Framing)
	return min(uint64(math.Round(lineRate*share)), unlimited), nil
}

// htbClass returns a class of an HTB. rate and ceil are bytes per second, quantum the bytes that it sends per round.
func htbClass(index int, parent, handle uint32, rate, ceil uint64, mtu, quantum uint32) *netlink.HtbClass {
	return &netlink.HtbClass{
		ClassAttrs: netlink.ClassAttrs{LinkIndex: index, Parent: parent, Handle: handle},
		Rate:       validRate(rate), Ceil: validRate(ceil),
		Buffer: burstTicks(rate, mtu), Cbuffer: burstTicks(ceil, mtu),
		Quantum: quantum,
	}
}

// validRate returns rate, or the next that the kernel accepts: it refuses rates whose lower 32 bits are 0.
func validRate(rate uint64) uint64 {
	if rate == 0 || uint32(rate) == 0 {
		return rate + 1
	}
	return rate
}

// burstTicks returns the burst at a rate in the kernel's unit: ticks of the time that the burst takes.
func burstTicks(rate uint64, mtu uint32) uint32 {
	burst := float64(rate) * burstTime.Seconds()
	return netlink.Xmittime(validRate(rate), uint32(min(max(burst, float64(mtu+ethernet)), math.MaxUint32)))
}
