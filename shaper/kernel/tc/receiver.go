// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// receivers limits what the nodes of a fabric receive, on the switch's ports: each NIC to the rate of its receive port.
// Sources share a port equally.
type receivers struct {
	fab   *fabric.Fabric
	trees []*tree // by NIC
	queue func(port, link link.Spec) (qdisc, error)
}

// newReceivers applies the rates of hops, which are all hops of fab. queue returns the queue in front of a port for the
// packets of one link. The qdiscs are deleted with the namespaces.
func newReceivers(fab *fabric.Fabric, p *netns.Plan, hops []state.HopStatus,
	queue func(port, link link.Spec) (qdisc, error)) (*receivers, error) {
	r := &receivers{fab: fab, queue: queue}
	for _, n := range p.Nodes {
		for _, nic := range n.NICs {
			r.trees = append(r.trees, newTree(p.Switch, nic.Port, bySource))
		}
	}
	return r, r.follow(hops)
}

// follow applies changed rates and queues.
func (r *receivers) follow(hops []state.HopStatus) error {
	for nic, t := range r.trees {
		port := hops[2*nic+1].Spec
		rate, err := frameRate(port, r.fab.TimeScale())
		if err != nil {
			return err
		}
		spec := treeSpec{rate: rate, mtu: port.MTU, quantum: quantum(port), defaultQueue: bfifo(queueLimit(port))}
		for src := range r.trees {
			if r.fab.NodeOfNIC(src) == r.fab.NodeOfNIC(nic) {
				continue
			}
			hop := r.fab.Link(src, nic)
			q, err := r.queue(port, hops[hop].Spec)
			if err != nil {
				return fmt.Errorf("%s: %w", r.fab.HopName(hop), err)
			}
			// The rate of the link is limited on the sending NIC.
			spec.leaves = append(spec.leaves, leaf{src, unlimited, q})
		}
		if err := t.apply(spec); err != nil {
			return err
		}
	}
	return nil
}

// count calls add with what has arrived over each link and at each port since the last call of count.
func (r *receivers) count(add func(hop int, bytes, packets, drops uint64)) error {
	for nic, t := range r.trees {
		err := t.count(func(handle uint32, bytes, packets, drops uint64) {
			switch {
			case handle == portClass:
				add(2*nic+1, bytes, packets, drops)
			case handle >= firstLeaf:
				add(r.fab.Link(int(handle-firstLeaf), nic), bytes, packets, drops)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// countDrops calls add with the packets that found a full queue at each port since the last call of countDrops.
func (r *receivers) countDrops(add func(hop int, drops uint64)) error {
	for nic, t := range r.trees {
		err := t.count(func(handle uint32, _, _, drops uint64) {
			if handle >= firstLeaf && drops > 0 {
				add(2*nic+1, drops)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// queueLimit returns how many bytes may wait at a port. A lossless port cannot delay its senders by back-pressure here:
// its queue has space for all that TCP may send.
func queueLimit(port link.Spec) uint32 {
	if port.QueuePolicy != link.TailDrop || port.QueueBytes == 0 {
		return hugeQueue
	}
	// One GSO packet must fit.
	return uint32(min(max(port.QueueBytes, uint64(quantum(port))), hugeQueue))
}
