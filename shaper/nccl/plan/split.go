// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"math/bits"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Call is a Decision with the nodes of its ranks.
type Call struct {
	*Decision
	placement
	rules rules // of its version
	// Messages are the bytes of sends that are no collective, see Call.wants.
	Messages func(rank, peer int) int64
	// distance is the distance of HyperCube's present exchange: the bit in which the numbers of two peers differ.
	distance int
}

// NewCall makes a call of a decision whose ranks are on these nodes. The version must be known.
func NewCall(d *Decision, node func(rank int) int) (*Call, error) {
	r, err := rulesOf(d.Version)
	return &Call{Decision: d, placement: place(d.Ranks, node), rules: r}, err
}

// placement is the nodes of ranks.
type placement struct {
	nodes   int
	nodeOf  []int   // by rank; nodes are numbered in the order of their first ranks
	ranksOf [][]int // by node
}

func place(ranks int, node func(rank int) int) placement {
	p := placement{nodeOf: make([]int, ranks)}
	number := map[int]int{}
	for r := range ranks {
		n, ok := number[node(r)]
		if !ok {
			n = len(number)
			number[node(r)] = n
			p.ranksOf = append(p.ranksOf, nil)
		}
		p.nodeOf[r] = n
		p.ranksOf[n] = append(p.ranksOf[n], r)
	}
	p.nodes = len(p.ranksOf)
	return p
}

// Share is the share of a call that one channel carries.
type Share struct {
	channel int
	count   uint64 // elements
	chunk   uint64 // elements per chunk
}

// buffSize is the size in bytes of a connection's buffer for the call's protocol.
func (c *Call) buffSize() uint64 { return c.bufferOf(c.Proto) }

// bufferOf is the size in bytes of a connection's buffer for a protocol.
func (c *Call) bufferOf(proto Protocol) uint64 {
	given, fallback := c.BuffSize, DefaultBuffSize
	switch proto {
	case LL:
		given, fallback = c.LLBuffSize, DefaultLLBuffSize
	case LL128:
		given, fallback = c.LL128BuffSize, DefaultLL128BuffSize
	}
	return uint64(cmp.Or(given, fallback))
}

// channels is the number of channels of the communicator for the call's algorithm.
func (c *Call) channels() int {
	if c.Algo == NVLS || c.Algo == NVLSTree {
		return c.NVLSChannels
	}
	return c.Channels
}

// maxChannels is the maximum number of channels for a call of so many bytes: each channel's threads must have a minimum
// of work.
func (c *Call) maxChannels(bytes uint64) int {
	if c.MaxChannels > 0 {
		return min(c.MaxChannels, c.channels())
	}
	if c.Algo == NVLS || c.Algo == NVLSTree {
		return c.NVLSChannels
	}
	threads, threshold := c.MaxThreads, c.ThreadThreshold
	if threads == 0 {
		switch {
		case c.Algo == PAT:
			return c.Channels // NCCL limits no threads for it
		case c.Proto == LL128:
			threads = 640
		default:
			threads = 512
		}
	}
	if threshold == 0 {
		threshold = 8
		if c.Proto == Simple {
			threshold = 64
		} else if c.Proto == LL && c.Algo == Ring {
			threshold = 8 * c.Ranks
		}
	}
	n := c.Channels
	for n > 1 && bytes < uint64(n)*uint64(threads)*uint64(threshold) {
		n--
	}
	return n
}

// Shares divides the call among channels, as scheduleCollTasksToPlan does for a call that is alone in its group.
func (c *Call) Shares() ([]Share, error) {
	s, err := c.checkedShape()
	if err != nil || s.count == 0 {
		return nil, err
	}
	channel, counts, err := c.spread(s)
	if err != nil {
		return nil, err
	}
	return c.sharesOf(channel, counts)
}

// checkedShape is the call's shape, an error if it is too large for NCCL's arithmetic.
func (d *Decision) checkedShape() (shape, error) {
	s := d.shape()
	if hi, lo := bits.Mul64(s.count, s.global*s.perByte*4); hi != 0 || lo > 1<<62 {
		return shape{}, fmt.Errorf("count %d: too large", d.Count)
	}
	return s, nil
}

