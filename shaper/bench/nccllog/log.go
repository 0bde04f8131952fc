// SPDX-License-Identifier: Apache-2.0

// Package nccllog reads what NCCL says about itself with NCCL_DEBUG=INFO: its version, the shape of a communicator
// (nodes, rings, trees, channels), the transport of every connection, and the algorithm, protocol and channels chosen
// for each collective.
//
// NCCL's log is not an interface and changes between versions. The lines of 2.22.3 and 2.29.7 are known, with the
// subsystems INIT, GRAPH, TUNING and NET; what is not recognised is skipped, and what was not printed is left at its
// zero value or at [Unknown], so that a reader can tell.
package nccllog

// Unknown stands for a number that the log does not hold.
const Unknown = -1

// Log is what one process (one rank) logged.
type Log struct {
	// Version is NCCL's, such as "2.22.3", and CUDA that which it was built with, such as "12.4". Only rank 0 prints
	// them; empty in other logs.
	Version, CUDA string
	// Comms are the communicators in the order of their making.
	Comms []*Comm
	// Warnings are the messages at level WARN, without NCCL's prefix and without repeats, the last 100 of them.
	Warnings []string
}

// Comm is one communicator as one of its ranks sees it.
type Comm struct {
	Rank, Ranks, Nodes, LocalRanks, LocalRank int // Ranks is 0 until NCCL has printed them
	Network                                   string
	// CollChannels are used by collectives, P2PChannels by send and receive, P2PChannelsPerPeer of them between two
	// ranks. Unknown until printed.
	CollChannels, P2PChannels, P2PChannelsPerPeer int
	// Rings hold the order of ranks per channel from this rank on. Only rank 0 prints them, and of large
	// communicators only the first ranks: see [Combine].
	Rings [][]int
	// Neighbours are this rank's on each channel's ring.
	Neighbours []Neighbours
	// Trees are this rank's place in each channel's tree.
	Trees []TreeNode
	// Threads are the most that a channel's kernel has, by algorithm and protocol. Only rank 0 prints them.
	Threads     map[Kernel]int
	Connections []Connection
	// Decisions are what was chosen, repeats counted, in the order of first use. Only rank 0 prints them.
	Decisions []Decision
}

// Neighbours are the ranks before and after a rank on a ring.
type Neighbours struct{ Prev, Next int }

// TreeNode is a rank's place in a tree: Up is its parent, Unknown at the root; Down its children, at most three.
type TreeNode struct {
	Up   int
	Down []int
}

// Connection is one direction of a channel between two ranks, as the end that logged it sees it.
type Connection struct {
	Channel, Index int // Index tells connections between the same ranks apart: 0 collectives, 1 send and receive
	From, To       int
	Receive        bool   // logged by the receiver (only for NET; P2P and SHM are logged by the sender)
	Via            string // the transport as NCCL writes it, such as NET/Socket/0, P2P/IPC or SHM/direct/direct
}

// Algorithms and protocols, as NCCL_ALGO and NCCL_PROTO spell them, whatever the version's log does.
const (
	AlgoTree          = "Tree"
	AlgoRing          = "Ring"
	AlgoCollNetDirect = "CollNetDirect"
	AlgoCollNetChain  = "CollNetChain"
	AlgoNVLS          = "NVLS"
	AlgoNVLSTree      = "NVLSTree"
	AlgoPAT           = "PAT"

	ProtoLL     = "LL"
	ProtoLL128  = "LL128"
	ProtoSimple = "Simple"
)

// Kernel names an algorithm and a protocol.
type Kernel struct{ Algo, Proto string }

// Decision is what NCCL decided for one collective. Sends and receives have none.
type Decision struct {
	// Func is the collective, such as AllReduce; empty before 2.23, which does not print it.
	Func string
	// Bytes is as printed: before 2.23 the whole of what an AllGather or ReduceScatter handles, later one rank's part.
	Bytes       int64
	Algo, Proto string
	// ChannelLo and ChannelHi are the first and last channel used; Unknown before 2.23.
	ChannelLo, ChannelHi int
	// PredictedUS is the time in microseconds that NCCL's own model gave, 0 where the version does not print it.
	PredictedUS float64
	// Count tells how often in a row.
	Count int
}

// same reports whether two decisions are alike but for their Count.
func (c Decision) same(o Decision) bool {
	c.Count, o.Count = 0, 0
	return c == o
}
