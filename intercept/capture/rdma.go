// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"

	"github.com/ddlemu/ddlemu/intercept/capture/roce"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// queues is a connection as RoCEv2 has it. Its packets are made once and then changed in place.
type queues struct {
	roce.Connection
	writes map[roce.Opcode][]byte // from the sender
	ack    []byte                 // from the receiver
	src    int                    // NIC
}

// Where the RoCEv2 headers begin: behind Ethernet, IPv4 and UDP.
const roceAt = tcpAt + 8

// Fields of RoCEv2's headers, counted from there.
const (
	psnAt    = 8
	lengthAt = 24 // of a write
	aethAt   = 12
)

// rdma writes RDMA writes, as NCCL's InfiniBand transport makes them, and their acknowledgements. At a NIC one packet
// stands for all of a message, at a link one for each segment.
func (c *capturer) rdma() {
	all := make([]*queues, len(c.Flows))
	for f, sent := range c.Messages {
		all[f] = c.newQueues(f)
		c.rdmaEvents(f, sent)
	}
	for e := range c.inOrder {
		c.rdmaPacket(all[c.FlowOf[e.message]], e)
	}
}

// rdmaEvents adds what happens on one connection.
func (c *capturer) rdmaEvents(flow int, sent []int) {
	next := uint32(0) // PSN
	for _, i := range sent {
		records := c.OfMessage(i)
		if len(records) == 0 {
			continue
		}
		c.played++
		seen := false
		if len(c.Links) > 0 {
			next, seen = c.linkEvents(flow, int32(i), next)
		} else {
			next, seen = c.nicEvents(flow, int32(i), next)
		}
		if seen {
			c.sum.Messages++
		}
		if at := c.Times[i].Sent; at != link.Never {
			c.addBack(flow, event{at: at, kind: acked, message: int32(i), number: next - 1})
		}
	}
}

// nicEvents adds what happens to a message at its sender's NIC. Its first packet has the number first. The result is
// the number of the packet behind it, and true.
func (c *capturer) nicEvents(flow int, message int32, first uint32) (next uint32, seen bool) {
	records, iface := c.OfMessage(int(message)), c.views[flow].forward[0]
	next = first + c.packetsOf(flow, c.Trace.Messages[message].Size)
	c.add(event{at: c.HopRecords[records[0]].Start, kind: data, message: message, record: records[0], iface: iface,
		number: first, opcode: roce.WriteOnlyImmediate})
	c.losses(flow, message, next-1)
	return next, true
}

// losses adds the packets of a message that are sent again at a NIC: its last packet, with this number. With selective
// repeat the model sends it right behind the segment, with go-back-N when the sender goes on.
func (c *capturer) losses(flow int, message int32, number uint32) {
	at, count, record := int64(-1), uint32(0), int32(0) // what is to be sent again
	add := func() {
		if count > 0 {
			e := event{at: at, kind: lost, message: message, record: record, number: number}
			c.addBack(flow, e)
			e.kind, e.count, e.iface, e.opcode = repeat, count, c.views[flow].forward[0], roce.WriteMiddle
			c.add(e)
			count = 0
		}
	}
	for _, n := range c.OfMessage(int(message)) {
		p := &c.HopRecords[n]
		if p.Hop != 0 {
			continue
		}
		if !c.transport.SelectiveRepeat && count > 0 {
			at = p.Start
		}
		add()
		at, count, record = p.Start+p.Dur, p.Retransmitted, n
	}
	add()
}

// newQueues makes the queue pairs of a connection.
func (c *capturer) newQueues(flow int) *queues {
	f := c.Flows[flow]
	q := &queues{src: f.Src, writes: map[roce.Opcode][]byte{},
		Connection: roce.Connection{From: address(f.Src), To: address(f.Dst), FromQP: uint32(0x100 + 2*flow),
			ToQP: uint32(0x101 + 2*flow), Number: uint64(flow)}}
	port := uint16(0xc000 | flow&0x3fff)
	there := frame{from: f.Src, to: f.Dst, port: port}
	for _, op := range []roce.Opcode{roce.WriteFirst, roce.WriteMiddle, roce.WriteLastImmediate,
		roce.WriteOnlyImmediate} {
		ends := op == roce.WriteLastImmediate || op == roce.WriteOnlyImmediate
		q.writes[op] = c.frame(there,
			&roce.Packet{Opcode: op, DestQP: q.ToQP, AckReq: ends, Key: uint32(0x1000 + flow)}, nil)
	}
	back := frame{from: f.Dst, to: f.Src, port: port}
	q.ack = c.frame(back, &roce.Packet{Opcode: roce.Acknowledge, DestQP: q.FromQP, Syndrome: roce.ACK}, nil)
	return q
}

// payload is what a full packet of a connection carries, in bytes.
func (c *capturer) payload(flow int) uint64 {
	return uint64(max(c.params[2*c.Flows[flow].Src].Payload, 1))
}

// packetsOf is how many packets a number of bytes has on a connection, one at least.
func (c *capturer) packetsOf(flow int, bytes uint64) uint32 {
	return uint32(max(1, (bytes+c.payload(flow)-1)/c.payload(flow)))
}

// rdmaPacket writes the packets of an event. A packet of data stands for all that its bytes need: it has the number of
// the first, and the length that all have on the line.
func (c *capturer) rdmaPacket(q *queues, e *event) {
	m := &c.Trace.Messages[e.message]
	switch e.kind {
	case setUp1, setUp2, setUp3:
		f := frame{from: q.src, to: c.Flows[e.record].Dst, port: 0xc000}
		if e.kind == setUp2 {
			f.from, f.to = f.to, f.from
		}
		p, mad := q.CM(int(e.kind - setUp1))
		b := c.frame(f, p, mad)
		c.emit(e, b, len(b), "setup")
	case data:
		bytes := m.Size
		if len(c.Links) > 0 {
			bytes = uint64(c.HopRecords[e.record].Bytes)
		}
		c.write(q, e, bytes, "data")
	case repeat, discarded:
		what := "repeat"
		if e.kind == discarded {
			what = "lost"
		}
		for range e.count {
			c.sum.Repeated++
			c.write(q, e, min(c.payload(c.FlowOf[e.message]), m.Size), what)
		}
	case lost:
		c.answer(q, e, roce.NAK, uint32(c.At[e.message]), "nak")
	case acked:
		c.answer(q, e, roce.ACK, uint32(c.At[e.message])+1, "ack")
	}
}

// write writes a packet of an RDMA write, which stands for so many bytes.
func (c *capturer) write(q *queues, e *event, bytes uint64, what string) {
	b := q.writes[e.opcode]
	roce.PutUint24(b[roceAt+psnAt+1:], e.number)
	if e.opcode == roce.WriteOnlyImmediate || e.opcode == roce.WriteFirst {
		binary.BigEndian.PutUint32(b[roceAt+lengthAt:], uint32(c.Trace.Messages[e.message].Size))
	}
	setECN(b, e.marks)
	line := int(bytes) + int(c.packetsOf(c.FlowOf[e.message], bytes))*int(c.params[2*q.src].PerPacket)
	c.emit(e, b, max(len(b), line), what)
}

// answer writes an acknowledgement of what was sent up to a packet, or a NAK of it. msn is how many messages the
// receiver has.
func (c *capturer) answer(q *queues, e *event, syndrome byte, msn uint32, what string) {
	roce.PutUint24(q.ack[roceAt+psnAt+1:], e.number)
	q.ack[roceAt+aethAt] = syndrome
	roce.PutUint24(q.ack[roceAt+aethAt+1:], msn)
	c.emit(e, q.ack, len(q.ack), what)
}
