// SPDX-License-Identifier: Apache-2.0

package meet

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestHandle(t *testing.T) {
	h := Handle{Fabric: 7, Nonce: 1 << 63, Slot: 3, Listen: 9, NIC: 1, Rank: -1}
	b := [HandleSize]byte{Added: 1, AttemptOffset: 1}
	h.Put(&b, 42)
	if b[Added] != 0 || b[AttemptOffset] != 0 {
		t.Error("what is not the handle's was not cleared")
	}
	if got, err := ParseHandle(&b, 42, 7); err != nil || got != h {
		t.Errorf("%+v came back as %+v, %v", h, got, err)
	}
	for _, tc := range []struct {
		magic, fabric uint64
		says          string
	}{{43, 7, "another datapath"}, {42, 8, "another fabric"}} {
		if _, err := ParseHandle(&b, tc.magic, tc.fabric); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("want an error with %q: %v", tc.says, err)
		}
	}
}

// An attempt is found by its own key, NIC and handle alone, and once.
func TestAttempts(t *testing.T) {
	a := Attempts[Handle, string]{}
	to := Handle{Listen: 1}
	end := a.Begin(5, 2, to)
	if c, ok, err := a.Result(5, 2, to); c != "" || ok || err != nil {
		t.Fatalf("under way: %q, %t, %v", c, ok, err)
	}
	go func() {
		time.Sleep(time.Millisecond)
		end("made", nil)
	}()
	for _, tc := range []struct {
		key uint64
		nic int
		to  Handle
	}{{6, 2, to}, {5, 3, to}, {5, 2, Handle{Listen: 2}}} {
		if _, ok, err := a.Result(tc.key, tc.nic, tc.to); ok || err == nil {
			t.Errorf("%+v was taken for the attempt", tc)
		}
	}
	c, ok, err := a.Result(5, 2, to)
	for begin := time.Now(); !ok && err == nil && time.Since(begin) < 10*time.Second; c, ok, err = a.Result(5, 2, to) {
		time.Sleep(time.Millisecond)
	}
	if c != "made" || !ok || err != nil {
		t.Fatalf("made: %q, %t, %v", c, ok, err)
	}
	if _, ok, err := a.Result(5, 2, to); ok || err == nil {
		t.Error("it was taken twice")
	}
	failure := errors.New("no way")
	a.Begin(7, 2, to)("", failure)
	if _, ok, err := a.Result(7, 2, to); ok || !errors.Is(err, failure) {
		t.Errorf("failed: %t, %v", ok, err)
	}
}
