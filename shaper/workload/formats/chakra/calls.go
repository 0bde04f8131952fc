// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// form is what a collective is written as.
type form int

const (
	oneNode form = iota // a node of a collective
	byRoot              // sends and receives of the root, as NCCL does it
	chain               // sends and receives along a chain of the ranks
)

// nodesOf is how a function is written. ASTRA-sim has no reduce, gather and scatter, and its broadcast takes 1 ns.
func nodesOf(f workload.Func) form {
	switch f {
	case workload.Gather, workload.Scatter:
		return byRoot
	case workload.Broadcast, workload.Reduce:
		return chain
	}
	return oneNode
}

// Notes says how the calls of a workload are written that have no node of their own.
func Notes(w *workload.Workload) []string {
	var used [3]bool
	for i := range w.Ops {
		for part := range w.Ops[i].Parts() {
			if part.Kind == workload.Coll {
				used[nodesOf(part.Func)] = true
			}
		}
	}
	var out []string
	if used[byRoot] {
		out = append(out,
			"Gather and Scatter are written as sends and receives, as NCCL does them: ASTRA-sim has no such collectives")
	}
	if used[chain] {
		out = append(out,
			"Broadcast and Reduce are written as sends along a chain of the ranks, in chunks of 512 KiB or more: "+
				"ASTRA-sim has no Reduce, and its Broadcast takes 1 ns")
	}
	return out
}

// calls writes the nodes of an operation, and returns those at which it ends: what it depends on if it has none.
func (p *printer) calls(o *workload.Op, depends []uint64) ([]uint64, error) {
	if o.Kind == workload.Calc {
		stream := o.StreamName()
		total := o.Nanos + p.excess[stream]
		micros := (total + 500) / 1000 // not below 0: the excess is at least -500
		p.excess[stream] = total - micros*1000
		more := protowire.AppendVarint(protowire.AppendTag(nil, nodeDuration, protowire.VarintType), uint64(micros))
		id, err := p.node(label(o), computeNode, depends, more)
		return []uint64{id}, err
	}
	var nodes []uint64
	for part := range o.Parts() {
		ends, err := p.call(part, depends)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, ends...)
	}
	if len(nodes) == 0 {
		return depends, nil
	}
	return nodes, nil
}

// label is the name of a node.
func label(o *workload.Op) string {
	if o.Name != "" {
		return o.Name
	}
	if o.Func != "" {
		return string(o.Func)
	}
	return string(o.Kind)
}

// call writes the nodes of a call, and returns those at which it ends. A call within a rank has none, nor has a
// collective of no elements, which NCCL discards.
func (p *printer) call(o *workload.Op, depends []uint64) ([]uint64, error) {
	c, _ := p.ix.CommOf(o.Comm, p.rank)
	size, err := workload.TypeSize(o.Type)
	if err != nil {
		return nil, err
	}
	bytes := o.Count * size
	if o.Kind != workload.Coll {
		if o.Peer < 0 || o.Peer >= len(c.Ranks) {
			return nil, fmt.Errorf("peer %d of a communicator of %d ranks", o.Peer, len(c.Ranks))
		}
		kind := sendNode
		if o.Kind == workload.Recv {
			kind = receiveNode
		}
		return p.messages(o, kind, c.Ranks[o.Peer:o.Peer+1], bytes, depends)
	}
	if bytes == 0 || len(c.Ranks) == 1 {
		return nil, nil
	}
	switch nodesOf(o.Func) {
	case byRoot:
		return p.rooted(o, c.Ranks, bytes, depends)
	case chain:
		return p.chain(o, c.Ranks, bytes, depends)
	}
	return p.collective(o, c, bytes, depends)
}

