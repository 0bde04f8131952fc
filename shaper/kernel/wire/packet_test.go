// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// sample describes a packet of a test.
type sample struct {
	ipv6      bool
	udp       bool
	options   int // bytes of TCP options
	ipOptions int // bytes of IPv4 options
	gso       int // payload per packet; 0 for one packet
	data      []byte
	seq       uint32
	flags     byte
}

// bytes returns the packet as the kernel passes it: the field of the TCP or UDP checksum has the checksum of the pseudo
// header.
func (s sample) bytes() []byte {
	b := make([]byte, vnetLen+etherLen)
	b[vnetFlags] = needsCsum
	ip := len(b)
	if s.ipv6 {
		binary.BigEndian.PutUint16(b[vnetLen+12:], etherIPv6)
		b = append(b, make([]byte, 40)...)
		b[ip] = 6 << 4
		copy(b[ip+8:], bytes.Repeat([]byte{0xfd, 1, 2, 3}, 8))
	} else {
		binary.BigEndian.PutUint16(b[vnetLen+12:], etherIPv4)
		b = append(b, make([]byte, 20+s.ipOptions)...)
		b[ip] = 4<<4 | byte(20+s.ipOptions)/4
		binary.BigEndian.PutUint16(b[ip+4:], 0xfffe) // the identification wraps
		b[ip+8] = 64
		copy(b[ip+12:], []byte{10, 77, 0, 1, 10, 77, 0, 2})
	}
	l4, kind, protocol, csum := len(b), byte(gsoTCP4), byte(protoTCP), 16
	if s.udp {
		b = append(b, make([]byte, 8)...)
		kind, protocol, csum = gsoUDP, protoUDP, 6
	} else {
		b = append(b, make([]byte, 20+s.options)...)
		b[l4+12], b[l4+13] = byte(20+s.options)/4<<4, s.flags
		binary.BigEndian.PutUint32(b[l4+4:], s.seq)
		if s.ipv6 {
			kind = gsoTCP6
		}
	}
	binary.BigEndian.PutUint16(b[l4:], 1000)
	binary.BigEndian.PutUint16(b[l4+2:], 2000)
	if s.gso > 0 {
		b[vnetGSO] = kind
		binary.LittleEndian.PutUint16(b[vnetSize:], uint16(s.gso))
	}
	// The kernel sets this to the bytes in its linear buffer, which may include payload.
	binary.LittleEndian.PutUint16(b[vnetHdrLen:], uint16(len(b)-vnetLen+min(len(s.data), 200)))
	binary.LittleEndian.PutUint16(b[vnetStart:], uint16(l4-vnetLen))
	binary.LittleEndian.PutUint16(b[vnetOffset:], uint16(csum))
	b = append(b, s.data...)
	n := len(b) - l4
	if s.udp {
		binary.BigEndian.PutUint16(b[l4+4:], uint16(n))
	}
	if s.ipv6 {
		b[ip+6] = protocol
		binary.BigEndian.PutUint16(b[ip+4:], uint16(len(b)-ip-40))
	} else {
		b[ip+9] = protocol
		binary.BigEndian.PutUint16(b[ip+2:], uint16(len(b)-ip))
		binary.BigEndian.PutUint16(b[ip+10:], ^onesSum(b[ip:l4]))
	}
	binary.BigEndian.PutUint16(b[l4+csum:], pseudo(b[ip:], s.ipv6, protocol, n))
	return b
}

