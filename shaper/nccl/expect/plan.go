// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// plan is one call, as the kernels and proxies of all ranks execute it.
type plan struct {
	conns  []connSpec
	blocks []block
	byEnds map[[3]int]int // conns by source, destination and channel
	kernel int            // that gets the blocks which are added
	only   *int           // the rank of which the plan is wanted; nil for all
}

// connSpec is one direction between two ranks on one channel.
type connSpec struct {
	src, dst, channel int
	p2p               bool
	sendSlots         uint64 // messages in flight between kernel and network
	recvSlots         uint64 // irecvs posted ahead
}

// block is the work of one rank's kernel on one channel: batches one after another, the programs of a batch
// concurrently.
type block struct {
	kernel        int // of the rank's kernels of a call, which run one after another
	rank, channel int
	batches       [][]program
}

// program is a list of actions. Repeated actions are a loop, so that a long program uses little memory.
type program []loop

type loop struct {
	actions []action
	repeat  int
}

// action waits for one message on each connection of recv and for a free slot on each of send. Then it sends a message
// of bytes bytes on each of send.
type action struct {
	recv, send []int // indices of plan.conns
	slice
	// PAT needs several actions for a message, and has several messages open at once.
	recvAhead, sendAhead uint64 // messages beyond the next one
	keepRecv, keepSend   bool   // later actions use the same message
	received             uint64 // bytes of the message that is received with this action
}

// bytesReceived are those of each message that the action receives. Without PAT a message is passed on as it came.
func (a *action) bytesReceived() uint64 {
	if a.received > 0 {
		return a.received
	}
	return a.bytes
}

func newPlan() *plan { return &plan{byEnds: map[[3]int]int{}} }

// wants says whether the blocks of a rank are wanted.
func (p *plan) wants(rank int) bool { return p.only == nil || *p.only == rank }

// conn returns the index of a connection, which it adds on first use.
func (p *plan) conn(src, dst, channel int, slots uint64) int {
	key := [3]int{src, dst, channel}
	i, ok := p.byEnds[key]
	if !ok {
		i = len(p.conns)
		p.byEnds[key] = i
		p.conns = append(p.conns, connSpec{src: src, dst: dst, channel: channel, sendSlots: slots, recvSlots: slots})
	}
	return i
}

func (p *plan) add(rank, channel int, programs ...program) {
	p.blocks = append(p.blocks, block{rank: rank, channel: channel, batches: [][]program{programs}})
}

// each calls f for every action with the number of its repetitions.
func (b *block) each(f func(a *action, times int)) {
	for _, batch := range b.batches {
		for _, prog := range batch {
			for _, l := range prog {
				for i := range l.actions {
					f(&l.actions[i], l.repeat)
				}
			}
		}
	}
}

// loops returns the repetitions of the longest loop of any program, and the smallest of the programs' longest loops.
// cut must remove fewer than the latter.
func (p *plan) loops() (most, least int) {
	least = -1
	for i := range p.blocks {
		for _, batch := range p.blocks[i].batches {
			for _, prog := range batch {
				n := 0
				for _, l := range prog {
					n = max(n, l.repeat)
				}
				most = max(most, n)
				if least < 0 || n < least {
					least = n
				}
			}
		}
	}
	return most, max(least, 0)
}

// cut returns the plan with n repetitions fewer in the long loop of every program.
func (p *plan) cut(n int) *plan {
	q := *p
	q.blocks = make([]block, len(p.blocks))
	for i, b := range p.blocks {
		q.blocks[i] = block{kernel: b.kernel, rank: b.rank, channel: b.channel}
		for _, batch := range b.batches {
			var progs []program
			for _, prog := range batch {
				c := append(program(nil), prog...)
				for j := range c {
					if c[j].repeat > n {
						c[j].repeat -= n
						break
					}
				}
				progs = append(progs, c)
			}
			q.blocks[i].batches = append(q.blocks[i].batches, progs)
		}
	}
	return &q
}

// plan makes the plan of a collective.
func (c *call) plan() (*plan, error) {
	if c.Coll.IsP2P() {
		return c.p2pPlan()
	}
	shares, err := c.shares()
	if err != nil {
		return nil, err
	}
	return c.planOf(shares, nil)
}

// planOf makes the plan of a collective whose channels have these shares, of one rank or, with nil, of all.
func (c *call) planOf(shares []share, only *int) (*plan, error) {
	p := newPlan()
	p.only = only
	for _, share := range shares {
		switch {
		case c.Algo == Tree:
			c.treePlan(p, share)
		case c.Algo == PAT:
			c.patPlan(p, share)
		case c.Coll == nccl.AllReduce:
			c.ringPlan(p, share, c.allReduceLoop)
		case c.Coll == nccl.AllGather || c.Coll == nccl.ReduceScatter:
			c.ringPlan(p, share, c.gatherLoop)
		case c.Coll.Rooted():
			c.ringPlan(p, share, c.chainLoop)
		default:
			return nil, fmt.Errorf("no schedule of %v on a ring is known", c.Coll)
		}
	}
	return p, nil
}

// slots is the number of messages in a connection's buffer.
func (c *call) slots() uint64 {
	_, slice := c.steps()
	return ncclSteps / slice
}
