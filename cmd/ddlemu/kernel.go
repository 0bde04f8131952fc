// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/shapers"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// canShape says what the datapath of a fabric cannot make of a link, now that it is up.
func canShape(file *state.File, fab *fabric.Fabric) func(link.Spec) error {
	if !fab.Config.OnKernel() {
		return func(link.Spec) error { return nil }
	}
	return func(s link.Spec) error {
		if err := shapers.CheckLink(file.Shaper(), s); err != nil {
			return &inputError{err}
		}
		return nil
	}
}

// warnFloor measures what the shaper of a fabric adds to a packet, if a process does
// its work, and says so if a link is to be faster.
func (g *global) warnFloor(ctx context.Context, file *state.File, fab *fabric.Fabric) error {
	if file.Shaper() != configs.WireShaper {
		return nil
	}
	f, err := wire.MeasureFloor(ctx)
	if err != nil {
		return err
	}
	for i, h := range fab.Hops {
		if real := h.Spec.Latency * time.Duration(fab.TimeScale()); h.Kind == fabric.Link && real < f.P50 {
			g.warn("the latency of %s, %v, is below what the shaper wire adds to a packet on this host now, %v: the verdict will be INVALID; ask for more, for a time scale, or for --datapath shm", fab.HopName(i), h.Spec.Latency, f.P50.Round(100*time.Nanosecond))
			return nil
		}
	}
	return nil
}

// nodeOf is the number of a node by one of the names in /etc/hosts there, node0,
// node0-eth1 and so on, or by one of its addresses.
func nodeOf(p *netns.Plan, name string) (int, error) {
	addr, err := netip.ParseAddr(name)
	isAddr := err == nil
	addr = addr.Unmap()
	for n, node := range p.Nodes {
		for _, nic := range node.NICs {
			if name := strings.TrimSuffix(name, netns.IPv6Suffix); name == node.Name || name == node.Name+"-"+nic.Name || isAddr && (addr == nic.Addr4 || addr == nic.Addr6) {
				return n, nil
			}
		}
	}
	last := fmt.Sprintf(" to node%d", len(p.Nodes)-1)
	if len(p.Nodes) == 1 {
		last = ""
	}
	return 0, badInput("%q is not a node of fabric %s: it has node0%s", name, p.Fabric, last)
}
