// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// sample describes a packet to be made.
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

// make is the packet as the kernel gives it: with the checksum of the pseudo header in
// the place of the transport's.
func (s sample) make() []byte {
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
		binary.BigEndian.PutUint16(b[ip+4:], 0xfffe) // the identification goes round
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
	// As much as the kernel happens to have in one piece.
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

// onesSum is the one's complement sum of 16-bit words, the plain way (RFC 1071).
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
	fragment := sample{udp: true, data: data[:100]}.make()
	fragment[vnetLen+etherLen+7] = 1
	for _, tc := range []struct {
		name     string
		packet   []byte
		payload  int // offset
		packets  int
		protocol byte
		wire     uint64 // with 38 bytes of framing
	}{
		{"TCP", sample{data: data[:1460]}.make(), 54, 1, protoTCP, 1538},
		{"TCP, nothing in it", sample{}.make(), 54, 1, protoTCP, 78},
		{"TCP, options", sample{options: 12, data: data[:1448]}.make(), 66, 1, protoTCP, 1538},
		{"TCP, two and a bit", sample{gso: 1460, data: data[:2921]}.make(), 54, 3, protoTCP, 2921 + 3*78},
		{"TCP, just two", sample{gso: 1460, data: data[:2920]}.make(), 54, 2, protoTCP, 2 * 1538},
		{"TCP, IPv6", sample{ipv6: true, gso: 1440, data: data[:2880]}.make(), 74, 2, protoTCP, 2 * 1538},
		{"TCP, IP options", sample{ipOptions: 8, data: data[:100]}.make(), 62, 1, protoTCP, 186},
		{"UDP", sample{udp: true, data: data[:1472]}.make(), 42, 1, protoUDP, 1538},
		{"UDP, several", sample{udp: true, gso: 1000, data: data[:2500]}.make(), 42, 3, protoUDP, 2500 + 3*66},
		{"ARP", arp, 14, 1, 0, 28 + 38},
		{"a later fragment", fragment, 14, 1, 0, 128 + 38},
	} {
		h, err := parse(tc.packet)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if h.payload != tc.payload || h.packets != tc.packets || h.protocol != tc.protocol || h.wire(0, h.packets, 38) != tc.wire {
			t.Errorf("%s: payload at %d, %d packets, protocol %d, %d bytes on the wire; want %d, %d, %d, %d",
				tc.name, h.payload, h.packets, h.protocol, h.wire(0, h.packets, 38), tc.payload, tc.packets, tc.protocol, tc.wire)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	whole := sample{gso: 1000, data: make([]byte, 2000)}.make()
	change := func(at int, v byte) []byte {
		b := bytes.Clone(whole)
		b[at] = v
		return b
	}
	noSize := bytes.Clone(whole)
	noSize[vnetSize], noSize[vnetSize+1] = 0, 0
	for name, b := range map[string][]byte{
		"nothing": nil, "half a header": whole[:20], "GSO of another kind": change(vnetGSO, gsoUDP), "GSO of no kind": change(vnetGSO, 77),
		"GSO of IPv6 over IPv4": change(vnetGSO, gsoTCP6), "GSO of no size": noSize, "GSO with its checksum done": change(vnetFlags, 0),
		"GSO without a header": whole[:vnetLen+40],
	} {
		if h, err := parse(b); err == nil {
			t.Errorf("%s: parsed as %+v", name, h)
		}
	}
}

// The parts of a large packet are the packets that it stands for.
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
		src := s.make()
		h, err := parse(src)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for from := 0; from < h.packets; {
			to := rapid.IntRange(from+1, h.packets).Draw(t, "to")
			dst := make([]byte, vnetLen+h.payload+h.payloadOf(from, to))
			if n := part(dst, src, &h, from, to); n != len(dst) {
				t.Fatalf("part %d to %d has %d bytes, want %d", from, to, n, len(dst))
			}
			checkPart(t, s, dst, from, to, h.packets, len(got))
			got = append(got, dst[vnetLen+h.payload:]...)
			from = to
		}
		if !bytes.Equal(got, s.data) {
			t.Fatal("the parts together have other data")
		}
	})
}

// checkPart compares a part with the packet made for its data alone.
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
	head := len(s.make()) - len(s.data)
	want.data = got[head:]
	b := want.make()
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

// Whatever is read, the offsets stay within it, and every part can be made.
func FuzzParse(f *testing.F) {
	data := make([]byte, 4000)
	for _, s := range []sample{
		{data: data[:10]}, {gso: 1460, data: data}, {ipv6: true, gso: 1440, data: data}, {udp: true, gso: 1000, data: data}, {udp: true, ipv6: true}, {ipOptions: 12, options: 40},
	} {
		f.Add(s.make())
	}
	f.Add(make([]byte, vnetLen+60))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parse(b)
		if err != nil {
			return
		}
		if h.size != len(b)-vnetLen || h.payload < etherLen || h.payload > h.size || h.packets < 1 || h.gso > 0 && h.l4 == 0 {
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
			part(dst, b, &h, i, i+1)
		}
	})
}
