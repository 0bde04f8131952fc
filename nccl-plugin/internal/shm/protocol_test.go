// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/commtest"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Values of ddlemu_flow.lock.
const (
	lockedBySender   = 1
	lockedByReceiver = 2
)

// maxMessages is how many messages a sender may be ahead of its receiver.
const maxMessages = 1024

// A sender of small messages runs ahead of its receiver until the table of messages is
// full, and goes on when the receiver has caught up. Each entry of the table is used
// several times, and no message is lost or changed.
func TestSenderFarAhead(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	b := commtest.NewBuffer(8)
	defer b.Free()
	sent, received := uint64(0), uint64(0)
	for begin := time.Now(); received < 3*maxMessages; {
		for {
			binary.LittleEndian.PutUint64(b.Bytes(), sent)
			s, err := commtest.Isend(p.send, b, 8)
			if err != nil {
				t.Fatal(err, transport.TakeError())
			}
			if s == nil {
				break
			}
			sent++
			if err := ends(t, "send", s); err != nil {
				t.Fatal(err)
			}
		}
		if sent > received+maxMessages {
			t.Fatalf("%d messages were sent when %d were received", sent, received)
		}
		if sent < received+maxMessages { // the sender does not know yet what the receiver has done
			if time.Since(begin) > 30*time.Second {
				t.Fatalf("the sender stopped after %d messages, of which %d were received", sent, received)
			}
			continue
		}
		for ; received < sent; received++ {
			r, err := commtest.Irecv(p.recv, b, 8)
			if err != nil || r == nil {
				t.Fatal(r, err)
			}
			if err := ends(t, "receive", r); err != nil {
				t.Fatal(err)
			}
			if got := binary.LittleEndian.Uint64(b.Bytes()); got != received {
				t.Fatalf("message %d has the content of message %d", received, got)
			}
		}
	}
}

// A message without bytes is received when its header has crossed a hop, and not
// when the model knows how long that takes.
func TestEmptyMessageIsNotEarly(t *testing.T) {
	wire := link.Spec{Bandwidth: 1e6, MTU: 9000, Header: 1000}
	params, err := link.NewParams(wire, 1)
	if err != nil {
		t.Fatal(err)
	}
	p := newPair(t, wire, tcp, 64<<20)
	b := commtest.NewBuffer(1)
	defer b.Free()
	r, err := commtest.Irecv(p.recv, b, 0)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := commtest.Isend(p.send, b, 0); err != nil {
		t.Fatal(err)
	}
	if err := ends(t, "receive", r); err != nil || time.Since(begin) < time.Duration(params.Serialization(0)) {
		t.Errorf("received after %v, %v; a hop takes %v", time.Since(begin), err,
			time.Duration(params.Serialization(0)))
	}
}

// inFlight sends a message that is due in 50 ms, and posts its receive.
func (p *pair) inFlight(t *testing.T) *commtest.Request {
	t.Helper()
	b := commtest.NewBuffer(8)
	t.Cleanup(b.Free)
	if s, err := commtest.Isend(p.send, b, 8); err != nil || s == nil {
		t.Fatal(s, err)
	}
	r, err := commtest.Irecv(p.recv, b, 8)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	return r
}

var slow = link.Spec{Latency: 50 * time.Millisecond, MTU: 1500}

// kill makes the sender's process look dead to the receiver.
func (p *pair) kill() {
	p.ends[0].Me.Leave()
	p.ends[1].CheckPeers()
}

// A sender that died while it advanced the link model keeps the lock for ever: its
// receiver gets an error, although the message was sent in full.
func TestSenderDiedWithTheLock(t *testing.T) {
	p := newPair(t, slow, tcp, 64<<20)
	r := p.inFlight(t)
	connOf(p.recv).c.f.lock = lockedBySender
	p.kill()
	wantRemoteError(t, "receive", ends(t, "receive", r))
}

// So does a receiver that cannot post its receive before the model is advanced.
func TestSenderDiedWithTheLockAndTheTableIsFull(t *testing.T) {
	p := newPair(t, slow, tcp, 64<<20)
	b := commtest.NewBuffer(8)
	defer b.Free()
	f := connOf(p.recv).c.f
	f.lock, f.receives_posted = lockedBySender, maxMessages
	p.kill()
	_, err := commtest.Irecv(p.recv, b, 8)
	wantRemoteError(t, "irecv", err)
}

// A sender that was stopped while it advanced the link model of one connection keeps that lock. The receiver's other
// connections go on, although they are late.
func TestSenderStoppedWithTheLock(t *testing.T) {
	p := newPair(t, link.Spec{Latency: time.Millisecond, MTU: 1500}, tcp, 64<<20)
	first := p.inFlight(t)
	connOf(p.recv).c.f.lock = lockedBySender
	p.send, p.recv = p.connect(t)
	second := p.inFlight(t)
	time.Sleep(20 * time.Millisecond)
	if err := ends(t, "receive on another connection", second); err != nil {
		t.Error(err)
	}
	if done, _, err := first.Test(); done || err != nil {
		t.Errorf("receive on the locked connection: %t, %v", done, err)
	}
}

// Another thread of the receiver's own process gives the lock back: the receiver waits
// for it, although the sender is dead.
func TestReceiverWaitsForItsOwnLock(t *testing.T) {
	p := newPair(t, slow, tcp, 64<<20)
	r := p.inFlight(t)
	f := connOf(p.recv).c.f
	f.lock = lockedByReceiver
	p.kill()
	for range 1000 {
		if done, _, err := r.Test(); done || err != nil {
			t.Fatalf("while another thread has the lock: %t, %v", done, err)
		}
	}
	f.lock = 0
	if err := ends(t, "receive", r); err != nil {
		t.Errorf("after the lock was given back: %v", err)
	}
}
