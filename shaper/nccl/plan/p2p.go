// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// round is one entry of a rank's schedule: the peers that it sends to and receives from.
type round struct{ send, recv int }

// work is the work of one rank in one round on one channel.
type work struct {
	round, rank, channel int
	send, recv           int // peers, -1 for none
	sends, receives      part
	batch                int
}

// part is what a channel carries of a message.
type part struct {
	bytes, total uint64 // of the part, and of the message
	channels     int    // over which the message is divided
	proto        Protocol
}

func (d *Decision) validateP2P(r rules) error {
	if r.sends.unknown {
		return fmt.Errorf("%v on NCCL %s: the model knows the schedules of %s", d.Coll, nccl.VersionText(d.Version),
			knownSends)
	}
	n, per := d.P2PChannels, d.P2PChannelsPerPeer
	if n < 1 || n > MaxChannels || bits.OnesCount(uint(n)) != 1 || per < 1 || per > n ||
		bits.OnesCount(uint(per)) != 1 {
		return fmt.Errorf(
			"%d p2p channels, %d per peer: must be powers of two, up to %d, and no more per peer than there are", n,
			per, MaxChannels)
	}
	return nil
}

// schedule is the order in which a rank serves its peers. At any round, all ranks serve the same distance.
func (c *Call) schedule(rank int) []round {
	if c.rules.sends.group > 0 {
		return c.groupSchedule(rank)
	}
	return c.nodeSchedule(rank)
}

// distances are 0 to n-1 in NCCL's order: triangular numbers modulo the next power of two, without those above n-1.
func distances(n int) []int {
	pow2 := 1
	for pow2 < n {
		pow2 *= 2
	}
	var out []int
	for i, d := 0, 0; i < pow2; i++ {
		if d < n {
			out = append(out, d)
		}
		d = (d + i + 1) % pow2
	}
	return out
}

// nodeSchedule iterates over distances between nodes and, within each, over distances between ranks. Nodes of different
// sizes count as one node.
func (c *Call) nodeSchedule(rank int) []round {
	ranks := c.ranksOf
	for _, r := range ranks {
		if len(r) != len(ranks[0]) {
			flat := make([]int, c.Ranks)
			for i := range flat {
				flat[i] = i
			}
			ranks = [][]int{flat}
			break
		}
	}
	node, local := find(ranks, rank)
	var out []round
	for _, dn := range distances(len(ranks)) {
		to, from := ranks[(node+dn)%len(ranks)], ranks[(node-dn+len(ranks))%len(ranks)]
		for _, dl := range distances(len(to)) {
			out = append(out, round{to[(local+dl)%len(to)], from[(local-dl+len(from))%len(from)]})
		}
	}
	return out
}

// groupSchedule is the same with groups of ranks of a node. Distances within a group rise one by one.
func (c *Call) groupSchedule(rank int) []round {
	var groups [][]int
	size := c.groupSize()
	for _, r := range c.ranksOf {
		for i := 0; i < len(r); i += size {
			groups = append(groups, r[i:i+size])
		}
	}
	group, local := find(groups, rank)
	var out []round
	for _, dg := range distances(len(groups)) {
		to, from := groups[(group+dg)%len(groups)], groups[(group-dg+len(groups))%len(groups)]
		for dl := range size {
			out = append(out, round{to[(local+dl)%size], from[(local-dl+size)%size]})
		}
	}
	return out
}

