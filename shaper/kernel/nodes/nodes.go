// SPDX-License-Identifier: Apache-2.0

// Package nodes creates the network namespaces, interfaces, addresses and routes of a netns.Plan, and removes them.
// Everything that it creates is in namespaces of its own: it changes nothing in the host's namespace.
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

// Options are the settings of NICs and of TCP on all nodes.
type Options struct {
	MTU    int // bytes of an IP packet
	MaxGSO int // bytes of the largest packet that the kernel leaves unsegmented (GSO), 0 for the kernel's default

	// Settings of TCP. The buffers are the maxima of tcp_wmem and tcp_rmem in bytes, 0 for the kernel's default.
	Timestamps         bool
	SendBuffer, Window uint64
}

// FindExisting returns the name of a namespace of p that exists already, "" if there is none.
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

// Create creates all of p. Nothing of p may exist before. After an error, for example because ctx is done, the caller
// calls Remove.
func Create(ctx context.Context, p *netns.Plan, o Options) error {
	if err := netns.Create(p.Switch); err != nil {
		return err
	}
	if err := netns.Do(p.Switch, setSwitchSysctls); err != nil {
		return fmt.Errorf("set up the switch: %w", err)
	}
	for i := range p.Nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := createNode(p, &p.Nodes[i], o); err != nil {
			return fmt.Errorf("set up %s: %w", p.Nodes[i].Name, err)
		}
	}
	return nil
}

// Remove removes whatever exists of p. If processes still run on a node, its namespace loses its name and its NICs, and
// the kernel deletes it when the last of them ends.
func Remove(p *netns.Plan) error {
	var errs []error
	for _, n := range p.Nodes {
		errs = append(errs, netns.Remove(n.Namespace))
	}
	// The switch has one end of every veth pair. Deleting it deletes the node's end too.
	return errors.Join(append(errs, RemoveNamespace(p.Switch))...)
}

// RemoveNamespace deletes the veth interfaces of the namespace called name, and the name. It is no error if either does
// not exist.
func RemoveNamespace(name string) error { return errors.Join(deleteLinks(name), netns.Remove(name)) }

func deleteLinks(name string) error {
	if !netns.Exists(name) {
		return nil
	}
	h, err := OpenNetlink(name)
	if err != nil {
		return err
	}
	defer h.Close()
	links, err := dump(h.LinkList)
	if err != nil {
		return fmt.Errorf("list the interfaces of %s: %w", name, err)
	}
	for _, l := range links {
		if l.Type() == "veth" {
			// ENODEV: the interface was deleted with the namespace of its other end.
			if err := h.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
				return fmt.Errorf("delete %s of %s: %w", l.Attrs().Name, name, err)
			}
		}
	}
	return nil
}

// OpenNetlink opens a netlink socket in the namespace called name. The caller closes it.
func OpenNetlink(name string) (*netlink.Handle, error) {
	ns, err := vns.GetFromPath(netns.Path(name))
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", name, err)
	}
	defer ns.Close()
	// Without the argument, netlink opens all families. Some kernels lack the others.
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in %s: %w", name, err)
	}
	return h, nil
}

// setSwitchSysctls keeps the switch's ports from getting IPv6 addresses and from sending packets themselves.
func setSwitchSysctls() error {
	return setSysctls(map[string]string{
		"ipv6/conf/all/disable_ipv6":     "1",
		"ipv6/conf/default/disable_ipv6": "1",
	})
}

func setNodeSysctls(o Options) error {
	values := map[string]string{
		// A NIC answers ARP for its own address only. It accepts packets even if the reply would leave by another NIC.
		"ipv4/conf/all/arp_ignore":    "1",
		"ipv4/conf/all/arp_announce":  "2",
		"ipv4/conf/all/rp_filter":     "0",
		"ipv4/conf/default/rp_filter": "0",

		// IPv6 addresses are usable at once, and none is configured automatically.
		"ipv6/conf/all/accept_dad":               "0",
		"ipv6/conf/default/accept_dad":           "0",
		"ipv6/conf/default/accept_ra":            "0",
		"ipv6/conf/default/router_solicitations": "0",

		// Every user may send pings.
		"ipv4/ping_group_range": "0 2147483647",

		// A connection does not start with the metrics of an earlier one.
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
	return setSysctls(values)
}

// tcpMemory returns the value of tcp_wmem or tcp_rmem: minimum, initial and maximum size of a buffer, in bytes. The
// minimum is Linux's default.
func tcpMemory(initial, maximum uint64) string {
	const minimum = 4 << 10
	maximum = max(maximum, minimum)
	return fmt.Sprintf("%d %d %d", minimum, min(initial, maximum), maximum)
}

// setSysctls sets variables of the thread's network namespace. Variables that this kernel does not have are skipped.
func setSysctls(values map[string]string) error {
	for name, value := range values {
		err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set sysctl: %w", err)
		}
	}
	return nil
}

