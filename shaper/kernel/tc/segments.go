// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// Limits of the packets in one GSO packet of a NIC.
const (
	defaultGSOSegments = 65535 // the kernel's default
	noGSO              = 1
)

// segmenter makes the nodes' NICs segment what they send before it reaches the switch, as long as packets can be lost.
// A shaper loses a GSO packet as a whole, which is up to 64 KiB.
type segmenter struct{ on bool }

// follow turns segmentation on or off, as hops require. It takes effect for running flows too.
func (s *segmenter) follow(w nodes.Network, hops []state.HopStatus) error {
	on := false
	for i := range hops {
		h := &hops[i].Spec
		on = on || h.Loss != link.Loss{} || h.QueuePolicy == link.TailDrop && h.QueueBytes != 0
	}
	if on == s.on {
		return nil
	}
	segments := defaultGSOSegments
	if on {
		segments = noGSO
	}
	for _, n := range w.Plan.Nodes {
		h, err := nodes.OpenNetlink(n.Namespace)
		if err != nil {
			return err
		}
		for _, nic := range n.NICs {
			l, err := h.LinkByName(nic.Name)
			if err == nil {
				err = h.LinkSetGSOMaxSegs(l, segments)
			}
			if err != nil {
				h.Close()
				return fmt.Errorf("set the GSO segments of %s of %s: %w", nic.Name, n.Name, err)
			}
		}
		h.Close()
	}
	s.on = on
	return nil
}
