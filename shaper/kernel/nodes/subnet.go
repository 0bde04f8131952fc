// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// MaxMTU is the largest MTU of a veth interface, in bytes.
const MaxMTU = 65535

// FreeSubnet returns a /16 to which this host has neither an address nor a route: 10.77.0.0/16 or one of the 99 that
// follow. The host cannot reach a fabric's addresses in any case, but an address should not mean two machines to a user
// of a node.
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
	return "", fmt.Errorf("10.77.0.0/16 to 10.176.0.0/16 are all in use on this host: give --set subnet=NETWORK")
}

// OverlappingRoute describes a route of this host whose destination overlaps with subnet. It returns "" if there is
// none.
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
	// The kernel adds a route for every address, so addresses need no check of their own.
	routes, err := dump(func() ([]netlink.Route, error) { return h.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return "", fmt.Errorf("list the host's routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue // the default route overlaps with everything
		}
		addr, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		bits, _ := r.Dst.Mask.Size()
		if ok && bits > 0 && netip.PrefixFrom(addr, bits).Overlaps(p) {
			return fmt.Sprintf("a route to %v", r.Dst), nil
		}
	}
	return "", nil
}

// dump calls list until it returns a consistent list. The kernel interrupts a dump if the list changes meanwhile, for
// example while a namespace is being deleted.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		all, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) || time.Now().After(end) {
			return all, err
		}
	}
}
