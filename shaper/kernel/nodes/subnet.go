// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// MaxMTU is the largest MTU of a veth.
const MaxMTU = 65535

// FreeSubnet is a network that this host has neither an address in nor a route to:
// 10.77.0.0/16 or one of the 99 that follow. Nothing of a fabric can be reached from
// the host, but a node's user should not find one address to mean two machines.
func FreeSubnet() (string, error) {
	for i := range 100 {
		s := fmt.Sprintf("10.%d.0.0/16", 77+i)
		used, err := OverlappingRoute(s)
		if err != nil {
			return "", err
		}
		if used == "" {
			return s, nil
		}
	}
	return "", fmt.Errorf("10.77.0.0/16 to 10.176.0.0/16 are all in use on this host: give --subnet")
}

// OverlappingRoute is what this host has that overlaps with subnet, in words; "" if nothing.
func OverlappingRoute(subnet string) (string, error) {
	p, err := netip.ParsePrefix(subnet)
	if err != nil {
		return "", fmt.Errorf("subnet %s: %w", subnet, err)
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return "", fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	// Every address has a route too.
	routes, err := whole(func() ([]netlink.Route, error) { return h.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return "", fmt.Errorf("list the host's routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue // the default route leads everywhere
		}
		addr, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		bits, _ := r.Dst.Mask.Size()
		if ok && bits > 0 && netip.PrefixFrom(addr, bits).Overlaps(p) {
			return fmt.Sprintf("a route to %v", r.Dst), nil
		}
	}
	return "", nil
}