// sharesOf are the shares of channels from first on, with so many elements each.
func (c *Call) sharesOf(first int, counts []uint64) ([]Share, error) {
	s := c.shape()
	shares := make([]Share, len(counts))
	for i, n := range counts {
		chunk := c.chunkBytes(n * s.global)
		if chunk == 0 {
			return nil, fmt.Errorf("buffer of %d bytes for %v: too small for one chunk", c.buffSize(), c.Proto)
		}
		shares[i] = Share{channel: first + i, count: n, chunk: chunk / s.elem}
	}
	return shares, nil
}

// spread divides the call among as many channels as the log says it used. If NCCL's rules give another number, because
// of a tuner or a setting, it uses the nearest limit of channels that gives the logged number.
func (c *Call) spread(s shape) (first int, counts []uint64, err error) {
	n := c.maxChannels(s.count * s.global)
	split := func(n int) (int, []uint64) {
		return newPacker(c.rules, c.rules.traffic(s, c.Proto), n, c.channels()).place(s, c.Proto)
	}
	first, counts = split(n)
	if c.UsedChannels == 0 || len(counts) == c.UsedChannels {
		return first, counts, nil
	}
	rule := len(counts)
	for away := 1; away < c.channels(); away++ {
		for _, m := range []int{n - away, n + away} {
			if m < 1 || m > c.channels() {
				continue
			}
			if first, counts = split(m); len(counts) == c.UsedChannels {
				return first, counts, nil
			}
		}
	}
	return 0, nil, fmt.Errorf("NCCL used %d channels, its rules give %d and never that many", c.UsedChannels, rule)
}

// steps returns the number of slots of a chunk and of a slice of it.
func (c *Call) steps() (chunk, slice uint64) {
	if c.Proto == Simple && c.Algo == Ring {
		switch c.Coll {
		case nccl.AllReduce, nccl.AllGather, nccl.ReduceScatter:
			return ChunkSteps, SliceSteps
		}
	}
	return 1, 1
}

// chunkBytes is the payload of one chunk, as in calcCollChunking, for a channel whose share of the larger user buffer
// is bytes long.
func (c *Call) chunkBytes(bytes uint64) uint64 {
	steps, _ := c.steps()
	chunk := c.buffSize() / Steps * steps
	switch c.Algo {
	case PAT:
		chunk = c.patChunk(chunk, bytes)
	case NVLS, NVLSTree:
		chunk = c.nvlsChunk(bytes)
	}
	rule := c.rules.chunks[c.Proto]
	chunk = chunk / rule.of * rule.data
	if c.Proto == LL128 && c.Algo == Tree {
		chunk = c.treeLL128Chunk(chunk, bytes)
	}
	return chunk / rule.grain * rule.grain
}

// treeLL128Chunk halves chunks until the tree's pipeline is full.
func (c *Call) treeLL128Chunk(chunk, bytes uint64) uint64 {
	perNode := float32(c.Ranks) / float32(c.nodes)
	depth := float32(float64(1+bits.Len(uint(c.nodes))-1) + 0.1*float64(perNode))
	for float32(bytes/chunk) < depth*64/perNode && chunk > 131072 {
		chunk /= 2
	}
	for float32(bytes/chunk) < depth*16/perNode && chunk > 32768 {
		chunk /= 2
	}
	return chunk
}

// Slice is the data of one step or group of steps, which is one message on the network.
type Slice struct {
	Bytes uint64
	Empty bool // LL and LL128: without data, so the kernel does not wait for it
}

// slices divides a chunk of n elements into messages.
func (c *Call) slices(n, elem uint64) []Slice {
	if c.Proto != Simple {
		return []Slice{{Bytes: c.rules.lines[c.Proto].wire(n * elem), Empty: n == 0}}
	}
	chunkSteps, sliceSteps := c.steps()
	per := chunkSteps / sliceSteps
	size := max(divUp(n, 16*per)*16, c.buffSize()/Steps/elem*sliceSteps/32)
	out := make([]Slice, per)
	for i := range out {
		k := min(size, n)
		out[i] = Slice{Bytes: k * elem}
		n -= k
	}
	return out
}

func divUp(a, b uint64) uint64 { return (a + b - 1) / b }
