// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"sort"

	"github.com/ddlemu/ddlemu/intercept/messages"
)

// Explained is a call, and where its time went.
type Explained struct {
	*messages.Call
	Start, End int64  // ns of the fabric's clock
	Rank       string // that had its last byte last, or still waits for a message
	Unfinished bool   // it had not ended when the ledgers ended, at End
	Path       []Part // in the order of time; their sum is End - Start
	Steps      []int  // messages on the critical path, places in the trace, in the order of time
}

// Ns is the call's time.
func (c *Explained) Ns() int64 { return c.End - c.Start }

// member is a rank of a job, and the communicator that it uses.
type member struct {
	job, rank int
	comm      uint64
}

// calls walks the critical path of each call. Calls without a message between nodes have none.
func (x *index) calls() []Explained {
	ended := map[member]int64{} // when the last call of a rank on a communicator had ended for it
	var out []Explained
	for i := range x.Trace.Calls {
		c := &x.Trace.Calls[i]
		if len(c.Messages) == 0 {
			continue
		}
		w := x.newWalk(c, ended)
		if w.last < 0 {
			continue
		}
		out = append(out, w.walk())
		for rank, t := range w.ends {
			ended[rank] = max(ended[rank], t)
		}
	}
	return out
}

// walk is the search for the critical path of a call.
type walk struct {
	*index
	call  *messages.Call
	begun map[member]int64          // when each rank began the call: it was called, and had ended the one before
	ends  map[member]int64          // when each rank had ended it
	by    map[channel][]messages.At // the messages that each rank has received, by the time at which they were visible
	near  map[channel][]messages.At // those that the ranks of each node have received; the rank is the node's number
	last  int                       // the message that was visible last, or is stuck; -1: there is none
	end   int64                     // when that was, or when the ledgers end
}

func (x *index) newWalk(c *messages.Call, ended map[member]int64) *walk {
	w := &walk{index: x, call: c, begun: map[member]int64{}, ends: map[member]int64{}, by: map[channel][]messages.At{},
		near: map[channel][]messages.At{}, last: -1}
	for _, i := range c.Tasks {
		task := &x.Trace.Tasks[i]
		rank := member{task.Job, task.Owner, c.Comm}
		if t, ok := w.begun[rank]; !ok || task.Begun < t {
			w.begun[rank] = task.Begun
		}
	}
	for rank, t := range w.begun {
		w.begun[rank] = max(t, ended[rank])
	}
	for _, i := range c.Messages {
		w.add(i)
	}
	if w.last >= 0 {
		w.end = x.Trace.Messages[w.last].VisibleAt()
	}
	if stuck := x.stuck(c); stuck >= 0 {
		w.last, w.end = stuck, x.last
	}
	for _, received := range []map[channel][]messages.At{w.by, w.near} {
		for _, all := range received {
			sortByTime(all)
		}
	}
	return w
}

// add notes one message of the call.
func (w *walk) add(i int) {
	m := &w.Trace.Messages[i]
	if m.HasSend {
		sender := member{m.Job, m.Sender, w.call.Comm}
		w.ends[sender] = max(w.ends[sender], m.Posted)
		if t, ok := w.begun[sender]; !ok || m.Posted < t {
			w.begun[sender] = m.Posted
		}
	}
	if !m.HasSend || !m.Received {
		return
	}
	t := m.VisibleAt()
	receiver := member{m.Job, m.Receiver, w.call.Comm}
	w.ends[receiver] = max(w.ends[receiver], t)
	if _, ok := w.begun[receiver]; !ok {
		w.begun[receiver] = m.ReceivePosted
	}
	for _, number := range []int{m.Channel, -1} {
		key := channel{m.Job, m.Receiver, number}
		w.by[key] = append(w.by[key], messages.At{Time: t, Message: i})
		key.rank = w.Fabric.NodeOfNIC(m.Dst)
		w.near[key] = append(w.near[key], messages.At{Time: t, Message: i})
	}
	if w.last < 0 || t > w.Trace.Messages[w.last].VisibleAt() {
		w.last = i
	}
}

// stuck is the message for which a call that has not ended waits: one whose path is down if there is one, of these the
// one that was posted first. It is -1 if the call has ended, or waits for no message that was posted.
func (x *index) stuck(c *messages.Call) int {
	best, bestDown := -1, false
	for _, i := range c.Messages {
		m := &x.Trace.Messages[i]
		if !m.IsStuck() || !m.HasSend || x.FlowOf[i] < 0 {
			continue
		}
		hop, _ := x.Fabric.Down(m.Src, m.Dst, x.Flows[x.FlowOf[i]].Path, x.stuckUntil(i))
		down := hop >= 0
		if best < 0 || down && !bestDown || down == bestDown && m.Posted < x.Trace.Messages[best].Posted {
			best, bestDown = i, down
		}
	}
	return best
}

// stuckUntil is when message i, which is stuck, failed, or when the ledgers end.
func (x *index) stuckUntil(i int) int64 {
	if failed := x.Trace.Messages[i].Failed; failed != 0 {
		return failed
	}
	return x.last
}

