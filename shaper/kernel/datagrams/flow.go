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

	"github.com/ddlemu/ddlemu/shaper/verify"
)

// flow is a stream and its two sockets. A datagram begins with a word of its number and
// the flow's tag. One goroutine sends, one receives.
type flow struct {
	verify.Stream
	tag      uint32
	zero     time.Time
	from, to *net.UDPConn

	greetings int // datagrams that were sent to see whether they come
	buf       []byte
	sent      []int64
	arrived   []int64
	seen      []int64
	next      atomic.Int64 // number behind the highest that came
	met       atomic.Bool
}

// greeting is the number of datagrams that are no part of the stream.
const greeting = 1<<32 - 1

// Waking up costs more than sending or receiving does, so a stream does it seldom.
const (
	windowNap = 2 * time.Millisecond // of a sender whose window is full
	emptyNap  = time.Millisecond     // of a receiver that had to wait
	waited    = 20 * time.Microsecond

	meetNap = 200 * time.Microsecond
)

// now is the time since zero in ns.
func (f *flow) now() int64 { return int64(time.Since(f.zero)) }

// interrupt ends what waits for a socket.
func (f *flow) interrupt() {
	past := time.Unix(1, 0)
	_ = f.from.SetDeadline(past) // both are open until close
	_ = f.to.SetDeadline(past)
}

// close closes both sockets, of which nobody waits for anything.
func (f *flow) close() {
	_ = f.from.Close()
	_ = f.to.Close()
}

// put makes n datagrams that begin with a number, counting up from first.
func (f *flow) put(first int64, n int) []byte {
	for i := range n {
		number := uint64(first)
		if first != greeting {
			number += uint64(i)
		}
		binary.LittleEndian.PutUint64(f.buf[i*f.Size:], number<<32|uint64(f.tag))
	}
	return f.buf[:n*f.Size]
}

// meet sends greetings until one has come, at most for so long. Where a burst does not
// come, as where a kernel cannot hand it over whole, single datagrams are tried.
func (f *flow) meet(ctx context.Context, most time.Duration) {
	for ; ; f.Burst = 1 {
		for end := time.Now().Add(most); !f.met.Load() && ctx.Err() == nil && time.Now().Before(end); {
			if f.write(f.put(greeting, f.Burst)) != nil {
				return // as send will say
			}
			f.greetings += f.Burst
			for again := time.Now().Add(meetEvery); !f.met.Load() && ctx.Err() == nil && time.Now().Before(again); {
				time.Sleep(meetNap)
			}
		}
		if f.Burst == 1 || f.met.Load() {
			return
		}
	}
}

// send sends the stream until a time or until its most are sent.
func (f *flow) send(ctx context.Context, end time.Time) error {
	if !f.met.Load() {
		return nil
	}
	next := time.Now()
	for n := 0; f.Most == 0 || n < f.Most; n += f.Burst {
		for n+f.Burst-int(f.next.Load()) > f.Window && ctx.Err() == nil && time.Now().Before(end) {
			time.Sleep(windowNap)
		}
		time.Sleep(time.Until(next))
		now := time.Now()
		if ctx.Err() != nil || !now.Before(end) {
			return nil
		}
		next = now.Add(f.Spacing)
		block := f.put(int64(n), f.Burst)
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

// write writes a block. That the kernel tells of one before that it was lost on the way is
// no error: it does not come.
func (f *flow) write(block []byte) error {
	_, err := f.from.Write(block)
	for _, lost := range []error{unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENOBUFS, os.ErrDeadlineExceeded} {
		if errors.Is(err, lost) {
			return nil
		}
	}
	return err
}

// await waits until the last datagram has come, at most until a time.
func (f *flow) await(ctx context.Context, most time.Time) {
	for int(f.next.Load()) < len(f.sent) && ctx.Err() == nil && time.Now().Before(most) {
		time.Sleep(time.Millisecond)
	}
}

// receive notes what comes until it is interrupted.
func (f *flow) receive() error {
	buf, notes := make([]byte, 64<<10), make([]byte, 256)
	for last := time.Now(); ; last = time.Now() {
		n, m, _, _, err := f.to.ReadMsgUDPAddrPort(buf, notes)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		now := time.Now()
		seen := int64(now.Sub(f.zero))
		stamp, size := read(notes[:m])
		arrived := seen
		if stamp != 0 {
			arrived = min(stamp-now.UnixNano()+seen, seen)
		}
		if size == 0 {
			size = f.Size
		}
		for rest := buf[:n]; len(rest) >= verify.LeastDatagram; rest = rest[min(size, len(rest)):] {
			f.note(binary.LittleEndian.Uint64(rest), arrived, seen)
		}
		if f.Spacing == 0 && now.Sub(last) > waited {
			time.Sleep(emptyNap) // the times are the kernel's
		}
	}
}

// note notes a datagram that begins with a word.
func (f *flow) note(word uint64, arrived, seen int64) {
	number := int64(word >> 32)
	switch {
	case uint32(word) != f.tag:
		return // another program's
	case number == greeting:
		f.met.Store(true)
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

// packets is what became of the stream, once nobody sends or receives.
func (f *flow) packets() verify.Packets {
	n := min(len(f.sent), len(f.arrived))
	return verify.Packets{Sent: f.sent, Arrived: f.arrived[:n], Seen: f.seen[:n]}
}
