// SPDX-License-Identifier: Apache-2.0

package why

import (
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// timeline cuts time into parts, from one moment on.
type timeline struct {
	at    int64
	parts []Part
}

// to gives the time up to t to a part; none if t has passed.
func (l *timeline) to(t int64, p Part) {
	if t > l.at {
		p.Ns = t - l.at
		l.parts = append(l.parts, p)
		l.at = t
	}
}

// messageParts cuts the time of message i, from its post until its bytes were visible. The order of the
// parts is the order of time.
func (x *index) messageParts(i int) []Part {
	m := &x.Trace.Messages[i]
	l := &timeline{at: m.Posted}
	if !m.Received {
		x.stuckParts(l, i)
		return l.parts
	}
	visible := m.VisibleAt()
	modelled := x.Times[i].Due
	if modelled == link.Never || len(x.OfMessage(i)) == 0 {
		l.to(visible, Part{Cause: Unexplained})
		return l.parts
	}
	segments := x.segments(i)
	x.firstHop(l, i, segments)
	x.lastSegment(l, i, segments[len(segments)-1], modelled)
	if late := visible - max(m.Due, m.ReceivePosted); late > 0 {
		x.emulator(l, visible-late)
		l.to(visible, Part{Cause: Late, Rank: x.rankOf(m.Job, m.Receiver)})
	} else {
		x.emulator(l, visible)
	}
	return l.parts
}

// firstHop cuts the time from the post of message i until its last segment was sent over the first hop.
func (x *index) firstHop(l *timeline, i int, segments [][]*link.HopRecord) {
	x.beforeFirst(l, i, segments[0][0])
	for k, s := range segments {
		if k > 0 {
			before := segments[k-1][0]
			hop := x.HopOf(before)
			l.to(before.Start+before.Dur, Part{Cause: Serialize, Link: x.Fabric.HopName(hop)})
			x.wait(l, i, hop, s[0].Ready, x.notAllowed)
		}
		x.wait(l, i, x.HopOf(s[0]), s[0].Start, x.paused)
	}
}

// stuckParts cuts the time from the post of message i, which has not arrived, until the ledgers end.
func (x *index) stuckParts(l *timeline, i int) {
	m := &x.Trace.Messages[i]
	if x.FlowOf[i] < 0 {
		l.to(x.last, Part{Cause: Unexplained})
		return
	}
	receive := Part{Cause: Receive, Rank: x.rankOf(m.Job, m.Receiver)}
	hop, since := x.Fabric.Down(m.Src, m.Dst, x.Flows[x.FlowOf[i]].Path, x.stuckUntil(i))
	switch {
	case !m.HasReceive && (hop < 0 || x.transport.Kind == link.RDMA):
		l.to(x.last, receive)
		return
	case m.HasReceive && x.transport.Kind == link.RDMA:
		l.to(min(m.ReceivePosted, x.last), receive)
	}
	if segments := x.segments(i); len(segments) > 0 {
		x.firstHop(l, i, segments)
		sent := segments[len(segments)-1]
		l.to(sent[0].Start+sent[0].Dur, Part{Cause: Serialize, Link: x.Fabric.HopName(x.HopOf(sent[0]))})
		l.to(min(sent[len(sent)-1].Next, x.last), Part{Cause: Propagation})
	} else if hop >= 0 {
		x.wait(l, i, x.Path(i)[0].Hop, since, x.notAllowed)
	}
	l.cut(x.last)
	if hop >= 0 {
		l.to(x.last, Part{Cause: Down, Link: x.Fabric.HopName(hop)})
	}
	l.to(x.last, Part{Cause: Unexplained})
}

// emulator gives what the replayed times lack up to the recorded ones to its cause. If the model is later
// than what was recorded, the last parts are cut.
func (x *index) emulator(l *timeline, recorded int64) {
	l.cut(recorded)
	l.to(recorded, Part{Cause: Unexplained})
}

// segments are what the segments of message i did, each hop by hop.
func (x *index) segments(i int) [][]*link.HopRecord {
	var out [][]*link.HopRecord
	at := map[uint32]int{}
	for _, n := range x.OfMessage(i) {
		p := &x.HopRecords[n]
		if p.Hop == 0 {
			at[p.Segment] = len(out)
			out = append(out, nil)
		}
		out[at[p.Segment]] = append(out[at[p.Segment]], p)
	}
	return out
}

// beforeFirst cuts the time from the post until the first segment could be sent.
func (x *index) beforeFirst(l *timeline, i int, first *link.HopRecord) {
	m, transport := &x.Trace.Messages[i], x.transport
	if transport.Kind == link.RDMA {
		l.to(min(m.ReceivePosted, first.Ready), Part{Cause: Receive, Rank: x.rankOf(m.Job, m.Receiver)})
		l.to(min(m.ReceivePosted+x.reverseLatency(i), first.Ready), Part{Cause: Propagation})
	}
	x.wait(l, i, x.HopOf(first), first.Ready-transport.Overhead, x.notAllowed)
	l.to(first.Ready, Part{Cause: Host})
}

// lastSegment cuts the time from the last segment's start on the first hop until the message is due.
func (x *index) lastSegment(l *timeline, i int, s []*link.HopRecord, due int64) {
	m := &x.Trace.Messages[i]
	slowest := s[0]
	for k, p := range s {
		hop := x.HopOf(p)
		if k > 0 {
			if p.Ready > l.at { // a queue did not take it, and it was sent again
				l.to(p.Ready, Part{Cause: Recovery, Link: x.Fabric.HopName(hop)})
			}
			x.wait(l, i, hop, p.Start, x.paused)
		}
		l.to(p.Next, Part{Cause: Propagation})
		if p.Dur > slowest.Dur {
			slowest = p
		}
	}
	last := s[len(s)-1]
	l.to(last.Finish, Part{Cause: Serialize, Link: x.Fabric.HopName(x.HopOf(slowest))})
	l.to(min(last.Finish+x.transport.Overhead, due), Part{Cause: Host})
	if x.transport.Kind == link.TCP && m.ReceivePosted >= due {
		x.recovered(l, i, min(due, x.due(i)))
		l.to(due, Part{Cause: Receive, Rank: x.rankOf(m.Job, m.Receiver)})
		return
	}
	x.recovered(l, i, due)
}

// recovered gives the rest of the time before a message is due to the recovery of losses, or to the hosts.
func (x *index) recovered(l *timeline, i int, due int64) {
	cause := Part{Cause: Recovery, Link: x.lossy(i)}
	if cause.Link == "" {
		cause = Part{Cause: Host}
	}
	l.to(due, cause)
}

// due is when the last byte of message i was at the receiver, whether or not the receive was posted.
func (x *index) due(i int) int64 {
	last := x.OfMessage(i)
	return x.HopRecords[last[len(last)-1]].Finish + x.transport.Overhead
}

// lossy is the hop on the path of message i that loses most, "" if none does.
func (x *index) lossy(i int) string {
	worst, name := uint64(0), ""
	for _, step := range x.Path(i) {
		if p := x.params[step.Hop]; p.Loss.P > worst || p.Loss.BadP > worst {
			worst, name = max(p.Loss.P, p.Loss.BadP), x.Fabric.HopName(step.Hop)
		}
	}
	return name
}

// wait cuts the time up to t, in which a segment of message i waited at a hop. free gives the time in which the hop was
// free to its cause.
func (x *index) wait(l *timeline, i, hop int, t int64, free func(l *timeline, i, hop int, t int64)) {
	if t <= l.at {
		return
	}
	name := x.Fabric.HopName(hop)
	x.occupied(hop, l.at, t, func(p *link.HopRecord, from, to int64) {
		x.unoccupied(l, i, hop, from, free)
		other := x.MessageOf(p)
		if other == i {
			l.to(to, Part{Cause: Serialize, Link: name})
		} else {
			l.to(to, Part{Cause: Queue, Link: name, Behind: x.behind(i, other), Between: x.between(other)})
		}
	})
	x.unoccupied(l, i, hop, t, free)
}

// unoccupied cuts the time up to t, in which a segment of message i waited for a hop that was free.
func (x *index) unoccupied(l *timeline, i, hop int, t int64, free func(l *timeline, i, hop int, t int64)) {
	if t <= l.at {
		return
	}
	for _, step := range x.Path(i) {
		if x.isDown(step.Hop, l.at) || x.isDown(step.Hop, t-1) {
			l.to(t, Part{Cause: Down, Link: x.Fabric.HopName(step.Hop)})
			return
		}
	}
	free(l, i, hop, t)
}

// notAllowed gives the time up to t, in which a segment of message i could not be sent over its first hop yet, to its
// cause.
func (x *index) notAllowed(l *timeline, i, hop int, t int64) {
	switch {
	case x.transport.Kind == link.TCP:
		x.congestion(l, i, x.windowQueue(i, l.at, t), t, Part{Cause: Window})
	case x.transport.Gap > 0:
		l.to(t, Part{Cause: Host}) // LogGP's gap
	case x.lossy(i) != "":
		l.to(t, Part{Cause: Recovery, Link: x.lossy(i)}) // go-back-N: the sender waits until it knows of a loss
	default:
		x.paused(l, i, hop, t) // a queue for each flow
	}
}

// paused gives the time up to t, in which a queue behind a hop had no space for a segment of message i, to its cause.
func (x *index) paused(l *timeline, i, hop int, t int64) {
	x.congestion(l, i, x.bufferQueue(i, hop, l.at, t), t, Part{Cause: Paused, Link: x.Fabric.HopName(hop)})
}

// reverseLatency is how long an acknowledgement of message i takes.
func (x *index) reverseLatency(i int) (ns int64) {
	flow := x.Flows[x.FlowOf[i]]
	for _, hop := range x.Fabric.FlowReverse(flow.Src, flow.Dst, flow.Path) {
		ns += x.params[hop].Latency
	}
	return ns
}
