// SPDX-License-Identifier: Apache-2.0

// Package capture writes what a job has sent as packets: RoCEv2 for transport rdma, TCP for transport tcp. The packets
// are those that a capture at the NIC of each sender would have, or a capture at links of the fabric. They carry no
// data of the job.
package capture

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/google/gopacket"

	"github.com/ddlemu/ddlemu/intercept/capture/pcapng"
	"github.com/ddlemu/ddlemu/intercept/capture/roce"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Options say which packets are written.
type Options struct {
	Offset int64 // is added to the times of the emulated network, in ns
	Links  []int // hops of the fabric at which packets are captured; none: at the NIC of each sender
}

// Summary counts what was written.
type Summary struct {
	Messages, Packets int
	Repeated          int // packets that were sent again
	// ECN marks that the packets got: at the links, or on their whole path for a capture at NICs
	Marks   uint64
	Skipped int // messages whose packets are not known
}

// kind is what happens, in the order in which a sender does it at one time.
type kind uint8

const (
	setUp1 kind = iota // the three messages that set up a connection
	setUp2
	setUp3
	data      // the begin of a message, or of a segment
	discarded // go-back-N: a packet that is lost, or that the receiver discards
	lost      // the sender learns of a loss
	repeat    // a packet is sent again
	acked     // an acknowledgement is there
)

// marks are the ECN bits of a packet.
type marks uint8

const (
	congestion marks = 1 << iota // CE in the IP header
	echo                         // ECE in the TCP header
	reduced                      // CWR in the TCP header
)

// event is a packet, or several at one time.
type event struct {
	at      int64 // ns of the fabric's clock
	message int32
	record  int32 // place in HopRecords, or the connection while it is set up
	iface   int32 // number in the file
	// TCP: sequence number of the first byte, or the acknowledged one. RoCEv2: the number of the first packet (PSN)
	number uint32
	count  uint32 // repeat and discarded: how many packets; lost and repeat of tcp: of which packet of the segment
	kind   kind
	marks  marks
	opcode roce.Opcode // of RoCEv2
}

// capturer writes the packets of a job.
type capturer struct {
	*replay.Replayed
	Options
	w         *pcapng.Writer
	scale     int64
	events    []event
	transport link.Transport
	params    []link.Params
	views     []view // of each connection
	segments  []segment
	marked    bool // some hop has marked packets
	played    int  // messages whose packets are known
	sum       Summary
	err       error  // the first one
	comment   []byte // used again for each packet
	// The same for all messages of a call and a connection.
	callTexts []string
}

var (
	errNothing = errors.New("no message whose packets are known")
	errNotHere = errors.New(
		"no message of the job crosses these links: name others, or leave out the links for a capture at the NICs")
)

// Write writes the packets in the order of their times.
func Write(w *pcapng.Writer, p *replay.Replayed, o Options) (Summary, error) {
	params, err := p.Fabric.Params(p.Fabric.TimeScale)
	if err != nil {
		return Summary{}, fmt.Errorf("prepare the fabric: %w", err)
	}
	c := &capturer{Replayed: p, Options: o, w: w, scale: int64(p.Fabric.TimeScale), params: params}
	c.transport = p.Fabric.Transport().Scaled(c.scale)
	c.marked = slices.ContainsFunc(p.HopRecords, func(p link.HopRecord) bool { return p.Marked > 0 })
	c.describeCalls()
	c.addInterfaces()
	c.events = make([]event, 0, c.expectedEvents())
	c.setUps()
	write := c.rdma
	if c.transport.Kind == link.TCP {
		write = c.tcp
	}
	write()
	c.sum.Skipped = len(p.Trace.Messages) - c.played
	switch {
	case c.err != nil:
		return c.sum, c.err
	case c.played == 0:
		return c.sum, errNothing
	case c.sum.Messages == 0:
		return c.sum, errNotHere
	}
	return c.sum, nil
}

// addInterfaces adds one interface for each link, or for each NIC with the NIC's number, and the names of the
// addresses.
func (c *capturer) addInterfaces() {
	names := map[netip.Addr]string{}
	for n := range c.Fabric.NICs() {
		name := c.Fabric.NICName(n)
		names[address(n)] = strings.ReplaceAll(name, " ", "-")
		if len(c.Links) == 0 {
			c.w.Interface(name, "NIC of an emulated node, at its sending port", c.Fabric.Hops[2*n].Spec.Bandwidth, 0)
		}
	}
	for _, hop := range c.Links {
		c.w.Interface(c.Fabric.HopName(hop), "a link of the emulated fabric: packets when it begins to send them",
			c.Fabric.Hops[hop].Spec.Bandwidth, 0)
	}
	c.w.Names(names)
	c.findViews()
}

