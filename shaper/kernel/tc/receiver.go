// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// receivers limits what the nodes of a fabric receive, at the switch's ports: each
// to the rate of the port. Sources share it equally.
type receivers struct {
	fab   *fabric.Fabric
	trees []*tree // by NIC
	queue func(port, link link.Spec) (qdisc, error)
}

// newReceivers puts the limits of hops, which are fab's, into force. queue is what
// packets of one link wait in before the port. They go with the namespaces.
func newReceivers(fab *fabric.Fabric, p *netns.Plan, hops []state.HopStatus, queue func(port, link link.Spec) (qdisc, error)) (*receivers, error) {
	r := &receivers{fab: fab, queue: queue}
	for _, n := range p.Nodes {
		for _, nic := range n.NICs {
			r.trees = append(r.trees, newTree(p.Switch, nic.Port, bySource))
		}
	}
	return r, r.follow(hops)
}

// follow puts changed limits into force.
func (r *receivers) follow(hops []state.HopStatus) error {
	for nic, t := range r.trees {
		port := hops[2*nic+1].Spec
		rate, err := frameRate(port, r.fab.TimeScale())
		if err != nil {
			return err
		}
		want := shape{rate: rate, mtu: port.MTU, quantum: quantum(port), rest: bfifo(bound(port))}
		for src := range r.trees {
			if r.fab.NodeOfNIC(src) == r.fab.NodeOfNIC(nic) {
				continue
			}
			hop := r.fab.Link(src, nic)
			q, err := r.queue(port, hops[hop].Spec)
			if err != nil {
				return fmt.Errorf("%s: %w", r.fab.HopName(hop), err)
			}
			// The link's own rate is kept where its packets come from.
			want.leaves = append(want.leaves, leaf{src, unlimited, q})
		}
		if err := t.apply(want); err != nil {
			return err
		}
	}
	return nil
}

// count adds what has come over each link and to each port since the last count.
func (r *receivers) count(add func(hop int, bytes, packets, drops uint64)) error {
	for nic, t := range r.trees {
		err := t.count(func(handle uint32, bytes, packets, drops uint64) {
			switch {
			case handle == whole:
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

// countDrops adds what has found no room at each port since the last count.
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

// bound is how many bytes may wait at a port. A lossless one cannot hold those who
// send to it, as a real one does: the queue takes all that TCP lets them send.
func bound(port link.Spec) uint32 {
	if port.QueuePolicy != link.TailDrop || port.QueueBytes == 0 {
		return hugeQueue
	}
	// One packet must fit, as large as the kernel hands it over.
	return uint32(min(max(port.QueueBytes, uint64(quantum(port))), hugeQueue))
}
