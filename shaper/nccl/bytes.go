// SPDX-License-Identifier: Apache-2.0

package nccl

// How many bytes a call is: what follows from the collective and the number of ranks alone. What NCCL makes of them,
// and what must cross the network, is in shaper/nccl/plan/bytes.go.

// Counts are element counts of one rank in a collective.
type Counts struct {
	// Param is the count argument of NCCL's call and the table's count column: per rank for AllGather, ReduceScatter
	// and HyperCube, per pair of ranks for AllToAll, Gather and Scatter.
	Param int64
	// Send and Recv are the elements of the rank's input and output; for Scatter and Gather the elements of the root.
	Send, Recv int64
}

// Counts returns the elements for a requested size in bytes, rounded as nccl-tests does: down to whole elements, and
// where the ranks share the size, each share down to 16 bytes. A small size can become 0.
func (c Collective) Counts(bytes int64, t DataType, ranks int) Counts {
	elements, n := bytes/t.Size(), int64(ranks)
	share := elements / n &^ (16/t.Size() - 1)
	switch c {
	case AllGather, Gather, HyperCube:
		return Counts{Param: share, Send: share, Recv: share * n}
	case ReduceScatter, Scatter:
		return Counts{Param: share, Send: share * n, Recv: share}
	case AllToAll:
		return Counts{Param: share, Send: share * n, Recv: share * n}
	}
	return Counts{Param: elements, Send: elements, Recv: elements}
}

// Bytes is the table's size column: the larger of one rank's input and output.
func (c Counts) Bytes(t DataType) int64 { return max(c.Send, c.Recv) * t.Size() }

// Shares is the table's size column divided by the count argument in bytes: the number of ranks where that is the share
// of one rank.
func (c Collective) Shares(ranks int) int64 {
	switch c {
	case AllGather, ReduceScatter, AllToAll, Gather, Scatter, HyperCube:
		return int64(ranks)
	}
	return 1
}

// AlgFactor is the algorithm bandwidth divided by size over time: 1, but for HyperCube, of which nccl-tests does not
// count the share that a rank has already.
func (c Collective) AlgFactor(ranks int) float64 {
	if c == HyperCube {
		return float64(ranks-1) / float64(ranks)
	}
	return 1
}

// BusFactor is the bus bandwidth divided by the algorithm bandwidth.
func (c Collective) BusFactor(ranks int) float64 {
	n := float64(ranks)
	switch c {
	case AllReduce:
		return 2 * (n - 1) / n
	case AllGather, ReduceScatter, AllToAll, Gather, Scatter:
		return (n - 1) / n
	}
	return 1
}

// PortFactor is the bus bandwidth divided by size over time: the bytes that the busiest link must carry for each byte
// of the size.
func (c Collective) PortFactor(ranks int) float64 { return c.AlgFactor(ranks) * c.BusFactor(ranks) }
