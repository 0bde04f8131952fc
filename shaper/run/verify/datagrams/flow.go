// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// flow is a stream and its two sockets. The first 8 bytes of a datagram are a header: its number in the upper half, the
// flow's tag in the lower half. One goroutine sends and one receives.
type flow struct {
	verify.Stream
	tag      uint32
	start    time.Time // zero of all times
	from, to *net.UDPConn

	greetings int // greetings that were sent
	buf       []byte
	sent      []int64      // by number, ns since start
	arrived   []int64      // by number, ns since start, 0 if lost
	seen      []int64      // by number, ns since start, 0 if lost
	next      atomic.Int64 // highest number that was received, plus 1
	connected atomic.Bool  // a greeting was received
}

// greeting is the number of the datagrams that are sent before the stream, until one of them is received.
const greeting = 1<<32 - 1

// A wakeup costs more CPU time than sending or receiving a datagram, so flows sleep for longer than they have to.
const (
	windowSleep   = 2 * time.Millisecond   // a sender whose window is full
	receiveSleep  = time.Millisecond       // a receiver whose last read took longer than readWaited
	readWaited    = 20 * time.Microsecond  // a read that takes longer had to wait for a datagram
	greetingSleep = 200 * time.Microsecond // a sender that waits for its greeting
)

// now returns the time since start in ns.
func (f *flow) now() int64 { return int64(time.Since(f.start)) }

// interrupt ends all reads and writes of the flow.
func (f *flow) interrupt() {
	past := time.Unix(1, 0)
	_ = f.from.SetDeadline(past) // succeeds: both sockets are open until close
	_ = f.to.SetDeadline(past)
}

// close closes both sockets. No goroutine may use them any more.
func (f *flow) close() {
	_ = f.from.Close()
	_ = f.to.Close()
}

// fill returns n datagrams with increasing numbers from first on, or n greetings.
func (f *flow) fill(first int64, n int) []byte {
	for i := range n {
		number := uint64(first)
		if first != greeting {
			number += uint64(i)
		}
		binary.LittleEndian.PutUint64(f.buf[i*f.Size:], number<<32|uint64(f.tag))
	}
	return f.buf[:n*f.Size]
}

// greet sends greetings until one is received, at most for timeout. If no burst is received, because a kernel cannot
// forward it unsegmented, greet tries single datagrams, again for timeout.
func (f *flow) greet(ctx context.Context, timeout time.Duration) {
	for ; ; f.Burst = 1 {
		for end := time.Now().Add(timeout); !f.connected.Load() && ctx.Err() == nil && time.Now().Before(end); {
			if f.write(f.fill(greeting, f.Burst)) != nil {
				return // send will return the error
			}
			f.greetings += f.Burst
			for again := time.Now().Add(greetingPeriod); !f.connected.Load() && ctx.Err() == nil &&
				time.Now().Before(again); {
				time.Sleep(greetingSleep)
			}
		}
		if f.Burst == 1 || f.connected.Load() {
			return
		}
	}
}

// send sends the stream until a time, or until Most datagrams are sent.
func (f *flow) send(ctx context.Context, end time.Time) error {
	if !f.connected.Load() {
		return nil
	}
	next := time.Now()
	for n := 0; f.Most == 0 || n < f.Most; n += f.Burst {
		for n+f.Burst-int(f.next.Load()) > f.Window && ctx.Err() == nil && time.Now().Before(end) {
			time.Sleep(windowSleep)
		}
		time.Sleep(time.Until(next))
		now := time.Now()
		if ctx.Err() != nil || !now.Before(end) {
			return nil
		}
		next = now.Add(f.Spacing)
		block := f.fill(int64(n), f.Burst)
		at := f.now()
		for range f.Burst {
			f.sent = append(f.sent, at)
		}
		if err := f.write(block); err != nil {
			return err
		}
	}
	return nil
}

// write sends a block of datagrams. Some errors say that the kernel lost an earlier datagram. They are ignored, because
// the receiver notices the loss.
func (f *flow) write(block []byte) error {
	_, err := f.from.Write(block)
	for _, lost := range []error{unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENOBUFS, os.ErrDeadlineExceeded} {
		if errors.Is(err, lost) {
			return nil
		}
	}
	return err
}

// waitReceived waits until the last datagram is received, at most until a time.
func (f *flow) waitReceived(ctx context.Context, end time.Time) {
	for int(f.next.Load()) < len(f.sent) && ctx.Err() == nil && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
}

// receive records the datagrams that arrive until the flow is interrupted.
func (f *flow) receive() error {
	buf, control := make([]byte, 64<<10), make([]byte, 256)
	for last := time.Now(); ; last = time.Now() {
		n, m, _, _, err := f.to.ReadMsgUDPAddrPort(buf, control)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		now := time.Now()
		seen := int64(now.Sub(f.start))
		stamp, size := parseControl(control[:m])
		arrived := seen
		if stamp != 0 {
			arrived = min(stamp-now.UnixNano()+seen, seen)
		}
		if size == 0 {
			size = f.Size
		}
		for rest := buf[:n]; len(rest) >= verify.LeastDatagram; rest = rest[min(size, len(rest)):] {
			f.record(binary.LittleEndian.Uint64(rest), arrived, seen)
		}
		if f.Spacing == 0 && now.Sub(last) > readWaited {
			time.Sleep(receiveSleep) // the kernel records the times of arrival meanwhile
		}
	}
}

// record records the times of a datagram, given its header.
func (f *flow) record(header uint64, arrived, seen int64) {
	number := int64(header >> 32)
	switch {
	case uint32(header) != f.tag:
		return // the datagram is another program's
	case number == greeting:
		f.connected.Store(true)
		return
	}
	for int64(len(f.arrived)) <= number {
		f.arrived, f.seen = append(f.arrived, 0), append(f.seen, 0)
	}
	if f.arrived[number] == 0 {
		f.arrived[number], f.seen[number] = arrived, seen
	}
	if number >= f.next.Load() {
		f.next.Store(number + 1)
	}
}

// packets returns the times of the stream's datagrams. Nothing may send or receive any more.
func (f *flow) packets() verify.Packets {
	n := min(len(f.sent), len(f.arrived))
	return verify.Packets{Sent: f.sent, Arrived: f.arrived[:n], Seen: f.seen[:n]}
}
