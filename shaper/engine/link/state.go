// SPDX-License-Identifier: Apache-2.0

package link

// #include "engine.h"
import "C"

// Recurs says whether the state of a flow, as AppendState gives it, determines what it does next: nothing on its path
// is drawn or down, and it has no congestion window, which remembers more than that.
func (n *Network) Recurs(f *Flow) bool {
	for _, h := range f.engine.path.hop[:f.engine.path.n] {
		if p := &n.blocks[h].Params; p.Draws() || p.Down {
			return false
		}
	}
	return n.transport.Kind != TCP || n.transport.Congestion == NoCongestion
}

// The words of a time in a state. A time is relative to the present; these two are not times.
const (
	stateNever = 1 << 63 // Never
	stateUnset = 1<<63 + 1
)

// stateTime is the word of a time in a state at time now. What was never set is 0 and stays so.
func stateTime(t, now int64) uint64 {
	switch t {
	case Never:
		return stateNever
	case 0:
		return stateUnset
	}
	return uint64(t - now)
}

// AppendState appends what determines, with the state of the hops, what the flow does from time now on: times relative
// to now, counts and offsets relative to the counts and offsets of its messages. Of two equal states of a network whose
// flows recur, the same follows if the same is posted. The flow has been advanced to all earlier times at which it had
// a step.
func (f *Flow) AppendState(out []uint64, now int64) []uint64 {
	c := f.flow
	at := func(t C.int64_t) uint64 { return stateTime(int64(t), now) }
	tail, oldest := uint64(c.tail), uint64(c.oldest)
	offset := func(y C.uint64_t) uint64 { return uint64(y) - tail }
	message := func(i C.uint64_t) uint64 { return uint64(i) - f.taken }
	segment := func(i C.uint64_t) uint64 { return uint64(i) - oldest }
	out = append(out, f.posted-f.taken, f.recvd-f.taken, uint64(c.broken))
	r := &c.results
	out = append(out, at(r.next), message(r.posts_seen), message(r.receives_seen), offset(r.arrived),
		message(r.due_count),
		message(r.complete_count), message(r.oldest_msg))
	out = append(out, message(c.cur), uint64(c.off), message(c.known), offset(c.forgotten), segment(c.segments_arrived),
		segment(c.at[0]))
	out = append(out, at(c.sender_free), at(c.last_due), at(c.last_delivered), at(c.last_posted), at(c.stripes_sent))
	for i := range int(f.engine.path.n) {
		out = append(out, segment(c.at[i]), at(c.last_ready[i]), at(c.queue_free[i]), at(c.served[i]))
	}
	// The searches go on where they ended, so they depend on these only as far as no offset is searched twice.
	for _, cursor := range []C.uint64_t{c.cursor_send_buffer, c.cursor_complete, c.cursor_window} {
		out = append(out, segment(max(cursor, c.oldest)))
	}
	first := f.floor()
	if oldest < uint64(c.at[0]) {
		first = min(first, uint64(c.kept[oldest%MaxSegments].msg))
	}
	out = append(out, first-f.taken)
	for i := first; i < max(f.posted, f.recvd); i++ {
		k := i % MaxMessages
		if i < f.posted {
			out = append(out, uint64(c.sends[k].size), offset(c.sends[k].end), at(c.sends[k].posted),
				at(c.sends[k].written))
		}
		if i < f.recvd {
			out = append(out, at(c.receives[k].posted))
		}
		if i < uint64(c.known) {
			out = append(out, at(c.times[k].ready), at(c.times[k].due), at(c.times[k].complete))
		}
	}
	for i := oldest; i < uint64(c.at[0]); i++ {
		s := &c.kept[i%MaxSegments]
		out = append(out, offset(s.end), message(s.msg), uint64(s.bytes), uint64(s.last), uint64(s.retransmitted),
			uint64(s.retransmit_hops),
			uint64(s.flags), uint64(s.previous_dur), at(s.ready), at(s.finish), uint64(s.recovery), at(s.due))
	}
	return out
}

// AppendState appends what determines, with the states of the flows, when the hops are free from time now on.
func (n *Network) AppendState(out []uint64, now int64) []uint64 {
	for i := range n.Hops {
		h := &n.Hops[i]
		if h.NextFree == 0 && h.HostFree == 0 && h.BufferFree == 0 {
			continue
		}
		// Nothing waits for a buffer that is free before the hop is.
		buffer := max(h.BufferFree, h.NextFree)
		out = append(out, uint64(i), stateTime(h.NextFree, now), stateTime(h.HostFree, now), stateTime(buffer, now))
	}
	return out
}