// collective writes a node of a collective. Its size is the size of a rank's input, as ASTRA-sim takes it.
func (p *printer) collective(o *workload.Op, c *workload.Comm, bytes int64, depends []uint64) ([]uint64, error) {
	if o.Func == workload.ReduceScatter || o.Func == workload.AllToAll {
		bytes *= int64(len(c.Ranks))
	}
	more := appendAttribute(nil, nodeAttribute, "comm_type", 9, "", uint64(slices.Index(functions, o.Func)))
	if len(c.Ranks) < p.ix.Workload.Head.Ranks {
		more = appendAttribute(more, nodeAttribute, "pg_name", attributeText, p.groups[c], 0)
	}
	more = appendAttribute(more, nodeAttribute, "comm_size", 9, "", uint64(bytes))
	id, err := p.node(label(o), collectiveNode, depends, more)
	return []uint64{id}, err
}

// rooted writes a gather or scatter: messages between the root and each other rank.
func (p *printer) rooted(o *workload.Op, ranks workload.Ranks, bytes int64, depends []uint64) ([]uint64, error) {
	kind, peers := sendNode, ranks
	if toRoot, root := o.Func == workload.Gather, ranks[o.Root]; p.rank != root {
		peers = workload.Ranks{root}
		if !toRoot {
			kind = receiveNode
		}
	} else if toRoot {
		kind = receiveNode
	}
	return p.messages(o, kind, peers, bytes, depends)
}

// messages writes a message to or from each of the peers but this rank itself.
func (p *printer) messages(o *workload.Op, kind nodeType, peers workload.Ranks, bytes int64,
	depends []uint64) ([]uint64, error) {
	var out []uint64
	for _, peer := range peers {
		if peer == p.rank {
			continue
		}
		id, err := p.message(o, kind, peer, bytes, depends)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

// emptyBytes is the size of a message of no bytes, the size of the smallest Ethernet frame. ASTRA-sim ends at a message
// that takes no time.
const emptyBytes = 64

// message writes a send or receive.
func (p *printer) message(o *workload.Op, kind nodeType, peer int, bytes int64, depends []uint64) (uint64, error) {
	if bytes == 0 {
		bytes = emptyBytes
	}
	c, _ := p.ix.CommOf(o.Comm, p.rank)
	src, dst := p.rank, peer
	if kind == receiveNode {
		src, dst = dst, src
	}
	more := appendAttribute(nil, nodeAttribute, "comm_src", 7, "", uint64(src))
	more = appendAttribute(more, nodeAttribute, "comm_dst", 7, "", uint64(dst))
	more = appendAttribute(more, nodeAttribute, "comm_tag", 7, "", p.tags[c])
	more = appendAttribute(more, nodeAttribute, "comm_size", 9, "", uint64(bytes))
	return p.node(label(o), kind, depends, more)
}

// Chunks of a chain: the chunks of NCCL's protocol Simple, an eighth of a buffer of 4 MiB, but not more than so many.
const (
	chunkBytes = 512 << 10
	maxChunks  = 1000
)

// chain writes a broadcast or reduce: each rank passes each chunk on to the next one when it has it. The chain of a
// broadcast begins at the root, the chain of a reduce ends there.
func (p *printer) chain(o *workload.Op, ranks workload.Ranks, bytes int64, depends []uint64) ([]uint64, error) {
	n, first := len(ranks), o.Root
	if o.Func == workload.Reduce {
		first++
	}
	at := slices.Index(ranks, p.rank)
	place := (at - first + n) % n // in the chain
	received, sent := depends, depends
	chunk := max(chunkBytes, (bytes+maxChunks-1)/maxChunks)
	for ; bytes > 0; bytes -= chunk {
		of, ready := min(chunk, bytes), sent
		if place > 0 {
			id, err := p.message(o, receiveNode, ranks[(at-1+n)%n], of, received)
			if err != nil {
				return nil, err
			}
			received, ready = []uint64{id}, append([]uint64{id}, sent...)
		}
		if place < n-1 {
			slices.Sort(ready)
			id, err := p.message(o, sendNode, ranks[(at+1)%n], of, slices.Compact(ready))
			if err != nil {
				return nil, err
			}
			sent = []uint64{id}
		}
	}
	var ends []uint64
	if place > 0 {
		ends = append(ends, received...)
	}
	if place < n-1 {
		ends = append(ends, sent...)
	}
	return ends, nil
}
