// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes of the headers in front of a packet's data, in bytes.
const (
	vnetLen  = 10 // struct virtio_net_hdr
	etherLen = 14
)

// Offsets in struct virtio_net_hdr. It is in the byte order of the kernel. ddlemu supports little-endian machines only.
const (
	vnetFlags  = 0
	vnetGSO    = 1
	vnetHdrLen = 2
	vnetSize   = 4 // payload bytes of each packet on the link
	vnetStart  = 6 // where the checksum begins, from the Ethernet header
	vnetOffset = 8 // where the checksum is stored, from vnetStart
)

// Values of the fields flags and gso_type.
const (
	needsCsum = 1
	gsoNone   = 0
	gsoTCP4   = 1
	gsoTCP6   = 4
	gsoUDP    = 5
	gsoECN    = 0x80
)

// EtherTypes and protocols.
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	protoTCP  = 6
	protoUDP  = 17
)

// headers describes a packet. Offsets are from its Ethernet header, sizes are in bytes.
type headers struct {
	l4       int // offset of the TCP or UDP header; 0 if there is none
	payload  int // offset behind all headers
	size     int // of the whole packet
	packets  int // how many packets a GSO packet is on the link; otherwise 1
	gso      int // payload of each of these packets but the last; 0 if it is no GSO packet
	ipv6     bool
	protocol byte // protoTCP, protoUDP, else 0
}

var errPacket = errors.New("not a packet")

// parse parses the headers of buf, which is a virtio_net_hdr and a frame. In a frame of an unknown protocol, the
// payload begins behind the Ethernet header.
func parse(buf []byte) (headers, error) {
	if len(buf) < vnetLen+etherLen {
		return headers{}, errPacket
	}
	frame := buf[vnetLen:]
	h := headers{payload: etherLen, size: len(frame), packets: 1}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		h.parseIPv4(frame)
	case etherIPv6:
		h.parseIPv6(frame)
	}
	if buf[vnetGSO] == gsoNone {
		return h, nil
	}
	h.gso = int(binary.LittleEndian.Uint16(buf[vnetSize:]))
	kind := buf[vnetGSO] &^ gsoECN
	matches := kind == gsoTCP4 && h.protocol == protoTCP && !h.ipv6 || kind == gsoTCP6 && h.protocol == protoTCP &&
		h.ipv6 || kind == gsoUDP && h.protocol == protoUDP
	if !matches || h.gso == 0 || buf[vnetFlags]&needsCsum == 0 {
		return headers{}, errPacket
	}
	h.packets = max((h.size-h.payload+h.gso-1)/h.gso, 1)
	return h, nil
}

func (h *headers) parseIPv4(frame []byte) {
	ip := frame[etherLen:]
	if len(ip) < 20 || ip[0]>>4 != 4 {
		return
	}
	n := int(ip[0]&15) * 4
	if n < 20 || len(ip) < n || binary.BigEndian.Uint16(ip[6:])&0x1fff != 0 { // not the first fragment
		return
	}
	h.parseTransport(frame, etherLen+n, ip[9])
}

// parseIPv6 ignores packets with extension headers. They are never GSO packets.
func (h *headers) parseIPv6(frame []byte) {
	ip := frame[etherLen:]
	if len(ip) < 40 || ip[0]>>4 != 6 {
		return
	}
	h.ipv6 = true
	h.parseTransport(frame, etherLen+40, ip[6])
}

func (h *headers) parseTransport(frame []byte, at int, protocol byte) {
	l4 := frame[at:]
	n := 8
	switch {
	case protocol == protoTCP && len(l4) >= 20:
		n = int(l4[12]>>4) * 4
		if n < 20 {
			return
		}
	case protocol == protoUDP && len(l4) >= 8:
	default:
		h.payload = at
		return
	}
	if len(l4) < n {
		return
	}
	h.protocol, h.l4, h.payload = protocol, at, at+n
}

// payloadOf returns the payload bytes of packets [from, to) of a GSO packet.
func (h *headers) payloadOf(from, to int) int {
	total := h.size - h.payload
	if h.gso == 0 {
		return total
	}
	return min(to*h.gso, total) - min(from*h.gso, total)
}

// lineBytes returns the line bytes of packets [from, to) of a GSO packet: payload, headers of each packet from IP on,
// and framing. So a packet of the MTU has as many as in the link model, MTU + framing. Small packets are not padded
// to Ethernet's 64 bytes.
func (h *headers) lineBytes(from, to int, framing uint32) uint64 {
	return uint64(h.payloadOf(from, to)) + uint64(to-from)*(uint64(h.payload-etherLen)+uint64(framing))
}
