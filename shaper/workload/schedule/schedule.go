// SPDX-License-Identifier: Apache-2.0

// Package schedule describes a collective as data, as MSCCL's XML does: for each GPU a list of thread blocks, each
// with steps that send, receive, reduce and copy chunks of three buffers.
//
// A thread block executes its steps in order. It receives from at most one GPU and sends to at most one, over the
// connection of its channel: there is one connection, which keeps the order of its messages, for each source,
// destination and channel. A step may wait for a step of another block of the same GPU.
//
// The meaning of each step is its meaning in MSCCL's kernel (mscclRunInterpreter in RCCL's device/msccl_kernel_impl.h).
// A Program is what one block does for a given size: the loop over pieces of a chunk that fit into the connections'
// buffers, and the messages of each step.
package schedule

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Collective is what a schedule computes.
type Collective string

// The collectives that MSCCL knows. The result of the last four is not defined by the name: it is not checked.
const (
	AllReduce     Collective = "allreduce"
	AllGather     Collective = "allgather"
	ReduceScatter Collective = "reducescatter"
	AllToAll      Collective = "alltoall"
	Broadcast     Collective = "broadcast"
	Reduce        Collective = "reduce"
	Gather        Collective = "gather"
	Scatter       Collective = "scatter"
	AllToAllV     Collective = "alltoallv"
	Send          Collective = "send"
	Recv          Collective = "recv"
	Custom        Collective = "custom"
)

// Collectives are all collectives.
var Collectives = []Collective{
	AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, Gather, Scatter, AllToAllV, Send, Recv, Custom,
}

// ParseCollective reads a collective's name: underscores, hyphens and case do not matter, so reduce_scatter is
// reducescatter.
func ParseCollective(text string) (Collective, error) {
	name := Collective(strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(text)))
	for _, c := range Collectives {
		if c == name {
			return c, nil
		}
	}
	return "", configs.Unknown("collective", text, Names(Collectives))
}

// Names are the names of collectives as in nccl-tests, such as all_reduce.
func Names(all []Collective) []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = string(c)
		if coll, ok := c.NCCL(); ok {
			names[i] = coll.String()
		}
	}
	return names
}

// HasResult says whether the name of the collective defines its result.
func (c Collective) HasResult() bool {
	switch c {
	case AllToAllV, Send, Recv, Custom:
		return false
	}
	return true
}

// Rooted says whether the collective has a root. MSCCL's XML does not say which rank it is.
func (c Collective) Rooted() bool {
	return c == Broadcast || c == Reduce || c == Gather || c == Scatter
}

// NCCL is the collective by the name of nccl-tests; ok is false for those that have none.
func (c Collective) NCCL() (coll nccl.Collective, ok bool) {
	if !c.HasResult() {
		return 0, false
	}
	coll, err := nccl.ParseCollective(string(c))
	return coll, err == nil
}

// PerRank says whether a rank's share is one of as many parts of the larger buffer as there are ranks.
func (c Collective) PerRank() bool {
	coll, ok := c.NCCL()
	return ok && coll.Shares(2) > 1
}

// Protocol is NCCL's protocol of the connections.
type Protocol string

// The protocols.
const (
	Simple Protocol = "Simple"
	LL     Protocol = "LL"
	LL128  Protocol = "LL128"
)

// Buffer is one of the three buffers of a GPU.
type Buffer uint8

// The buffers, in MSCCL's letters i, o and s.
const (
	Input Buffer = iota
	Output
	Scratch
	Buffers = 3
)

func (b Buffer) String() string { return [...]string{"i", "o", "s"}[b] }

// Kind is the kind of a step.
type Kind uint8

// The kinds of steps, in MSCCL's words s, r, rcs, rrs, rrc, rrcs, cpy, re and nop. MSCCL has no signal and wait: they
// are for schedules whose GPUs store into each other's memories.
const (
	SendStep           Kind = iota // send the source
	RecvStep                       // receive into the destination
	RecvCopySend                   // receive into the destination, and send it on
	RecvReduceSend                 // receive, add the source, send it on; nothing is stored
	RecvReduceCopy                 // receive, add the source, store it in the destination
	RecvReduceCopySend             // the same, and send it on
	CopyStep                       // copy the source to the destination
	ReduceStep                     // add the source to the destination
	NopStep                        // only wait
	SignalStep                     // send a message without data
	WaitStep                       // receive it
	kinds
)

// kindsOf are MSCCL's words for the kinds, and what steps of each do.
var kindsOf = [kinds]struct {
	name                           string
	sends, receives, reads, writes bool
}{
	SendStep:           {name: "s", sends: true, reads: true},
	RecvStep:           {name: "r", receives: true, writes: true},
	RecvCopySend:       {name: "rcs", sends: true, receives: true, writes: true},
	RecvReduceSend:     {name: "rrs", sends: true, receives: true, reads: true},
	RecvReduceCopy:     {name: "rrc", receives: true, reads: true, writes: true},
	RecvReduceCopySend: {name: "rrcs", sends: true, receives: true, reads: true, writes: true},
	CopyStep:           {name: "cpy", reads: true, writes: true},
	ReduceStep:         {name: "re", reads: true, writes: true},
	NopStep:            {name: "nop"},
	SignalStep:         {name: "signal", sends: true},
	WaitStep:           {name: "wait", receives: true},
}

func (k Kind) String() string { return kindsOf[k].name }

// ParseKind reads MSCCL's word for a kind.
func ParseKind(text string) (Kind, bool) {
	for k := range SignalStep {
		if kindsOf[k].name == text {
			return k, true
		}
	}
	return 0, false
}

