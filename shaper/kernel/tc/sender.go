// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// hugeQueue is the bound in bytes of a queue that is to lose nothing. What is in it
// is bounded by the windows and buffers of those who send.
const hugeQueue = 256 << 20

// Senders limits what the nodes of a fabric send: each NIC to the rate of its port,
// and what is for one other NIC to that of the link there. Destinations share a
// port equally. Its methods are called by one goroutine.
type Senders struct {
	fab   *fabric.Fabric
	trees []*tree // by NIC
}

// NewSenders puts the limits of hops, which are fab's, into force. They go with the
// namespaces.
func NewSenders(fab *fabric.Fabric, p *netns.Plan, hops []state.HopStatus) (*Senders, error) {
	s := &Senders{fab: fab}
	for _, n := range p.Nodes {
		for _, nic := range n.NICs {
			s.trees = append(s.trees, newTree(n.Namespace, nic.Name, byDestination))
		}
	}
	return s, s.Follow(hops)
}

// Follow puts changed limits into force.
func (s *Senders) Follow(hops []state.HopStatus) error {
	for nic, t := range s.trees {
		port := hops[2*nic].Spec
		rate, err := frameRate(port, s.fab.TimeScale())
		if err != nil {
			return err
		}
		want := shape{rate: rate, mtu: port.MTU, quantum: quantum(port), rest: bfifo(hugeQueue)}
		for dst := range s.trees {
			if s.fab.NodeOfNIC(dst) == s.fab.NodeOfNIC(nic) {
				continue
			}
			ceil, err := frameRate(hops[s.fab.Link(nic, dst)].Spec, s.fab.TimeScale())
			if err != nil {
				return err
			}
			want.leaves = append(want.leaves, leaf{dst, ceil, bfifo(hugeQueue)})
		}
		if err := t.apply(want); err != nil {
			return err
		}
	}
	return nil
}

// count adds what each NIC has sent since the last count.
func (s *Senders) count(add func(hop int, bytes, packets, drops uint64)) error {
	for nic, t := range s.trees {
		err := t.count(func(handle uint32, bytes, packets, drops uint64) {
			if handle == whole {
				add(2*nic, bytes, packets, drops)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxQuantum is the largest quantum that the kernel does not find strange.
const maxQuantum = 200_000

// quantum is what a class sends in its turn: a segment of the link model.
func quantum(s link.Spec) uint32 {
	p, err := link.NewParams(s, 1)
	if err != nil {
		return s.MTU + ethernet // frameRate says what is wrong
	}
	return uint32(min(p.Wire(p.Segment), maxQuantum))
}