// groupSize is the size of the groups into which every node is divided.
func (c *Call) groupSize() int {
	size := cmp.Or(c.P2PGroup, c.rules.sends.group)
	if c.nodes == 1 {
		size = c.Ranks
	}
	for _, r := range c.ranksOf {
		size = int(gcd(uint64(size), uint64(len(r))))
	}
	return size
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// find returns the position of rank in lists of ranks.
func find(lists [][]int, rank int) (list, at int) {
	for i, l := range lists {
		for j, r := range l {
			if r == rank {
				return i, j
			}
		}
	}
	return 0, 0
}

// p2pChannel is the channel of one part of a message in a round ("part" is NCCL's word).
func (c *Call) p2pChannel(round, part int) int {
	n := c.P2PChannels
	width := bits.Len(uint(n - 1))
	reverse := func(x int) int { return int(bits.Reverse64(uint64(x)) >> (64 - width)) }
	if width == 0 {
		return 0
	}
	group := 1
	if c.rules.sends.group > 0 {
		group = c.groupSize()
	} else {
		for _, r := range c.ranksOf {
			group = max(group, len(r))
		}
	}
	base := round
	if c.nodes > 1 {
		base = round/group*int(divUp(uint64(group), batchWorks)) + round%group/batchWorks
	}
	if c.rules.sends.group > 0 {
		return (reverse(base) + part) % n
	}
	return (base + reverse(part)) % n
}

// localMatters says whether it matters how many messages a send within a node has. If they take no time, a sender only
// waits when they fill the buffer. By default the messages of calls that LL could carry are so few that they never do.
func (c *Call) localMatters() bool {
	return c.LocalTime || c.P2PLLThreshold != 0 || c.LLBuffSize != 0 || c.ChunkSize != 0 || c.P2PChunkSize != 0 ||
		c.BuffSize != 0
}

// p2pProto is the protocol of a message of so many bytes: LL or Simple. Between nodes NCCL has no buffers for LL unless
// it is told to (P2PLL). Within a node it always has them.
func (c *Call) p2pProto(src, dst int, bytes uint64) Protocol {
	local := c.nodeOf[src] == c.nodeOf[dst]
	if local && !c.localMatters() || !local && !c.P2PLL {
		return Simple
	}
	channels := c.P2PChannelsPerPeer
	if c.rules.sends.partsBeforeLL {
		channels = c.p2pChannels(bytes, Simple)
	}
	if bytes > uint64(channels*max(cmp.Or(c.P2PLLThreshold, c.rules.sends.llThreshold), 0)) {
		return Simple
	}
	return LL
}

// p2pChannels is the number of channels over which a message of so many bytes is divided.
func (c *Call) p2pChannels(bytes uint64, proto Protocol) int {
	most := c.P2PChannelsPerPeer
	least := most
	for least*c.Ranks > c.P2PChannels && least > 1 {
		least /= 2
	}
	if bytes == 0 {
		return 1
	}
	if c.rules.sends.partsBeforeLL {
		proto = Simple
	}
	step := c.p2pStep(proto)
	rule := c.rules.sends.between
	if c.nodes == 1 {
		rule = c.rules.sends.within
	}
	smallest, largest := step/rule.smallest, step*rule.largest
	n := int(min(uint64(least), divUp(bytes, smallest)))
	part := max(smallest, divUp(bytes, uint64(n)))
	for part > largest && n <= most/2 {
		n *= 2
		part = divUp(bytes, uint64(n))
	}
	return n
}

// p2pStep is the size of a slot in bytes, with the flags of LL.
func (c *Call) p2pStep(proto Protocol) uint64 {
	step := c.bufferOf(proto) / Steps
	if proto == Simple {
		step = min(uint64(cmp.Or(c.P2PChunkSize, defaultP2PChunkSize)), step)
	}
	return step
}

// p2pChunk is how many bytes of a call of so many bytes a message carries. NCCL makes them smaller only between nodes.
func (c *Call) p2pChunk(bytes uint64, proto Protocol, local bool) uint64 {
	step := c.p2pStep(proto)
	chunk := step
	switch {
	case c.ChunkSize > 0:
		chunk = uint64(c.ChunkSize)
	case local && c.localMatters():
	default:
		i := slices.IndexFunc(c.rules.sends.chunks[proto], func(r sendChunk) bool { return bytes < r.below*step })
		if i >= 0 {
			chunk /= c.rules.sends.chunks[proto][i].divisor
		}
	}
	return max(roundToFP8(c.rules.lines[proto].payload(chunk)), 1)
}

// checkChunk refuses messages that NCCL's buffers cannot hold. NCCL does not limit NCCL_CHUNK_SIZE: it writes beyond
// the buffer, and posts receives that are too short.
func (c *Call) checkChunk(m part) error {
	space, variable := c.rules.lines[m.proto].payload(c.p2pStep(m.proto)), "NCCL_P2P_NET_CHUNKSIZE"
	if m.proto == LL {
		variable = "NCCL_LL_BUFFSIZE"
	}
	if n := min(m.bytes, c.p2pChunk(m.total, m.proto, false)); n > space {
		return fmt.Errorf(
			"NCCL_CHUNK_SIZE=%d makes messages of %d bytes, and NCCL's buffers hold %d: NCCL fails; make it smaller, "+
				"or %s larger", c.ChunkSize, n, space, variable)
	}
	return nil
}

// roundToFP8 keeps the four highest bits, as in the kernel's arguments.
func roundToFP8(x uint64) uint64 {
	if n := bits.Len64(x); n > 4 {
		return x >> (n - 4) << (n - 4)
	}
	return x
}

// p2pPlan makes the plan of a collective that is made of sends and receives.
func (c *Call) p2pPlan() (*Plan, error) {
	if hi, lo := bits.Mul64(c.Count, c.ElemSize); hi != 0 || lo > 1<<50 {
		return nil, fmt.Errorf("count %d: too large", c.Count)
	}
	ranks := make([]int, c.Ranks)
	for r := range ranks {
		ranks[r] = r
	}
	if c.Coll != nccl.HyperCube {
		return c.P2PPlanOf(ranks)
	}
	p := newPlan()
	for c.distance = 1; c.distance < c.Ranks; c.distance *= 2 {
		p.kernel = bits.Len(uint(c.distance)) - 1
		if err := c.addP2P(p, ranks); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// P2PPlanOf has the blocks of the given ranks.
func (c *Call) P2PPlanOf(ranks []int) (*Plan, error) {
	p := newPlan()
	return p, c.addP2P(p, ranks)
}

// addP2P adds the blocks of the given ranks to the plan's present kernel.
func (c *Call) addP2P(p *Plan, ranks []int) error {
	p.Proto = Simple
	sends := map[[3]int][]int{} // by rank, channel and batch: connections
	recvs := map[[3]int][]int{}
	for _, rank := range ranks {
		works := c.works(rank)
		if err := c.checkChunks(works); err != nil {
			return err
		}
		for channel := range c.P2PChannels {
			c.p2pBlock(p, works[channel], sends, recvs)
		}
	}
	setSlots := func(lists map[[3]int][]int, set func(i int, slots uint64)) {
		for _, conns := range lists {
			for _, i := range conns {
				set(i, min(Steps, SharedSteps/uint64(len(conns))))
			}
		}
	}
	setSlots(sends, func(i int, slots uint64) { p.Conns[i].SendSlots = slots })
	setSlots(recvs, func(i int, slots uint64) { p.Conns[i].RecvSlots = slots })
	return nil
}

// checkChunks is checkChunk for all that a rank sends to other nodes.
func (c *Call) checkChunks(works [][]work) error {
	if c.ChunkSize == 0 {
		return nil
	}
	for _, channel := range works {
		for _, w := range channel {
			if w.send < 0 || c.nodeOf[w.send] == c.nodeOf[w.rank] {
				continue
			}
			if err := c.checkChunk(w.sends); err != nil {
				return err
			}
		}
	}
	return nil
}

// works returns, by channel, the work of a rank in the order of its schedule.
func (c *Call) works(rank int) [][]work {
	out := make([][]work, c.P2PChannels)
	for k, r := range c.schedule(rank) {
		send, recv := c.wants(rank, r.send), c.wants(r.recv, rank)
		if send < 0 && recv < 0 {
			continue
		}
		var sends, receives part
		if send >= 0 {
			sends = c.p2pParts(rank, r.send, uint64(send))
		}
		if recv >= 0 {
			receives = c.p2pParts(r.recv, rank, uint64(recv))
		}
		for i := range max(sends.channels, receives.channels) {
			w := work{round: k, rank: rank, channel: c.p2pChannel(k, i), send: -1, recv: -1}
			if i < sends.channels {
				w.send, w.sends = r.send, sends.number(i)
			}
			if i < receives.channels {
				w.recv, w.receives = r.recv, receives.number(i)
			}
			out[w.channel] = append(out[w.channel], w)
		}
	}
	for _, works := range out {
		c.batches(works)
	}
	return out
}

// p2pParts is what all parts of a message have in common.
func (c *Call) p2pParts(src, dst int, bytes uint64) part {
	proto := c.p2pProto(src, dst, bytes)
	return part{total: bytes, channels: c.p2pChannels(bytes, proto), proto: proto}
}

// number is part number i. Messages are divided at multiples of 4 KiB.
func (m part) number(i int) part {
	size := divUp(divUp(m.total, uint64(m.channels)), 4096) * 4096
	m.bytes = min(uint64(i+1)*size, m.total) - min(uint64(i)*size, m.total)
	return m
}

// batches numbers the batches of a channel's works.
func (c *Call) batches(works []work) {
	batch, first := 0, 0
	for i := range works {
		full := i-first == batchWorks
		if c.rules.sends.group > 0 {
			full = full || works[i].round/batchWorks != works[first].round/batchWorks
		}
		if full {
			batch++
			first = i
		}
		works[i].batch = batch
	}
}

// p2pBlock adds the block of one rank on one channel. A message from a rank to itself is a copy and takes no time.
func (c *Call) p2pBlock(p *Plan, works []work, sends, recvs map[[3]int][]int) {
	b := Block{Kernel: p.kernel}
	for _, w := range works {
		b.Rank, b.Channel = w.rank, w.channel
		for len(b.Batches) <= w.batch {
			b.Batches = append(b.Batches, nil)
		}
		add := func(peer, src, dst int, m part, lists map[[3]int][]int) {
			if peer < 0 || peer == w.rank {
				return
			}
			i := p.conn(src, dst, w.channel, Steps)
			p.Conns[i].P2P = true
			local := c.nodeOf[src] == c.nodeOf[dst]
			var prog Program
			if src == w.rank {
				prog = c.messageLoops(m, local, nil, []int{i})
			} else {
				prog = c.messageLoops(m, local, []int{i}, nil)
			}
			b.Batches[w.batch] = append(b.Batches[w.batch], prog)
			if !local {
				key := [3]int{w.rank, w.channel, w.batch}
				lists[key] = append(lists[key], i)
			}
		}
		add(w.send, w.rank, w.send, w.sends, sends)
		add(w.recv, w.recv, w.rank, w.receives, recvs)
	}
	var full [][]Program
	for _, batch := range b.Batches {
		if len(batch) > 0 {
			full = append(full, batch)
		}
	}
	if b.Batches = full; len(full) > 0 {
		p.Blocks = append(p.Blocks, b)
	}
}

// messageLoops is the program that moves a part in messages of one chunk.
func (c *Call) messageLoops(m part, local bool, recv, send []int) Program {
	chunk := c.p2pChunk(m.total, m.proto, local)
	one := func(n uint64, times int) Loop {
		s := Slice{Bytes: c.rules.lines[m.proto].wire(n), Empty: m.proto == LL && n == 0}
		return Loop{Actions: []Action{{Recv: recv, Send: send, Slice: s}}, Repeat: times, LL: m.proto == LL,
			Channels: m.channels}
	}
	var prog Program
	if n := m.bytes / chunk; n > 0 {
		prog = append(prog, one(chunk, int(n)))
	}
	if n := m.bytes % chunk; n > 0 || m.bytes == 0 {
		prog = append(prog, one(n, 1))
	}
	return prog
}
