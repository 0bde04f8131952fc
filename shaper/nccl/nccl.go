// SPDX-License-Identifier: Apache-2.0

// Package nccl names what NCCL computes: collectives, data types and reduction operators, in the spelling of
// nccl-tests, and how many elements and bytes each of them moves.
package nccl

import (
	"fmt"
	"math/bits"
	"strings"
)

// Collective is an operation among all ranks.
type Collective int

// The collectives. Those from SendRecv on are made of sends and receives, as in nccl-tests: SendRecv sends to the next
// rank and receives from the one before; AllToAll sends a share to each rank; with Gather each rank sends a share to
// the root, and with Scatter it receives one from there; HyperCube is an all-gather in log2(ranks) exchanges with the
// ranks whose number differs in one bit, one after another.
const (
	AllReduce Collective = iota
	AllGather
	ReduceScatter
	Broadcast
	Reduce
	SendRecv
	AllToAll
	Gather
	Scatter
	HyperCube
)

var collectiveNames = []string{
	"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv", "alltoall", "gather", "scatter",
	"hypercube",
}

// String returns nccl-tests' name, such as all_reduce.
func (c Collective) String() string {
	if !c.Known() {
		return fmt.Sprintf("Collective(%d)", int(c))
	}
	return collectiveNames[c]
}

// Collectives returns nccl-tests' names, which [ParseCollective] accepts.
func Collectives() []string { return append([]string(nil), collectiveNames...) }

// ParseCollective reads a name in any of the usual spellings: all_reduce, allreduce, AllReduce, all_reduce_perf.
func ParseCollective(name string) (Collective, error) {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(strings.TrimSuffix(s, "_perf")))
	}
	for i, known := range collectiveNames {
		if plain(name) == plain(known) {
			return Collective(i), nil
		}
	}
	return 0, fmt.Errorf("there is no collective %q; there are %s", name, strings.Join(collectiveNames, ", "))
}

// Known reports whether c is one of the collectives above.
func (c Collective) Known() bool { return c >= 0 && int(c) < len(collectiveNames) }

// IsP2P reports whether a call consists of ncclSend and ncclRecv.
func (c Collective) IsP2P() bool { return c >= SendRecv && c.Known() }

// Reduces reports whether c uses a reduction operator.
func (c Collective) Reduces() bool { return c == AllReduce || c == ReduceScatter || c == Reduce }

// Rooted reports whether one rank is the root, the only sender or receiver.
func (c Collective) Rooted() bool {
	return c == Broadcast || c == Reduce || c == Gather || c == Scatter
}

// CheckRanks returns an error if c cannot be run by so many ranks. nccl-tests measures nothing then, and ends with
// status 0.
func (c Collective) CheckRanks(ranks int) error {
	if c == HyperCube && bits.OnesCount(uint(max(ranks, 0))) != 1 {
		return fmt.Errorf("%v among %d ranks: their number must be a power of two", c, ranks)
	}
	return nil
}

// Discards reports whether a call of count elements does nothing: without elements NCCL discards its collectives, and
// nccl-tests does not call gather and scatter.
func (c Collective) Discards(count int64) bool {
	return count == 0 && (!c.IsP2P() || c == Gather || c == Scatter)
}

// HasInPlace reports whether the result may be written over the input. nccl-tests times the other collectives in place
// too, with buffers that overwrite each other, and prints N/A for the errors. ddlemu does not.
func (c Collective) HasInPlace() bool { return c != SendRecv && c != AllToAll }

// DataType is the type of the elements.
type DataType int

// The data types, in nccl-tests' order.
const (
	Int8 DataType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Half
	Float
	Double
	BFloat16
)

var (
	typeNames = []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"}
	typeSizes = []int64{1, 1, 4, 4, 8, 8, 2, 4, 8, 2}
)

// String returns nccl-tests' name.
func (t DataType) String() string {
	if t < 0 || int(t) >= len(typeNames) {
		return fmt.Sprintf("DataType(%d)", int(t))
	}
	return typeNames[t]
}

// Size is the bytes of one element.
func (t DataType) Size() int64 { return typeSizes[t] }

// ParseDataTypes reads a name, or "all" for every type.
func ParseDataTypes(name string) ([]DataType, error) {
	return parseNames[DataType](name, typeNames, "data type")
}

// RedOp is a reduction operator.
type RedOp int

// The operators, in nccl-tests' order.
const (
	Sum RedOp = iota
	Prod
	Max
	Min
	Avg
)

var opNames = []string{"sum", "prod", "max", "min", "avg"}

// String returns nccl-tests' name.
func (o RedOp) String() string {
	if o < 0 || int(o) >= len(opNames) {
		return fmt.Sprintf("RedOp(%d)", int(o))
	}
	return opNames[o]
}

// ParseRedOps reads a name, or "all" for every operator.
func ParseRedOps(name string) ([]RedOp, error) { return parseNames[RedOp](name, opNames, "reduction") }

// parseNames returns the index of a name, or all of them.
func parseNames[T ~int](name string, names []string, what string) ([]T, error) {
	var found []T
	for i, known := range names {
		if name == known || name == "all" {
			found = append(found, T(i))
		}
	}
	if found == nil {
		return nil, fmt.Errorf("there is no %s %q; there are %s, and all", what, name, strings.Join(names, ", "))
	}
	return found, nil
}
