// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"strings"
)

// Prefix begins the name of every namespace that ddlemu creates.
const Prefix = "ddlemu-"

// Plan has the names and addresses of all that is created for one fabric. They are a function of the fabric's name, its
// folder and its size, so a later command finds what a killed one created.
type Plan struct {
	Fabric string
	Switch string // namespace of the switch
	Nodes  []Node
	Subnet netip.Prefix // IPv4, a /16: NIC i of node n has x.y.i.(n+1)
	ULA    netip.Prefix // IPv6, a /48
}

// Node is an emulated host.
type Node struct {
	Name      string // node0 and so on; also its host name
	Namespace string
	NICs      []NIC
}

// NIC is the end of a veth pair that is in a node. The other end is a port of the switch.
type NIC struct {
	Number int    // in the fabric
	Name   string // in the node's namespace: eth0 and so on
	Port   string // name of the other end, in the switch's namespace: node0.0 and so on
	MAC    net.HardwareAddr
	Addr4  netip.Addr
	Addr6  netip.Addr
}

// maxNodes follows from the addresses: the last byte is the number of the node plus 1, and 255 is the broadcast
// address. It equals configs.MaxKernelNodes.
const maxNodes = 254

// NewPlan returns the plan of the fabric called name in the folder dir, with a number of nodes and of NICs per node.
// subnet is an IPv4 /16.
func NewPlan(dir, name string, nodes, nics int, subnet netip.Prefix) (*Plan, error) {
	switch {
	case nodes > maxNodes:
		return nil, fmt.Errorf("%d nodes: the kernel datapath has addresses for %d", nodes, maxNodes)
	case !subnet.Addr().Is4() || subnet.Bits() != 16 || subnet.Masked() != subnet:
		return nil, fmt.Errorf("subnet %v: must be an IPv4 network of 16 bits, like 10.77.0.0/16", subnet)
	}
	prefix := FabricPrefix(dir, name)
	p := &Plan{Fabric: name, Switch: prefix + "switch", Subnet: subnet, ULA: ula(prefix)}
	for n := range nodes {
		node := Node{Name: fmt.Sprintf("node%d", n), Namespace: fmt.Sprintf("%snode%d", prefix, n)}
		for i := range nics {
			node.NICs = append(node.NICs, p.nic(n, i, n*nics+i))
		}
		p.Nodes = append(p.Nodes, node)
	}
	return p, nil
}

// nic returns NIC i of a node, which has a number in the fabric.
func (p *Plan) nic(node, i, number int) NIC {
	a4 := p.Subnet.Addr().As4()
	a4[2], a4[3] = byte(i), byte(node+1)
	a6 := p.ULA.Addr().As16()
	a6[7] = byte(i)
	a6[15] = byte(node + 1)
	return NIC{
		Number: number, Name: fmt.Sprintf("eth%d", i), Port: fmt.Sprintf("node%d.%d", node, i),
		MAC:   net.HardwareAddr{0x02, 0xdd, 0x1e, byte(i), byte(number >> 8), byte(number)},
		Addr4: netip.AddrFrom4(a4), Addr6: netip.AddrFrom16(a6),
	}
}

// NICOfMAC returns the number of the NIC that has a MAC address, or -1 if no emulated NIC has the address.
func NICOfMAC(mac []byte) int {
	if len(mac) < 6 || mac[0] != 0x02 || mac[1] != 0xdd || mac[2] != 0x1e {
		return -1
	}
	return int(binary.BigEndian.Uint16(mac[4:6]))
}

// FabricPrefix returns the beginning of the names of one fabric's namespaces. It includes a hash of the folder of the
// fabric's file: fabrics of the same name in two folders, or of two users, have different namespaces.
func FabricPrefix(dir, name string) string { return DirPrefix(dir) + name + "-" }

// DirPrefix returns the beginning of the names of the namespaces of all fabrics in dir.
func DirPrefix(dir string) string {
	h := fnv.New32a()
	h.Write([]byte(dir))
	return fmt.Sprintf("%s%08x-", Prefix, h.Sum32())
}

// FabricOf returns the name of the fabric in dir that a namespace belongs to. ok is false if it belongs to none.
func FabricOf(dir, namespace string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(namespace, DirPrefix(dir))
	i := strings.LastIndexByte(rest, '-')
	if !ok || i < 1 {
		return "", false
	}
	return rest[:i], true
}

// ula returns a unique local IPv6 prefix (RFC 4193): fd, then a hash of 40 bits.
func ula(fabricPrefix string) netip.Prefix {
	h := fnv.New64a()
	h.Write([]byte(fabricPrefix))
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], h.Sum64())
	copy(a[1:6], a[:5])
	a[0] = 0xfd
	clear(a[6:])
	return netip.PrefixFrom(netip.AddrFrom16(a), 48)
}

// IPv6Suffix ends the host names of IPv6 addresses. If a name had both kinds of address, programs would prefer IPv6,
// whose longer headers leave less payload in a packet.
const IPv6Suffix = "-ipv6"

// Hosts returns the content of /etc/hosts of every node.
func (p *Plan) Hosts() string {
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	for _, n := range p.Nodes {
		for i, nic := range n.NICs {
			name := n.Name
			if i > 0 {
				name = fmt.Sprintf("%s-%s", n.Name, nic.Name)
			}
			fmt.Fprintf(&b, "%v\t%s\n%v\t%s%s\n", nic.Addr4, name, nic.Addr6, name, IPv6Suffix)
		}
	}
	return b.String()
}

// FindNode returns the number of the node that has a name or an address, or -1. Names are the names of Hosts: node0,
// node0-eth1, node0-ipv6 and so on.
func (p *Plan) FindNode(name string) int {
	addr, err := netip.ParseAddr(name)
	isAddr := err == nil
	addr, name = addr.Unmap(), strings.TrimSuffix(name, IPv6Suffix)
	for n, node := range p.Nodes {
		for _, nic := range node.NICs {
			if name == node.Name || name == node.Name+"-"+nic.Name || isAddr &&
				(addr == nic.Addr4 || addr == nic.Addr6) {
				return n
			}
		}
	}
	return -1
}
