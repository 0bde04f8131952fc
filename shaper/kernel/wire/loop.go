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

// How the thread waits. Waking up takes 20 to 60 us on a virtual machine, so it is
// awake that long before a packet is due; and as long after the last one came, for
// the next one.
const (
	awakeBefore = 60 * time.Microsecond
	awakeAfter  = 60 * time.Microsecond
)

// writeBatch is the most packets that are written before what has come is read.
const writeBatch = 8

// run is the thread. It ends when the fabric is closed, or with an error.
func (w *Wire) run() error {
	runtime.LockOSThread() // not unlocked: the thread ends with its settings
	// The kernel may otherwise let a sleeper lie 50 us longer.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer's slack: %w", err)
	}
	// Without it packets are late more often, which the verdict says.
	if err := comeFirst(); err != nil {
		w.file.Event(fmt.Sprintf("wire: %v", err))
	}
	busy := int64(0) // when there was something to do last
	for !w.closing.Load() {
		n, err := w.take()
		if err != nil {
			return err
		}
		now := w.clock.now()
		if w.give(now) || n > 0 {
			busy = now
			continue
		}
		wait := w.next() - now
		if wait < int64(awakeBefore) || now-busy < int64(awakeAfter) {
			continue
		}
		if err := w.sleep(wait - int64(awakeBefore)); err != nil {
			return err
		}
	}
	return nil
}

// take reads what has come and gives it to the model.
func (w *Wire) take() (int, error) {
	n, err := w.socket.read(&w.model.pool)
	if n == 0 || err != nil {
		return 0, err
	}
	now, fromWall := w.clock.both()
	for i := range n {
		arrived, stamp, tagged := now, int64(0), false
		if stamp, tagged = w.socket.notes(i); stamp != 0 {
			arrived = min(stamp+fromWall, now)
		}
		w.reaction.add(now - arrived)
		w.accept(i, arrived, tagged)
	}
	return n, nil
}

// accept gives message i of the last read to the model, if it is a packet that goes
// anywhere. One with a VLAN tag does not: the tag would be lost.
func (w *Wire) accept(i int, arrived int64, tagged bool) {
	src, n := w.socket.message(i)
	if src < 0 {
		return
	}
	tx, slot := &w.model.hops[2*src], w.socket.slots[i]
	h, err := parse(slot.buf[:n])
	if err != nil || tagged {
		w.model.drop(tx, 1)
		w.strange.Add(1)
		return
	}
	dst := w.destination(src, slot.buf[vnetLen:])
	if dst == nowhere {
		return
	}
	p := slot
	if n <= smallBuffer {
		if p = w.model.pool.get(n); p == nil {
			w.model.starve(tx, h.packets)
			return
		}
		copy(p.buf, slot.buf[:n])
	} else {
		w.socket.slots[i] = nil
		p.buf = p.buf[:n]
	}
	p.headers, p.src, p.dst = h, src, dst
	// Packets of one NIC arrive in order, also if the clock was set in between.
	p.arrived = max(arrived, w.lastArrived[src])
	w.lastArrived[src] = p.arrived
	p.class = w.flows.classOf(p)
	w.model.arrive(p)
}

// nowhere is the destination of what leaves the fabric: to NICs of its own node,
// which do not need a switch, and to addresses that nobody has.
const nowhere = -1

// destination is the NIC that a frame is for.
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

// give writes what is due, and says whether anything was.
func (w *Wire) give(now int64) bool {
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

// next is when the thread has something to do next, if nothing comes.
func (w *Wire) next() int64 {
	at := w.model.crossing.next()
	if p := w.model.leaving.head(); p != nil {
		at = min(at, p.due-w.lead.of(len(p.buf)))
	}
	return at
}

// written counts a packet that was written and gives it back.
func (w *Wire) written(p *packet, began, now int64, err error) {
	link := w.model.fabric.Link(p.src, p.dst)
	if err == nil {
		w.lead.learn(len(p.buf), now-began)
		w.writing.add(now - began)
		w.cells[link].Judge(uint64(p.headers.payloadOf(0, p.headers.packets)), p.arrived, p.due, now, w.scale)
	} else {
		// The NIC is gone or was set down by somebody in its node.
		w.model.drop(&w.model.hops[2*p.dst+1], p.headers.packets)
		w.refused.Add(1)
	}
	w.model.pool.put(p)
}

// sleep waits until something comes, at most ns.
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

// stop ends run.
func (w *Wire) stop() {
	w.closing.Store(true)
	one := uint64(1)
	// It cannot fail: nothing else is ever added.
	_, _ = unix.Write(w.wake, unsafe.Slice((*byte)(unsafe.Pointer(&one)), 8))
}

// lead is how long the thread takes to write a packet, which is how long before it is
// due it begins. Writing is one copy, so it is a constant and a part by size; each is
// a moving mean.
type lead struct {
	small, large int64 // ns, of packets of up to smallBuffer bytes and of larger ones
}

// longestLead bounds the lead: what takes longer is the thread being kept from
// running.
const longestLead = 20_000

func (l *lead) of(size int) int64 {
	if size <= smallBuffer {
		return l.small
	}
	return l.large
}

func (l *lead) learn(size int, took int64) {
	v := &l.large
	if size <= smallBuffer {
		v = &l.small
	}
	*v += (min(took, longestLead) - *v) / 16
}
