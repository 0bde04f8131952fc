// SPDX-License-Identifier: Apache-2.0

// Package nodes makes the namespaces, interfaces and addresses of a plan, and
// removes them. Everything it makes is inside of namespaces that it made: nothing
// of the host's is touched.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	vns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// Options are what NICs are made with.
type Options struct {
	MTU    int // bytes of an IP packet
	MaxGSO int // bytes of the largest packet that is left whole, 0 = the kernel's choice

	// What the nodes' TCP is set to; buffers of 0 bytes are left as they are.
	Timestamps         bool
	SendBuffer, Window uint64 // the most that tcp_wmem and tcp_rmem allow, in bytes
}

// FindExisting returns the first of p's namespaces that is there already, "" if none is.
func FindExisting(p *netns.Plan) string {
	if netns.Exists(p.Switch) {
		return p.Switch
	}
	for _, n := range p.Nodes {
		if netns.Exists(n.Namespace) {
			return n.Namespace
		}
	}
	return ""
}

// Create makes all of p, of which nothing is present. After an error, such as that ctx is
// done, the caller calls Remove.
func Create(ctx context.Context, p *netns.Plan, o Options) error {
	if err := netns.Create(p.Switch); err != nil {
		return err
	}
	if err := netns.Do(p.Switch, switchSysctls); err != nil {
		return fmt.Errorf("set up the switch: %w", err)
	}
	for i := range p.Nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := node(p, &p.Nodes[i], o); err != nil {
			return fmt.Errorf("set up %s: %w", p.Nodes[i].Name, err)
		}
	}
	return nil
}

// Remove removes all of p that is there. The namespace of a node in which processes
// still run loses its name and its NICs, and goes with the last of them.
func Remove(p *netns.Plan) error {
	var errs []error
	for _, n := range p.Nodes {
		errs = append(errs, netns.Remove(n.Namespace))
	}
	// The switch has one end of every veth pair, and nobody's processes: when they
	// are deleted the nodes lose theirs.
	return errors.Join(append(errs, RemoveNamespace(p.Switch))...)
}

// RemoveNamespace deletes the interfaces of a namespace and its name.
func RemoveNamespace(name string) error { return errors.Join(deleteLinks(name), netns.Remove(name)) }

// deleteLinks deletes every veth in a namespace. It is no error if there is no such
// namespace, or only its name.
func deleteLinks(name string) error {
	if !netns.Exists(name) {
		return nil
	}
	h, err := OpenNetlink(name)
	if err != nil {
		return err
	}
	defer h.Close()
	links, err := whole(h.LinkList)
	if err != nil {
		return fmt.Errorf("list the interfaces of %s: %w", name, err)
	}
	for _, l := range links {
		if l.Type() == "veth" {
			// One that is already gone went with its other end's namespace.
			if err := h.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
				return fmt.Errorf("delete %s of %s: %w", l.Attrs().Name, name, err)
			}
		}
	}
	return nil
}

// OpenNetlink opens a netlink socket inside the namespace called name.
func OpenNetlink(name string) (*netlink.Handle, error) {
	ns, err := vns.GetFromPath(netns.Path(name))
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	defer ns.Close()
	// Not every kernel has the other families.
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in %s: %w", name, err)
	}
	return h, nil
}

// switchSysctls keeps the switch from having addresses and a say of its own.
func switchSysctls() error {
	return sysctls(map[string]string{
		"ipv6/conf/all/disable_ipv6":     "1",
		"ipv6/conf/default/disable_ipv6": "1",
	})
}

// nodeSysctls: each NIC answers for its own address alone, addresses are usable at
// once, and none that nobody asked for appears.
func nodeSysctls(o Options) error {
	values := map[string]string{
		"ipv4/conf/all/arp_ignore":               "1",
		"ipv4/conf/all/arp_announce":             "2",
		"ipv4/conf/all/rp_filter":                "0",
		"ipv4/conf/default/rp_filter":            "0",
		"ipv6/conf/all/accept_dad":               "0",
		"ipv6/conf/default/accept_dad":           "0",
		"ipv6/conf/default/accept_ra":            "0",
		"ipv6/conf/default/router_solicitations": "0",
		"ipv4/ping_group_range":                  "0 2147483647",

		// What one connection learnt does not change the next.
		"ipv4/tcp_no_metrics_save": "1",
		"ipv4/tcp_timestamps":      "0",
	}
	if o.Timestamps {
		values["ipv4/tcp_timestamps"] = "1"
	}
	if o.SendBuffer > 0 {
		values["ipv4/tcp_wmem"] = tcpMemory(16<<10, o.SendBuffer)
	}
	if o.Window > 0 {
		values["ipv4/tcp_rmem"] = tcpMemory(128<<10, o.Window)
	}
	return sysctls(values)
}

// tcpMemory is the least, first and largest size of a TCP buffer, as Linux has them.
func tcpMemory(first, most uint64) string {
	const least = 4 << 10
	most = max(most, least)
	return fmt.Sprintf("%d %d %d", least, min(first, most), most)
}