// walk goes back from the last byte to the call.
func (w *walk) walk() Explained {
	last := &w.Trace.Messages[w.last]
	c := Explained{Call: w.call, End: w.end, Rank: w.rankOf(last.Job, last.Receiver),
		Unfinished: !w.Trace.HasEnded(w.call)}
	c.Start = c.End
	for _, t := range w.begun {
		c.Start = min(c.Start, t)
	}
	var path [][]Part // the last one first
	parts := w.messageParts(w.last)
	for i := w.last; ; {
		c.Steps = append(c.Steps, i)
		path = append(path, parts)
		before, at, acked := w.release(i)
		if before < 0 {
			path = append(path, w.beginning(i, c.Start))
			break
		}
		path = append(path, w.gap(i, at))
		parts = w.messageParts(before)
		if acked { // the sender waited until that message was acknowledged
			l := &timeline{at: w.Trace.Messages[before].Posted + Sum(parts), parts: parts}
			l.cut(at)
			l.to(at, Part{Cause: Propagation})
			parts = l.parts
		}
		i = before
	}
	slices.Reverse(path)
	slices.Reverse(c.Steps)
	for _, parts := range path {
		c.Path = append(c.Path, parts...)
	}
	return c
}

// release is the message that released the post of message i: the last one before the post that its rank
// got in this call on the same channel, or another rank of its node, or one that it had sent itself and
// that was complete then. at is when. It is -1 if there is none: the call itself released the post.
func (w *walk) release(i int) (before int, at int64, acked bool) {
	m := &w.Trace.Messages[i]
	begun := w.begun[member{m.Job, m.Sender, w.call.Comm}]
	before = -1
	take := func(x messages.At, ack bool) {
		if x.Message >= 0 && x.Time >= begun && w.isEarlier(x.Message, i) && (before < 0 || x.Time > at) {
			before, at, acked = x.Message, x.Time, ack
		}
	}
	take(lastBefore(w.by[channel{m.Job, m.Sender, m.Channel}], m.Posted), false)
	take(w.lastComplete(i, true), true)
	// Within a node data takes no time of the fabric's: another rank of the node may have passed it on.
	take(lastBefore(w.near[channel{m.Job, w.Fabric.NodeOfNIC(m.Src), m.Channel}], m.Posted), false)
	if before < 0 {
		take(lastBefore(w.by[channel{m.Job, m.Sender, -1}], m.Posted), false)
	}
	return before, at, acked
}

// isEarlier says whether message i was posted before message j. Messages may take no time, so the path goes
// back only to earlier posts, or it would not end.
func (w *walk) isEarlier(i, j int) bool {
	a, b := w.Trace.Messages[i].Posted, w.Trace.Messages[j].Posted
	return a < b || a == b && i < j
}

// lastBefore is the last one up to time t.
func lastBefore(all []messages.At, t int64) messages.At {
	n := sort.Search(len(all), func(i int) bool { return all[i].Time > t })
	if n == 0 {
		return messages.At{Message: -1}
	}
	return all[n-1]
}

// lastComplete is the last message that the sender of message i had sent on the same channel, in the same
// call or in another one, and that was complete when i was posted. NCCL's progress thread needs its place
// in the buffer, or that the operation before is complete.
func (w *walk) lastComplete(i int, sameCall bool) messages.At {
	const most = 256 // messages to look at
	m := &w.Trace.Messages[i]
	all := w.complete[channel{m.Job, m.Sender, m.Channel}]
	n := sort.Search(len(all), func(k int) bool { return all[k].Time > m.Posted })
	for k := n - 1; k >= max(0, n-most); k-- {
		x := &w.Trace.Messages[all[k].Message]
		if w.isEarlier(all[k].Message, i) && (w.Trace.CallOf(x) == w.Trace.CallOf(m)) == sameCall {
			return all[k]
		}
	}
	return messages.At{Message: -1}
}

// gap is the time from a release until the post of message i.
func (w *walk) gap(i int, from int64) []Part {
	m := &w.Trace.Messages[i]
	l := &timeline{at: from}
	rank := w.rankOf(m.Job, m.Sender)
	if last := w.lastComplete(i, false); last.Message >= 0 {
		if call := w.Trace.CallOf(&w.Trace.Messages[last.Message]); call >= 0 {
			l.to(last.Time, Part{Cause: Busy, Rank: rank, Behind: "an earlier " + w.Trace.Calls[call].Name})
			from = l.at
		}
	}
	l.to(m.Posted-min(m.Stalled, m.Posted-from), Part{Cause: NotReady, Rank: rank})
	l.to(m.Posted, Part{Cause: Stall, Rank: w.rankOf(m.Job, m.SentBy)})
	return l.parts
}

// beginning is the time from the start of the call until the first post on the critical path, the post of
// message i.
func (w *walk) beginning(i int, start int64) []Part {
	m := &w.Trace.Messages[i]
	rank := w.rankOf(m.Job, m.Sender)
	l := &timeline{at: start}
	l.to(min(w.begun[member{m.Job, m.Sender, w.call.Comm}], m.Posted), Part{Cause: LateCall, Rank: rank})
	return append(l.parts, w.gap(i, max(l.at, start))...)
}

// cut ends the timeline at t, if it is longer.
func (l *timeline) cut(t int64) {
	for over := l.at - t; over > 0 && len(l.parts) > 0; {
		last := &l.parts[len(l.parts)-1]
		ns := min(over, last.Ns)
		last.Ns -= ns
		l.at -= ns
		over -= ns
		if last.Ns == 0 {
			l.parts = l.parts[:len(l.parts)-1]
		}
	}
}
