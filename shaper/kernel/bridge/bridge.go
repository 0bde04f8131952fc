// SPDX-License-Identifier: Apache-2.0

// Package bridge connects the ports of a switch by the kernel's own bridge, for
// shapers that need no process of ours in the way.
package bridge

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/ddlemu/ddlemu/shaper/kernel/build"
	"github.com/ddlemu/ddlemu/shaper/kernel/plan"
)

// Name is the bridge's, in the switch's namespace.
const Name = "switch"

// Connect makes the bridge with all ports of p. It goes with the namespace.
func Connect(p *plan.Plan) error {
	h, err := build.Handle(p.Switch)
	if err != nil {
		return err
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = Name
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
