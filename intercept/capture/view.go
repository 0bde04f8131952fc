// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// elsewhere is the interface of hops that are not captured.
const elsewhere = -1

// view is where in the file the packets of a connection are seen.
type view struct {
	forward []int32 // the interface of each hop of the path, or elsewhere
	back    []passage
}

// passage is a hop on the way back.
type passage struct {
	iface int32
	left  int64 // ns from there to the sender
}

// crosses says whether a packet of the connection is seen on its way to the receiver.
func (v *view) crosses() bool {
	return slices.ContainsFunc(v.forward, func(iface int32) bool { return iface != elsewhere })
}

// findViews finds out where the packets of each connection are seen. A NIC sees the packets on its sending port, and
// the packets that reach it.
func (c *capturer) findViews() {
	ifaces := make([]int32, len(c.Fabric.Hops))
	for i := range ifaces {
		ifaces[i] = elsewhere
	}
	for i, hop := range c.Links {
		ifaces[hop] = int32(i)
	}
	for _, f := range c.Flows {
		path := c.Fabric.FlowPath(f.Src, f.Dst, f.Path)
		v := view{forward: make([]int32, len(path))}
		for i, step := range path {
			v.forward[i] = ifaces[step.Hop]
		}
		left := int64(0)
		for _, hop := range slices.Backward(c.Fabric.FlowReverse(f.Src, f.Dst, f.Path)) {
			if left += c.params[hop].Latency; ifaces[hop] != elsewhere {
				v.back = append(v.back, passage{ifaces[hop], left})
			}
		}
		if len(c.Links) == 0 {
			v.forward[0] = int32(f.Src)
			v.back = []passage{{iface: int32(f.Src)}}
		}
		c.views = append(c.views, v)
	}
}

// segment describes a segment of a message.
type segment struct {
	offset  uint64 // its place in the message, in bytes
	bytes   uint32
	number  uint32 // TCP: sequence number of its first byte. RoCEv2: of its first packet
	start   int64  // when the sender's port began to send it, in ns
	again   int64  // when packets of it are sent again
	arrives int64  // when its last byte is at the receiver
	marked  bool   // it carries an ECN mark there
	reduced bool   // tcp: the sender has reduced its window before it
}

// segmentsOf are the segments that records of one message are about, in their order. The result is valid until the next
// call.
func (c *capturer) segmentsOf(records []int32) []segment {
	c.segments = c.segments[:0]
	offset := uint64(0)
	for _, n := range records {
		p := &c.HopRecords[n]
		if p.Hop == 0 && int(p.Segment-c.HopRecords[records[0]].Segment) == len(c.segments) {
			c.segments = append(c.segments, segment{offset: offset})
		}
		s := c.segmentOf(records, p)
		s.arrives = max(s.arrives, p.Finish)
		s.marked = s.marked || p.Flags&link.CarriesMark != 0
		if p.Hop == 0 {
			s.start, s.bytes, s.reduced = p.Start, p.Bytes, p.Flags&link.WindowReduced != 0
			offset += uint64(p.Bytes)
		}
	}
	return c.segments
}

// segmentOf is the segment of a record of the message that segmentsOf was last called with. A message's segments have
// numbers without gaps.
func (c *capturer) segmentOf(records []int32, p *link.HopRecord) *segment {
	return &c.segments[p.Segment-c.HopRecords[records[0]].Segment]
}

// isDiscarded says that a record is of one packet that the receiver discards: go-back-N sends it again with the segment
// of the same number.
func isDiscarded(p *link.HopRecord) bool { return p.Bytes == 0 && p.Last == 0 }
