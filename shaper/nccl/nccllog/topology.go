// SPDX-License-Identifier: Apache-2.0

package nccllog

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Topology is a communicator, combined from the logs of all its ranks.
type Topology struct {
	Ranks, Nodes                                                int
	Network                                                     string
	CollChannels, NVLSChannels, P2PChannels, P2PChannelsPerPeer int
	NVLSHeads                                                   [][]int // of [Comm]
	// Rings have all ranks in order per channel, from rank 0 on.
	Rings [][]int
	// Trees have each rank's position per channel: Trees[channel][rank].
	Trees [][]TreeNode
	// Threads is the maximum of a channel's kernel; nil if the log does not have it.
	Threads map[Kernel]int
	// Thresholds are the thresholds of [Comm]; nil if the log does not have them.
	Thresholds map[Kernel]int
	// LatencyUS is the latency of [Comm]; nil if the log does not have it.
	LatencyUS map[nccl.Collective]map[Kernel]float64
}

// Combine combines the ranks' views of one communicator; comms[i] is rank i's. It fails if one is missing or they
// contradict each other.
func Combine(comms []*Comm) (*Topology, error) {
	for rank, c := range comms {
		if c == nil || c.Ranks == 0 {
			return nil, fmt.Errorf("the NCCL log of rank %d does not describe a communicator", rank)
		}
		if c.Ranks != len(comms) || c.Rank != rank || c.Nodes != comms[0].Nodes {
			return nil, fmt.Errorf(
				"the NCCL log of rank %d says rank %d of %d on %d nodes, the log of rank 0 %d ranks on %d nodes",
				rank, c.Rank, c.Ranks, c.Nodes, comms[0].Ranks, comms[0].Nodes)
		}
	}
	if len(comms) == 0 {
		return nil, fmt.Errorf("there is no NCCL log")
	}
	first := comms[0]
	t := &Topology{
		Ranks: first.Ranks, Nodes: first.Nodes, Network: first.Network, CollChannels: first.CollChannels,
		NVLSChannels: first.NVLSChannels, NVLSHeads: first.NVLSHeads,
		P2PChannels: first.P2PChannels, P2PChannelsPerPeer: first.P2PChannelsPerPeer,
		Threads: first.Threads, Thresholds: first.Thresholds, LatencyUS: first.LatencyUS,
	}
	t.Rings = rings(comms)
	t.Trees = trees(comms)
	return t, nil
}

// Transports counts connections by transport: "NET/goemu", "P2P/IPC", "SHM/direct/direct". A connection over a network
// counts once, at its sender. NCCL (since 2.22) connects ranks at the first collective that needs it, so the counts
// grow during a run. Ranks without a log may be nil.
func Transports(comms []*Comm) map[string]int {
	counts := map[string]int{}
	for _, c := range comms {
		if c == nil {
			continue
		}
		for _, connection := range c.Connections {
			if !connection.Receive {
				counts[transport(connection.Via)]++
			}
		}
	}
	return counts
}

// transport removes the device and the flags from a network's name: NET/Socket/0/GDRDMA is NET/Socket.
func transport(via string) string {
	parts := strings.Split(via, "/")
	if parts[0] == "NET" && len(parts) > 2 {
		return parts[0] + "/" + parts[1]
	}
	return via
}

// rings follows each rank's neighbour, which works for any number of ranks. If neighbours were not logged (the GRAPH
// subsystem is off), it uses the order that rank 0 printed if that is complete.
func rings(comms []*Comm) [][]int {
	var all [][]int
	for channel := range max(len(comms[0].Rings), len(comms[0].Neighbours)) {
		ring := walk(comms, channel)
		if ring == nil && channel < len(comms[0].Rings) && len(comms[0].Rings[channel]) == len(comms) {
			ring = comms[0].Rings[channel]
		}
		all = append(all, ring)
	}
	return all
}

// walk returns a channel's ring from rank 0, or nil if the neighbours do not form one ring of all ranks.
func walk(comms []*Comm, channel int) []int {
	ring := make([]int, 0, len(comms))
	rank := 0
	for range comms {
		if rank < 0 || rank >= len(comms) || channel >= len(comms[rank].Neighbours) {
			return nil
		}
		ring = append(ring, rank)
		rank = comms[rank].Neighbours[channel].Next
		if rank == 0 {
			break
		}
	}
	if rank != 0 || len(ring) != len(comms) {
		return nil
	}
	return ring
}

func trees(comms []*Comm) [][]TreeNode {
	var all [][]TreeNode
	for channel := range comms[0].Trees {
		tree := make([]TreeNode, len(comms))
		for rank, c := range comms {
			if channel >= len(c.Trees) {
				return all
			}
			tree[rank] = c.Trees[channel]
		}
		all = append(all, tree)
	}
	return all
}
