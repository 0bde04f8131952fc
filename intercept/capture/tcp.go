// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"

	"github.com/google/gopacket/layers"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
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
	tcpHeaders  = tcpAt + 20
	largest     = 65535 - 40 // payload of an IPv4 packet
)

// Flags of the TCP header.
const (
	flagsAt = 13
	flagACK = 0x10
	flagECE = 0x40
	flagCWR = 0x80
)

// tcp writes what each segment of the model puts on the line, in packets as large as segmentation offload
// makes them, and the acknowledgements.
func (c *capturer) tcp() {
	all := make([]*stream, len(c.Flows))
	for f, sent := range c.Messages {
		all[f] = c.newStream(f)
		c.flowEvents(f, sent)
	}
	for e := range c.inOrder {
		c.tcpPacket(all[c.FlowOf[e.message]], e)
	}
}

// echoes says whether the transport reacts to ECN marks: the receiver echoes them, until the sender says that it has
// reduced its window (RFC 3168, section 6.1).
func (c *capturer) echoes() bool { return c.transport.Congestion != link.NoCongestion }

// sending is how far a connection of tcp is.
type sending struct {
	flow   int
	number uint32 // of the next byte
	back   int64  // when the last acknowledgement is at the sender
	marks  marks  // of acknowledgements
}

// flowEvents adds what happens on one connection: segments go out one after the other, and acknowledgements
// come back in order. After a loss they stop until what was lost is sent again.
func (c *capturer) flowEvents(flow int, sent []int) {
	x := &sending{flow: flow, number: 1}
	for _, i := range sent {
		records := c.OfMessage(i)
		if len(records) == 0 {
			continue
		}
		c.played++
		c.segmentsOf(records)
		seen := c.Trace.Messages[i].Size == 0 && c.views[flow].crosses() // no packet: its connection is seen
		for _, n := range records {
			p := &c.HopRecords[n]
			if p.Bytes == 0 {
				continue
			}
			s := c.segmentOf(records, p)
			if p.Hop == 0 {
				c.acknowledge(x, int32(i), n, s)
			}
			if p.Flags&link.Dropped == 0 && c.segmentEvents(x, int32(i), n, s) {
				seen = true
			}
		}
		if seen {
			c.sum.Messages++
		}
	}
}

// acknowledge adds what the sender gets back for a segment, which is the next one of its connection.
func (c *capturer) acknowledge(x *sending, message, record int32, s *segment) {
	p := &c.HopRecords[record]
	s.number = x.number
	x.number += p.Bytes
	if s.reduced {
		x.marks = 0
	}
	if c.echoes() && s.marked {
		x.marks = echo
	}
	known := s.arrives + c.transport.Overhead + c.reverseLatency(x.flow)
	x.back = max(x.back, known)
	e := event{at: x.back, kind: lost, message: message, record: record, marks: x.marks}
	s.again = x.back
	for e.count = range p.Retransmitted {
		e.number = c.packetOf(x.flow, s, e.count)
		c.addBack(x.flow, e)
	}
	if p.Retransmitted > 0 {
		x.back = max(x.back, known+known-p.Start) // another round trip
	}
	if c.Times[message].Due != link.Never {
		c.addBack(x.flow, event{at: x.back, kind: acked, message: message, record: record, number: x.number,
			marks: x.marks})
	}
}

// segmentEvents adds a segment at one hop. What is sent again takes as long to the hop as the segment did. It reports
// whether the hop is captured.
func (c *capturer) segmentEvents(x *sending, message, record int32, s *segment) bool {
	p := &c.HopRecords[record]
	e := event{at: p.Start, kind: data, message: message, record: record, iface: c.views[x.flow].forward[p.Hop],
		number: s.number}
	if p.Flags&link.CarriesMark != 0 {
		e.marks = congestion
	}
	again := e
	if s.reduced {
		e.marks |= reduced
	}
	again.at, again.kind = s.again+p.Start-s.start, repeat
	for again.count = range p.Retransmitted {
		again.number = c.packetOf(x.flow, s, again.count)
		c.add(again)
	}
	return c.add(e)
}

