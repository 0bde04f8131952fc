// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
)

var someHello = hello{streams: 4, stream: 3, fabric: 7, nonce: 1 << 63, connection: 2, listen: 9, slot: 3,
	generation: 1 << 40, nic: 1}

// A handle may be arbitrary bytes: it is refused unless somebody can listen at its address.
func TestAddressOfAHandle(t *testing.T) {
	e := newEndpoints(t).ends[0]
	for _, addr := range []string{"10.77.0.2:0", "[::]:4711", "0.0.0.0:4711", "255.255.255.255:4711",
		"[ff02::1]:4711"} {
		_, err := e.dial(0, transport.Handle{NIC: 1, Addr: netip.MustParseAddrPort(addr)}, 0)
		if err == nil || !strings.Contains(err.Error(), "nobody can listen") {
			t.Errorf("%s: %v, want a refusal", addr, err)
		}
	}
}

// A hello that is written and read again is the same.
func TestHello(t *testing.T) {
	if got, err := parseHello(someHello.put(), 7); err != nil || got != someHello {
		t.Errorf("%+v was read as %+v, %v", someHello, got, err)
	}
	newer := someHello.put()
	newer[8]++
	for _, tc := range []struct {
		b    []byte
		says string
	}{
		{newer, "version 2"},
		{(&hello{streams: 4, stream: 4, fabric: 7}).put(), "stream 4 of 4"},
		{(&hello{streams: 0, fabric: 7}).put(), "stream 0 of 0"},
		{(&hello{streams: MaxStreams + 1, fabric: 7}).put(), "stream 0 of 9"},
		{(&hello{streams: 1, fabric: 8}).put(), "another fabric"},
		{[]byte("GET / HTTP/1.1\r\n"), "not the plugin"},
	} {
		if _, err := parseHello(tc.b, 7); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("want an error with %q: %v", tc.says, err)
		}
	}
}

// Arbitrary bytes are either refused or read as what they say.
func FuzzHello(f *testing.F) {
	f.Add(someHello.put())
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, helloSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b, 7)
		if err != nil {
			return
		}
		if h.streams < 1 || h.streams > MaxStreams || h.stream >= h.streams {
			t.Errorf("% x was read as stream %d of %d", b, h.stream, h.streams)
		}
		if got, err := parseHello(h.put(), 7); err != nil || got != h {
			t.Errorf("% x was read as %+v, and then as %+v, %v", b, h, got, err)
		}
	})
}
