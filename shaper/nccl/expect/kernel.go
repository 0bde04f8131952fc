// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// kernel is one rank's part of a call, with what its proxies do for it.
type kernel struct{ blocks []kernelBlock }

// kernelBlock is what a kernel does on a channel: batches one after another, the programs of a batch concurrently.
type kernelBlock struct {
	channel int
	batches []kernelBatch
}

type kernelBatch struct {
	p2p      bool
	conns    []int // of the simulation, by the plan's number
	programs []kernelProgram
}

type kernelProgram struct {
	plan.Program
	sends, recvs []use
}

// use is what a program does with a connection.
type use struct {
	conn            int // the plan's number
	slots, messages uint64
}

// newKernel makes the kernel of a block's rank from the blocks of one plan.
func newKernel(p *plan.Plan, conns []int, blocks []*plan.Block) *kernel {
	k := &kernel{}
	for _, b := range blocks {
		kb := kernelBlock{channel: b.Channel}
		for _, batch := range b.Batches {
			out := kernelBatch{conns: conns}
			for _, prog := range batch {
				kp := newKernelProgram(p, prog)
				for _, e := range slices.Concat(kp.sends, kp.recvs) {
					out.p2p = out.p2p || p.Conns[e.conn].P2P
				}
				out.programs = append(out.programs, kp)
			}
			kb.batches = append(kb.batches, out)
		}
		k.blocks = append(k.blocks, kb)
	}
	return k
}

// fuse is one kernel that does on each channel what those of parts do, one after another. A part may be nil.
func fuse(parts ...*kernel) *kernel {
	parts = slices.DeleteFunc(parts, func(k *kernel) bool { return k == nil })
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	out := &kernel{}
	at := map[int]int{} // of channels, in the blocks
	for _, k := range parts {
		for _, b := range k.blocks {
			i, ok := at[b.channel]
			if !ok {
				i = len(out.blocks)
				at[b.channel] = i
				out.blocks = append(out.blocks, kernelBlock{channel: b.channel})
			}
			out.blocks[i].batches = append(out.blocks[i].batches, b.batches...)
		}
	}
	return out
}

func newKernelProgram(p *plan.Plan, prog plan.Program) kernelProgram {
	out := kernelProgram{Program: prog}
	sends, recvs := map[int]int{}, map[int]int{} // places in out
	count := func(uses *[]use, places map[int]int, i int, slots, messages uint64) {
		at, ok := places[i]
		if !ok {
			at = len(*uses)
			places[i] = at
			*uses = append(*uses, use{conn: i, slots: slots})
		}
		(*uses)[at].messages += messages
	}
	for _, l := range prog {
		for _, a := range l.Actions {
			for _, i := range a.Send {
				count(&out.sends, sends, i, p.Conns[i].SendSlots, unless(a.KeepSend, l.Repeat))
			}
			for _, i := range a.Recv {
				count(&out.recvs, recvs, i, p.Conns[i].RecvSlots, unless(a.KeepRecv, l.Repeat))
			}
		}
	}
	return out
}

func unless(kept bool, times int) uint64 {
	if kept {
		return 0
	}
	return uint64(times)
}

// enqueue gives the proxies the operations of a kernel that a rank launches.
func (s *simulation) enqueue(k *kernel) {
	for i := range k.blocks {
		for j := range k.blocks[i].batches {
			batch := &k.blocks[i].batches[j]
			s.enqueueBatch(batch, false)
			s.enqueueBatch(batch, true)
		}
	}
}

// enqueueBatch adds the operations of one direction: one for all connections of a batch of sends and receives, else one
// for each connection.
func (s *simulation) enqueueBatch(batch *kernelBatch, recv bool) {
	var op proxyOp
	var queue *opQueue
	for _, prog := range batch.programs {
		uses := prog.sends
		if recv {
			uses = prog.recvs
		}
		for _, u := range uses {
			c := &s.conns[batch.conns[u.conn]]
			if c.Flow == nil || u.messages == 0 {
				continue
			}
			e := opEnd{conn: batch.conns[u.conn], slots: u.slots}
			if recv {
				c.recvQueued += u.messages
				queue, e.upTo = c.recvOps, c.recvQueued
			} else {
				c.sendQueued += u.messages
				queue, e.upTo = c.sendOps, c.sendQueued
			}
			if op = append(op, e); !batch.p2p {
				s.addOp(queue, op)
				op = nil
			}
		}
	}
	if len(op) > 0 {
		slices.SortFunc(op, func(x, y opEnd) int { return cmp.Compare(x.conn, y.conn) })
		s.addOp(queue, op)
	}
}

