// SPDX-License-Identifier: Apache-2.0

package link

import "math"

// Never is a time that is not known yet, or does not come.
const Never = math.MaxInt64

// Bounds of what one flow holds. A flow that reaches MaxSegments stops sending
// until the oldest has arrived, and with tcp was acknowledged, and counts that in
// Stalls: the model no longer holds.
// MaxMessages bounds the messages posted and not yet taken by the receiver, as
// the bookkeeping of a socket buffer does. Segments outnumber messages, so that
// unread small messages alone never stall a flow.
const (
	MaxSegments = 2048
	MaxMessages = 1024
)

// Message is what is known of one message, times in ns or Never.
type Message struct {
	Size   uint64
	End    uint64 // stream offset behind its last byte
	Posted int64  // the sender called isend
	Recv   int64  // the receiver called irecv
	Due    int64  // the last byte is at the receiver
	Sent   int64  // the send is complete for the sender
	// Distortion bounds how much earlier Due could have been had every step of
	// this message been taken in time (see Flow).
	Distortion int64

	ready int64 // the sender's host is done with it
}

// downPoll is how often, in ns, a path that is down is looked at again.
const downPoll = 1_000_000

type segment struct {
	end    uint64 // stream offset behind its last byte
	msg    uint64
	n      uint32 // payload bytes
	last   bool   // of its message
	again  uint32 // packets lost on the way, which hops up to lossy carried too
	lossy  uint32
	rides  uint32 // packets that a queue dropped and that are sent again with it
	flags  uint32 // what happened to it, for congestion control
	number uint64 // of the flow: names its jitter's draws
	dur    int64  // serialisation time at the previous hop
	ready  int64  // at the next hop
	finish int64  // last byte at the next hop, if that adds nothing
	delay  int64  // recovery of losses
	came   int64  // what was not lost of it is at the receiver; with a congestion window
	due    int64
}

// Flow carries the messages of one connection over a path, in order. Post and
// Recv describe what the two ends have done, Advance takes the steps whose time
// has come. Not safe for concurrent use.
type Flow struct {
	ID        uint64
	Seed      uint64
	Path      []PathHop
	Reverse   []*Hop // of acknowledgements: only their latency counts
	Transport *Transport
	Tables    *[3]*JitterTable // Normal, Pareto, Table

	Stalls uint64 // times the flow was full
	Broken bool   // a hop was down for longer than DownTimeout

	msgs       [MaxMessages]Message
	posted     uint64 // messages posted
	hosted     uint64 // messages that the sender's host has taken in
	recvd      uint64 // messages with an irecv
	taken      uint64 // messages given back by Take
	tail       uint64 // stream offset behind the last posted message
	lastPosted int64

	segs     [MaxSegments]segment
	oldest   uint64          // oldest segment kept
	at       [MaxHops]uint64 // at[i]: next segment to take hop i; at[0] = segments made
	arrivedS uint64          // segments that have arrived
	arrived  uint64          // stream offset of what has arrived

	cur       uint64 // message being cut
	off       uint64 // bytes of it cut
	attempt   uint32 // transmissions of the next packet so far
	number    uint64 // segments numbered
	packets   uint64 // packets of these
	left      int64  // when the last segment left the first hop
	lastDue   int64
	handed    int64          // when the receiving host was done with the last message
	lastReady [MaxHops]int64 // when the last segment behind hop i was ready for the next
	room      [MaxHops]int64 // when the flow's own queue behind hop i, a fair one, last had room again
	served    [MaxHops]int64 // when the last segment to take the fair hop i left it
	bad       [MaxHops]bool  // Gilbert-Elliott state

	window window

	sent     uint64 // messages whose Sent is known
	forgot   uint64 // stream offset up to which segments are forgotten
	gateAck  uint64 // segment at which the send buffer's gate looked last
	sentAck  uint64 // the same for completions
	gateRead uint64 // segment at which the window's gate looked last
}