// packetOf is the sequence number of a packet of a segment, at most the number of its last byte.
func (c *capturer) packetOf(flow int, s *segment, packet uint32) uint32 {
	return s.number + min(packet*uint32(c.payload(flow)), s.bytes-1)
}

// newStream makes the headers of a connection.
func (c *capturer) newStream(flow int) *stream {
	f := c.Flows[flow]
	s := &stream{src: f.Src, dst: f.Dst, port: uint16(0x8000 | flow&0x3fff)}
	// Cut off what gopacket adds to short Ethernet frames.
	s.there = c.header(s, true, &layers.TCP{ACK: true, Seq: 1, Ack: 1, Window: window})[:tcpHeaders]
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
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, Flags: layers.IPv4DontFragment,
		SrcIP: address(from).AsSlice(), DstIP: address(to).AsSlice()}
	if err := t.SetNetworkLayerForChecksum(ip); err != nil {
		c.fail(err)
	}
	return c.serialize(&layers.Ethernet{SrcMAC: mac(from), DstMAC: mac(to), EthernetType: layers.EthernetTypeIPv4}, ip,
		t)
}

// handshake makes a packet of the handshake.
func (c *capturer) handshake(s *stream, step kind, mss int) []byte {
	t := &layers.TCP{SYN: step != setUp3, ACK: step != setUp1, Window: window}
	t.ECE, t.CWR = c.echoes() && step != setUp3, c.echoes() && step == setUp1 // RFC 3168, section 6.1.1
	if step != setUp3 {
		t.Options = []layers.TCPOption{
			{OptionType: layers.TCPOptionKindMSS, OptionLength: 4,
				OptionData: binary.BigEndian.AppendUint16(nil, uint16(mss))},
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

// tcpPacket writes the packets of an event.
func (c *capturer) tcpPacket(s *stream, e *event) {
	mss := int(c.payload(c.FlowOf[e.message]))
	switch e.kind {
	case setUp1, setUp2, setUp3:
		b := c.handshake(s, e.kind, min(mss, 0xffff))
		c.emit(e, b, len(b), "setup")
	case data:
		most := largest
		if mss < largest {
			most = largest / mss * mss
		}
		for left := int(c.HopRecords[e.record].Bytes); left > 0; {
			n := min(left, most)
			c.send(s, e, n, "data")
			e.number, e.count, e.marks = e.number+uint32(n), e.count+1, e.marks&^reduced
			left -= n
		}
	case repeat:
		c.sum.Repeated++
		bytes := int(c.HopRecords[e.record].Bytes)
		c.send(s, e, min(mss, bytes-min(int(e.count)*mss, bytes-1)), "repeat")
	case lost:
		for range duplicates + 1 {
			c.reply(s, e)
		}
	case acked:
		c.reply(s, e)
	}
}

// send writes a packet with so many bytes.
func (c *capturer) send(s *stream, e *event, bytes int, what string) {
	b := s.there
	binary.BigEndian.PutUint16(b[ipAt+2:], uint16(tcpHeaders-ipAt+bytes))
	binary.BigEndian.PutUint32(b[tcpAt+4:], e.number)
	if b[tcpAt+flagsAt] = flagACK; e.marks&reduced != 0 {
		b[tcpAt+flagsAt] |= flagCWR
	}
	setECN(b, e.marks)
	c.emit(e, b, len(b)+bytes, what)
}

// reply writes an acknowledgement.
func (c *capturer) reply(s *stream, e *event) {
	b := s.back
	binary.BigEndian.PutUint32(b[tcpAt+8:], e.number)
	if b[tcpAt+flagsAt] = flagACK; e.marks&echo != 0 {
		b[tcpAt+flagsAt] |= flagECE
	}
	c.emit(e, b, len(b), "ack")
}
