// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Conn is a connection of NCCL: from one rank of a communicator to another on one channel.
type Conn struct {
	Comm              int // number in plan.Job.Comms
	Src, Dst, Channel int
	P2P               bool // for ncclSend and ncclRecv
	// Listened is how many connections the receiver had listened for before, if it is known: where each flow has a
	// path of its own, the path follows from it.
	Listened uint64
}

// Fabric is the emulated fabric in stated time: its parameters are for time scale 1.
type Fabric struct {
	Params    []link.Params // of the hops
	Transport *link.Transport
	Tables    *link.JitterTables // needed with Normal, Pareto or Table jitter
	Seed      uint64
	Changes   []sim.Change // planned ones of the hops, in the order of their times, which count from the start
	// InOrder says that connections which are ready at the same instant go in a fixed order, as with a
	// virtual clock. Otherwise the order is random, as on a real one.
	InOrder bool
	// Node is the node of a rank as NCCL counts them: the emulated one, or the NVLink domain if that has several.
	Node func(rank int) int
	// Nodes is what nodes cost. Nil: nothing, and messages between ranks of one node take no time.
	Nodes *Nodes
	// Path returns the hops from one rank's NIC to the other's, and those of the
	// acknowledgements.
	Path func(c Conn) (path []link.PathHop, reverse []int, err error)
	// Made says which rank's process made a connection, with PXN another one of the sender's node, and the place of the
	// connection in the order in which those between its ranks were made. Nil: the senders made them, those of
	// collectives first, by channels, then those for sends and receives. That differs only where the connections have
	// different paths, or nodes take time.
	Made func(c Conn) (through, place int)
	// Connected says that the connections of a job's communicator for sends and receives were made with those of its
	// collectives. Else they were made after all of these, at the first use.
	Connected bool
	// Memo, if not nil, has the results of simulations of other calls on this fabric.
	Memo *Memo
	// Occupied, if not nil, is called for each segment of a job on each hop.
	Occupied func(hop int, p *link.HopRecord)
}

// Nodes is what the nodes of a fabric cost.
type Nodes struct {
	node.Time
	// NICLatency is how much of the latency of each path between nodes, in both directions, is that of its NICs.
	NICLatency int64
	// Rendezvous is how much later, in ns, the sending proxy posts a message between nodes that is larger than Eager
	// bytes: the two NICs first agree on where it goes.
	Rendezvous int64
	Eager      uint64
	// Path is the links from the GPU of a rank to the GPU of another rank on its node: hops of the fabric.
	Path func(src, dst int, kind plan.Multicast) []link.PathHop
}

// isBetween says whether two ranks are on different nodes.
func (f *Fabric) isBetween(src, dst int) bool { return f.Node(src) != f.Node(dst) }

func (f *Fabric) validate() error {
	if f.Transport == nil || f.Node == nil || f.Path == nil {
		return fmt.Errorf("fabric: transport, node and path must be given")
	}
	return nil
}

// Load is the load of one call on one hop.
type Load struct {
	Hop      int // number
	Messages uint64
	Bytes    uint64  // payload
	Line     uint64  // line bytes without retransmissions
	BusyNs   float64 // time for which the hop is occupied
	HostNs   float64 // time for which the worker of the NIC at the hop, an end of the paths, is busy
}

// Traffic is the payload of one call over one connection between nodes or, if nodes cost time, GPUs.
type Traffic struct {
	Conn
	Messages, Bytes uint64
}

// addTraffic sums the messages of a call by connection and by hop.
func (e *Estimate) addTraffic(p *plan.Plan, f *Fabric) error {
	conns := make([]Traffic, len(p.Conns))
	paths := make([][]link.PathHop, len(p.Conns))
	for i, c := range p.Conns {
		conns[i].Conn = Conn{Src: c.Src, Dst: c.Dst, Channel: c.Channel, P2P: c.P2P}
		if f.Node(c.Src) == f.Node(c.Dst) {
			if f.Nodes != nil && c.Src != c.Dst {
				paths[i] = f.Nodes.Path(c.Src, c.Dst, c.Multicast)
			}
			continue
		}
		var err error
		if paths[i], _, err = f.Path(conns[i].Conn); err != nil {
			return err
		}
	}
	loads := map[int]*Load{}
	var order []int
	for _, b := range p.Blocks {
		b.Each(func(loop *plan.Loop, a *plan.Action) {
			n := uint64(loop.Repeat)
			if a.KeepSend {
				return
			}
			for _, i := range a.Send {
				conns[i].Messages += n
				conns[i].Bytes += n * a.Bytes
				bytes := a.Bytes // on each hop
				between := f.isBetween(conns[i].Src, conns[i].Dst)
				if !between {
					bytes = f.Nodes.cost(loop, p.Conns[i].P2P, false, p.Proto).onLink(bytes)
				}
				for k, h := range paths[i] {
					l, params := loads[h.Hop], &f.Params[h.Hop]
					if l == nil {
						l = &Load{Hop: h.Hop}
						loads[h.Hop] = l
						order = append(order, h.Hop)
					}
					l.Add(params, bytes, n)
					if (k == 0 || k == len(paths[i])-1) && between {
						l.HostNs += float64(n) * float64(f.Transport.Host.Time(bytes))
					}
					if k == 0 {
						e.pieces += n * (1 + bytes/uint64(params.Segment))
					}
				}
			}
		})
	}
	for i := range conns {
		if paths[i] != nil && conns[i].Messages > 0 {
			e.Traffic = append(e.Traffic, conns[i])
		}
	}
	for _, h := range order {
		e.Loads = append(e.Loads, *loads[h])
	}
	return nil
}

// Add adds n messages of so many bytes to the load of a hop with these parameters.
func (l *Load) Add(p *link.Params, bytes, n uint64) {
	packets := max((bytes+uint64(p.Payload)-1)/uint64(p.Payload), 1)
	line := n * (bytes + packets*uint64(p.PerPacket))
	l.Messages += n
	l.Bytes += n * bytes
	l.Line += line
	if p.NsDen != 0 {
		l.BusyNs += float64(line) * float64(p.NsNum) / float64(p.NsDen)
	}
}
