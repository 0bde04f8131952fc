// SPDX-License-Identifier: Apache-2.0

package workload

import "github.com/ddlemu/ddlemu/shaper/nccl"

// Format is the value of [Head.Format].
const Format = "ddlemu.workload/1"

// Workload is a job. Operations are in the order of the file.
type Workload struct {
	Head Head
	Ops  []Op
}

// Head is the first line of a file.
type Head struct {
	Format string `json:"format"`
	Name   string `json:"name,omitempty"`
	Ranks  int    `json:"ranks"`
	// Comms are the communicators. If there are none, "world" has all ranks.
	Comms  []Comm `json:"comms,omitempty"`
	Source Source `json:"source,omitzero"`
	// NCCL are the NCCL variables that the job had: some of [NCCLVariables], with their values.
	NCCL map[string]string `json:"nccl,omitempty"`
}

// World is the name of the communicator of all ranks in a workload that names none.
const World = "world"

// Comm is a communicator. The rank in the communicator is the position in Ranks.
//
// Several communicators may have one name if no rank is in two of them, as the tensor-parallel groups of a job. An
// operation names all of them at once: each of its ranks calls the one that it is in ([Index.Place]).
type Comm struct {
	Name  string `json:"name"`
	Ranks Ranks  `json:"ranks"`
}

// Source says where a workload is from.
type Source struct {
	Kind     string `json:"kind,omitempty"` // such as kineto, chakra, goal, or make
	File     string `json:"file,omitempty"`
	Hardware string `json:"hardware,omitempty"` // on which it was recorded
	// Missing are the things that the source does not say, a sentence each, such as "no computation between the calls".
	Missing []string `json:"missing,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Kind is the kind of an operation.
type Kind string

// The kinds of operations.
const (
	// Calc computes for a time, on a stream.
	Calc Kind = "calc"
	// Coll is a collective, on a stream. All ranks of its communicator call it.
	Coll Kind = "coll"
	// Send and Recv are ncclSend and ncclRecv, on a stream.
	Send Kind = "send"
	Recv Kind = "recv"
	// Group is ncclGroupStart, the operations of Ops (sends, receives and collectives) and ncclGroupEnd.
	Group Kind = "group"
	// Wait makes the host thread wait until the operations of After have ended, or all so far if After is empty.
	Wait Kind = "wait"
	// Step is the end of a step. It ends when all operations before it on this rank have ended, and nothing waits for
	// it.
	Step Kind = "step"
)

// Op is one operation of one or several ranks. Fields that a kind does not name are zero.
type Op struct {
	// Ranks call the operation. If it is empty, these are the ranks of Comm, or all ranks if there is no Comm.
	Ranks Ranks `json:"rank,omitempty"`
	// ID is unique among the operations of each rank; 0 for an operation that no other names.
	ID   int    `json:"id,omitempty"`
	Kind Kind   `json:"op"`
	Name string `json:"name,omitempty"` // for people, such as a layer's name
	// Stream is the name of the stream. "" is the stream "0".
	Stream string `json:"stream,omitempty"`
	// After are IDs of earlier operations of the same rank that must have ended.
	After []int `json:"after,omitempty"`

	// Nanos is the duration of Calc in ns. If MaxNanos is larger, the source only says that the duration is between
	// the two.
	Nanos    int64 `json:"ns,omitempty"`
	MaxNanos int64 `json:"max_ns,omitempty"`

	// Comm is the name of the communicator of Coll, Send and Recv; "" if there is only one.
	Comm string `json:"comm,omitempty"`
	// Func is the function of Coll.
	Func Func `json:"func,omitempty"`
	// Count is the count argument of NCCL's call, in elements: for AllGather sent per rank, for ReduceScatter received
	// per rank, for AllToAll, Gather and Scatter per pair of ranks. NCCL discards a collective of 0 elements: it waits
	// for no other rank.
	Count int64 `json:"count,omitempty"`
	// Type is the type of the elements: NCCL's name without the prefix, such as float32.
	Type string `json:"type,omitempty"`
	// RedOp is the reduction operator of AllReduce, ReduceScatter and Reduce; "" is sum.
	RedOp string `json:"redop,omitempty"`
	// Root is a rank of the communicator, for Broadcast, Reduce, Gather and Scatter.
	Root int `json:"root,omitempty"`
	// Peer is a rank of the communicator, for Send and Recv.
	Peer int `json:"peer,omitempty"`
	// Relative says that the peer is the caller's rank in the communicator plus Peer, modulo the communicator's size.
	Relative bool `json:"relative,omitempty"`

	// Ops are the operations of Group. They have no Ranks, Stream, ID and After of their own.
	Ops []Op `json:"ops,omitempty"`
}

// Func is a collective, with NCCL's name.
type Func string

// The collectives. NCCL before 2.28 has no AllToAll, Gather and Scatter: there they are groups of sends and receives.
const (
	AllReduce     Func = "AllReduce"
	AllGather     Func = "AllGather"
	ReduceScatter Func = "ReduceScatter"
	Broadcast     Func = "Broadcast"
	Reduce        Func = "Reduce"
	AllToAll      Func = "AllToAll"
	Gather        Func = "Gather"
	Scatter       Func = "Scatter"
)

// Collective is the collective of shaper/nccl with the name of f. It is false for Gather and Scatter, which a replay
// takes for sends and receives: their ranks connect at the first call.
func (f Func) Collective() (nccl.Collective, bool) {
	c, err := nccl.ParseCollective(string(f))
	return c, err == nil && f != Gather && f != Scatter
}
