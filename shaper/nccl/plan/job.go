// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Job is what the ranks of a job launch.
type Job struct {
	Comms []Comm
	Ranks [][]Item // by rank of the job, in the order in which its host thread launches them
}

// Comm is a communicator of a job.
type Comm struct {
	Ranks []int // of the job, by the rank in the communicator
	// Calls are its different collectives and groups of collectives. Their Ranks and Iterations are not used.
	Calls []Group
	// P2P has NCCL's version, channels and sizes for sends and receives. The other fields are not used.
	P2P Decision
}

// ItemKind is what an Item does.
type ItemKind int

// Kinds of items.
const (
	// Compute computes for Nanos on a stream.
	Compute ItemKind = iota
	// Collective calls Calls[Call] of a communicator on a stream, in a group with Sends and Recvs if there are some.
	Collective
	// Exchange is a group of sends and receives on a stream.
	Exchange
	// HostWait makes the host thread wait until the items of After have ended. It is on no stream.
	HostWait
)

// Item is something that a rank launches. An item on a stream starts when the one before it on that stream has ended,
// and all of After. NCCL starts the calls of a communicator one after another.
type Item struct {
	Kind   ItemKind
	Stream int
	After  []int // earlier items of the rank
	Nanos  int64

	Comm int // number in Job.Comms
	Call int // number in Comm.Calls
	// Sends and Recvs are by peer: a rank of the communicator. At most one message to and from each peer.
	Sends, Recvs map[int]uint64 // bytes
}

// Check checks an item. local is the rank in the communicator of its call.
func (j *Job) Check(rank, i int) (local int, err error) {
	in := &j.Ranks[rank][i]
	for _, a := range in.After {
		if a < 0 || a >= i {
			return 0, fmt.Errorf("waits for item %d, which is not before it", a)
		}
	}
	switch in.Kind {
	case Compute:
		if in.Nanos < 0 {
			return 0, fmt.Errorf("computes for %d ns", in.Nanos)
		}
		return 0, nil
	case HostWait:
		return 0, nil
	case Collective, Exchange:
	default:
		return 0, fmt.Errorf("kind %d: unknown", in.Kind)
	}
	if in.Comm < 0 || in.Comm >= len(j.Comms) {
		return 0, fmt.Errorf("communicator %d: there are %d", in.Comm, len(j.Comms))
	}
	if local = slices.Index(j.Comms[in.Comm].Ranks, rank); local < 0 {
		return 0, fmt.Errorf("communicator %d does not have this rank", in.Comm)
	}
	return local, nil
}

// call is a decision for a communicator of the job, whose ranks are on these nodes.
func (j *Job) call(comm int, d Decision, node func(rank int) int) (*Call, error) {
	ranks := j.Comms[comm].Ranks
	d.Ranks, d.Iterations = len(ranks), 0
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return NewCall(&d, func(r int) int { return node(ranks[r]) })
}

// Part is a collective of a group.
type Part struct {
	*Call
	shares []Share // nil if it is alone
}

// Parts are the collectives of an item of kind Collective, in NCCL's order, with their channels. There are none in a
// communicator of one rank. node is the node of a rank of the job.
func (j *Job) Parts(in *Item, node func(rank int) int) ([]Part, error) {
	comm := &j.Comms[in.Comm]
	if in.Call < 0 || in.Call >= len(comm.Calls) {
		return nil, fmt.Errorf("call %d: communicator %d has %d", in.Call, in.Comm, len(comm.Calls))
	}
	if len(comm.Ranks) == 1 {
		return nil, nil
	}
	var lists [][]*Call
	var parts []Part
	for _, decisions := range comm.Calls[in.Call] {
		var list []*Call
		for _, d := range decisions {
			if d.Coll == nccl.HyperCube {
				return nil, fmt.Errorf("%v is not one call of NCCL: give its exchanges", d.Coll)
			}
			c, err := j.call(in.Comm, d, node)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
			parts = append(parts, Part{Call: c})
		}
		lists = append(lists, list)
	}
	if len(parts) < 2 {
		return parts, nil
	}
	shares, err := GroupShares(lists)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		parts[i].shares = shares[i]
	}
	return parts, nil
}

// Plan is the plan of all ranks.
func (p *Part) Plan() (*Plan, error) {
	if p.shares == nil {
		return p.Call.Plan()
	}
	return p.PlanOf(p.shares, nil)
}

// PlanOfRank is the plan of one rank.
func (p *Part) PlanOfRank(rank int) (*Plan, error) {
	if p.Coll.IsP2P() {
		return p.P2PPlanOf([]int{rank})
	}
	shares := p.shares
	if shares == nil {
		var err error
		if shares, err = p.Shares(); err != nil {
			return nil, err
		}
	}
	return p.PlanOf(shares, &rank)
}

// Exchange is the plan of a rank's group of sends and receives. local is the rank in the communicator.
func (j *Job) Exchange(in *Item, local int, node func(rank int) int) (*Plan, error) {
	d := j.Comms[in.Comm].P2P
	d.Coll, d.Count, d.ElemSize = nccl.SendRecv, 0, 1
	c, err := j.call(in.Comm, d, node)
	if err != nil {
		return nil, err
	}
	for peer := range in.Sends {
		if peer < 0 || peer >= c.Ranks {
			return nil, fmt.Errorf("sends to rank %d of %d", peer, c.Ranks)
		}
	}
	for peer := range in.Recvs {
		if peer < 0 || peer >= c.Ranks {
			return nil, fmt.Errorf("receives from rank %d of %d", peer, c.Ranks)
		}
	}
	c.Messages = func(rank, peer int) int64 {
		of := in.Sends
		switch local {
		case rank:
		case peer:
			of, peer = in.Recvs, rank
		default:
			return -1
		}
		if bytes, ok := of[peer]; ok {
			return int64(bytes)
		}
		return -1
	}
	return c.P2PPlanOf([]int{local})
}
