// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// limiting is the share of a call's time from which on something that works one after another limits the calls. Below
// it, most of the time is spent with waiting.
const limiting = 0.5

// limit finds what limits the call: the busiest of all that works one after another. If that is busy for less than
// half of the time, it is the launch, or else a chain of latencies.
func (e *Estimate) limit(p *plan.Plan, f *Fabric, p2p bool) Limit {
	if e.Time <= 0 {
		return Limit{By: ByNothing}
	}
	most := Limit{PeerChannels: e.peerChannels()}
	consider := func(l Limit, ns float64) {
		if l.Share, l.PeerChannels = ns/e.Time, most.PeerChannels; l.Share > most.Share {
			most = l
		}
	}
	for _, l := range e.Loads {
		consider(Limit{By: ByHop, Hop: l.Hop}, l.BusyNs)
		consider(Limit{By: ByHost, Hop: l.Hop}, l.HostNs)
	}
	launch := 0.0
	if f.Nodes != nil {
		consider(Limit{By: ByThread}, float64(p.Kernels())*float64(f.Nodes.Call))
		for i := range p.Blocks {
			b := &p.Blocks[i]
			steps, bytes := busy(f, p, b, p2p)
			by := ByChannel
			if steps > bytes {
				by = BySteps
			}
			consider(Limit{By: by, Rank: b.Rank, Channel: b.Channel}, steps+bytes)
		}
		launch = float64(int64(p.Kernels())*f.Nodes.Launch(e.Channels)) / e.Time
	}
	switch {
	case most.Share >= limiting:
		return most
	case launch >= limiting:
		return Limit{By: ByLaunch, Share: launch, PeerChannels: most.PeerChannels}
	}
	return Limit{By: ByLatency, Share: 1 - launch, PeerChannels: most.PeerChannels}
}

// busy is how long the actions of a block take, beside their bytes and for them. The programs of a batch run at the
// same time.
func busy(f *Fabric, p *plan.Plan, b *plan.Block, p2p bool) (steps, bytes float64) {
	for _, batch := range b.Batches {
		longest, itsSteps := 0.0, 0.0
		for _, prog := range batch {
			if all, s := busyProgram(f, p, prog, p2p); all > longest {
				longest, itsSteps = all, s
			}
		}
		steps, bytes = steps+itsSteps, bytes+longest-itsSteps
	}
	return steps, bytes
}

// busyProgram is how long the actions of a program take, and how much of it beside their bytes.
func busyProgram(f *Fabric, p *plan.Plan, prog plan.Program, p2p bool) (all, steps float64) {
	for i := range prog {
		loop := &prog[i]
		for k := range loop.Actions {
			a := &loop.Actions[k]
			cost := f.Nodes.Cost(loop, p2p, p2p && actsBetweenNodes(f, p, a), p.Proto)
			if cost.Cost == nil {
				continue
			}
			steps += float64(loop.Repeat) * (cost.Step + float64(cost.Longer))
			all += float64(loop.Repeat) * float64(cost.Action(a))
		}
	}
	return all, steps
}

// actsBetweenNodes says whether action a sends or receives between nodes.
func actsBetweenNodes(f *Fabric, p *plan.Plan, a *plan.Action) bool {
	between := func(i int) bool { return f.IsBetween(p.Conns[i].Src, p.Conns[i].Dst) }
	return slices.ContainsFunc(a.Send, between) || slices.ContainsFunc(a.Recv, between)
}

// peerChannels is [Limit.PeerChannels].
func (e *Estimate) peerChannels() int {
	most, count := 0, map[[2]int]int{}
	for _, t := range e.Traffic {
		if t.P2P {
			pair := [2]int{t.Src, t.Dst}
			count[pair]++
			most = max(most, count[pair])
		}
	}
	return most
}
