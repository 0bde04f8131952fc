// SPDX-License-Identifier: Apache-2.0

// Package nccllog reads NCCL's log (NCCL_DEBUG=INFO): its version, the shape of a communicator (nodes, rings, trees,
// channels), the transport of every connection, and the algorithm, protocol and channels of each collective.
//
// The log is not a stable interface and changes between versions. The package knows the lines of 2.22.3 and 2.29.7 with
// the subsystems INIT, GRAPH, TUNING and NET. It skips other lines. A value that was not printed is zero or [Unknown].
package nccllog

import "github.com/ddlemu/ddlemu/shaper/nccl"

// Unknown is the value of a number that the log does not have.
const Unknown = -1

// Log is the log of one process, that is, of one rank.
type Log struct {
	// Version is NCCL's, such as "2.22.3", and CUDA the version that NCCL was built with, such as "12.4". Only rank 0
	// prints them.
	Version, CUDA string
	// Comms are the communicators in order of creation.
	Comms []*Comm
}

// Comm is one communicator as one of its ranks sees it.
type Comm struct {
	// Address is NCCL's pointer in the process, and ID a number that is the same on all ranks, both as printed; "" if
	// the start of the communicator was not logged.
	Address, ID string

	Rank, Ranks, Nodes, LocalRanks, LocalRank int // Ranks is 0 until NCCL has printed them
	Network                                   string
	// CollChannels are used by collectives, P2PChannels by send and receive, P2PChannelsPerPeer of them per pair of
	// ranks. Unknown until printed.
	CollChannels, P2PChannels, P2PChannelsPerPeer int
	// NVLSChannels is the number of channels of collectives by NVLS and NVLSTree, 0 if there are none.
	NVLSChannels int
	// NVLSHeads are the ranks that reduce and broadcast each part of the data by NVLS, of the first 20 nodes, as the ranks
	// of the first node print them if there are several nodes.
	NVLSHeads [][]int
	// Rings have the order of ranks per channel, starting with this rank. Only rank 0 prints them, and for large
	// communicators only the first ranks: see [Combine].
	Rings [][]int
	// Neighbours are the neighbours of this rank in each channel's ring.
	Neighbours []Neighbours
	// Trees are this rank's positions in each channel's tree.
	Trees []TreeNode
	// Threads is the maximum number of threads of a channel's kernel. Only rank 0 prints it.
	Threads map[Kernel]int
	// Thresholds are the bytes per thread below which NCCL uses fewer channels: of rings and trees.
	Thresholds map[Kernel]int
	// LatencyUS is what NCCL reckons a call of a collective to take without its bytes, in microseconds. Only rank 0
	// prints it.
	LatencyUS   map[nccl.Collective]map[Kernel]float64
	Connections []Connection
	// Decisions are in order of first use, with counts of repetitions. Only rank 0 prints them.
	Decisions []Decision
}

// Neighbours are the ranks before and after a rank on a ring.
type Neighbours struct{ Prev, Next int }

// TreeNode is a rank's position in a tree: Up is its parent, Unknown at the root; Down its children, at most three.
type TreeNode struct {
	Up   int
	Down []int
}

// Connection is one direction of a channel between two ranks, as the logging rank sees it.
type Connection struct {
	Channel, Index int // Index is 0 for collectives, 1 for send and receive
	From, To       int
	Receive        bool   // logged by the receiver (only for NET; P2P and SHM are logged by the sender)
	Listened       uint64 // of a receiver over NET: how many such connections its process had listened for before
	Via            string // the transport as NCCL writes it, such as NET/Socket/0, P2P/IPC or SHM/direct/direct
}

// Algorithms and protocols, spelled as in NCCL_ALGO and NCCL_PROTO, for all versions.
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

// Kernel is an algorithm with a protocol.
type Kernel struct{ Algo, Proto string }

// Decision is NCCL's decision for one collective. Send and receive have none.
type Decision struct {
	// Func is the collective, such as AllReduce; empty before 2.23, which does not print it.
	Func string
	// Bytes is as printed: before 2.23 the total of an AllGather or ReduceScatter, later the share of one rank.
	Bytes       int64
	Algo, Proto string
	// ChannelLo and ChannelHi are the first and last channel used; Unknown before 2.23.
	ChannelLo, ChannelHi int
	// PredictedUS is NCCL's own prediction in microseconds, 0 if the version does not print it.
	PredictedUS float64
	// Count is the number of repetitions in a row.
	Count int
}

// same reports whether two decisions are equal except for their Count.
func (c Decision) same(o Decision) bool {
	c.Count, o.Count = 0, 0
	return c == o
}
