// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

const someMagic = 42

var someHandle = Handle{Fabric: 7, Nonce: 1 << 63, Slot: 3, Listen: 9, NIC: 1, Rank: -1,
	Addr: netip.MustParseAddrPort("10.77.0.2:4711")}

// A handle that is written and read again is the same.
func TestHandle(t *testing.T) {
	for _, addr := range []string{"10.77.0.2:4711", "[fd00::2]:65535", "[::]:0"} {
		h := someHandle
		h.Addr = netip.MustParseAddrPort(addr)
		b := [HandleSize]byte{AttemptOffset: 1}
		h.put(&b, someMagic)
		if b[AttemptOffset] != 0 {
			t.Error("put left the attempt of an earlier handle")
		}
		if got, err := ParseHandle(&b, someMagic, 7); err != nil || got != h {
			t.Errorf("wrote %+v, read %+v, %v", h, got, err)
		}
		for _, tc := range []struct {
			magic, fabric uint64
			says          string
		}{{someMagic + 1, 7, "another datapath"}, {someMagic, 8, "another fabric"}} {
			if _, err := ParseHandle(&b, tc.magic, tc.fabric); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want one with %q", err, tc.says)
			}
		}
	}
}

// Arbitrary bytes are either refused, with an error of one line, or read as what they
// say.
func FuzzHandle(f *testing.F) {
	var good [HandleSize]byte
	someHandle.put(&good, someMagic)
	f.Add(good[:])
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, HandleSize))
	f.Fuzz(func(t *testing.T, in []byte) {
		var b, again [HandleSize]byte
		copy(b[:], in)
		h, err := ParseHandle(&b, someMagic, 7)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		h.put(&again, someMagic)
		if got, err := ParseHandle(&again, someMagic, 7); err != nil || got != h || h.Fabric != 7 {
			t.Errorf("% x was read as %+v, and then as %+v, %v", b, h, got, err)
		}
	})
}