// NewFlow returns a flow with nothing posted. The path has 1 to MaxHops hops.
func NewFlow(id, seed uint64, path []PathHop, reverse []*Hop, t *Transport, tables *[3]*JitterTable) *Flow {
	return &Flow{ID: id, Seed: seed, Path: path, Reverse: reverse, Transport: t, Tables: tables}
}

// Post describes a message of size bytes that the sender handed over at time t,
// not before any earlier one, and returns its index. It reports false, and
// changes nothing, when MaxMessages are outstanding.
func (f *Flow) Post(size uint64, t int64) (uint64, bool) {
	if f.posted-f.floor() == MaxMessages {
		return 0, false
	}
	i := f.posted
	m := f.msg(i)
	recv := int64(Never)
	if i < f.recvd {
		recv = m.Recv
	}
	f.tail += size
	*m = Message{Size: size, End: f.tail, Posted: t, Recv: recv, Due: Never, Sent: Never, ready: t}
	f.lastPosted = t
	f.posted++
	return i, true
}

// Recv describes the receiver's call of irecv, at time t, for the next message.
func (f *Flow) Recv(t int64) bool {
	if f.recvd-f.floor() == MaxMessages {
		return false
	}
	f.msg(f.recvd).Recv = t
	f.recvd++
	return true
}

// floor is the oldest message that anything may still ask for.
func (f *Flow) floor() uint64 {
	if f.oldest < f.at[0] {
		return min(f.taken, f.seg(f.oldest).msg)
	}
	return f.taken
}

// Message returns message i: posted, and not yet taken.
func (f *Flow) Message(i uint64) *Message { return f.msg(i) }

// Arrived is the stream offset up to which bytes had arrived by the time last
// given to Advance.
func (f *Flow) Arrived() uint64 { return f.arrived }

// Take gives back the oldest message, once its Due and Sent have passed.
func (f *Flow) Take() { f.taken++ }

func (f *Flow) msg(i uint64) *Message { return &f.msgs[i%MaxMessages] }
func (f *Flow) seg(i uint64) *segment { return &f.segs[i%MaxSegments] }

// Advance takes every step whose time has come by now and returns the time
// before which another call changes nothing, unless Post or Recv is called.
func (f *Flow) Advance(now int64) int64 {
	if f.Transport.Host.Any() {
		f.takeIn(now)
	}
	// A congestion window takes in what is known by now: first all that can be is found out.
	for skip := f.Transport.congested(); ; skip = false {
		next := int64(Never)
		moved := skip || f.inject(now, &next)
		for i := 1; i < len(f.Path); i++ {
			for f.forward(i, now, &next) {
				moved = true
			}
		}
		for f.arrive(now, &next) {
			moved = true
		}
		f.settle()
		if !moved {
			return next
		}
	}
}

// inject lets the next segment take the first hop.
func (f *Flow) inject(now int64, next *int64) bool {
	if f.cur == f.posted || f.Broken {
		return false
	}
	m := f.msg(f.cur)
	n := uint32(min(m.Size-f.off, uint64(f.segmentSize())))
	ready := f.left
	if f.off == 0 {
		ready = max(ready, m.ready+f.Transport.Overhead)
	}
	ready = max(ready, f.gate(m.End-m.Size+f.off+uint64(n)), f.room[0])
	congested := f.Transport.congested()
	if congested {
		ready = max(ready, f.slot())
	}
	if ready == Never {
		return false
	}
	dur := f.Path[0].Params.Serialise(n)
	occupied := dur
	if f.off == 0 {
		occupied = max(occupied, f.Transport.Gap)
	}
	if now < ready-occupied {
		*next = min(*next, ready-occupied)
		return false
	}
	if f.full(1, n) {
		return false
	}
	if congested {
		open := f.open(m.End-m.Size+f.off, uint64(n), ready, ready-occupied)
		if open == Never {
			return false
		}
		if ready = open; now < ready-occupied {
			*next = min(*next, ready-occupied)
			return false
		}
		f.makeRoom()
	}
	if f.down() {
		f.Broken = now-ready > f.Transport.DownTimeout
		*next = min(*next, now+downPoll)
		return false
	}
	if f.at[0]-f.oldest == MaxSegments {
		f.Stalls++
		known := f.spare()
		if known == Never {
			return false
		}
		if ready = max(ready, known); now < ready-occupied {
			*next = min(*next, ready-occupied)
			return false
		}
		f.forget()
	}
	f.send(n, dur, ready, now)
	return true
}