func createNode(p *netns.Plan, n *netns.Node, o Options) error {
	if err := netns.Create(n.Namespace); err != nil {
		return err
	}
	if err := netns.Do(n.Namespace, func() error { return setNodeSysctls(o) }); err != nil {
		return err
	}
	node, err := OpenNetlink(n.Namespace)
	if err != nil {
		return err
	}
	defer node.Close()
	lo, err := node.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := node.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	sw, err := OpenNetlink(p.Switch)
	if err != nil {
		return err
	}
	defer sw.Close()
	for i := range n.NICs {
		if err := createNIC(p, n, i, o, node, sw); err != nil {
			return fmt.Errorf("%s: %w", n.NICs[i].Name, err)
		}
	}
	return nil
}

// createNIC creates NIC i of node n: a veth pair between the namespaces of the node and of the switch.
func createNIC(p *netns.Plan, n *netns.Node, i int, o Options, node, sw *netlink.Handle) error {
	nic := &n.NICs[i]
	nodeNS, err := vns.GetFromPath(netns.Path(n.Namespace))
	if err != nil {
		return err
	}
	defer nodeNS.Close()
	switchNS, err := vns.GetFromPath(netns.Path(p.Switch))
	if err != nil {
		return err
	}
	defer switchNS.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr, attrs.Namespace = nic.Name, o.MTU, nic.MAC, netlink.NsFd(nodeNS)
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: nic.Port, PeerNamespace: netlink.NsFd(switchNS),
		PeerMTU: uint32(o.MTU)}
	if err := node.LinkAdd(veth); err != nil {
		return fmt.Errorf("make the veth pair: %w", err)
	}
	l, err := node.LinkByName(nic.Name)
	if err != nil {
		return err
	}
	port, err := sw.LinkByName(nic.Port)
	if err != nil {
		return err
	}
	if o.MaxGSO > 0 {
		if err := limitGSO(node, l, o.MaxGSO); err != nil {
			return err
		}
	}
	if err := errors.Join(sw.LinkSetUp(port), node.LinkSetUp(l)); err != nil {
		return fmt.Errorf("set it up: %w", err)
	}
	addresses := []netip.Addr{nic.Addr4}
	if o.MTU >= minIPv6MTU {
		addresses = append(addresses, nic.Addr6)
	}
	for _, a := range addresses {
		if err := addAddress(p, i, a, node, l); err != nil {
			return err
		}
	}
	return nil
}

// limitGSO limits the unsegmented packets (GSO) that a NIC sends to size bytes, so that a small message never waits for
// more than that.
func limitGSO(h *netlink.Handle, l netlink.Link, size int) error {
	if err := h.LinkSetGSOMaxSize(l, size); err != nil {
		return fmt.Errorf("limit GSO to %d bytes: %w", size, err)
	}
	// Linux 6.3 and later have a separate limit for IPv4.
	if err := h.LinkSetGSOIPv4MaxSize(l, size); err != nil && !errors.Is(err, unix.EOPNOTSUPP) &&
		!errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("limit GSO of IPv4 to %d bytes: %w", size, err)
	}
	return nil
}

// minIPv6MTU is the smallest MTU of an IPv6 link (RFC 8200).
const minIPv6MTU = 1280

// firstTable is the routing table of NIC 0. NIC i has table firstTable+i.
const firstTable = 100

// congestionControl is Linux's default. It is set on each route: the host may have another default, chosen for its own
// network, and need not permit other algorithms in namespaces.
const congestionControl = "cubic"

// addAddress gives NIC i an address and adds its routes. Packets from this address leave by this NIC, whatever their
// destination in the fabric. Packets without a source address leave by the NIC whose network the destination is in.
func addAddress(p *netns.Plan, i int, a netip.Addr, h *netlink.Handle, l netlink.Link) error {
	nicNet, fabricNet, family := netip.PrefixFrom(a, 24).Masked(), p.Subnet, netlink.FAMILY_V4
	if a.Is6() {
		nicNet, fabricNet, family = netip.PrefixFrom(a, 64).Masked(), p.ULA, netlink.FAMILY_V6
	}
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, nicNet.Bits())), Flags: unix.IFA_F_NOPREFIXROUTE}
	if a.Is6() {
		addr.Flags |= unix.IFA_F_NODAD // addresses of a plan are unique
	}
	if err := h.AddrAdd(l, addr); err != nil {
		return fmt.Errorf("add address %v: %w", a, err)
	}
	routes := []netlink.Route{{Dst: ipNet(fabricNet), Table: firstTable + i}, {Dst: ipNet(nicNet)}}
	if i == 0 {
		routes = append(routes, netlink.Route{Dst: ipNet(fabricNet)})
	}
	for _, r := range routes {
		r.LinkIndex, r.Src, r.Scope, r.Congctl = l.Attrs().Index, a.AsSlice(), netlink.SCOPE_LINK, congestionControl
		if err := h.RouteAdd(&r); err != nil {
			return fmt.Errorf("add route to %v with congestion control %s: %w", r.Dst, r.Congctl, err)
		}
	}
	rule := netlink.NewRule()
	rule.Family, rule.Src, rule.Table, rule.Priority = family, ipNet(netip.PrefixFrom(a, a.BitLen())), firstTable+i,
		firstTable+i
	if err := h.RuleAdd(rule); err != nil {
		return fmt.Errorf("add routing rule for packets from %v: %w", a, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
