// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// hugeQueue is the limit in bytes of a queue that loses nothing. The windows and buffers of the senders keep the queue
// shorter.
const hugeQueue = 256 << 20

// Senders limits what the nodes of a fabric send: each NIC to the rate of its send port, and the packets for each
// destination to the rate of the link. Destinations share a port equally. Its methods are called by one goroutine.
type Senders struct {
	fab   *fabric.Fabric
	trees []*tree // by NIC
}

// NewSenders applies the rates of hops, which are all hops of fab. The qdiscs are deleted with the namespaces.
func NewSenders(fab *fabric.Fabric, p *netns.Plan, hops []state.HopStatus) (*Senders, error) {
	s := &Senders{fab: fab}
	for _, n := range p.Nodes {
		for _, nic := range n.NICs {
			s.trees = append(s.trees, newTree(n.Namespace, nic.Name, byDestination))
		}
	}
	return s, s.Follow(hops)
}

// Follow applies changed rates.
func (s *Senders) Follow(hops []state.HopStatus) error {
	for nic, t := range s.trees {
		port := hops[2*nic].Spec
		rate, err := frameRate(port, s.fab.TimeScale())
		if err != nil {
			return err
		}
		spec := treeSpec{rate: rate, mtu: port.MTU, quantum: quantum(port), defaultQueue: bfifo(hugeQueue)}
		for dst := range s.trees {
			if s.fab.NodeOfNIC(dst) == s.fab.NodeOfNIC(nic) {
				continue
			}
			ceil, err := frameRate(hops[s.fab.Link(nic, dst)].Spec, s.fab.TimeScale())
			if err != nil {
				return err
			}
			spec.leaves = append(spec.leaves, leaf{dst, ceil, bfifo(hugeQueue)})
		}
		if err := t.apply(spec); err != nil {
			return err
		}
	}
	return nil
}

// count calls add with what each NIC has sent since the last call of count.
func (s *Senders) count(add func(hop int, bytes, packets, drops uint64)) error {
	for nic, t := range s.trees {
		err := t.count(func(handle uint32, bytes, packets, drops uint64) {
			if handle == portClass {
				add(2*nic, bytes, packets, drops)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxQuantum is the largest quantum about which the kernel does not log a warning.
const maxQuantum = 200_000

// quantum returns the bytes that a class sends per round: a segment of the link model.
func quantum(s link.Spec) uint32 {
	p, err := link.NewParams(s, 1)
	if err != nil {
		return s.MTU + ethernet // frameRate returns the error
	}
	return uint32(min(p.LineBytes(p.Segment), maxQuantum))
}