// spare is when the oldest segment kept may be forgotten although it matters: once the
// sender knows that it was read. Never if that is not known, or will come by itself.
func (f *Flow) spare() int64 {
	if f.Transport.Kind == RDMA || f.Transport.congested() || f.oldest == f.arrivedS {
		return Never
	}
	return f.known(f.seg(f.oldest))
}

// forget forgets the oldest segment.
func (f *Flow) forget() {
	f.forgot = f.seg(f.oldest).end
	f.oldest++
}

// send lets the next n bytes, which take dur ns, take the first hop from ready on, or as
// much of them as losses leave.
func (f *Flow) send(n uint32, dur, ready, now int64) {
	m, hop := f.msg(f.cur), f.Path[0].Hop
	offset, last := m.End-m.Size+f.off, f.off+uint64(n) == m.Size
	l := f.losses(n, last)
	packet := min(n, hop.Params.Payload)
	if l.cut {
		n, last = l.through*hop.Params.Payload, false
		if l.through == 0 {
			n, l.again = packet, 0
		}
		dur = hop.Params.Serialise(n)
	}
	rides := uint32(0)
	if f.Transport.congested() {
		rides = f.repay(offset, l.through)
	}
	if rides > 0 {
		l.again, l.lossy = l.again+rides, uint32(len(f.Path))
	}
	if l.again > 0 {
		dur += int64(l.again) * hop.Params.Serialise(packet)
	}
	occupied := dur
	if f.off == 0 {
		occupied = max(occupied, f.Transport.Gap)
	}
	open, charge := f.held(0, n, occupied, ready, now)
	start := hop.Reserve(open, occupied)
	hop.speak(start, charge)
	f.distort(f.cur, start, ready, now)
	hop.Counters.add(n, l.again, hop.Params, occupied)
	f.left = start + dur
	if !l.cut {
		f.attempt = 0
	} else {
		// Everything behind the lost packet is thrown away by the receiver, so
		// nothing is sent until the sender knows.
		f.attempt++
		f.left += l.delay
		if l.delay = 0; l.through == 0 {
			return
		}
	}
	s := f.seg(f.at[0])
	*s = segment{
		end: offset + uint64(n), msg: f.cur, n: n, last: last, number: f.number,
		again: l.again, lossy: l.lossy, rides: rides, flags: l.flags, delay: l.delay, due: Never,
	}
	f.pass(s, 0, start, dur, start+dur)
	f.at[0]++
	f.number++
	f.packets += uint64(l.through)
	f.off += uint64(n)
	if s.last {
		f.cur++
		f.off = 0
	}
	if f.Transport.congested() {
		f.leave(s.end)
	}
}

