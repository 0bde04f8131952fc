// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"github.com/ddlemu/ddlemu/intercept/capture/roce"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// linkEvents adds what the segments of a message do at links. Its first packet has the number first. The result is the
// number of the packet behind it, and whether a link has seen the message.
func (c *capturer) linkEvents(flow int, message int32, first uint32) (next uint32, seen bool) {
	records, size := c.OfMessage(int(message)), c.Trace.Messages[message].Size
	segments := c.segmentsOf(records)
	next = first
	for i := range segments {
		segments[i].number = next
		next += c.packetsOf(flow, uint64(segments[i].bytes))
	}
	for k, n := range records {
		p := &c.HopRecords[n]
		s := c.segmentOf(records, p)
		e := event{at: p.Start, kind: data, message: message, record: n, iface: c.views[flow].forward[p.Hop],
			number: s.number, opcode: opcodeOf(size, s.offset, uint64(p.Bytes))}
		if p.Flags&link.CarriesMark != 0 {
			e.marks = congestion
		}
		if !isDiscarded(p) && c.add(e) {
			seen = true
		}
		if p.Retransmitted == 0 {
			continue
		}
		c.addLost(flow, e, s)
		if p.Hop == 0 {
			c.addNAK(flow, records[k+1:], e, s)
		}
	}
	return next, seen
}

// addLost adds the packets that occupy a hop behind a segment, because of losses: with selective repeat the last one of
// the segment again, with go-back-N the packet behind the segment, which is lost and begins the next segment.
func (c *capturer) addLost(flow int, e event, s *segment) {
	p, size, payload := &c.HopRecords[e.record], c.Trace.Messages[e.message].Size, c.payload(flow)
	packets := uint32(0)
	if !isDiscarded(p) {
		packets = c.packetsOf(flow, uint64(p.Bytes))
	}
	e.at += p.Dur * int64(packets) / int64(packets+p.Retransmitted)
	e.kind, e.count = discarded, p.Retransmitted
	offset := s.offset + uint64(packets)*payload
	if e.number += packets; c.transport.SelectiveRepeat {
		e.kind, offset = repeat, offset-payload
		e.number--
	}
	e.opcode = opcodeOf(size, offset, payload)
	c.add(e)
}

// addNAK adds the NAK of a segment's losses. With go-back-N the sender has it when it goes on, in the next of the
// records that are left, with selective repeat when the receiver has the segment.
func (c *capturer) addNAK(flow int, left []int32, e event, s *segment) {
	p := &c.HopRecords[e.record]
	e.kind = lost
	if !isDiscarded(p) {
		e.number += c.packetsOf(flow, uint64(p.Bytes))
	}
	if c.transport.SelectiveRepeat {
		e.number--
		e.at = s.arrives + c.transport.Overhead + c.reverseLatency(flow)
		c.addBack(flow, e)
		return
	}
	for _, n := range left {
		if next := &c.HopRecords[n]; next.Hop == 0 {
			e.at = next.Start
			c.addBack(flow, e)
			return
		}
	}
}

// opcodeOf is the opcode of the packets for a part of a message of so many bytes.
func opcodeOf(size, offset, bytes uint64) roce.Opcode {
	switch first, last := offset == 0, offset+bytes >= size; {
	case first && last:
		return roce.WriteOnlyImmediate
	case first:
		return roce.WriteFirst
	case last:
		return roce.WriteLastImmediate
	}
	return roce.WriteMiddle
}
