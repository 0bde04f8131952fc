// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"net"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/ddlemu/ddlemu/intercept/capture/roce"
)

// Where headers begin, behind Ethernet.
const (
	ipAt  = 14
	tcpAt = ipAt + 20
)

// The two ECN bits of the IP header (RFC 3168, section 5).
const (
	ecnCapable = 2 // the transport understands marks
	ecnMarked  = 3 // congestion experienced
)

// frame is what RoCEv2 packets are carried in.
type frame struct {
	from, to int // NICs
	port     uint16
}

// mac is the hardware address of a NIC.
func mac(nic int) net.HardwareAddr {
	return net.HardwareAddr{2, 0, byte(nic >> 24), byte(nic >> 16), byte(nic >> 8), byte(nic)}
}

// frame makes a packet.
func (c *capturer) frame(f frame, p *roce.Packet, payload []byte) []byte {
	ip := &layers.IPv4{Version: 4, TTL: 64, TOS: ecnCapable, Protocol: layers.IPProtocolUDP,
		Flags: layers.IPv4DontFragment, SrcIP: address(f.from).AsSlice(), DstIP: address(f.to).AsSlice()}
	return c.serialize(&layers.Ethernet{SrcMAC: mac(f.from), DstMAC: mac(f.to), EthernetType: layers.EthernetTypeIPv4},
		ip,
		&udp{layers.UDP{SrcPort: layers.UDPPort(f.port), DstPort: roce.Port}}, p, gopacket.Payload(payload))
}

// udp is UDP without a checksum, as RoCEv2 has it.
type udp struct{ layers.UDP }

// SerializeTo is of gopacket.SerializableLayer.
func (u *udp) SerializeTo(b gopacket.SerializeBuffer, o gopacket.SerializeOptions) error {
	o.ComputeChecksums = false
	return u.UDP.SerializeTo(b, o)
}

// setECN writes the ECN bits of a packet of data, and the checksum of its IPv4 header.
func setECN(b []byte, m marks) {
	b[ipAt+1] = b[ipAt+1]&^ecnMarked | ecnCapable
	if m&congestion != 0 {
		b[ipAt+1] |= ecnMarked
	}
	setChecksum(b)
}

// setChecksum writes the checksum of a packet's IPv4 header.
func setChecksum(b []byte) {
	ip := b[ipAt:tcpAt]
	ip[10], ip[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
}
