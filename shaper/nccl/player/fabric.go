// SPDX-License-Identifier: Apache-2.0

package player

import (
	"errors"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Conn is a connection of NCCL: from one rank of a communicator to another on one channel.
type Conn struct {
	Comm              int // number in plan.Job.Comms
	Src, Dst, Channel int
	P2P               bool // for ncclSend and ncclRecv
	// Listened is how many connections the receiver had listened for before, if it is known: where each flow has a
	// path of its own, the path follows from it.
	Listened uint64
}

// Fabric is the emulated fabric in stated time: its parameters are for time scale 1.
type Fabric struct {
	Params    []link.Params // of the hops
	Transport *link.Transport
	Tables    *link.JitterTables // needed with Normal, Pareto or Table jitter
	Seed      uint64
	Changes   []sim.Change // planned ones of the hops, in the order of their times, which count from the start
	// InOrder says that connections which are ready at the same instant go in a fixed order, as with a
	// virtual clock. Otherwise the order is random, as on a real one.
	InOrder bool
	// Node is the node of a rank as NCCL counts them: the emulated one, or the NVLink domain if that has several.
	Node func(rank int) int
	// Nodes is what nodes cost. Nil: nothing, and messages between ranks of one node take no time.
	Nodes *Nodes
	// Path returns the hops from one rank's NIC to the other's, and those of the
	// acknowledgements.
	Path func(c Conn) (path []link.PathHop, reverse []int, err error)
	// Made says which rank's process made a connection, with PXN another one of the sender's node, and the place of the
	// connection in the order in which those between its ranks were made. Nil: the senders made them, those of
	// collectives first, by channels, then those for sends and receives. That differs only where the connections have
	// different paths, or nodes take time.
	Made func(c Conn) (through, place int)
	// Connected says that the connections of a job's communicator for sends and receives were made with those of its
	// collectives. Else they were made after all of these, at the first use.
	Connected bool
	// Occupied, if not nil, is called for each segment of a job on each hop.
	Occupied func(hop int, p *link.HopRecord)
}

// Nodes is what the nodes of a fabric cost.
type Nodes struct {
	node.Time
	// NICLatency is how much of the latency of each path between nodes, in both directions, is that of its NICs.
	NICLatency int64
	// Rendezvous is how much later, in ns, the sending proxy posts a message between nodes that is larger than Eager
	// bytes: the two NICs first agree on where it goes.
	Rendezvous int64
	Eager      uint64
	// Path is the links from the GPU of a rank to the GPU of another rank on its node: hops of the fabric.
	Path func(src, dst int, kind plan.Multicast) []link.PathHop
}

// IsBetween says whether two ranks are on different nodes.
func (f *Fabric) IsBetween(src, dst int) bool { return f.Node(src) != f.Node(dst) }

// Validate says what is missing.
func (f *Fabric) Validate() error {
	if f.Transport == nil || f.Node == nil || f.Path == nil {
		return errors.New("fabric: transport, node and path must be given")
	}
	return nil
}
