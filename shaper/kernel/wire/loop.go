// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// When the thread polls instead of sleeping. A wakeup takes 20 to 60 us on a virtual machine.
const (
	pollBefore = 60 * time.Microsecond // before a packet is due
	pollAfter  = 60 * time.Microsecond // after the last packet was read or written
)

// writeBatch is the most packets that are written before the socket is read again.
const writeBatch = 8

// run is the loop of the thread. It returns when the shaper is closed, or with an error.
func (w *Wire) run() error {
	runtime.LockOSThread() // never unlocked: the thread and its settings end with the goroutine
	// By default, the kernel may let a thread sleep 50 us longer.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer's slack: %w", err)
	}
	// Without priority, packets are late more often. The verdict shows it.
	if err := raisePriority(); err != nil {
		w.file.Event(fmt.Sprintf("wire: %v", err))
	}
	lastWork := int64(0) // when a packet was last read or written
	for !w.closing.Load() {
		n, err := w.read()
		if err != nil {
			return err
		}
		now := w.clock.now()
		if w.writeDue(now) || n > 0 {
			lastWork = now
			continue
		}
		wait := w.nextEvent() - now
		if wait < int64(pollBefore) || now-lastWork < int64(pollAfter) {
			continue
		}
		if err := w.sleep(wait - int64(pollBefore)); err != nil {
			return err
		}
	}
	return nil
}

// read reads the packets that have arrived and passes them to the model. It returns their number.
func (w *Wire) read() (int, error) {
	n, err := w.socket.read(&w.model.pool)
	if n == 0 || err != nil {
		return 0, err
	}
	now, fromWall := w.clock.nowAndOffset()
	for i := range n {
		arrived, stamp, tagged := now, int64(0), false
		if stamp, tagged = w.socket.control(i); stamp != 0 {
			arrived = min(stamp+fromWall, now)
		}
		w.reading.add(now - arrived)
		w.accept(i, arrived, tagged)
	}
	return n, nil
}

// accept passes message i of the last read to the model, if its destination is in the fabric. A packet with a VLAN
// tag is dropped, because the tag would be lost.
func (w *Wire) accept(i int, arrived int64, tagged bool) {
	src, n := w.socket.message(i)
	if src < 0 {
		return
	}
	tx, slot := &w.model.hops[2*src], w.socket.slots[i]
	h, err := parse(slot.buf[:n])
	if err != nil || tagged {
		w.model.drop(tx, 1)
		w.malformed.Add(1)
		return
	}
	dst := w.destination(src, slot.buf[vnetLen:])
	if dst == nowhere {
		return
	}
	p := slot
	if n <= smallBuffer {
		if p = w.model.pool.get(n); p == nil {
			w.model.dropForMemory(tx, h.packets)
			return
		}
		copy(p.buf, slot.buf[:n])
	} else {
		w.socket.slots[i] = nil
		p.buf = p.buf[:n]
	}
	p.headers, p.src, p.dst = h, src, dst
	// Packets of one NIC arrive in order, even if the wall clock was set in between.
	p.arrived = max(arrived, w.lastArrived[src])
	w.lastArrived[src] = p.arrived
	p.class = w.flows.classOf(p)
	w.model.arrive(p)
}

// nowhere is the destination of packets that no link carries: to NICs of the same node, and to unknown addresses.
const nowhere = -1

// destination returns the NIC that a frame is addressed to, or broadcast or nowhere.
func (w *Wire) destination(src int, frame []byte) int {
	if frame[0]&1 == 1 {
		return broadcast
	}
	dst := netns.NICOfMAC(frame)
	if dst < 0 || dst >= w.model.fabric.NICs() || w.model.fabric.NodeOfNIC(dst) == w.model.fabric.NodeOfNIC(src) {
		return nowhere
	}
	return dst
}

// writeDue writes the packets that are due, at most writeBatch, and reports whether there were any.
func (w *Wire) writeDue(now int64) bool {
	w.model.advance(now + max(w.lead.small, w.lead.large))
	for n := range writeBatch {
		p := w.model.leaving.head()
		if p == nil || p.due-w.lead.of(len(p.buf)) > now {
			return n > 0
		}
		w.model.leaving.pop()
		began := now
		err := w.socket.write(p)
		now = w.clock.now()
		w.written(p, began, now, err)
	}
	return true
}

// nextEvent returns when the thread has to act next if no packet arrives.
func (w *Wire) nextEvent() int64 {
	at := w.model.crossing.next()
	if p := w.model.leaving.head(); p != nil {
		at = min(at, p.due-w.lead.of(len(p.buf)))
	}
	return at
}

// written counts a packet that was written, or that could not be written, and returns it to the pool.
func (w *Wire) written(p *packet, began, now int64, err error) {
	link := w.model.fabric.Link(p.src, p.dst)
	if err == nil {
		w.lead.add(len(p.buf), now-began)
		w.writing.add(now - began)
		w.stats[link].CountDelivery(uint64(p.headers.payloadOf(0, p.headers.packets)), p.arrived, p.due, now, w.scale)
	} else {
		// A program on the node has deleted the NIC or set it down.
		w.model.drop(&w.model.hops[2*p.dst+1], p.headers.packets)
		w.refused.Add(1)
	}
	w.model.pool.put(p)
}

// sleep waits for a packet or for stop, at most ns.
func (w *Wire) sleep(ns int64) error {
	fds := [2]unix.PollFd{{Fd: int32(w.socket.fd), Events: unix.POLLIN}, {Fd: int32(w.wake), Events: unix.POLLIN}}
	var timeout *unix.Timespec
	if ns < int64(time.Hour) {
		ts := unix.NsecToTimespec(ns)
		timeout = &ts
	}
	_, err := unix.Ppoll(fds[:], timeout, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for packets: %w", err)
	}
	return nil
}

// stop makes run return.
func (w *Wire) stop() {
	w.closing.Store(true)
	one := uint64(1)
	// An eventfd fails only if its counter overflows. Nothing else adds to it.
	_, _ = unix.Write(w.wake, unsafe.Slice((*byte)(unsafe.Pointer(&one)), 8))
}

// lead estimates how long it takes to write a packet. The thread starts to write that long before the packet is due.
// Each estimate is a moving average.
type lead struct {
	small, large int64 // ns, for packets of up to smallBuffer bytes and for larger ones
}

// longestLead limits the lead, in ns. If a write takes longer, the thread was not running in between.
const longestLead = 20_000

// of returns the lead for a packet of size bytes.
func (l *lead) of(size int) int64 {
	if size <= smallBuffer {
		return l.small
	}
	return l.large
}

// add adds a write of size bytes that took so many ns.
func (l *lead) add(size int, took int64) {
	v := &l.large
	if size <= smallBuffer {
		v = &l.small
	}
	*v += (min(took, longestLead) - *v) / 16
}
