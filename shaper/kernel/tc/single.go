// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// The most packets that a NIC may hand over in one piece: as the kernel has it, and
// where packets are lost or counted one by one.
const (
	manySegments = 65535
	oneSegment   = 1
)

// single cuts what the nodes send into packets of the MTU before the switch, while
// packets can be lost: otherwise a whole piece of up to 64 KiB is lost at once.
// Running flows are cut too.
type single struct{ on bool }

// follow does so, or no longer, by what hops ask for.
func (s *single) follow(w nodes.Network, hops []state.HopStatus) error {
	on := false
	for i := range hops {
		h := &hops[i].Spec
		on = on || h.Loss != link.Loss{} || h.QueuePolicy == link.TailDrop && h.QueueBytes != 0
	}
	if on == s.on {
		return nil
	}
	most := manySegments
	if on {
		most = oneSegment
	}
	for _, n := range w.Plan.Nodes {
		h, err := nodes.OpenNetlink(n.Namespace)
		if err != nil {
			return err
		}
		for _, nic := range n.NICs {
			l, err := h.LinkByName(nic.Name)
			if err == nil {
				err = h.LinkSetGSOMaxSegs(l, most)
			}
			if err != nil {
				h.Close()
				return fmt.Errorf("cut packets at %s of %s: %w", nic.Name, n.Name, err)
			}
		}
		h.Close()
	}
	s.on = on
	return nil
}
