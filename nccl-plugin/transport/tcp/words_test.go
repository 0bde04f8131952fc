// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/nccl-plugin/transport/meet"
)

var (
	someHandle = handle{meet.Handle{Fabric: 7, Nonce: 1 << 63, Slot: 3, Listen: 9, NIC: 1, Rank: 5}, netip.MustParseAddrPort("10.77.0.2:4711")}
	someHello  = hello{streams: 4, stream: 3, fabric: 7, nonce: 1 << 63, connection: 2, listen: 9, slot: 3, tenancy: 1 << 40, nic: 1}
)

func TestHandleThereAndBack(t *testing.T) {
	for _, addr := range []string{"10.77.0.2:4711", "[fd00::2]:65535"} {
		h := someHandle
		h.addr = netip.MustParseAddrPort(addr)
		var b [HandleSize]byte
		h.put(&b)
		if got, err := parseHandle(&b, 7); err != nil || got != h {
			t.Errorf("%+v came back as %+v, %v", h, got, err)
		}
		if _, err := parseHandle(&b, 8); err == nil || !strings.Contains(err.Error(), "another fabric") {
			t.Errorf("a handle of another fabric: %v", err)
		}
	}
}

func TestHelloThereAndBack(t *testing.T) {
	if got, err := parseHello(someHello.put(), 7); err != nil || got != someHello {
		t.Errorf("%+v came back as %+v, %v", someHello, got, err)
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

// A handle is anybody's bytes: what is read of it is what it says, and it names a
// place where somebody can listen.
func FuzzHandle(f *testing.F) {
	var good [HandleSize]byte
	someHandle.put(&good)
	f.Add(good[:])
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, HandleSize))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var b, again [HandleSize]byte
		copy(b[:], bytes)
		h, err := parseHandle(&b, 7)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of several lines: %q", err)
			}
			return
		}
		h.put(&again)
		if got, err := parseHandle(&again, 7); err != nil || got != h || h.addr.Port() == 0 || h.Fabric != 7 {
			t.Errorf("% x was read as %+v, and then as %+v, %v", b, h, got, err)
		}
	})
}

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
