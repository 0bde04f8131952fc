// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/commtest"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// ends waits for a request to be complete or to fail.
func ends(t *testing.T, what string, r *commtest.Request) error {
	t.Helper()
	for begin := time.Now(); ; {
		done, _, err := r.Test()
		if done || err != nil {
			return err
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%s: neither complete nor an error after 10 s", what)
		}
	}
}

func wantRemoteError(t *testing.T, what string, err error) {
	t.Helper()
	var code commtest.Error
	if !errors.As(err, &code) || code != 6 {
		t.Errorf("%s: %v, want ncclRemoteError", what, err)
	}
}

// A send fails if the receiver closes before it has posted the receive: it could never be
// complete.
func TestReceiverClosesBeforeItReceives(t *testing.T) {
	small := link.Transport{Kind: link.TCP, SendBuffer: 64 << 10, Window: 64 << 10, RTO: 200e6, DownTimeout: 1e9}
	for name, tc := range map[string]struct {
		tr   link.Transport
		size int
	}{"rdma": {rdma, 64}, "rdma, nothing": {rdma, 0}, "tcp, more than the window": {small, 200 << 10}} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, unshaped, tc.tr, 64<<20)
			b := commtest.NewBuffer(tc.size + 1)
			defer b.Free()
			s, err := commtest.Isend(p.send, b, tc.size)
			if err != nil || s == nil {
				t.Fatal(s, err)
			}
			p.ends[1].CloseComm(transport.ID(p.recv))
			wantRemoteError(t, "send", ends(t, "send", s))
		})
	}
}

// The sender has closed, and the link stays down for longer than the transport allows: messages
// in flight do not arrive, so the receive fails.
func TestLinkStaysDownAfterTheSenderClosed(t *testing.T) {
	tr := rdma
	tr.DownTimeout = 20e6
	p := newPair(t, unshaped, tr, 64<<20)
	b := commtest.NewBuffer(64)
	defer b.Free()
	down := unshaped
	down.Down = true
	if err := p.file.Change(map[int]link.Spec{4: down}); err != nil {
		t.Fatal(err)
	}
	s, err := commtest.Isend(p.send, b, 64)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	r, err := commtest.Irecv(p.recv, b, 64)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	p.ends[0].CloseComm(transport.ID(p.send))
	begin := state.Now()
	wantRemoteError(t, "receive", ends(t, "receive", r))
	if text := transport.TakeError(); !strings.Contains(text, "the emulated link node0:node1 was down") {
		t.Errorf("the error is %q", text)
	}
	if took := state.Now() - begin; took < 10e6 {
		t.Errorf("failed after %d ns, before the transport's timeout", took)
	}
}

// A receiver has posted its receive, closes and leaves the job, while the message is on the way.
// The message arrives all the same, so the send is complete, at the time that the model says.
func TestSendIsCompleteAfterItsReceiverLeft(t *testing.T) {
	far := unshaped
	far.Latency = 300e6
	p := newPair(t, far, rdma, 64<<20)
	b := commtest.NewBuffer(64)
	defer b.Free()
	r, err := commtest.Irecv(p.recv, b, 64)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	begin := state.Now()
	s, err := commtest.Isend(p.send, b, 64)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	p.ends[1].CloseComm(transport.ID(p.recv))
	p.ends[1].Me.Leave()
	if err := ends(t, "send", s); err != nil {
		t.Fatalf("%v: %s", err, transport.TakeError())
	}
	if took := state.Now() - begin; took < 600e6 {
		t.Errorf("complete after %d ns, want at least twice the latency", took)
	}
}