// forward lets the next segment take hop i.
func (f *Flow) forward(i int, now int64, next *int64) bool {
	if f.at[i] == f.at[i-1] {
		return false
	}
	s := f.seg(f.at[i])
	hop := f.Path[i].Hop
	again := uint32(0)
	if i <= int(s.lossy) {
		again = s.again
	}
	dur := hop.Params.Serialise(s.n)
	if again > 0 {
		dur += int64(again) * hop.Params.Serialise(min(s.n, hop.Params.Payload))
	}
	if f.full(i+1, s.n) {
		return false
	}
	p, ready := hop.Params, max(s.ready, f.room[i])
	if p.Policy == Fair {
		// One of this flow at a time, so that all that wait take turns.
		ready = max(ready, f.served[i])
	}
	at := ready - dur
	if p.Policy == TailDrop && f.Transport.congested() {
		// What may be dropped waits until it is there: else a long segment would take the
		// last room before a short one that is there first.
		at = ready
	}
	if now < at {
		*next = min(*next, at)
		return false
	}
	if s.flags&segmentGone != 0 {
		f.pass(s, i, s.ready, 0, s.finish)
		f.at[i]++
		return true
	}
	reserved := !f.Path[i].Private || dur > s.dur || p.Policy == Fair
	open, charge := ready, int64(0)
	if reserved {
		open, charge = f.held(i, s.n, dur, ready, now)
	}
	start := max(open, hop.NextFree)
	wait := start - s.ready
	if p.Policy == TailDrop && p.QueueNs > 0 && wait > p.QueueNs {
		hop.Counters.Drops += uint64(p.Packets(s.n) + again)
		f.drop(s, wait)
		return true
	}
	if f.full(i, s.n) {
		f.room[i-1] = start
	}
	if p.ECNNs > 0 && wait > p.ECNNs {
		hop.Counters.Marks += uint64(p.Packets(s.n) + again)
		s.flags |= segmentMarked
	}
	if reserved {
		hop.Reserve(open, dur)
		hop.speak(start, charge)
		f.distort(s.msg, start, ready, now)
	}
	f.served[i] = start + dur
	hop.Counters.add(s.n, again, p, dur)
	f.pass(s, i, start, dur, max(s.finish, start+dur))
	f.at[i]++
	return true
}

// held is when hop i may start n bytes, which take it dur ns, that are ready: not while
// the buffer behind it is spoken for. charge is for how long these speak for it.
//
// At a switch each line into it, a NIC's or another switch's, has a buffer of as many bytes
// as the queue bound says, by PFC's accounts per ingress port and InfiniBand's credits. n
// bytes that wait there for w have n of its Q bytes for so long. So by Little's law a line
// whose bytes wait w has a rate of Q/w at most: each segment speaks for w*n/Q of time, w
// being what is ahead of it at its next hop now. A line may be ahead of that by the time
// that Q takes, for the buffer is empty at first.
//
// Where that next hop is itself a line that is held, what is ahead there tells late: it is
// used when a segment is sent, and counts when the segment gets there, behind all that
// several such lines sent before. By itself it makes them send too much and too little in
// turn. So half of the charge, in the geometric mean, is what holds the next hop now.
func (f *Flow) held(i int, n uint32, dur, ready, now int64) (open, charge int64) {
	j := i + 1
	for ; j < len(f.Path); j++ {
		if p := f.Path[j].Params; !f.Path[j].Private || p.Serialise(n) > dur || p.Policy == Fair {
			break
		}
	}
	if j == len(f.Path) {
		return ready, 0
	}
	h, next := f.Path[i].Hop, f.Path[j]
	p := next.Params
	if p.Policy != Lossless || p.QueueNs == 0 {
		return ready, 0
	}
	room := max(p.QueueNs, p.Serialise(n)) // for one segment at least
	open = ready
	if free := max(ready, h.NextFree); h.Buffer-room > free {
		open = h.Buffer - room
		h.Counters.Pauses++
		h.Counters.PausedNs += open - free
	}
	charge = next.charge(n, now)
	if charge > 0 && j+1 < len(f.Path) {
		if behind := f.Path[j+1].charge(n, now); behind > 0 {
			charge = geometricMean(charge, behind)
		}
	}
	return open, charge
}

// full says whether n bytes more have no room in the flow's own queue at hop i: only a
// fair hop has one. What is on the way to it counts against the queue, and may be as
// much more as the latency of the hop before carries: credits that come back at once.
func (f *Flow) full(i int, n uint32) bool {
	if i >= len(f.Path) {
		return false
	}
	p := f.Path[i].Params
	if p.Policy != Fair || p.QueueNs == 0 {
		return false
	}
	dur := p.Serialise(n)
	return int64(f.at[i-1]-f.at[i])*dur >= p.QueueNs+f.Path[i-1].Params.Latency+dur
}

