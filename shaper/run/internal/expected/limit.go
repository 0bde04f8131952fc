// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// limit names what limits the calls of a decision.
func (t *Times) limit(d *plan.Decision, e *expect.Estimate) bench.Limit {
	l := e.Limit
	out := bench.Limit{Share: l.Share}
	switch l.By {
	case expect.ByHop:
		out.By, out.Where = t.hop(l.Hop)
	case expect.ByHost:
		_, out.Where = t.hop(l.Hop)
		out.By = bench.Proxy
	case expect.BySteps, expect.ByChannel:
		out.By = bench.Channel
		if l.By == expect.BySteps {
			out.By = bench.Steps
		}
		out.Where = fmt.Sprintf("(%s)", units.Count(e.Channels, "channel"))
		if n := l.PeerChannels; n > 0 {
			out.Where = fmt.Sprintf("(%s to a peer)", units.Count(n, "channel"))
			out.Why = fmt.Sprintf("NCCL has %s for sends and receives of %d ranks, %d per peer",
				units.Count(d.P2PChannels, "channel"), d.Ranks, d.P2PChannelsPerPeer)
		}
	case expect.ByLaunch:
		out.By = bench.Launch
	case expect.ByThread:
		out.By = bench.HostThread
	case expect.ByLatency:
		out.By = bench.Latency
	}
	return out
}

// busiest names the hop that a call occupies longest: of several the first.
func (t *Times) busiest(e *expect.Estimate) (out bench.BusyHop) {
	if e.Bound < 1 || e.Time <= 0 { // less than a ns
		return out
	}
	const equal = 1e-9 // of sums in another order
	for _, l := range e.Loads {
		if l.BusyNs < e.Bound*(1-equal) {
			continue
		}
		by, name := t.hop(l.Hop)
		if by == bench.Switch {
			by = "trunk"
		}
		switch {
		case out.Name == "":
			out = bench.BusyHop{Kind: string(by), Name: name, Share: l.BusyNs / e.Time}
		case out.Kind == string(by):
			out.Alike++
		}
	}
	return out
}

// hop is what a hop is, and its name for people.
func (t *Times) hop(hop int) (bench.LimitedBy, string) {
	if hop >= t.fabric.FirstGPULink() {
		by := bench.PCIe
		if t.fabric.Config.NodeNVLink().Links > 0 {
			by = bench.NVLink
		}
		return by, t.fabric.NameOf(t.fabric.GPULinks()[hop-t.fabric.FirstGPULink()])
	}
	by := bench.Link
	switch t.fabric.Hops[hop].Kind {
	case link.TxPort, link.RxPort:
		by = bench.NIC
	case link.Trunk:
		by = bench.Switch
	}
	return by, t.fabric.HopName(hop)
}
