// SPDX-License-Identifier: Apache-2.0

package events

import (
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// linkParts are the parts of a message on the hops of a path.
type linkParts struct{ serialize, queue, latency player.Part }

// partsOf are the parts of a connection.
func partsOf(c *conn) linkParts {
	switch {
	case !c.direct:
		return linkParts{player.Serialize, player.Queue, player.Latency}
	case c.multicast != plan.Unicast:
		return linkParts{player.NVLSSerialize, player.NVLSQueue, player.NVLSLatency}
	}
	return linkParts{player.LocalSerialize, player.LocalQueue, player.LocalLatency}
}

// arrives is the moment at which message n of connection i arrives: its last byte is there, the receiving host has
// handled it, and its receive is posted.
func (x *causes) arrives(i int, n uint64) *moment {
	c, k := &x.s.conns[i], &x.conns[i]
	m := c.Flow.Message(n)
	there := x.onWire(i, n, &m)
	if there = there.by(m.Due, player.Proxy); m.Recv > there.at {
		return k.received.of(n)
	}
	return x.seen(there, partsOf(c).latency)
}

// acknowledged is the moment at which message n of connection i is complete for the sender.
func (x *causes) acknowledged(i int, n uint64) *moment {
	c, k := &x.s.conns[i], &x.conns[i]
	m := c.Flow.Message(n)
	if x.isRDMA() {
		return x.seen(x.latency(x.onWire(i, n, &m), m.Sent-c.back, m.Sent), player.Latency)
	}
	return x.seen(k.posted.of(n).by(m.Ready, player.Proxy).by(m.Sent, player.Window), player.Latency)
}

// seen is m as an end sees it. If a message takes no time, that is 1 ns later: the steps of an instant come before what
// is posted at it.
func (x *causes) seen(m *moment, p player.Part) *moment { return m.by(min(m.at+1, x.s.now), p) }

func (x *causes) isRDMA() bool { return x.s.transport.Kind == link.RDMA }

// latency is m after the latency of a path between nodes from one time to another, of which the NIC's comes first.
func (x *causes) latency(m *moment, from, to int64) *moment {
	return m.by(min(from+x.nics, to), player.NIC).by(to, player.Latency)
}

// onWire is the moment at which the last byte of message n of connection i is at the receiver.
func (x *causes) onWire(i int, n uint64, m *link.Message) *moment {
	c, k := &x.s.conns[i], &x.conns[i]
	if known := k.wire.of(n); known != nil {
		return known
	}
	w := &onWire{moment: *x.sendable(i, n, m), causes: x, c: c, linkParts: partsOf(c), overhead: x.s.transport.Overhead}
	if c.direct {
		w.overhead = 0
	}
	segments := segmentsOf(k.records[n])
	w.firstHop(k, segments)
	w.lastSegment(segments)
	if c.direct && m.Due > w.at { // the kernel still wrote it
		w.moment = *k.written.of(n).by(m.Due, w.linkParts.latency)
	}
	w.to(x.recovered(i, m, w.at), player.Losses)
	delete(k.records, n)
	k.wire.set(n, &w.moment)
	return &w.moment
}

// recovered is when the last byte of a message that arrives at a time is at the receiver, with all before it.
func (x *causes) recovered(i int, m *link.Message, arrives int64) int64 {
	c, host := &x.s.conns[i], x.s.transport.Host.Time(m.Size)
	switch {
	case c.direct || host == 0:
		return m.Due
	case x.isRDMA():
		return m.Sent - c.back
	case x.conns[i].loses || x.s.transport.Congestion != link.NoCongestion:
		return m.Due - host // a wait for the host's thread counts as a loss: the engine does not tell the two apart
	}
	return arrives
}

// sendable is the moment at which message n of connection i may be sent: the sending host has handled it and, with
// rdma, the receiver has posted its receive.
func (x *causes) sendable(i int, n uint64, m *link.Message) *moment {
	c, k := &x.s.conns[i], &x.conns[i]
	if clear := m.Recv + c.back; (c.direct || x.isRDMA()) && clear > m.Ready {
		if c.direct {
			return k.received.of(n).by(clear, partsOf(c).latency)
		}
		return x.latency(k.received.of(n), m.Recv, clear)
	}
	return k.posted.of(n).by(m.Ready, player.Proxy)
}

// segmentsOf are the records of a message by segment, each hop by hop. A packet that the receiver discarded is none.
func segmentsOf(records []link.HopRecord) (out [][]*link.HopRecord) {
	at := map[uint32]int{}
	for i := range records {
		p := &records[i]
		if p.Bytes == 0 && p.Last == 0 {
			continue
		}
		if p.Hop == 0 {
			at[p.Segment] = len(out)
			out = append(out, nil)
		}
		out[at[p.Segment]] = append(out[at[p.Segment]], p)
	}
	return out
}

// onWire is a message on its path, up to a time.
type onWire struct {
	moment
	*causes
	linkParts
	c        *conn
	overhead int64
}

// firstHop goes on until the last segment begins to occupy the first hop.
func (w *onWire) firstHop(k *connCauses, segments [][]*link.HopRecord) {
	w.to(w.at+w.overhead, player.Proxy)
	slow := slowest(segments[0])
	for j, s := range segments {
		if j > 0 {
			w.to(k.left, w.serialize)
		}
		w.to(min(k.left, s[0].Ready), w.queue) // of earlier messages of the connection
		if p := w.stopped(k); p != w.queue {
			w.to(s[0].Ready, p)
		}
		w.wait(segments[:j], slow, s[0].Start)
		k.left = s[0].Start + s[0].Dur
	}
}

// stopped is the part of a wait for something else than a hop.
func (w *onWire) stopped(k *connCauses) player.Part {
	switch {
	case w.c.direct:
		return w.queue
	case !w.isRDMA():
		return player.Window
	case k.loses: // go-back-N: the sender waits until it knows of a loss
		return player.Losses
	}
	return w.queue // a full queue
}

// lastSegment goes on until the last byte of the last segment is at the receiver.
func (w *onWire) lastSegment(segments [][]*link.HopRecord) {
	last := segments[len(segments)-1]
	for i, p := range last {
		if i > 0 {
			if p.Ready > w.at { // a queue did not take it, and it was sent again
				w.to(p.Ready, player.Losses)
			}
			w.wait(segments[:len(segments)-1], i, p.Start)
		}
		if i == 0 && !w.c.direct {
			w.to(min(w.at+w.nics, p.Next), player.NIC)
		}
		w.to(p.Next, w.linkParts.latency)
	}
	w.to(last[len(last)-1].Finish, w.serialize)
	w.to(last[len(last)-1].Finish+w.overhead, player.Proxy)
}

// slowest is the hop that a segment occupies for longest.
func slowest(segment []*link.HopRecord) (hop int) {
	for i, p := range segment {
		if p.Dur > segment[hop].Dur {
			hop = i
		}
	}
	return hop
}

// wait goes on up to the time at which a segment starts: segments of the message before it occupy hop i, or what it
// waits for is other messages.
func (w *onWire) wait(before [][]*link.HopRecord, i int, start int64) {
	for _, s := range before {
		if p := s[i]; p.Start+p.Dur > w.at {
			w.to(min(p.Start, start), w.queue)
			w.to(min(p.Start+p.Dur, start), w.serialize)
		}
	}
	w.to(start, w.queue)
}
