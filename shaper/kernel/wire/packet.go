// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes of what the kernel puts in front of a packet's data.
const (
	vnetLen  = 10 // struct virtio_net_hdr
	etherLen = 14
)

// struct virtio_net_hdr, which the kernel gives in its own byte order. ddlemu is
// built for little-endian machines alone.
const (
	vnetFlags  = 0
	vnetGSO    = 1
	vnetHdrLen = 2
	vnetSize   = 4 // payload bytes of each packet on the wire
	vnetStart  = 6 // where the checksum begins, from the Ethernet header on
	vnetOffset = 8 // where it is written, from there on
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

// headers is where things are in a packet, as offsets from its Ethernet header, and
// how many packets it is on the wire.
type headers struct {
	l4       int // transport header; 0 if there is none that is known
	payload  int // behind all headers
	size     int // of the whole
	packets  int
	gso      int // payload bytes of each packet but the last; 0 if it is one packet
	ipv6     bool
	protocol byte // protoTCP, protoUDP, else 0
}

var errPacket = errors.New("not a packet")

// parse reads the headers of buf, a virtio_net_hdr and a frame. What it does not
// know is one packet whose payload begins behind the Ethernet header.
func parse(buf []byte) (headers, error) {
	if len(buf) < vnetLen+etherLen {
		return headers{}, errPacket
	}
	frame := buf[vnetLen:]
	h := headers{payload: etherLen, size: len(frame), packets: 1}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		h.ipv4(frame)
	case etherIPv6:
		h.ipv6Header(frame)
	}
	if buf[vnetGSO] == gsoNone {
		return h, nil
	}
	h.gso = int(binary.LittleEndian.Uint16(buf[vnetSize:]))
	kind := buf[vnetGSO] &^ gsoECN
	fits := kind == gsoTCP4 && h.protocol == protoTCP && !h.ipv6 || kind == gsoTCP6 && h.protocol == protoTCP && h.ipv6 || kind == gsoUDP && h.protocol == protoUDP
	if !fits || h.gso == 0 || buf[vnetFlags]&needsCsum == 0 {
		return headers{}, errPacket
	}
	h.packets = max((h.size-h.payload+h.gso-1)/h.gso, 1)
	return h, nil
}

func (h *headers) ipv4(frame []byte) {
	ip := frame[etherLen:]
	if len(ip) < 20 || ip[0]>>4 != 4 {
		return
	}
	n := int(ip[0]&15) * 4
	if n < 20 || len(ip) < n || binary.BigEndian.Uint16(ip[6:])&0x1fff != 0 { // a later fragment
		return
	}
	h.transport(frame, etherLen+n, ip[9])
}

// ipv6Header knows no extension headers: the kernel segments no packet that has any.
func (h *headers) ipv6Header(frame []byte) {
	ip := frame[etherLen:]
	if len(ip) < 40 || ip[0]>>4 != 6 {
		return
	}
	h.ipv6 = true
	h.transport(frame, etherLen+40, ip[6])
}

func (h *headers) transport(frame []byte, at int, protocol byte) {
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
		h.payload = at // behind the IP header
		return
	}
	if len(l4) < n {
		return
	}
	h.protocol, h.l4, h.payload = protocol, at, at+n
}

// payloadOf is the payload bytes of the packets from to up to, but without, number to.
func (h *headers) payloadOf(from, to int) int {
	total := h.size - h.payload
	if h.gso == 0 {
		return total
	}
	return min(to*h.gso, total) - min(from*h.gso, total)
}

// wire is the bytes that the packets from to up to, but without, number to occupy on
// the wire: each has its own headers, and framing for what the link has around each
// packet of at most the MTU. So a packet of a full MTU takes just what the link
// model's packet takes (MTU + framing), and a small one no more than its bytes: frames
// are not padded to Ethernet's 64 bytes.
func (h *headers) wire(from, to int, framing uint32) uint64 {
	return uint64(h.payloadOf(from, to)) + uint64(to-from)*(uint64(h.payload-etherLen)+uint64(framing))
}
