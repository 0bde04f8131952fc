// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// launchLimit is how many entries a stream of the software CUDA holds, about as many as on a GPU. A host thread that
// finds it full waits until there is room.
const launchLimit = 1024

// entries returns how many entries of its stream an item is: entries that end when it starts and entries that end when
// it ends. A call of a replay is NCCL's kernel, the event that NCCL records after it, and two functions that note the
// times, one of them before the kernel. Other items are one.
func (it *item) entries() (atStart, atEnd int) {
	if it.call != nil {
		return 1, 3
	}
	return 0, 1
}

// jobItems is the number of calls of a communicator whose operations the proxies know in a job. NCCL's know all that
// was launched. The limit keeps few plans in memory. It changes a time only if so many calls in a row use channels
// that the next one does not use.
const jobItems = 8

// queuedItems is the number of items of a communicator whose operations the proxies know. They begin those whose
// channels have none before, also while another item runs. If one call is repeated, these are its items and the next
// one: the channels of the items after them are in use.
func (s *simulation) queuedItems() int {
	if s.perCall == 0 {
		return jobItems
	}
	return s.perCall + 1
}

// isEnded says whether an item has ended.
func (r *rankRun) isEnded(i int) bool { return i < len(r.spans) && r.spans[i].End >= 0 }

func (r *rankRun) allEnded(items []int) bool {
	for _, i := range items {
		if !r.isEnded(i) {
			return false
		}
	}
	return true
}

// resume launches and starts what can be launched and started on a rank.
func (s *simulation) resume(id int) {
	r := &s.ranks[id]
	if r.resuming {
		return // the loop below goes on
	}
	r.resuming = true
	for more := true; more; {
		more = s.launch(r)
		for n := range r.streams {
			st := &r.streams[n]
			if st.busy || len(st.queue) == 0 || !r.allEnded(r.item(st.queue[0]).after) {
				continue
			}
			i := st.queue[0]
			if r.spans[i].Start < 0 {
				r.spans[i].Start = s.now
				atStart, _ := r.item(i).entries()
				st.entries -= atStart
				more = more || atStart > 0
			}
			if r.isNextOfComm(i) {
				st.busy = true
				s.start(r, i)
				more = true
			}
		}
	}
	r.resuming = false
}

// launch lets the host thread go on. It reports whether something was launched.
func (s *simulation) launch(r *rankRun) (launched bool) {
	for i := len(r.spans); i < r.count; i++ {
		it := r.item(i)
		if it.host {
			if !r.allEnded(it.after) {
				return launched
			}
			r.spans = append(r.spans, player.Span{Start: s.now, End: s.now})
			r.ended++
			continue
		}
		if it.call != nil && !s.hasCalled(r, i) {
			return launched
		}
		for len(r.streams) <= it.stream {
			r.streams = append(r.streams, streamRun{})
		}
		st := &r.streams[it.stream]
		atStart, atEnd := it.entries()
		if st.entries+atStart+atEnd > launchLimit {
			return launched
		}
		st.queue = append(st.queue, i)
		st.entries += atStart + atEnd
		r.spans = append(r.spans, player.Span{Start: -1, End: -1})
		s.causes.launches(r.id, i)
		if launched = true; it.call != nil {
			s.launchCall(r, it.comm, i)
		}
	}
	return launched
}

// hasCalled says whether the host's thread has made a call. If not, the rank resumes when it has.
func (s *simulation) hasCalled(r *rankRun, i int) bool {
	if s.nodes == nil || s.nodes.Call == 0 {
		return true
	}
	if r.called == 0 {
		r.called = s.now + s.nodes.Call
		s.causes.calls(r.id, s.nodes.Call)
		s.after(r.called, r.id, i, func() { s.resume(r.id) })
	}
	if r.called > s.now {
		return false
	}
	r.called = 0
	return true
}

// isNextOfComm says whether the calls before an item on its communicator have ended.
func (r *rankRun) isNextOfComm(i int) bool {
	it := r.item(i)
	return it.call == nil || r.comms[it.comm].calls[0] == i
}

func (s *simulation) launchCall(r *rankRun, comm, i int) {
	if r.comms == nil {
		r.comms = map[int]*commRun{}
	}
	c := r.comms[comm]
	if c == nil {
		c = &commRun{}
		r.comms[comm] = c
	}
	c.calls = append(c.calls, i)
	s.enqueueCalls(r, c)
}

// enqueueCalls gives the proxies the operations of the next calls.
func (s *simulation) enqueueCalls(r *rankRun, c *commRun) {
	for n := len(c.kernels); n < min(len(c.calls), s.queuedItems()); n++ {
		k := r.item(c.calls[n]).call.take(r.id)
		if c.kernels = append(c.kernels, k); k != nil {
			s.enqueue(k, s.causes.operation(r.id))
		}
	}
}

// start begins the first item of a stream.
func (s *simulation) start(r *rankRun, i int) {
	it, at := r.item(i), s.causes.starts(r.id, i)
	switch {
	case it.call != nil && r.comms[it.comm].kernels[0] != nil:
		s.startKernel(r.id, i, r.comms[it.comm].kernels[0], at)
	case it.nanos > 0:
		s.after(s.now+it.nanos, r.id, i, func() { s.itemEnded(r.id, i, at.after(it.nanos, player.Computing)) })
	default:
		s.itemEnded(r.id, i, at)
	}
}

// itemEnded goes on with what waits for an item.
func (s *simulation) itemEnded(id, i int, at *moment) {
	r := &s.ranks[id]
	s.causes.itemEnds(id, at)
	r.spans[i].End = s.now
	r.ended++
	it := r.item(i)
	st := &r.streams[it.stream]
	st.queue, st.busy = st.queue[1:], false
	_, atEnd := it.entries()
	st.entries -= atEnd
	if it.call != nil {
		it.call.drop(id)
		c := r.comms[it.comm]
		c.calls, c.kernels = c.calls[1:], c.kernels[1:]
		s.enqueueCalls(r, c)
	}
	s.resume(id)
}

// waiting says what a rank waits for, "" if it is done.
func (r *rankRun) waiting() string {
	for n := range r.streams {
		if st := &r.streams[n]; st.busy {
			return fmt.Sprintf("is in item %d", st.queue[0])
		}
	}
	if r.ended < r.count {
		return fmt.Sprintf("waits before item %d", len(r.spans))
	}
	return ""
}