// sysctls sets variables of the namespace that the thread is in. One that this
// kernel does not have needs no setting.
func sysctls(values map[string]string) error {
	for name, value := range values {
		err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set sysctl: %w", err)
		}
	}
	return nil
}

func node(p *netns.Plan, n *netns.Node, o Options) error {
	if err := netns.Create(n.Namespace); err != nil {
		return err
	}
	if err := netns.Do(n.Namespace, func() error { return nodeSysctls(o) }); err != nil {
		return err
	}
	h, err := OpenNetlink(n.Namespace)
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	sw, err := OpenNetlink(p.Switch)
	if err != nil {
		return err
	}
	defer sw.Close()
	for i := range n.NICs {
		if err := nic(p, n, i, o, h, sw); err != nil {
			return fmt.Errorf("%s: %w", n.NICs[i].Name, err)
		}
	}
	return nil
}

// nic makes one veth pair, right where its ends belong.
func nic(p *netns.Plan, n *netns.Node, i int, o Options, h, sw *netlink.Handle) error {
	nic := &n.NICs[i]
	here, err := vns.GetFromPath(netns.Path(n.Namespace))
	if err != nil {
		return err
	}
	defer here.Close()
	there, err := vns.GetFromPath(netns.Path(p.Switch))
	if err != nil {
		return err
	}
	defer there.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr, attrs.Namespace = nic.Name, o.MTU, nic.MAC, netlink.NsFd(here)
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: nic.Port, PeerNamespace: netlink.NsFd(there), PeerMTU: uint32(o.MTU)}
	if err := h.LinkAdd(veth); err != nil {
		return fmt.Errorf("make the veth pair: %w", err)
	}
	l, err := h.LinkByName(nic.Name)
	if err != nil {
		return err
	}
	peer, err := sw.LinkByName(nic.Port)
	if err != nil {
		return err
	}
	if o.MaxGSO > 0 {
		if err := limitGSO(h, l, o.MaxGSO); err != nil {
			return err
		}
	}
	if err := errors.Join(sw.LinkSetUp(peer), h.LinkSetUp(l)); err != nil {
		return fmt.Errorf("set it up: %w", err)
	}
	addresses := []netip.Addr{nic.Addr4}
	if o.MTU >= minMTU6 {
		addresses = append(addresses, nic.Addr6)
	}
	for _, a := range addresses {
		if err := address(p, i, a, h, l); err != nil {
			return err
		}
	}
	return nil
}

// limitGSO bounds the packets that the kernel hands to a NIC in one piece, so that
// small messages wait for no more than that.
func limitGSO(h *netlink.Handle, l netlink.Link, size int) error {
	if err := h.LinkSetGSOMaxSize(l, size); err != nil {
		return fmt.Errorf("limit GSO to %d bytes: %w", size, err)
	}
	// Kernels from 6.3 on have a limit of its own for IPv4.
	if err := h.LinkSetGSOIPv4MaxSize(l, size); err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("limit GSO of IPv4 to %d bytes: %w", size, err)
	}
	return nil
}

// minMTU6 is the least MTU that IPv6 works with (RFC 8200).
const minMTU6 = 1280

// firstTable is the routing table of NIC 0; those of the others follow.
const firstTable = 100

// congestionControl is Linux's own default. It is set by route, since a host that has
// another default, made for its own network, need not allow it to namespaces.
const congestionControl = "cubic"

// address gives a NIC an address and makes what is sent from it leave by this NIC,
// wherever in the fabric it goes. What is sent from no address in particular leaves
// by the NIC whose like is addressed.
func address(p *netns.Plan, i int, a netip.Addr, h *netlink.Handle, l netlink.Link) error {
	likes, whole, family := netip.PrefixFrom(a, 24).Masked(), p.Subnet, netlink.FAMILY_V4
	if a.Is6() {
		likes, whole, family = netip.PrefixFrom(a, 64).Masked(), p.ULA, netlink.FAMILY_V6
	}
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, likes.Bits())), Flags: unix.IFA_F_NOPREFIXROUTE}
	if a.Is6() {
		addr.Flags |= unix.IFA_F_NODAD // nobody else has it
	}
	if err := h.AddrAdd(l, addr); err != nil {
		return fmt.Errorf("give it %v: %w", a, err)
	}
	routes := []netlink.Route{{Dst: ipNet(whole), Table: firstTable + i}, {Dst: ipNet(likes)}}
	if i == 0 {
		routes = append(routes, netlink.Route{Dst: ipNet(whole)})
	}
	for _, r := range routes {
		r.LinkIndex, r.Src, r.Scope, r.Congctl = l.Attrs().Index, a.AsSlice(), netlink.SCOPE_LINK, congestionControl
		if err := h.RouteAdd(&r); err != nil {
			return fmt.Errorf("route %v by it, with congestion control %s: %w", r.Dst, r.Congctl, err)
		}
	}
	rule := netlink.NewRule()
	rule.Family, rule.Src, rule.Table, rule.Priority = family, ipNet(netip.PrefixFrom(a, a.BitLen())), firstTable+i, firstTable+i
	if err := h.RuleAdd(rule); err != nil {
		return fmt.Errorf("route what comes from %v by it: %w", a, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
