// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// TCP flags that only the first (CWR) or the last (FIN, PSH) packet of a GSO packet has.
const (
	tcpFIN = 1
	tcpPSH = 8
	tcpCWR = 0x80
)

// extract writes packets [from, to) of the GSO packet src, whose headers are h, to dst: as a GSO packet, or as an
// ordinary one if it is one packet. It changes the headers as the kernel's segmentation does. It returns the length.
func extract(dst, src []byte, h *headers, from, to int) int {
	data := src[vnetLen+h.payload:]
	begin := min(from*h.gso, len(data))
	n := h.payloadOf(from, to)
	size := vnetLen + h.payload + n
	copy(dst, src[:vnetLen+h.payload])
	copy(dst[vnetLen+h.payload:size], data[begin:])
	if to-from == 1 {
		dst[vnetGSO] = gsoNone
		binary.LittleEndian.PutUint16(dst[vnetSize:], 0)
	}
	binary.LittleEndian.PutUint16(dst[vnetHdrLen:], uint16(h.payload))
	frame := dst[vnetLen:size]
	l4 := frame[h.l4:]
	if h.protocol == protoTCP {
		binary.BigEndian.PutUint32(l4[4:], binary.BigEndian.Uint32(l4[4:])+uint32(begin))
		if to < h.packets {
			l4[13] &^= tcpFIN | tcpPSH
		}
		if from > 0 {
			l4[13] &^= tcpCWR
		}
	} else {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	}
	pseudo := setLengths(frame, h, from)
	// The field has the checksum of the pseudo header. The kernel completes it.
	at := 16
	if h.protocol == protoUDP {
		at = 6
	}
	binary.BigEndian.PutUint16(l4[at:], pseudo)
	return size
}

// setLengths sets the length, identification and checksum of the IP header. It returns the checksum of the pseudo
// header.
func setLengths(frame []byte, h *headers, from int) uint16 {
	ip, n := frame[etherLen:], len(frame)-h.l4
	sum := uint32(h.protocol) + uint32(n)
	if h.ipv6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-40))
		return fold(sumOf(ip[8:40]) + sum)
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+uint16(from))
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], ^fold(sumOf(ip[:h.l4-etherLen])))
	return fold(sumOf(ip[12:20]) + sum)
}

// sumOf adds the 16-bit words of b, which has an even number of bytes, at most 128 KiB.
func sumOf(b []byte) uint32 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

// fold returns the one's complement sum of the 16-bit halves (RFC 1071).
func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
