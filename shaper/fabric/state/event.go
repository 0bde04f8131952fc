// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/binary"
	"hash/fnv"
	"sync/atomic"
	"time"
)

// ShapeEvent begins the line of a change of links.
const ShapeEvent = "shape "

// maxEvent is the longest text of an event, in bytes.
const maxEvent = len(eventEntry{}.Text) - 1

// Event adds a line to the ring of events, which keeps its first 103 bytes. If other processes write so many lines
// meanwhile that one of them uses the same entry, one of the two lines is lost.
func (f *File) Event(text string) {
	n := atomic.AddUint64(&f.head().NextEvent, 1) - 1
	e := &f.events()[n%maxEvents]
	w := eventEntry{Time: Now()}
	copy(w.Text[:maxEvent], text)
	w.Sum = w.sum(n + 1)
	atomic.StoreUint64(&e.Sequence, 0)
	e.Time, e.Text, e.Sum = w.Time, w.Text, w.Sum
	atomic.StoreUint64(&e.Sequence, n+1)
}

// Event is one line of the ring of events.
type Event struct {
	Time time.Duration // since the fabric was made
	Text string
}

// Events returns the lines in the ring, oldest first.
func (f *File) Events() []Event {
	var out []Event
	next := atomic.LoadUint64(&f.head().NextEvent)
	for n := next - min(next, maxEvents); n < next; n++ {
		e := &f.events()[n%maxEvents]
		if atomic.LoadUint64(&e.Sequence) != n+1 {
			continue
		}
		// Copy, then check the sum: writers wait neither for readers nor for each other.
		if r := *e; r.Sum == r.sum(n+1) {
			out = append(out, Event{time.Duration(r.Time - f.head().Created), cString(r.Text[:])})
		}
	}
	return out
}

// sum is the checksum of the line with the number sequence.
func (e *eventEntry) sum(sequence uint64) uint64 {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], sequence)
	binary.LittleEndian.PutUint64(b[8:], uint64(e.Time))
	h.Write(b[:])
	h.Write(e.Text[:])
	return h.Sum64()
}
