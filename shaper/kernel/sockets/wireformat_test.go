// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

func TestRequestThereAndBack(t *testing.T) {
	for _, r := range []Request{{}, {NIC: 65535}, {NIC: 300, IPv6: true}} {
		got, err := parseRequest(r.put())
		if err != nil || got != r {
			t.Errorf("%+v came back as %+v, %v", r, got, err)
		}
	}
}

func TestAnswerThereAndBack(t *testing.T) {
	for _, a := range []answer{{addr: netip.MustParseAddr("10.77.0.1")}, {addr: netip.MustParseAddr("fd00::1")}, {why: "no"}} {
		got, err := parseAnswer(a.put())
		if err != nil || got != a {
			t.Errorf("%+v came back as %+v, %v", a, got, err)
		}
	}
	if got, err := parseAnswer(answer{why: strings.Repeat("x", 1000)}.put()); err != nil || len(got.why) != maxText {
		t.Errorf("a long text came back as %d bytes, %v", len(got.why), err)
	}
}

// A request is good in one form alone, or refused.
func FuzzRequest(f *testing.F) {
	f.Add(Request{}.put())
	f.Add(Request{NIC: 7, IPv6: true}.put())
	f.Add([]byte{})
	f.Add(append(Request{}.put(), 0))
	f.Add(bytes.Repeat([]byte{0xff}, requestSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRequest(b)
		if err == nil && !bytes.Equal(r.put(), b) {
			t.Errorf("% x was read as %+v", b, r)
		}
	})
}

// An answer never carries both a text and an address, nor neither.
func FuzzAnswer(f *testing.F) {
	f.Add(answer{addr: netip.MustParseAddr("10.77.0.1")}.put())
	f.Add(answer{why: "no"}.put())
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, answerHeader))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnswer(b)
		if err == nil && a.why != "" && a.addr.IsValid() {
			t.Errorf("% x was read as %+v", b, a)
		}
	})
}
