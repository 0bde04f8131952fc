// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// connTable has the connections of a job.
type connTable struct {
	fabric *player.Fabric
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

func newConnTable(f *player.Fabric, net *link.Network) *connTable {
	return &connTable{fabric: f, net: net, number: map[connID]int{}, queues: map[queueOf]*opQueue{}}
}

// bind makes the connections of a plan that are not there yet. rank(r) is the job's number of the communicator's rank
// r.
func (t *connTable) bind(p *plan.Plan, comm int, rank func(int) int) ([]int, error) {
	out := make([]int, len(p.Conns))
	used := p.Used()
	for i, spec := range p.Conns {
		id := connID{comm: comm, src: rank(spec.Src), dst: rank(spec.Dst), channel: spec.Channel, p2p: spec.P2P,
			multicast: spec.Multicast}
		n, ok := t.number[id]
		if !ok {
			n = len(t.conns)
			t.number[id] = n
			t.conns = append(t.conns, conn{connID: id, through: id.src})
		}
		out[i] = n
		c := &t.conns[n]
		switch local := t.fabric.Node(id.src) == t.fabric.Node(id.dst); {
		case c.Flow != nil || !used[i]:
		case local && t.fabric.Nodes != nil && id.src != id.dst:
			c.connectDirect(t.fabric.Nodes.Path(id.src, id.dst, id.multicast), t.net, t.fabric.Params)
		case !local:
			of := player.Conn{Comm: comm, Src: spec.Src, Dst: spec.Dst, Channel: spec.Channel, P2P: spec.P2P}
			if err := t.connect(c, of, rank); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// connect makes the flow and the queues of a connection between nodes.
func (t *connTable) connect(c *conn, of player.Conn, rank func(int) int) error {
	if t.fabric.Made != nil {
		c.through, c.made = t.fabric.Made(of)
		c.through = rank(c.through)
	}
	there, back, err := t.fabric.Path(of)
	if err != nil {
		return fmt.Errorf("path of rank %d to rank %d on channel %d: %w", c.src, c.dst, c.channel, err)
	}
	if err := c.connect(c.flowID(), there, back, t.net, t.fabric.Params); err != nil {
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
