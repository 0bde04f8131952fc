// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// BridgeName is the name of the bridge in the switch's namespace.
const BridgeName = "switch"

// ConnectBridge connects all ports of p's switch by a bridge of the kernel. The bridge is deleted with the namespace.
func ConnectBridge(p *netns.Plan) error {
	h, err := OpenNetlink(p.Switch)
	if err != nil {
		return err
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = BridgeName
	br := &netlink.Bridge{LinkAttrs: attrs}
	if err := h.LinkAdd(br); err != nil {
		return fmt.Errorf("make the bridge: %w", err)
	}
	for _, n := range p.Nodes {
		for _, nic := range n.NICs {
			port, err := h.LinkByName(nic.Port)
			if err != nil {
				return fmt.Errorf("find port %s: %w", nic.Port, err)
			}
			if err := h.LinkSetMaster(port, br); err != nil {
				return fmt.Errorf("add port %s to the bridge: %w", nic.Port, err)
			}
		}
	}
	if err := h.LinkSetUp(br); err != nil {
		return fmt.Errorf("set the bridge up: %w", err)
	}
	return nil
}
