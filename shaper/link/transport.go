// SPDX-License-Identifier: Apache-2.0

package link

// gate is the earliest time at which the transport lets the segment that ends at
// stream offset end leave, or Never if that is not known yet.
func (f *Flow) gate(end uint64) int64 {
	t := f.Transport
	if t.Kind == RDMA {
		if f.cur >= f.recvd {
			return Never
		}
		// The clear-to-send arrives one reverse latency after irecv.
		return f.msg(f.cur).Recv + f.reverseLatency()
	}
	ready := int64(0)
	if end > t.SendBuffer {
		ready = f.acked(end-t.SendBuffer, &f.gateAck)
	}
	if end > t.Window && ready != Never {
		ready = max(ready, f.read(end-t.Window))
	}
	return ready
}

// acked is the time at which the sender knows that the stream up to offset y has
// arrived. The cursor remembers the segment looked at: y never falls.
func (f *Flow) acked(y uint64, cursor *uint64) int64 {
	if y <= f.forgot {
		return 0
	}
	s := f.covering(y, cursor)
	if s == nil || s.due == Never {
		return Never
	}
	return s.due + f.reverseLatency()
}

// read is the time at which the sender knows that the receiver has read the
// stream up to offset y: it reads what has arrived once it has posted an irecv.
func (f *Flow) read(y uint64) int64 {
	if y <= f.forgot {
		return 0
	}
	s := f.covering(y, &f.gateRead)
	if s == nil || s.due == Never {
		return Never
	}
	return f.known(s)
}

// covering is the segment that holds byte y-1, nil if it has not been made.
func (f *Flow) covering(y uint64, cursor *uint64) *segment {
	*cursor = max(*cursor, f.oldest)
	for *cursor < f.at[0] && f.seg(*cursor).end < y {
		*cursor++
	}
	if *cursor == f.at[0] {
		return nil
	}
	return f.seg(*cursor)
}

// settle notes when tcp sends are complete: when the send buffer has taken the
// last byte.
func (f *Flow) settle() {
	for f.Transport.Kind == TCP && f.sent < f.posted {
		m := f.msg(f.sent)
		t := int64(0)
		if m.End > f.Transport.SendBuffer {
			t = f.acked(m.End-f.Transport.SendBuffer, &f.sentAck)
		}
		if t == Never {
			return
		}
		m.Sent = max(m.Posted, t)
		f.sent++
	}
}

// release forgets the arrived segments whose times can no longer matter. Of messages
// that take no room in the buffers half of the bookkeeping may be kept for that; what
// is more goes as soon as the sender has what it waits for, or nothing more could ever
// be posted.
func (f *Flow) release(now int64, next *int64) {
	for f.oldest < f.arrivedS {
		s := f.seg(f.oldest)
		if f.Transport.Kind == TCP && f.matters(s) {
			known := f.known(s)
			if f.posted-s.msg < MaxMessages/2 || known == Never {
				return
			}
			if now < known {
				*next = min(*next, known)
				return
			}
		}
		f.forgot = s.end
		f.oldest++
	}
}

// known is when the sender knows that segment s has been read, Never if it has not.
func (f *Flow) known(s *segment) int64 {
	if s.msg >= f.recvd {
		return Never
	}
	return max(s.due, f.msg(s.msg).Recv) + f.reverseLatency()
}

// matters says whether a gate or a completion still to come can be as late as
// what segment s sets: it cannot once that time is before everything to come, or
// once the stream has moved on by the size of the buffer.
func (f *Flow) matters(s *segment) bool {
	t := f.Transport
	cut := f.tail + 1
	if f.cur < f.posted {
		m := f.msg(f.cur)
		cut = m.End - m.Size + f.off + 1
	}
	ack := s.due + f.reverseLatency()
	if s.end+t.SendBuffer >= cut && ack > f.left {
		return true
	}
	end, posted := f.tail, f.lastPosted
	if f.sent < f.posted {
		m := f.msg(f.sent)
		end, posted = m.End, m.Posted
	}
	if s.end+t.SendBuffer >= end && ack > posted {
		return true
	}
	if s.end+t.Window < cut {
		return false
	}
	return f.known(s) > f.left
}

// losses draws how often the next segment is lost on its path before it gets
// through, and whether its last packet was lost. With go-back-N each transmission
// is drawn when it is made, so at most one loss is returned.
func (f *Flow) losses(n uint32) (lost uint32, tail bool) {
	for lost < maxAttempts {
		hit, last := f.lostOnce(n, f.attempt+lost)
		if !hit {
			break
		}
		lost++
		tail = tail || last
		if f.goBackN() {
			break
		}
	}
	return lost, tail
}

// maxAttempts bounds the transmissions of one segment, so that a loss of 1 is a
// very slow path and not an endless loop.
const maxAttempts = 64

func (f *Flow) lostOnce(n, attempt uint32) (lost, tail bool) {
	for i, h := range f.Path {
		l := &h.Params.Loss
		if !l.Any() {
			continue
		}
		packets := h.Params.Packets(n)
		counter := f.number<<20 | uint64(attempt%1024)<<10
		hit := false
		for k := range packets {
			if l.Lost(f.Seed, h.ID, f.ID, counter|uint64(k%1024), &f.bad[i]) {
				hit = true
				tail = tail || k+1 == packets
			}
		}
		if hit {
			h.Counters.Drops++
			lost = true
		}
	}
	return lost, tail
}

func (f *Flow) goBackN() bool {
	return f.Transport.Kind == RDMA && !f.Transport.SelectiveRepeat
}

// detection is the time from the end of a lost segment to its retransmission: a
// round trip when a later packet of the message shows the gap to the receiver.
// When the last packet of a message is lost, nothing shows it: rdma waits for its
// timeout, tcp for its tail loss probe, two round trips later (RFC 8985).
func (f *Flow) detection(tail bool) int64 {
	if !tail {
		return f.roundTrip()
	}
	if f.Transport.Kind == TCP {
		return min(f.Transport.RTO, 2*f.roundTrip())
	}
	return f.Transport.RTO
}

func (f *Flow) roundTrip() int64 {
	t := f.reverseLatency()
	for _, h := range f.Path {
		t += h.Params.Latency
	}
	return max(t, 1)
}

func (f *Flow) reverseLatency() int64 {
	t := int64(0)
	for _, h := range f.Reverse {
		t += h.Params.Latency
	}
	return t
}
