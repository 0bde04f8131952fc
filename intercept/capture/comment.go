// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"strconv"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

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

// describe makes the comment of a packet. what names it: data, ack, nak, repeat, lost or setup.
func (c *capturer) describe(e *event, what string) []byte {
	m := &c.Trace.Messages[e.message]
	call := c.Trace.CallOf(m)
	if call < 0 {
		call = len(c.Trace.Calls)
	}
	b := append(c.comment[:0], c.callTexts[call]...)
	b = append(b, " kind="...)
	b = append(b, what...)
	if m.Channel >= 0 {
		b = number(b, " channel=", int64(m.Channel))
		b = number(b, " step=", int64(m.Step))
	}
	b = number(b, " from=", int64(m.Sender))
	b = number(b, " to=", int64(m.Receiver))
	b = number(b, " message=", int64(m.Number))
	b = number(b, " bytes=", int64(m.Size))
	if len(c.Trace.Jobs) > 1 {
		b = number(b, " job=", int64(m.Job))
	}
	if e.kind == data {
		b = c.describePass(b, e)
	}
	c.comment = b
	return b
}

func number(b []byte, key string, v int64) []byte { return strconv.AppendInt(append(b, key...), v, 10) }

// describePass adds how long a segment waited for a link, and how many ECN marks its packets got. These are with the
// first packet of the segment.
func (c *capturer) describePass(b []byte, e *event) []byte {
	p := &c.HopRecords[e.record]
	n := uint64(p.Marked)
	if len(c.Links) > 0 {
		b = number(b, " hop=", int64(p.Hop))
		b = number(b, " wait=", max(0, p.Start-p.Ready)/c.scale)
	} else {
		n = c.marksOnPath(e.message, p)
	}
	if n > 0 && e.count == 0 {
		c.sum.Marks += n
		b = number(b, " marked=", int64(n))
	}
	return b
}

// marksOnPath is how many ECN marks all hops gave: with tcp to the segment of a record, with rdma to its whole message.
func (c *capturer) marksOnPath(message int32, p *link.HopRecord) (n uint64) {
	if !c.marked {
		return 0
	}
	for _, k := range c.OfMessage(int(message)) {
		if x := &c.HopRecords[k]; c.transport.Kind == link.RDMA || x.Segment == p.Segment {
			n += uint64(x.Marked)
		}
	}
	return n
}
