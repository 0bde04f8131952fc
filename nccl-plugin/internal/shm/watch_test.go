// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/commtest"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// within asks until it gets an error, for 10 s at most.
func within(t *testing.T, ask func() error) error {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		if err := ask(); err != nil {
			return err
		}
	}
	return errors.New("no error in 10 s")
}

// Nobody tells a listen which rank will connect: it gives up when there is none left.
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

// A connection's peer is gone, even if another process has its place.
func TestPlaceOfAPeerIsTakenOver(t *testing.T) {
	p := newPair(t, unshaped, rdma, 64<<20)
	b := commtest.NewBuffer(64)
	defer b.Free()
	r, err := commtest.Irecv(p.recv, b, b.Len())
	if err != nil {
		t.Fatal(err)
	}
	before := p.ends[0].Me
	// Both between two looks of the other end, except once in thousands of runs.
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