// Sends says whether the step sends.
func (k Kind) Sends() bool { return kindsOf[k].sends }

// Receives says whether the step receives.
func (k Kind) Receives() bool { return kindsOf[k].receives }

// WithoutData says whether the message of the step has no data. Both ends count it as one chunk.
func (k Kind) WithoutData() bool { return k == SignalStep || k == WaitStep }

// ReadsSource says whether the step reads its source.
func (k Kind) ReadsSource() bool { return kindsOf[k].reads }

// WritesTarget says whether the step writes its destination.
func (k Kind) WritesTarget() bool { return kindsOf[k].writes }

// Ref is a chunk of a buffer.
type Ref struct {
	Buffer Buffer
	Offset int // in chunks
}

func (r Ref) String() string { return fmt.Sprintf("%v[%d]", r.Buffer, r.Offset) }

// None stands for no block, no rank.
const None = -1

// Step is one step of a block.
type Step struct {
	Kind     Kind
	Src, Dst Ref
	Count    int // consecutive chunks
	// DepBlock and DepStep name the step of another block of this GPU that must be done before; DepBlock None: no wait.
	DepBlock, DepStep int
	HasDep            bool // the block says when this step is done; without it others that wait for it wait longer
	Line              int  // in the file it is from; 0: none
	// Proto is the protocol of the step's messages, if it is not the schedule's protocol: only the bytes on the wire
	// depend on it.
	Proto Protocol
	// From names the operation of the file that the step is a part of; empty: GPU, block and step are as in the
	// file.
	From string
}

// Mark is a step that moves nothing: it waits, and other blocks can wait for it, unlike for a nop.
func Mark() Step { return Step{Kind: CopyStep, DepBlock: None, DepStep: None} }

// Block is a thread block.
type Block struct {
	Send, Recv int // ranks, or None
	Channel    int
	Steps      []Step
	Line       int
}

// Copy is a chunk of the input that is in the output before the first step (TE-CCL's <copy>).
type Copy struct {
	From, To int // offsets in input and output
}

// GPU is one rank's part.
type GPU struct {
	Chunks [Buffers]int // the sizes of its buffers, as the schedule states them
	Copies []Copy
	Blocks []Block
}

// Schedule is a collective for a number of GPUs.
type Schedule struct {
	Name     string
	Coll     Collective
	Proto    Protocol
	Channels int
	// LoopChunks is the number of chunks into which the larger of a rank's two buffers is divided. For gather and
	// scatter it is the number of chunks of one rank's share.
	LoopChunks          int
	InPlace, OutOfPlace bool  // for which of the two it is made
	MinBytes, MaxBytes  int64 // of the larger buffer; MaxBytes 0: no limit
	// largest payload of a message in bytes, of as many as fit into 4 MiB; 0: as NCCL's default buffers
	Grain    int64
	GPUs     []GPU
	Warnings []string // what a reader noticed

	// Whole says that a step moves all bytes of its chunks before the next one begins, as in MSCCL++. Without it a
	// block does all its steps on a piece of each chunk, and then on the next piece, as in MSCCL.
	Whole bool
	// Align is the number of bytes of which a chunk is a multiple, itself one of 4; 0: only of an element.
	Align uint64
	// Parts is the number of chunks here that are one chunk of the file; 0 is 1.
	Parts int
	// Summary describes the file, if its blocks and steps are not the schedule's blocks and steps.
	Summary string
	// Mistakes are what a reader found. A schedule with mistakes is not complete.
	Mistakes []Mistake
	// CheckOnly says why the schedule can be checked and not run; empty: it can be run.
	CheckOnly string
	// Sized gives the schedule for a call of about so many bytes of the larger buffer, if its steps depend on them;
	// nil: they do not. An error says for which sizes there is none.
	Sized func(bytes uint64) (*Schedule, error)
}

// Mistake is a mistake of a schedule. Kind is one of package check.
type Mistake struct{ Kind, Text string }

// For is the schedule for a call of about so many bytes of the larger buffer.
func (s *Schedule) For(bytes uint64) (*Schedule, error) {
	if s.Sized == nil {
		return s, nil
	}
	return s.Sized(bytes)
}

// At is the schedule for a call of about so many bytes, see [Schedule.For], and how it divides them, see
// [Schedule.Cut].
func (s *Schedule) At(bytes, elem uint64) (*Schedule, Cut, error) {
	s, err := s.For(bytes)
	if err != nil {
		return nil, Cut{}, err
	}
	c, err := s.Cut(bytes, elem)
	return s, c, err
}

// BusFactor is nccl-tests' factor from algbw to busbw; 1 for what nccl-tests does not have.
func (s *Schedule) BusFactor() float64 {
	if coll, ok := s.Coll.NCCL(); ok {
		return coll.BusFactor(len(s.GPUs))
	}
	return 1
}

// Steps is the number of steps of all blocks.
func (s *Schedule) Steps() int {
	n := 0
	for _, g := range s.GPUs {
		for _, b := range g.Blocks {
			n += len(b.Steps)
		}
	}
	return n
}

// MostBlocks is the number of blocks of the GPU that has the most.
func (s *Schedule) MostBlocks() int {
	n := 0
	for _, g := range s.GPUs {
		n = max(n, len(g.Blocks))
	}
	return n
}

// Variants are the places for which the schedule is made: false for out of place, true for in place.
func (s *Schedule) Variants() []bool {
	var out []bool
	if s.OutOfPlace {
		out = append(out, false)
	}
	if s.InPlace {
		out = append(out, true)
	}
	return out
}
