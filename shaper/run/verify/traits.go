// SPDX-License-Identifier: Apache-2.0

package verify

import "github.com/ddlemu/ddlemu/configs"

// traits are the deviations of a shaper of the kernel datapath from the link model. docs/kernel.md has the reasons.
type traits struct {
	// bursts: after a pause, 400 us of the rate pass at once. A single small packet does not wait for its
	// serialization time, so that is not part of its expected latency.
	bursts bool
	// shares: each sender has a traffic class at the receiving port, so flows get equal shares. Otherwise packets are
	// served in order of arrival.
	shares bool
	// hosts: the shaper delays nothing, so a packet takes the time of this host's network stack. That exceeds
	// verify's limits for a latency of 0, the only one that such a shaper has.
	hosts bool
}

var shaperTraits = map[string]traits{
	configs.NetemShaper: {bursts: true, shares: true},
	configs.HTBShaper:   {bursts: true, shares: true, hosts: true},
}

// Limits for latencies under a shaper that delays nothing, in us of real time.
const (
	hostP50 = 100
	hostP99 = 1000
)

func (m *Model) traits() traits { return shaperTraits[m.shaper] }

// noteTraits adds notes on limits that differ from the usual ones.
func (x *packets) noteTraits() {
	x.note(
		"datagrams are sent; one that fills a packet counts as %d bytes, the payload that the fabric's header leaves",
		x.payload)
	if x.traits().bursts {
		x.note(
			"%s passes 400 us of the rate at once after a pause: the expected latency does not include the packet's "+
				"serialization time", x.shaper)
	}
	if x.traits().hosts {
		x.note(
			"%s delays nothing, so latencies are the latencies of this host's network stack: their limits are %d us (p50) and "+
				"%d us (p99) of real time", x.shaper, hostP50, hostP99)
	}
}
