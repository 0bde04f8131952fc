// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
)

// handleBytes are the bytes of a handle that shm uses.
const handleBytes = 40

// connectWith repeats connect as NCCL does, until it returns a comm or an error.
func connectWith(t testing.TB, e *Endpoint, h [transport.HandleSize]byte) (c unsafe.Pointer, err error) {
	t.Helper()
	for begin := time.Now(); c == nil && err == nil; c, err = e.Connect(0, &h) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("neither a connection nor an error after 20 s")
		}
	}
	return c, err
}

// FuzzHandle connects with arbitrary bytes as a handle, while a listener is open. Either they are
// its handle, or connect soon fails, with an error of one line.
func FuzzHandle(f *testing.F) {
	p := newPair(f, unshaped, tcp, 64<<20)
	var good [transport.HandleSize]byte
	id, err := p.ends[1].Listen(1, &good)
	if err != nil {
		f.Fatal(err)
	}
	defer p.ends[1].CloseListen(id)
	// The input is changes to the good handle, because the nonce differs in every run.
	f.Add([]byte{}, []byte{})
	for at := 0; at < handleBytes; at += 4 {
		change := make([]byte, at+1)
		change[at] = 0x40
		f.Add([]byte{}, change)
	}
	f.Add([]byte{}, append(make([]byte, transport.AttemptOffset), 1))
	f.Add(bytes.Repeat([]byte{0xff}, transport.HandleSize), []byte{})
	f.Add(bytes.Repeat([]byte{0x41}, transport.HandleSize), []byte{})
	f.Fuzz(func(t *testing.T, instead, change []byte) {
		h := good
		copy(h[:], instead)
		for i := range min(len(change), transport.HandleSize) {
			h[i] ^= change[i]
		}
		same := bytes.Equal(h[:handleBytes], good[:handleBytes]) || sameButRank(h, good)
		fresh := binary.LittleEndian.Uint64(h[transport.AttemptOffset:]) == 0
		c, err := connectWith(t, p.ends[0], h)
		switch {
		case err != nil && same && fresh:
			t.Fatalf("refused the good handle: %v", err)
		case err != nil && strings.ContainsAny(err.Error(), "\n\r"):
			t.Fatalf("error of several lines: %q", err)
		case err == nil && !(same && fresh):
			t.Fatalf("connected with % x", h)
		case err == nil:
			p.ends[0].CloseComm(transport.ID(c))
			got, err := p.ends[1].Accept(id)
			if got == nil || err != nil {
				t.Fatalf("accept after connect: %v, %v", got, err)
			}
			p.ends[1].CloseComm(transport.ID(got))
		}
		if got, err := p.ends[1].Accept(id); got != nil || err != nil {
			t.Fatalf("accept of a connection that nobody made: %v, %v", got, err)
		}
	})
}

// sameButRank says whether only the rank differs: it is only used in messages and in the flow's
// number.
func sameButRank(a, b [transport.HandleSize]byte) bool {
	return bytes.Equal(a[:36], b[:36])
}
