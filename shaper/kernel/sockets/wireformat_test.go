// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

func TestRequestRoundTrip(t *testing.T) {
	for _, r := range []Request{{}, {NIC: 65535}, {NIC: 300, IPv6: true}} {
		got, err := parseRequest(r.marshal())
		if err != nil || got != r {
			t.Errorf("%+v was parsed as %+v, %v", r, got, err)
		}
	}
}

func TestAnswerRoundTrip(t *testing.T) {
	for _, a := range []answer{{addr: netip.MustParseAddr("10.77.0.1")}, {addr: netip.MustParseAddr("fd00::1")},
		{refusal: "no"}} {
		got, err := parseAnswer(a.marshal())
		if err != nil || got != a {
			t.Errorf("%+v was parsed as %+v, %v", a, got, err)
		}
	}
	if got, err := parseAnswer(answer{refusal: strings.Repeat("x", 1000)}.marshal()); err != nil ||
		len(got.refusal) != maxRefusal {
		t.Errorf("a long refusal was parsed as %d bytes, %v", len(got.refusal), err)
	}
}

// Every request that is accepted has one representation only.
func FuzzRequest(f *testing.F) {
	f.Add(Request{}.marshal())
	f.Add(Request{NIC: 7, IPv6: true}.marshal())
	f.Add([]byte{})
	f.Add(append(Request{}.marshal(), 0))
	f.Add(bytes.Repeat([]byte{0xff}, requestSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRequest(b)
		if err == nil && !bytes.Equal(r.marshal(), b) {
			t.Errorf("% x was parsed as %+v", b, r)
		}
	})
}

// An answer never has both a refusal and an address.
func FuzzAnswer(f *testing.F) {
	f.Add(answer{addr: netip.MustParseAddr("10.77.0.1")}.marshal())
	f.Add(answer{refusal: "no"}.marshal())
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, answerHeader))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnswer(b)
		if err == nil && a.refusal != "" && a.addr.IsValid() {
			t.Errorf("% x was parsed as %+v", b, a)
		}
	})
}