// connTable has the connections of a job.
type connTable struct {
	fabric *Fabric
	net    *link.Network
	conns  []conn
	number map[connID]int
	queues map[queueOf]*opQueue
}

// queueOf identifies a queue of a proxy. For p2p, peer is 0: the connections of a channel share it.
type queueOf struct {
	comm, rank, peer, channel int
	p2p, recv                 bool
}

func newConnTable(f *Fabric, net *link.Network) *connTable {
	return &connTable{fabric: f, net: net, number: map[connID]int{}, queues: map[queueOf]*opQueue{}}
}

// wiring is how the ranks of a communicator are connected, as in [Fabric].
type wiring struct {
	path func(c Conn) (path []link.PathHop, reverse []int, err error)
	made func(c Conn) (through, place int)
}

// bind makes the connections of a plan that are not there yet. rank(r) is the job's number of the communicator's rank
// r.
func (t *connTable) bind(p *plan.Plan, comm int, rank func(int) int, w wiring) ([]int, error) {
	out := make([]int, len(p.Conns))
	used := p.Used()
	for i, spec := range p.Conns {
		id := connID{comm: comm, src: rank(spec.Src), dst: rank(spec.Dst), channel: spec.Channel, p2p: spec.P2P}
		n, ok := t.number[id]
		if !ok {
			n = len(t.conns)
			t.number[id] = n
			t.conns = append(t.conns, conn{connID: id, through: id.src})
		}
		out[i] = n
		if c := &t.conns[n]; c.Flow == nil && used[i] && t.fabric.Node(id.src) != t.fabric.Node(id.dst) {
			if err := t.connect(c, Conn{Src: spec.Src, Dst: spec.Dst, Channel: spec.Channel, P2P: spec.P2P}, rank,
				w); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// connect makes the flow and the queues of a connection between nodes.
func (t *connTable) connect(c *conn, of Conn, rank func(int) int, w wiring) error {
	if w.made != nil {
		c.through, c.made = w.made(of)
		c.through = rank(c.through)
	}
	there, back, err := w.path(of)
	if err != nil {
		return fmt.Errorf("path of rank %d to rank %d on channel %d: %w", c.src, c.dst, c.channel, err)
	}
	id := uint64(c.src)<<40 | uint64(c.dst)<<16 | uint64(c.channel)
	if err := c.connect(id^uint64(c.comm)<<7, there, back, t.net, t.fabric.Params); err != nil {
		return err
	}
	c.sendOps, c.recvOps = t.queue(c, false), t.queue(c, true)
	return nil
}

func (t *connTable) queue(c *conn, recv bool) *opQueue {
	id := queueOf{comm: c.comm, rank: c.src, peer: c.dst, channel: c.channel, p2p: c.p2p, recv: recv}
	if recv {
		id.rank, id.peer = c.dst, c.src
	}
	if c.p2p {
		id.peer = 0
	}
	if t.queues[id] == nil {
		t.queues[id] = &opQueue{recv: recv}
	}
	return t.queues[id]
}

// orderMessages says that the connections for sends and receives were made after those of all collectives, in the order
// in which the ranks first use them.
func (t *connTable) orderMessages() {
	first := map[connID]int{} // by communicator and ends
	for i := range t.conns {
		if c := &t.conns[i]; c.p2p {
			pair := c.connID
			pair.channel = 0
			if first[pair] == 0 {
				first[pair] = i + 1
			}
			c.made = first[pair]
		}
	}
}

// kernelsOf are the kernels of a plan with a number, by rank of its communicator; nil for a rank without work.
func kernelsOf(p *plan.Plan, number int, conns []int, ranks int) []*kernel {
	blocks := make([][]*plan.Block, ranks)
	for i := range p.Blocks {
		if b := &p.Blocks[i]; b.Kernel == number {
			blocks[b.Rank] = append(blocks[b.Rank], b)
		}
	}
	out := make([]*kernel, ranks)
	for r := range out {
		if len(blocks[r]) > 0 {
			out[r] = newKernel(p, conns, blocks[r])
		}
	}
	return out
}
