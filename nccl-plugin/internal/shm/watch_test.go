// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/commtest"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// within repeats ask until it returns an error, for 10 s at most.
func within(t *testing.T, ask func() error) error {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		if err := ask(); err != nil {
			return err
		}
	}
	return errors.New("no error in 10 s")
}

// A listener does not know which rank will connect. It gives up when no other rank remains.
func TestAcceptGivesUpWhenNobodyIsLeft(t *testing.T) {
	p := newPair(t, unshaped, rdma, 64<<20)
	var h [transport.HandleSize]byte
	id, err := p.ends[1].Listen(1, &h)
	if err != nil {
		t.Fatal(err)
	}
	accept := func() error {
		c, err := p.ends[1].Accept(id)
		if c != nil {
			t.Fatal("a connection that nobody made")
		}
		return err
	}
	for range 3 {
		time.Sleep(transport.Period)
		if err := accept(); err != nil {
			t.Fatalf("gave up while the other rank lives: %v", err)
		}
	}
	p.ends[0].Me.Leave()
	if err := within(t, accept); !strings.Contains(err.Error(), "left the job") {
		t.Error(err)
	}
}

// The peer is dead even if another process has joined in its slot.
func TestPlaceOfAPeerIsTakenOver(t *testing.T) {
	p := newPair(t, unshaped, rdma, 64<<20)
	b := commtest.NewBuffer(64)
	defer b.Free()
	r, err := commtest.Irecv(p.recv, b, b.Len())
	if err != nil {
		t.Fatal(err)
	}
	before := p.ends[0].Me
	// The other end sees only the result, unless it happens to look between the two calls.
	before.Leave()
	next, err := p.file.Join(before.Job(), state.Rank{Rank: 0, Node: 0, World: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Leave()
	if next.Slot() != before.Slot() {
		t.Fatalf("slot %d, want the free one, %d", next.Slot(), before.Slot())
	}
	err = within(t, func() error {
		_, _, err := r.Test()
		return err
	})
	if text := transport.TakeError(); !strings.Contains(text, "the peer's process died") {
		t.Errorf("%v: %q", err, text)
	}
}
