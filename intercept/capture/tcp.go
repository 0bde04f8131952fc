// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"

	"github.com/google/gopacket/layers"

	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// stream is a connection as TCP has it.
type stream struct {
	src, dst    int // NICs
	port        uint16
	there, back []byte // headers, which are changed in place
}

const (
	tcpPort     = 61000
	window      = 0xffff
	windowScale = 14 // more than any window, so that none looks full
	duplicates  = 3  // acknowledgements that tell of a loss
	tcpAt       = 14 + 20
	tcpHeaders  = tcpAt + 20
	largest     = 65535 - 40 // payload of an IPv4 packet
)

// tcp writes what each segment of the model puts on the line, in packets as large as segmentation offload
// makes them, and the acknowledgements as the sender gets them.
func (c *capturer) tcp() {
	all := make([]*stream, len(c.Flows))
	seq := make([]uint32, len(c.Passes)) // of each segment's first byte
	for f := range c.Flows {
		all[f] = c.newStream(f)
	}
	c.setUps()
	for f, flow := range c.Messages {
		c.flowEvents(f, flow, seq)
	}
	c.sortEvents()
	for _, e := range c.events {
		c.tcpPacket(all[c.FlowOf[e.message]], e, seq)
	}
}

// flowEvents adds what happens on one connection: segments go out one after the other, and acknowledgements
// come back in order. After a loss they stop until what was lost is sent again.
func (c *capturer) flowEvents(flow int, all []int, seq []uint32) {
	reverse, next, back := c.reverseLatency(flow), uint32(1), int64(0)
	for _, i := range all {
		passes := c.OfMessage(i)
		if len(passes) == 0 {
			continue
		}
		c.sum.Messages++
		arrivals := map[uint32]int64{} // of each segment
		for _, n := range passes {
			p := &c.Passes[n]
			arrivals[p.Segment] = max(arrivals[p.Segment], p.Finish)
		}
		for _, n := range passes {
			p := &c.Passes[n]
			if p.Hop != 0 || p.Bytes == 0 {
				continue
			}
			seq[n] = next
			next += p.Bytes
			c.events = append(c.events, event{at: p.Start, kind: data, message: int32(i), pass: n})
			known := arrivals[p.Segment] + c.transport.Overhead + reverse
			back = max(back, known)
			if p.Retransmitted > 0 {
				c.events = append(c.events, event{at: back, kind: repeat, count: p.Retransmitted, message: int32(i), pass: n})
				back = max(back, known+known-p.Start) // another round trip
			}
			if c.Times[i].Due != link.Never {
				c.events = append(c.events, event{at: back, kind: acked, message: int32(i), pass: n})
			}
		}
	}
}

// newStream makes the headers of a connection.
func (c *capturer) newStream(flow int) *stream {
	f := c.Flows[flow]
	s := &stream{src: f.Src, dst: f.Dst, port: uint16(0x8000 | flow&0x3fff)}
	s.there = c.header(s, true, &layers.TCP{ACK: true, Seq: 1, Ack: 1, Window: window})[:tcpHeaders] // gopacket fills up Ethernet frames
	s.back = c.header(s, false, &layers.TCP{ACK: true, Seq: 1, Ack: 1, Window: window})[:tcpHeaders]
	return s
}

// header makes a packet without payload, from the sender of a stream or back.
func (c *capturer) header(s *stream, forward bool, t *layers.TCP) []byte {
	from, to := s.src, s.dst
	t.SrcPort, t.DstPort = layers.TCPPort(s.port), tcpPort
	if !forward {
		from, to = to, from
		t.SrcPort, t.DstPort = t.DstPort, t.SrcPort
	}
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, Flags: layers.IPv4DontFragment, SrcIP: address(from).AsSlice(), DstIP: address(to).AsSlice()}
	if err := t.SetNetworkLayerForChecksum(ip); err != nil {
		c.fail(err)
	}
	return c.serialize(&layers.Ethernet{SrcMAC: mac(from), DstMAC: mac(to), EthernetType: layers.EthernetTypeIPv4}, ip, t)
}

// handshake makes a packet of the handshake.
func (c *capturer) handshake(s *stream, step kind, mss int) []byte {
	t := &layers.TCP{SYN: step != setUp3, ACK: step != setUp1, Window: window}
	if step != setUp3 {
		t.Options = []layers.TCPOption{
			{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: binary.BigEndian.AppendUint16(nil, uint16(mss))},
			{OptionType: layers.TCPOptionKindWindowScale, OptionLength: 3, OptionData: []byte{windowScale}},
		}
	}
	if step == setUp3 {
		t.Seq = 1
	}
	if step != setUp1 {
		t.Ack = 1
	}
	return c.header(s, step != setUp2, t)
}

// setLength writes the length of an IPv4 packet with so many bytes of payload, and its checksum.
func setLength(b []byte, payload int) {
	ip := b[14:tcpAt]
	binary.BigEndian.PutUint16(ip[2:], uint16(tcpHeaders-14+payload))
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

// tcpPacket writes the packets of an event.
func (c *capturer) tcpPacket(s *stream, e event, seq []uint32) {
	m := &c.Trace.Messages[e.message]
	at := c.at(e.at)
	mss := max(1, int(c.params[2*s.src].Payload))
	emit := func(b []byte, payload int, direction uint32, what string) {
		c.sum.Packets++
		c.w.Packet(s.src, at, b, len(b)+payload, pcapng.PacketInfo{Direction: direction, Comment: c.describe(m, what)})
	}
	send := func(from uint32, bytes int, what string) {
		binary.BigEndian.PutUint32(s.there[tcpAt+4:], from)
		setLength(s.there, bytes)
		emit(s.there, bytes, pcapng.Outbound, what)
	}
	answer := func(ack uint32, what string) {
		binary.BigEndian.PutUint32(s.back[tcpAt+8:], ack)
		emit(s.back, 0, pcapng.Inbound, what)
	}
	switch e.kind {
	case setUp1, setUp2, setUp3:
		direction := uint32(pcapng.Outbound)
		if e.kind == setUp2 {
			direction = pcapng.Inbound
		}
		emit(c.handshake(s, e.kind, min(mss, 0xffff)), 0, direction, "setup")
	case data:
		left := int(c.Passes[e.pass].Bytes)
		for from, most := seq[e.pass], max(1, largest/mss*mss); left > 0; {
			n := min(left, most)
			send(from, n, "data")
			from += uint32(n)
			left -= n
		}
	case repeat:
		p := &c.Passes[e.pass]
		for k := range e.count {
			from := seq[e.pass] + min(k*uint32(mss), p.Bytes-1)
			for range duplicates + 1 {
				answer(from, "ack")
			}
			c.sum.Repeated++
			send(from, min(mss, int(seq[e.pass]+p.Bytes-from)), "repeat")
		}
	case acked:
		answer(seq[e.pass]+c.Passes[e.pass].Bytes, "ack")
	}
}