// onesSum returns the one's complement sum of 16-bit words (RFC 1071), by a simpler method than the code under test.
func onesSum(b []byte) uint16 {
	sum := uint64(0)
	for i, v := range b {
		if i%2 == 0 {
			sum += uint64(v) << 8
		} else {
			sum += uint64(v)
		}
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

func pseudo(ip []byte, ipv6 bool, protocol byte, n int) uint16 {
	b := []byte{0, protocol}
	if ipv6 {
		b = append(b, ip[8:40]...)
	} else {
		b = append(b, ip[12:20]...)
	}
	return onesSum(binary.BigEndian.AppendUint32(b, uint32(n)))
}

func TestParse(t *testing.T) {
	data := make([]byte, 3000)
	arp := make([]byte, vnetLen+42)
	binary.BigEndian.PutUint16(arp[vnetLen+12:], 0x0806)
	fragment := sample{udp: true, data: data[:100]}.bytes()
	fragment[vnetLen+etherLen+7] = 1
	for _, tc := range []struct {
		name     string
		packet   []byte
		payload  int // offset
		packets  int
		protocol byte
		line     uint64 // line bytes, with 38 bytes of framing
	}{
		{"TCP", sample{data: data[:1460]}.bytes(), 54, 1, protoTCP, 1538},
		{"TCP, no payload", sample{}.bytes(), 54, 1, protoTCP, 78},
		{"TCP, options", sample{options: 12, data: data[:1448]}.bytes(), 66, 1, protoTCP, 1538},
		{"TCP, GSO, three packets", sample{gso: 1460, data: data[:2921]}.bytes(), 54, 3, protoTCP, 2921 + 3*78},
		{"TCP, GSO, two full packets", sample{gso: 1460, data: data[:2920]}.bytes(), 54, 2, protoTCP, 2 * 1538},
		{"TCP, IPv6", sample{ipv6: true, gso: 1440, data: data[:2880]}.bytes(), 74, 2, protoTCP, 2 * 1538},
		{"TCP, IP options", sample{ipOptions: 8, data: data[:100]}.bytes(), 62, 1, protoTCP, 186},
		{"UDP", sample{udp: true, data: data[:1472]}.bytes(), 42, 1, protoUDP, 1538},
		{"UDP, GSO", sample{udp: true, gso: 1000, data: data[:2500]}.bytes(), 42, 3, protoUDP, 2500 + 3*66},
		{"ARP", arp, 14, 1, 0, 28 + 38},
		{"not the first fragment", fragment, 14, 1, 0, 128 + 38},
	} {
		h, err := parse(tc.packet)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if h.payload != tc.payload || h.packets != tc.packets || h.protocol != tc.protocol ||
			h.lineBytes(0, h.packets, 38) != tc.line {
			t.Errorf("%s: payload at %d, %d packets, protocol %d, %d line bytes; want %d, %d, %d, %d",
				tc.name, h.payload, h.packets, h.protocol, h.lineBytes(0, h.packets, 38), tc.payload, tc.packets,
				tc.protocol, tc.line)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	whole := sample{gso: 1000, data: make([]byte, 2000)}.bytes()
	change := func(at int, v byte) []byte {
		b := bytes.Clone(whole)
		b[at] = v
		return b
	}
	noSize := bytes.Clone(whole)
	noSize[vnetSize], noSize[vnetSize+1] = 0, 0
	for name, b := range map[string][]byte{
		"empty": nil, "truncated header": whole[:20], "GSO of UDP, packet of TCP": change(vnetGSO, gsoUDP),
		"unknown type of GSO":   change(vnetGSO, 77),
		"GSO of IPv6 over IPv4": change(vnetGSO, gsoTCP6), "GSO without a size": noSize,
		"GSO with a complete checksum": change(vnetFlags, 0),
		"GSO without a header":         whole[:vnetLen+40],
	} {
		if h, err := parse(b); err == nil {
			t.Errorf("%s: parsed as %+v", name, h)
		}
	}
}

// extract returns the same packets as the kernel's segmentation of a GSO packet.
func TestPropertyParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sample{
			ipv6: rapid.Bool().Draw(t, "ipv6"), udp: rapid.Bool().Draw(t, "udp"),
			options: 4 * rapid.IntRange(0, 10).Draw(t, "options"), gso: rapid.IntRange(1, 3000).Draw(t, "gso"),
			seq: rapid.Uint32().Draw(t, "seq"), flags: tcpFIN | tcpPSH | tcpCWR | tcpACK,
		}
		if !s.ipv6 {
			s.ipOptions = 4 * rapid.IntRange(0, 10).Draw(t, "IP options")
		}
		s.data = rapid.SliceOfN(rapid.Byte(), 1, min(20*s.gso, 8000)).Draw(t, "data")
		src := s.bytes()
		h, err := parse(src)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for from := 0; from < h.packets; {
			to := rapid.IntRange(from+1, h.packets).Draw(t, "to")
			dst := make([]byte, vnetLen+h.payload+h.payloadOf(from, to))
			if n := extract(dst, src, &h, from, to); n != len(dst) {
				t.Fatalf("part %d to %d has %d bytes, want %d", from, to, n, len(dst))
			}
			checkPart(t, s, dst, from, to, h.packets, len(got))
			got = append(got, dst[vnetLen+h.payload:]...)
			from = to
		}
		if !bytes.Equal(got, s.data) {
			t.Fatal("the parts have different data than the GSO packet")
		}
	})
}

// checkPart compares a part with a packet that is made from the part's data.
func checkPart(t *rapid.T, s sample, got []byte, from, to, all, before int) {
	want := s
	want.seq += uint32(before)
	if to < all {
		want.flags &^= tcpFIN | tcpPSH
	}
	if from > 0 {
		want.flags &^= tcpCWR
	}
	if to-from == 1 {
		want.gso = 0
	}
	head := len(s.bytes()) - len(s.data)
	want.data = got[head:]
	b := want.bytes()
	binary.LittleEndian.PutUint16(b[vnetHdrLen:], uint16(head-vnetLen))
	if ip := b[vnetLen+etherLen:]; !s.ipv6 {
		binary.BigEndian.PutUint16(ip[4:], 0xfffe+uint16(from))
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], ^onesSum(ip[:20+s.ipOptions]))
	}
	if !bytes.Equal(got, b) {
		t.Fatalf("part %d to %d of %d:\n%x\nwant\n%x", from, to, all, got[:head], b[:head])
	}
}

// For any input, the offsets are within the packet, and every part can be made.
func FuzzParse(f *testing.F) {
	data := make([]byte, 4000)
	for _, s := range []sample{
		{data: data[:10]}, {gso: 1460, data: data}, {ipv6: true, gso: 1440, data: data},
		{udp: true, gso: 1000, data: data}, {udp: true, ipv6: true}, {ipOptions: 12, options: 40},
	} {
		f.Add(s.bytes())
	}
	f.Add(make([]byte, vnetLen+60))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parse(b)
		if err != nil {
			return
		}
		if h.size != len(b)-vnetLen || h.payload < etherLen || h.payload > h.size || h.packets < 1 || h.gso > 0 &&
			h.l4 == 0 {
			t.Fatalf("%+v of %d bytes", h, len(b))
		}
		sum := 0
		for i := range h.packets {
			sum += h.payloadOf(i, i+1)
		}
		if sum != h.size-h.payload || h.payloadOf(0, h.packets) != sum {
			t.Fatalf("%d packets with %d bytes, all of them have %d", h.packets, sum, h.size-h.payload)
		}
		if h.gso == 0 || h.packets > 1000 {
			return
		}
		for i := range h.packets {
			dst := make([]byte, vnetLen+h.payload+h.payloadOf(i, i+1))
			extract(dst, b, &h, i, i+1)
		}
	})
}
