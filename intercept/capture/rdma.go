// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"net"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/intercept/capture/roce"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// queues is a connection as RoCEv2 has it. Its packets are made once and then changed in place.
type queues struct {
	roce.Connection
	write, middle []byte // from the sender
	ack           []byte // from the receiver
	psn           uint32 // of the next packet
	msn           uint32 // of messages acknowledged
	src           int    // NIC
}

// Where the RoCEv2 headers begin: behind Ethernet, IPv4 and UDP.
const roceAt = 14 + 20 + 8

// Fields of RoCEv2's headers, counted from there.
const (
	psnAt    = 8
	lengthAt = 24 // of a write
	aethAt   = 12
)

// rdma writes one RDMA write for each message, as NCCL's InfiniBand transport makes it, and its
// acknowledgement as the sender gets it.
func (c *capturer) rdma() {
	all := make([]*queues, len(c.Flows))
	for f := range c.Flows {
		all[f] = c.newQueues(f)
	}
	c.setUps()
	for i := range c.Trace.Messages {
		passes := c.OfMessage(i)
		if c.FlowOf[i] < 0 || len(passes) == 0 {
			continue
		}
		c.sum.Messages++
		c.events = append(c.events, event{at: c.Passes[passes[0]].Start, kind: data, message: int32(i), pass: passes[0]})
		if sent := c.Times[i].Sent; sent != link.Never {
			c.events = append(c.events, event{at: sent, kind: acked, message: int32(i)})
		}
		c.losses(int32(i), passes)
	}
	c.sortEvents()
	psn := make([]uint32, len(c.Trace.Messages)) // of each message's last packet
	for _, e := range c.events {
		c.rdmaPacket(all[c.FlowOf[e.message]], e, psn)
	}
}

// losses adds what is sent again of a message. With selective repeat the model sends it right behind the
// segment, with go-back-N when the sender goes on.
func (c *capturer) losses(message int32, passes []int32) {
	at, count, pass := int64(-1), uint32(0), int32(0) // what is to be sent again
	add := func() {
		if count > 0 {
			c.events = append(c.events, event{at: at, kind: lost, message: message, pass: pass}, event{at: at, kind: repeat, count: count, message: message, pass: pass})
			count = 0
		}
	}
	for _, n := range passes {
		p := &c.Passes[n]
		if p.Hop != 0 {
			continue
		}
		if !c.transport.SelectiveRepeat && count > 0 {
			at = p.Start
		}
		add()
		at, count, pass = p.Start+p.Dur, p.Retransmitted, n
	}
	add()
}

// newQueues makes the queue pairs of a connection.
func (c *capturer) newQueues(flow int) *queues {
	f := c.Flows[flow]
	q := &queues{src: f.Src, Connection: roce.Connection{From: address(f.Src), To: address(f.Dst), FromQP: uint32(0x100 + 2*flow), ToQP: uint32(0x101 + 2*flow), Number: uint64(flow)}}
	port := uint16(0xc000 | flow&0x3fff)
	there := frame{from: f.Src, to: f.Dst, port: port}
	q.write = c.frame(there, &roce.Packet{Opcode: roce.WriteOnlyImmediate, DestQP: q.ToQP, AckReq: true, Key: uint32(0x1000 + flow)}, nil)
	q.middle = c.frame(there, &roce.Packet{Opcode: roce.WriteMiddle, DestQP: q.ToQP}, nil)
	back := frame{from: f.Dst, to: f.Src, port: port}
	q.ack = c.frame(back, &roce.Packet{Opcode: roce.Acknowledge, DestQP: q.FromQP, Syndrome: roce.ACK}, nil)
	return q
}

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
	ip := &layers.IPv4{Version: 4, TTL: 64, TOS: 2, Protocol: layers.IPProtocolUDP, Flags: layers.IPv4DontFragment, SrcIP: address(f.from).AsSlice(), DstIP: address(f.to).AsSlice()}
	return c.serialize(&layers.Ethernet{SrcMAC: mac(f.from), DstMAC: mac(f.to), EthernetType: layers.EthernetTypeIPv4}, ip,
		&udp{layers.UDP{SrcPort: layers.UDPPort(f.port), DstPort: roce.Port}}, p, gopacket.Payload(payload))
}

// udp is UDP without a checksum, as RoCEv2 has it.
type udp struct{ layers.UDP }

// SerializeTo is of gopacket.SerializableLayer.
func (u *udp) SerializeTo(b gopacket.SerializeBuffer, o gopacket.SerializeOptions) error {
	o.ComputeChecksums = false
	return u.UDP.SerializeTo(b, o)
}

// packetsOf is how many packets a number of bytes has, one at least.
func (c *capturer) packetsOf(nic int, bytes uint64) uint32 {
	payload := uint64(max(c.params[2*nic].Payload, 1))
	return uint32(max(1, (bytes+payload-1)/payload))
}

// rdmaPacket writes the packets of an event. A message's packet stands for all that its size needs: it
// has the number of the first, and the length that all had on the line.
func (c *capturer) rdmaPacket(q *queues, e event, psn []uint32) {
	m := &c.Trace.Messages[e.message]
	at := c.at(e.at)
	emit := func(b []byte, length int, direction uint32, what string) {
		c.sum.Packets++
		c.w.Packet(q.src, at, b, length, pcapng.PacketInfo{Direction: direction, Comment: c.describe(m, what)})
	}
	line := int(c.params[2*q.src].PerPacket) // bytes of each packet besides its payload
	switch e.kind {
	case setUp1, setUp2, setUp3:
		step := int(e.kind - setUp1)
		f := frame{from: q.src, to: c.Flows[e.pass].Dst, port: 0xc000}
		direction := uint32(pcapng.Outbound)
		if e.kind == setUp2 {
			f.from, f.to = f.to, f.from
			direction = pcapng.Inbound
		}
		p, mad := q.CM(step)
		b := c.frame(f, p, mad)
		emit(b, len(b), direction, "setup")
	case data:
		n := c.packetsOf(q.src, m.Size)
		roce.PutUint24(q.write[roceAt+psnAt+1:], q.psn)
		binary.BigEndian.PutUint32(q.write[roceAt+lengthAt:], uint32(m.Size))
		psn[e.message] = q.psn + n - 1
		q.psn += n
		emit(q.write, max(len(q.write), int(m.Size)+int(n)*line), pcapng.Outbound, "data")
	case lost:
		roce.PutUint24(q.ack[roceAt+psnAt+1:], psn[e.message])
		q.ack[roceAt+aethAt] = roce.NAK
		roce.PutUint24(q.ack[roceAt+aethAt+1:], q.msn)
		emit(q.ack, len(q.ack), pcapng.Inbound, "nak")
	case repeat:
		for range e.count {
			roce.PutUint24(q.middle[roceAt+psnAt+1:], psn[e.message])
			c.sum.Repeated++
			emit(q.middle, max(len(q.middle), int(min(uint64(c.params[2*q.src].Payload), m.Size))+line), pcapng.Outbound, "repeat")
		}
	case acked:
		q.msn++
		roce.PutUint24(q.ack[roceAt+psnAt+1:], psn[e.message])
		q.ack[roceAt+aethAt] = roce.ACK
		roce.PutUint24(q.ack[roceAt+aethAt+1:], q.msn)
		emit(q.ack, len(q.ack), pcapng.Inbound, "ack")
	}
}