// drop is what becomes of a segment that a queue drops, which it would have had to wait
// in for so long. Without a congestion window all of the flow waits until it comes again;
// with one, it is sent again beside what follows.
func (f *Flow) drop(s *segment, wait int64) {
	if !f.Transport.congested() {
		s.ready += f.roundTrip()
		return
	}
	s.flags |= segmentGone | segmentLost
	s.delay += f.roundTrip() + wait
	f.window.debt += uint64(f.Path[0].Params.Packets(s.n)) + uint64(s.rides)
}

// pass moves segment s behind hop i, which it took at start and left at finish.
func (f *Flow) pass(s *segment, i int, start, dur, finish int64) {
	latency := f.Path[i].Params.Delay(f.Seed, f.Path[i].ID, f.ID, s.number, f.Tables)
	s.dur = dur
	s.ready = max(start+latency, f.lastReady[i]) // in order, whatever the jitter
	f.lastReady[i] = s.ready
	s.finish = finish + latency
	if i < len(f.Path)-1 {
		return
	}
	arrived := s.finish + f.Transport.Overhead
	if f.Transport.congested() {
		f.window.lastCame = max(f.window.lastCame, arrived)
		s.came = f.window.lastCame
	}
	s.due = max(f.lastDue, arrived+s.delay)
	f.lastDue = s.due
	if s.last {
		m := f.msg(s.msg)
		if !f.Transport.Host.Any() {
			m.Due = s.due
		}
		if f.Transport.Kind == RDMA {
			m.Sent = s.due + f.reverseLatency()
		}
	}
}

// arrive notes the segments that are due.
func (f *Flow) arrive(now int64, next *int64) bool {
	f.release(now, next)
	if f.arrivedS == f.at[len(f.Path)-1] {
		return false
	}
	s := f.seg(f.arrivedS)
	due := s.due
	if s.last && now >= due && f.Transport.Host.Any() {
		due = f.handOver(s, now)
	}
	if now < due {
		*next = min(*next, due)
		return false
	}
	f.arrived = s.end
	f.arrivedS++
	return true
}

// distort notes that a step of message m, possible from ready on, was taken at
// now, when others had the hop until start.
func (f *Flow) distort(m uint64, start, ready, now int64) {
	if now > ready && start > ready {
		f.msg(m).Distortion += min(start, now) - ready
	}
}

// segmentSize is the smallest on the path. With tcp it is so large that a full send buffer
// is half of the segments that a flow holds, for the ends of messages make more, and a
// quarter of the buffers at most, so that acknowledgements keep them moving.
func (f *Flow) segmentSize() uint32 {
	n := f.Path[0].Params.Segment
	for _, h := range f.Path[1:] {
		n = min(n, h.Params.Segment)
	}
	if t := f.Transport; t.Kind == TCP {
		packet := uint64(f.Path[0].Params.Payload)
		packets := min((t.SendBuffer/(MaxSegments/2)+packet-1)/packet, MaxSegment/packet)
		n = uint32(min(max(uint64(n), packets*packet), max(t.SendBuffer/4, 1), max(t.Window/4, 1)))
		if t.congested() {
			n = min(n, max(f.window.piece, f.mss()))
		}
	}
	return n
}

func (f *Flow) down() bool {
	for _, h := range f.Path {
		if h.Params.Down {
			return true
		}
	}
	return false
}

// add counts a segment of n payload bytes, and so many of its packets once more.
func (c *Counters) add(n, again uint32, p *Params, dur int64) {
	packet := min(n, p.Payload)
	c.Bytes += uint64(n) + uint64(again)*uint64(packet)
	c.Wire += p.Wire(n) + uint64(again)*p.Wire(packet)
	c.Segments += 1 + uint64(again)
	c.BusyNs += dur
}