// address is the address of a NIC in the capture.
func address(nic int) netip.Addr {
	const perByte = 250
	return netip.AddrFrom4([4]byte{10, byte(nic / perByte / perByte), byte(nic / perByte % perByte),
		byte(1 + nic%perByte)})
}

// at is a time in the file.
func (c *capturer) at(ns int64) int64 { return ns/c.scale + c.Offset }

// add adds an event, if its interface is in the file. It reports whether it is.
func (c *capturer) add(e event) bool {
	if e.iface == elsewhere {
		return false
	}
	c.events = append(c.events, e)
	return true
}

// addBack adds what the receiver sends back on a connection. e.at is when the sender gets it.
func (c *capturer) addBack(flow int, e event) {
	at := e.at
	for _, b := range c.views[flow].back {
		e.at, e.iface = at-b.left, b.iface
		c.events = append(c.events, e)
	}
}

// compare is below 0 if a is before b. At one time, a packet of tcp that is sent again is behind what tells of its
// loss.
func compare(a, b event) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	turn := func(k kind) kind {
		if k == repeat {
			return lost
		}
		return k
	}
	return cmp.Or(cmp.Compare(turn(a.kind), turn(b.kind)), cmp.Compare(a.message, b.message),
		cmp.Compare(a.record, b.record),
		cmp.Compare(a.count, b.count), cmp.Compare(a.kind, b.kind), cmp.Compare(a.iface, b.iface))
}

// inOrder yields the events in order. It sorts them in two halves at the same time, because that takes a second for
// millions of events.
func (c *capturer) inOrder(yield func(*event) bool) {
	a, b := c.events[:len(c.events)/2], c.events[len(c.events)/2:]
	var first sync.WaitGroup
	first.Go(func() { slices.SortFunc(a, compare) })
	slices.SortFunc(b, compare)
	first.Wait()
	for len(a)+len(b) > 0 {
		from := &b
		if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
			from = &a
		}
		if !yield(&(*from)[0]) {
			return
		}
		*from = (*from)[1:]
	}
}

// setUps adds the set-up of each connection: just before its first message, whenever it really was.
func (c *capturer) setUps() {
	for f, all := range c.Messages {
		if len(all) == 0 {
			continue
		}
		first := c.Trace.Messages[all[0]].Posted
		for k := range kind(3) {
			e := event{at: max(0, first-int64(3-k)*c.scale), kind: setUp1 + k, message: int32(all[0]), record: int32(f)}
			if e.kind == setUp2 {
				for _, b := range c.views[f].back {
					e.iface = b.iface
					c.add(e)
				}
				continue
			}
			for _, e.iface = range c.views[f].forward {
				c.add(e)
			}
		}
	}
}

// expectedEvents is about how many events there will be: the records that are seen, and as many acknowledgements.
func (c *capturer) expectedEvents() int {
	n := 0
	for _, hop := range c.Links {
		n += len(c.OnHop(hop))
	}
	switch {
	case len(c.Links) > 0:
		return n + len(c.Trace.Messages)
	case c.transport.Kind == link.RDMA:
		return 2*len(c.Trace.Messages) + 3*len(c.Flows)
	}
	for nic := range c.Fabric.NICs() {
		n += len(c.OnHop(2 * nic))
	}
	return 2*n + 3*len(c.Flows)
}

// reverseLatency is how long an acknowledgement takes.
func (c *capturer) reverseLatency(flow int) (ns int64) {
	f := &c.Flows[flow]
	for _, hop := range c.Fabric.FlowReverse(f.Src, f.Dst, f.Path) {
		ns += c.params[hop].Latency
	}
	return ns
}

// emit writes a packet of an event. b is its begin; it had length bytes.
func (c *capturer) emit(e *event, b []byte, length int, what string) {
	c.sum.Packets++
	direction := uint32(pcapng.Outbound)
	if len(c.Links) == 0 && (e.kind == setUp2 || e.kind == lost || e.kind == acked) {
		direction = pcapng.Inbound
	}
	c.w.Packet(int(e.iface), c.at(e.at), b, length,
		pcapng.PacketInfo{Direction: direction, Comment: c.describe(e, what)})
}

// serialize makes a packet of layers.
func (c *capturer) serialize(all ...gopacket.SerializableLayer) []byte {
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		all...); err != nil {
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
