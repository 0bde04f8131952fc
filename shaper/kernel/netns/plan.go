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

// Prefix begins the name of every namespace that ddlemu makes.
const Prefix = "ddlemu-"

// Plan is what is made for one fabric.
type Plan struct {
	Fabric string
	Switch string // namespace of the switch
	Nodes  []Node
	Subnet netip.Prefix // IPv4, a /16: NIC i of node n has x.y.i.(n+1)
	ULA    netip.Prefix // IPv6, a /48
}

// Node is an emulated host.
type Node struct {
	Name      string // node0: also its host name
	Namespace string
	NICs      []NIC
}

// NIC is one end of a veth pair; the other is a port of the switch.
type NIC struct {
	Number int    // in the fabric
	Name   string // in the node's namespace: eth0 and on
	Port   string // in the switch's namespace: node0.0
	MAC    net.HardwareAddr
	Addr4  netip.Addr
	Addr6  netip.Addr
}

// maxNodes follows from the addresses: the last byte is the number of the node plus 1, and 255 is the broadcast
// address. configs.MaxKernelNodes is the same number; importing configs would link it into the plugin.
const maxNodes = 254

// NewPlan is the plan for a fabric called name in the folder dir, with its nodes and
// NICs per node. subnet is an IPv4 /16.
func NewPlan(dir, name string, nodes, nics int, subnet netip.Prefix) (*Plan, error) {
	switch {
	case nodes > maxNodes:
		return nil, fmt.Errorf("%d nodes: the kernel datapath has addresses for %d", nodes, maxNodes)
	case !subnet.Addr().Is4() || subnet.Bits() != 16 || subnet.Masked() != subnet:
		return nil, fmt.Errorf("subnet %v: must be an IPv4 network of 16 bits, like 10.77.0.0/16", subnet)
	}
	tag := FabricPrefix(dir, name)
	p := &Plan{Fabric: name, Switch: tag + "switch", Subnet: subnet, ULA: ula(tag)}
	for n := range nodes {
		node := Node{Name: fmt.Sprintf("node%d", n), Namespace: fmt.Sprintf("%snode%d", tag, n)}
		for i := range nics {
			node.NICs = append(node.NICs, p.nic(n, i, n*nics+i))
		}
		p.Nodes = append(p.Nodes, node)
	}
	return p, nil
}

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

// NICOfMAC is the number of the NIC that a MAC address is of, -1 if it is none of
// this plan's.
func NICOfMAC(mac []byte) int {
	if len(mac) < 6 || mac[0] != 0x02 || mac[1] != 0xdd || mac[2] != 0x1e {
		return -1
	}
	return int(binary.BigEndian.Uint16(mac[4:6]))
}

// FabricPrefix begins the names of the namespaces of one fabric. It has a hash of the
// folder that the fabric's file is in, so that fabrics of one name in two folders,
// or of two users, are apart.
func FabricPrefix(dir, name string) string { return DirPrefix(dir) + name + "-" }

// DirPrefix begins the names of the namespaces of all fabrics in dir.
func DirPrefix(dir string) string {
	h := fnv.New32a()
	h.Write([]byte(dir))
	return fmt.Sprintf("%s%08x-", Prefix, h.Sum32())
}

// FabricOf is the fabric that a namespace of a fabric in dir belongs to.
func FabricOf(dir, namespace string) (string, bool) {
	rest, ok := strings.CutPrefix(namespace, DirPrefix(dir))
	i := strings.LastIndexByte(rest, '-')
	if !ok || i < 1 {
		return "", false
	}
	return rest[:i], true
}

// ula is a unique local IPv6 prefix (RFC 4193): fd, then 40 bits of the fabric's own.
func ula(tag string) netip.Prefix {
	h := fnv.New64a()
	h.Write([]byte(tag))
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], h.Sum64())
	copy(a[1:6], a[:5])
	a[0] = 0xfd
	clear(a[6:])
	return netip.PrefixFrom(netip.AddrFrom16(a), 48)
}

// IPv6Suffix ends the names of IPv6 addresses. They have names of their own because
// programs would take them first, and their packets carry less.
const IPv6Suffix = "-ipv6"

// Hosts is the content of /etc/hosts in every node.
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
