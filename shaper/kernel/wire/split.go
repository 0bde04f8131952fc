// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// TCP flags that only one of the packets of a large one has.
const (
	tcpFIN = 1
	tcpPSH = 8
	tcpCWR = 0x80
)

// part writes the packets from to up to, but without, number to of the large packet
// src, whose headers are h, to dst, as one large packet or, if it is one, as a plain
// one. It is what the kernel's GSO does for each packet. It returns the length.
func part(dst, src []byte, h *headers, from, to int) int {
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
	pseudo := lengths(frame, h, from)
	// The kernel finishes the checksum; what it starts from is in its place.
	at := 16
	if h.protocol == protoUDP {
		at = 6
	}
	binary.BigEndian.PutUint16(l4[at:], pseudo)
	return size
}

// lengths writes what the IP header says of a packet's length and returns the
// checksum of the pseudo header.
func lengths(frame []byte, h *headers, from int) uint16 {
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

// sumOf adds up 16-bit words of an even number of bytes, at most 128 KiB.
func sumOf(b []byte) uint32 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

// fold is the one's complement sum of the halves (RFC 1071).
func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
