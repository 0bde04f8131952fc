// SPDX-License-Identifier: Apache-2.0

package verify

import "github.com/ddlemu/ddlemu/configs"

// traits is what a shaper of the kernel datapath traits of the link model, as far as it
// differs from others; docs/kernel.md has the reasons.
type traits struct {
	// bursts: after a pause 400 us of the rate pass at once, so that the time of a single
	// small packet on the line is not waited for, and not asked for here.
	bursts bool
	// shares: senders have a class each at the receiving port, so that flows get equal
	// shares. Without that who comes first is served first.
	shares bool
	// hosts: nothing is delayed, so that each packet fits what this host fits. It cannot
	// be within verify's limits at any latency, of which there is but 0.
	hosts bool
}

var shaperTraits = map[string]traits{
	configs.NetemShaper: {bursts: true, shares: true},
	configs.HTBShaper:   {bursts: true, shares: true, hosts: true},
}

// What a packet may take under a shaper that delays nothing, us of this host.
const (
	hostP50 = 100
	hostP99 = 1000
)

func (m *Model) traits() traits { return shaperTraits[m.shaper] }

// noteTraits says in the report what was judged by other limits than elsewhere.
func (x *packets) noteTraits() {
	x.note("sent are datagrams; one that fills a packet counts as the %d bytes of payload that the fabric's header leaves of it", x.payload)
	if x.traits().bursts {
		x.note("%s lets 400 us of the rate pass at once after a pause: the time of a single packet on the line is not in the latency asked for", x.shaper)
	}
	if x.traits().hosts {
		x.note("%s delays nothing, a packet fits what this host fits: limits for latencies are %d us (p50) and %d us (p99) of this host", x.shaper, hostP50, hostP99)
	}
}
