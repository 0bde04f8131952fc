// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// On a real clock, each job counts what each GPU did, at the offset that C gets; a job that takes the place of another
// one starts from nothing. On a virtual clock nothing is counted. Both have a file of flows, which is empty when no rank
// takes part.
func TestNodeStats(t *testing.T) {
	const gpus = 4
	for _, virtual := range []bool{false, true} {
		s := twoNodes("t")
		s.Virtual, s.GPUsPerNode = virtual, gpus/2
		s.NodeTime = NodeTime{On: 1, GPUs: gpus / 2, FirstHop: uint32(len(s.Hops))}
		for gpu := range uint32(gpus) {
			for _, kind := range []link.HopKind{link.GPUOut, link.GPUIn} {
				s.Hops = append(s.Hops, HopSpec{Kind: kind, Src: gpu, Dst: gpu, Spec: s.Hops[0].Spec})
			}
		}
		f, flows := withFlows(t, s)
		inUse := (*[clock.FlowsHead / 4]uint32)(flows.Base())[32:64]
		inUse[0] = 2
		j, p := joined(t, f, 7)
		if inUse[0] != 0 {
			t.Errorf("virtual %v: a flow of a rank that died is still there", virtual)
		}
		want := NodeParts * gpus
		if virtual {
			want = 0
		}
		if n := len(j.Status().NodeStats); n != want {
			t.Fatalf("virtual %v: %d statistics of nodes, want %d", virtual, n, want)
		}
		if virtual {
			p.Leave()
			continue
		}
		table[LinkStats](f, j.NodeStatsOffset(), uint32(want))[want-1].Stalls = 9
		if got := j.Status().NodeStats; got[want-1].Stalls != 9 || got[0].Stalls != 0 {
			t.Errorf("not what was counted: %d, %d", got[want-1].Stalls, got[0].Stalls)
		}
		p.Leave()
		for key := range uint64(maxJobs) {
			j, p := joined(t, f, 100+key)
			if got := j.Status().NodeStats; got[want-1].Stalls != 0 {
				t.Errorf("job %d begins with what an earlier one has counted", j.Index())
			}
			p.Leave()
		}
	}
}

// Nodes without GPUs cost no time: the GPU of a rank follows from their number.
func TestNodeTimeNeedsGPUs(t *testing.T) {
	if e := (NodeTime{On: 1}); e.plausible(2, 0, 0) {
		t.Error("nodes of 0 GPUs that cost time are accepted")
	}
}
