// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"math/bits"
)

// NCCL's constants, the same in every supported version.
const (
	ncclSteps = 8 // slots of a connection's buffer

	defaultBuffSize      = 4 << 20
	defaultLLBuffSize    = 512 << 10
	defaultLL128BuffSize = 4915200

	llLine       = 16 // bytes of one LL line, half of them data
	ll128Line    = 16 // 8-byte words of one LL128 line, one of them the flag
	ll128Slice   = 2048
	ll128Payload = ll128Slice / ll128Line * (ll128Line - 1) // 1920 of 2048 bytes

	simpleGrain = 512
)

// rules are what differs between versions in how a call is spread over channels.
type rules struct {
	minTraffic uint64 // bytes of traffic a channel is opened for
	coarse     bool   // cells hold minTraffic, not 16 bytes
	llFourfold bool   // LL counts for four times its traffic
	rounded    bool   // the traffic per channel is rounded to 16 bytes, without a floor
}

// rulesOf looks up the rules of a version as ncclGetVersion numbers it. They were
// read at the tags from v2.22.3 to v2.30.7; before that NCCL cut calls another way.
func rulesOf(version int) (rules, error) {
	switch {
	case version >= 22203 && version < 22300:
		return rules{minTraffic: 512}, nil
	case version >= 22300 && version < 22600:
		return rules{minTraffic: 16 << 10, coarse: true}, nil
	case version >= 22600 && version < 22900:
		return rules{minTraffic: 16 << 10, coarse: true, llFourfold: true}, nil
	case version >= 22900 && version < 23100:
		return rules{minTraffic: 32 << 10, coarse: true, llFourfold: true, rounded: true}, nil
	}
	return rules{}, fmt.Errorf("NCCL version %s: the model knows 2.22.3 to 2.30", versionString(version))
}

// call is a Decision on a fabric: which ranks share a node.
type call struct {
	*Decision
	nodes   int
	nodeOf  []int   // by rank, numbered in the order of their first ranks
	ranksOf [][]int // by node
}

func newCall(d *Decision, f *Fabric) *call {
	c := &call{Decision: d, nodeOf: make([]int, d.Ranks)}
	number := map[int]int{}
	for r := range d.Ranks {
		n, ok := number[f.Node(r)]
		if !ok {
			n = len(number)
			number[f.Node(r)] = n
			c.ranksOf = append(c.ranksOf, nil)
		}
		c.nodeOf[r] = n
		c.ranksOf[n] = append(c.ranksOf[n], r)
	}
	c.nodes = len(c.ranksOf)
	return c
}

// part is what one channel carries of a call.
type part struct {
	channel int
	count   uint64 // elements
	chunk   uint64 // elements per chunk
}

// shape is a call as NCCL sees it once the data type no longer matters.
type shape struct {
	count, elem uint64
	perByte     uint64 // ncclFuncTrafficPerByte
	global      uint64 // bytes of the larger user buffer per element
}

func (d *Decision) shape() shape {
	s := shape{count: d.Count, elem: d.ElemSize, perByte: 1}
	n := uint64(d.Ranks)
	switch d.Coll {
	case AllReduce:
		s.perByte = 2
	case AllGather, ReduceScatter:
		s.perByte = n
	}
	if d.Coll == AllGather || d.Coll == Broadcast {
		s.count, s.elem = d.Count*d.ElemSize, 1
	}
	s.global = s.elem
	if d.Coll == AllGather || d.Coll == ReduceScatter {
		s.global *= n
	}
	return s
}

// buffSize is the buffer of one connection for the call's protocol, in bytes.
func (d *call) buffSize() uint64 {
	given, fallback := d.BuffSize, defaultBuffSize
	switch d.Proto {
	case LL:
		given, fallback = d.LLBuffSize, defaultLLBuffSize
	case LL128:
		given, fallback = d.LL128BuffSize, defaultLL128BuffSize
	}
	if given == 0 {
		given = fallback
	}
	return uint64(given)
}

// maxChannels is the largest number of channels for a call of this size, by
// NCCL's rule that each channel's threads shall have enough to do.
func (d *call) maxChannels(bytes uint64) int {
	if d.MaxChannels > 0 {
		return min(d.MaxChannels, d.Channels)
	}
	threads, threshold := d.MaxThreads, d.ThreadThreshold
	if threads == 0 {
		threads = 512
		if d.Proto == LL128 {
			threads = 640
		}
	}
	if threshold == 0 {
		threshold = 8
		if d.Proto == Simple {
			threshold = 64
		} else if d.Proto == LL && d.Algo == Ring {
			threshold = 8 * d.Ranks
		}
	}
	n := d.Channels
	for n > 1 && bytes < uint64(n)*uint64(threads)*uint64(threshold) {
		n--
	}
	return n
}

// parts spreads the call over channels, as scheduleCollTasksToPlan does for a
// call that is alone in its group.
func (d *call) parts() ([]part, error) {
	r, err := rulesOf(d.Version)
	if err != nil {
		return nil, err
	}
	s := d.shape()
	if hi, lo := bits.Mul64(s.count, s.global*s.perByte*4); hi != 0 || lo > 1<<62 {
		return nil, fmt.Errorf("count %d: too large", d.Count)
	}
	if s.count == 0 {
		return nil, nil
	}
	channel, counts := r.split(s, d.maxChannels(s.count*s.global), d.Channels, d.Proto)
	parts := make([]part, len(counts))
	for i, n := range counts {
		chunk := d.chunkBytes(n * s.global)
		if chunk == 0 {
			return nil, fmt.Errorf("buffer of %d bytes for %v: too small for one chunk", d.buffSize(), d.Proto)
		}
		parts[i] = part{channel: channel + i, count: n, chunk: chunk / s.elem}
	}
	return parts, nil
}

