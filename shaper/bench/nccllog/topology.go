// SPDX-License-Identifier: Apache-2.0

package nccllog

import (
	"fmt"
	"strings"
)

// Topology is a communicator as all its ranks together describe it.
type Topology struct {
	Ranks, Nodes                                  int
	Network                                       string
	CollChannels, P2PChannels, P2PChannelsPerPeer int
	// Rings hold all ranks in order per channel, from rank 0 on.
	Rings [][]int
	// Trees hold each rank's place per channel: Trees[channel][rank].
	Trees [][]TreeNode
	// Threads are the most that a channel's kernel has; nil if the log does not tell.
	Threads map[Kernel]int
}

// Combine puts the ranks' views of one communicator together; comms[i] is rank i's. It fails if one is missing or
// they contradict each other.
func Combine(comms []*Comm) (*Topology, error) {
	for rank, c := range comms {
		if c == nil || c.Ranks == 0 {
			return nil, fmt.Errorf("the NCCL log of rank %d does not describe a communicator", rank)
		}
		if c.Ranks != len(comms) || c.Rank != rank || c.Nodes != comms[0].Nodes {
			return nil, fmt.Errorf("the NCCL log of rank %d says rank %d of %d on %d nodes, that of rank 0 %d ranks on %d nodes",
				rank, c.Rank, c.Ranks, c.Nodes, comms[0].Ranks, comms[0].Nodes)
		}
	}
	if len(comms) == 0 {
		return nil, fmt.Errorf("there is no NCCL log")
	}
	first := comms[0]
	t := &Topology{
		Ranks: first.Ranks, Nodes: first.Nodes, Network: first.Network, CollChannels: first.CollChannels,
		P2PChannels: first.P2PChannels, P2PChannelsPerPeer: first.P2PChannelsPerPeer,
		Threads: first.Threads,
	}
	t.Rings = rings(comms)
	t.Trees = trees(comms)
	return t, nil
}

// Transports counts the ranks' connections by transport: "NET/goemu", "P2P/IPC", "SHM/direct/direct". A connection
// over a network counts once, at its sender. NCCL makes connections with the first collective that needs them (since
// 2.22), so the counts grow during a run. Ranks without a log may be nil.
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

// transport drops the device and the flags from a network's name: NET/Socket/0/GDRDMA is NET/Socket.
func transport(via string) string {
	parts := strings.Split(via, "/")
	if parts[0] == "NET" && len(parts) > 2 {
		return parts[0] + "/" + parts[1]
	}
	return via
}

// rings follows each rank's neighbour, which works for any size; where neighbours were not logged (the GRAPH
// subsystem is off) it takes the order that rank 0 printed, if that is whole.
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

// walk returns a channel's ring from rank 0, or nil if the neighbours do not make one ring of all ranks.
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
