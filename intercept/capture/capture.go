// SPDX-License-Identifier: Apache-2.0

// Package capture writes what a job has sent as packets, as a capture at the NIC of each sender would have
// them: RoCEv2 for transport rdma, TCP for transport tcp. The packets carry no data of the job.
package capture

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/gopacket"

	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// Summary counts what was written.
type Summary struct {
	Messages, Packets int
	Repeated          int // packets that were sent again
	Skipped           int // messages whose packets are not known
}

// what happens, in the order in which a sender does it at one time.
type kind uint8

const (
	setUp1 kind = iota // the three messages that set up a connection
	setUp2
	setUp3
	data   // the begin of a message, or of a segment
	lost   // the sender learns of a loss
	repeat // a packet is sent again
	acked  // an acknowledgement is there
)

// event is a packet, or several at one time.
type event struct {
	at      int64 // ns of the fabric's clock
	kind    kind
	count   uint32 // packets of the same kind
	message int32
	pass    int32 // place in Passes, or the connection while it is set up
}

// capturer writes the packets of a job.
type capturer struct {
	*replay.Replayed
	w         *pcapng.Writer
	scale     int64
	offset    int64 // of the times in the file, after scaling
	events    []event
	transport link.Transport
	params    []link.Params
	sum       Summary
	err       error  // the first one
	comment   []byte // used again for each packet
	// The same for all messages of a call and a connection.
	callTexts []string
}

var errNothing = errors.New("no message whose packets are known")

// Write writes the packets in the order of their times. offset is added to the times of the emulated
// network, in ns.
func Write(w *pcapng.Writer, p *replay.Replayed, offset int64) (Summary, error) {
	params, err := p.Fabric.Params(p.Fabric.TimeScale)
	if err != nil {
		return Summary{}, fmt.Errorf("prepare the fabric: %w", err)
	}
	c := &capturer{Replayed: p, w: w, scale: int64(p.Fabric.TimeScale), offset: offset, params: params}
	c.transport = p.Fabric.Transport().Scaled(c.scale)
	c.describeCalls()
	c.addInterfaces()
	write := c.rdma
	if c.transport.Kind == link.TCP {
		write = c.tcp
	}
	write()
	c.sum.Skipped = len(p.Trace.Messages) - c.sum.Messages
	if c.err != nil {
		return c.sum, c.err
	}
	if c.sum.Messages == 0 {
		return c.sum, errNothing
	}
	return c.sum, nil
}

// addInterfaces adds one interface for each NIC, with the NIC's number, and the names of the addresses.
func (c *capturer) addInterfaces() {
	names := map[netip.Addr]string{}
	for n := range c.Fabric.NICs() {
		name := c.Fabric.NICName(n)
		c.w.Interface(name, "NIC of an emulated node, at its sending port", c.Fabric.Hops[2*n].Spec.Bandwidth, 0)
		names[address(n)] = strings.ReplaceAll(name, " ", "-")
	}
	c.w.Names(names)
}

// address is the address of a NIC in the capture.
func address(nic int) netip.Addr {
	const perByte = 250
	return netip.AddrFrom4([4]byte{10, byte(nic / perByte / perByte), byte(nic / perByte % perByte), byte(1 + nic%perByte)})
}

// at is a time in the file.
func (c *capturer) at(ns int64) int64 { return ns/c.scale + c.offset }

// sortEvents puts the events in order.
func (c *capturer) sortEvents() {
	slices.SortFunc(c.events, func(a, b event) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.message, b.message), cmp.Compare(a.pass, b.pass))
	})
}

// setUps adds the set-up of each connection: just before its first message, whenever it really was.
func (c *capturer) setUps() {
	for f, all := range c.Messages {
		if len(all) == 0 {
			continue
		}
		first := c.Trace.Messages[all[0]].Posted
		for k := range kind(3) {
			c.events = append(c.events, event{at: max(0, first-int64(3-k)*c.scale), kind: setUp1 + k, message: int32(all[0]), pass: int32(f)})
		}
	}
}

// reverseLatency is how long an acknowledgement takes.
func (c *capturer) reverseLatency(flow int) (ns int64) {
	for _, hop := range c.Fabric.Reverse(c.Flows[flow].Src, c.Flows[flow].Dst) {
		ns += c.params[hop].Latency
	}
	return ns
}

// serialize makes a packet of layers.
func (c *capturer) serialize(all ...gopacket.SerializableLayer) []byte {
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
		c.fail(err)
	}
	return b.Bytes()
}

// fail keeps the first error.
func (c *capturer) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("make a packet: %w", err)
	}
}

// describeCalls makes the texts that comments begin with.
func (c *capturer) describeCalls() {
	c.callTexts = make([]string, len(c.Trace.Calls)+1)
	for i := range c.Trace.Calls {
		call := &c.Trace.Calls[i]
		x := &c.Trace.Tasks[call.Tasks[0]]
		text := fmt.Sprintf("ddlemu coll=%s seq=%d comm=%#x", call.Name, call.Seq, call.Comm)
		if x.Algo != "" {
			text += " algo=" + x.Algo
		}
		if x.Proto != "" {
			text += " proto=" + x.Proto
		}
		c.callTexts[i] = text
	}
	c.callTexts[len(c.Trace.Calls)] = "ddlemu"
}

// describe makes the comment of a packet about a message. what is data, ack, nak, repeat or setup.
func (c *capturer) describe(m *messages.Message, what string) []byte {
	call := c.Trace.CallOf(m)
	if call < 0 {
		call = len(c.Trace.Calls)
	}
	b := append(c.comment[:0], c.callTexts[call]...)
	number := func(key string, v int64) {
		b = append(b, ' ')
		b = append(b, key...)
		b = append(b, '=')
		b = strconv.AppendInt(b, v, 10)
	}
	b = append(b, " kind="...)
	b = append(b, what...)
	if m.Channel >= 0 {
		number("channel", int64(m.Channel))
		number("step", int64(m.Step))
	}
	number("from", int64(m.Sender))
	number("to", int64(m.Receiver))
	number("message", int64(m.Number))
	number("bytes", int64(m.Size))
	if len(c.Trace.Jobs) > 1 {
		number("job", int64(m.Job))
	}
	c.comment = b
	return b
}