// split returns the first channel and the elements of each: the first and the
// last may have fewer, or more, than those between.
func (r rules) split(s shape, maxChannels, channels int, proto Protocol) (int, []uint64) {
	traffic, perByte := s.count*s.elem*s.perByte, s.perByte
	if r.llFourfold && proto == LL {
		traffic *= 4
		perByte *= 4
	}
	cell := uint64(16)
	if r.coarse {
		traffic = max(traffic, r.minTraffic)
		cell = divUp(divUp(r.minTraffic, perByte), 16) * 16
	}
	perChannel := traffic / uint64(maxChannels)
	if r.rounded {
		perChannel = divUp(perChannel, 16) * 16
	} else {
		perChannel = max(perChannel, r.minTraffic)
	}
	perCell := cell * perByte
	cells := divUp(s.count*s.elem, cell)
	mid := min(cells, divUp(perChannel, perCell))
	lo := cells
	if channels > 1 {
		lo = perChannel / perCell
		if r.coarse {
			lo = divUp(perChannel, perCell)
		}
		lo = min(lo, cells)
	}
	return assign(s, cells, lo, mid, cell/s.elem, channels)
}

// assign gives lo cells to the first channel, mid to each of the next and what
// is left to the last one.
func assign(s shape, cells, lo, mid, perCell uint64, channels int) (int, []uint64) {
	first := 0
	nMid := int((cells - lo) / mid)
	hi := (cells - lo) % mid
	used := nMid
	if lo != 0 {
		used++
	}
	if hi != 0 {
		used++
	}
	if used > channels {
		nMid = channels - 2
		mid = (cells - lo) / uint64(nMid+1)
		hi = mid + (cells-lo)%uint64(nMid+1)
	}
	if hi == 0 && nMid != 0 {
		hi = mid
		nMid--
	}
	if lo == 0 {
		first = 1
		if nMid == 0 {
			lo, hi = hi, 0
		} else {
			lo = mid
			nMid--
		}
	}
	counts := []uint64{lo * perCell}
	for range nMid {
		counts = append(counts, mid*perCell)
	}
	if hi != 0 {
		counts = append(counts, hi*perCell)
	}
	counts[len(counts)-1] -= cells*perCell - s.count
	return first, counts
}

// steps returns how many slots of the buffer a chunk and a slice of it take.
func (d *call) steps() (chunk, slice uint64) {
	if d.Proto == Simple && d.Algo == Ring {
		switch d.Coll {
		case AllReduce, AllGather, ReduceScatter:
			return ncclSteps / 2, ncclSteps / 4
		}
	}
	return 1, 1
}

// chunkBytes is the payload of one chunk, as calcCollChunking has it for a
// channel whose part of the larger user buffer is bytes long.
func (d *call) chunkBytes(bytes uint64) uint64 {
	steps, _ := d.steps()
	chunk := d.buffSize() / ncclSteps * steps
	grain := uint64(simpleGrain)
	switch d.Proto {
	case LL:
		chunk /= 2
		grain = llLine
	case LL128:
		chunk = chunk / ll128Line * (ll128Line - 1)
		grain = ll128Payload
		if d.Algo == Tree {
			chunk = d.treeLL128Chunk(chunk, bytes)
		}
	}
	return chunk / grain * grain
}

// treeLL128Chunk makes chunks smaller until the tree's pipeline is full.
func (d *call) treeLL128Chunk(chunk, bytes uint64) uint64 {
	perNode := float32(d.Ranks) / float32(d.nodes)
	depth := float32(float64(1+bits.Len(uint(d.nodes))-1) + 0.1*float64(perNode))
	for float32(bytes/chunk) < depth*64/perNode && chunk > 131072 {
		chunk /= 2
	}
	for float32(bytes/chunk) < depth*16/perNode && chunk > 32768 {
		chunk /= 2
	}
	return chunk
}

// slice is what one step or group of steps carries: one message of the network.
type slice struct {
	bytes uint64
	empty bool // LL and LL128: nothing in it to wait for
}

// slices cuts a chunk of n elements into messages.
func (d *call) slices(n, elem uint64) []slice {
	switch d.Proto {
	case LL:
		return []slice{{bytes: divUp(n, 8/elem) * llLine, empty: n == 0}}
	case LL128:
		return []slice{{bytes: divUp(n, ll128Payload/elem) * ll128Slice, empty: n == 0}}
	}
	chunkSteps, sliceSteps := d.steps()
	per := chunkSteps / sliceSteps
	size := max(divUp(n, 16*per)*16, d.buffSize()/ncclSteps/elem*sliceSteps/32)
	out := make([]slice, per)
	for i := range out {
		k := min(size, n)
		out[i] = slice{bytes: k * elem}
		n -= k
	}
	return out
}

func divUp(a, b uint64) uint64 { return (a + b - 1) / b }
