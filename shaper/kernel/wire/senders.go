// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/kernel/build"
	"github.com/ddlemu/ddlemu/shaper/kernel/plan"
	"github.com/ddlemu/ddlemu/shaper/kernel/sender"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// limited is a NIC's limit on what it sends.
type limited struct {
	namespace string
	nic       plan.NIC
}

// makeSenders limits all NICs of p.
func (w *Wire) makeSenders(p *plan.Plan) error {
	all := map[int]bool{}
	for _, n := range p.Nodes {
		for _, nic := range n.NICs {
			w.senders = append(w.senders, limited{n.Namespace, nic})
			all[nic.Number] = true
		}
	}
	return w.changeSenders(all)
}

// changeSenders puts what is in force on the ports and links of NICs into force on
// their senders.
func (w *Wire) changeSenders(nics map[int]bool) error {
	for n := range nics {
		s := w.senders[n]
		h, err := build.Handle(s.namespace)
		if err != nil {
			return err
		}
		err = sender.Limit(h, s.nic, w.shares(n))
		h.Close()
		if err != nil {
			return fmt.Errorf("limit what %s sends: %w", w.fabric.NICName(n), err)
		}
	}
	return nil
}

// shares is what is in force for the sender of NIC n.
func (w *Wire) shares(n int) sender.Shares {
	port := w.model.hops[2*n].params.Load()
	mtu := port.Payload + port.PerPacket - port.framing
	s := sender.Shares{Rate: rateOf(&port.Params), Full: mtu + port.framing, Packet: mtu + etherLen, To: map[int]uint64{}}
	for dst := range w.fabric.NICs() {
		if w.fabric.NodeOfNIC(dst) != w.fabric.NodeOfNIC(n) {
			s.To[dst] = rateOf(&w.model.hops[w.fabric.Link(n, dst)].params.Load().Params)
		}
	}
	return s
}

// rateOf is a hop's line rate on this host's clock, in bit/s; 0 if it has none.
func rateOf(p *link.Params) uint64 {
	if p.NsNum == 0 || p.NsDen == 0 {
		return 0
	}
	// NsNum/NsDen is in ns per byte.
	return uint64(8e9 * float64(p.NsDen) / float64(p.NsNum))
}
