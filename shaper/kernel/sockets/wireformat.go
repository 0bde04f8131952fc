// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// The wire format: a client sends one request and receives one answer, each as one packet of a Unix socket. Numbers are
// little-endian.
//
//	request  magic (8), NIC (2), IP version (1), 0 (5)
//	answer   magic (8), 1 if refused (1), 0 (7), IPv6 or IPv4-mapped address (16), reason if refused
const (
	requestMagic = 0x31716572_6d656464 // "ddemreq1"
	answerMagic  = 0x31736e61_6d656464 // "ddemans1"
	requestSize  = 16
	answerHeader = 32
	maxRefusal   = 256
)

// Request asks for one TCP socket.
type Request struct {
	NIC  int // number in the fabric, 0 to 65535
	IPv6 bool
}

func (r Request) marshal() []byte {
	b := make([]byte, requestSize)
	binary.LittleEndian.PutUint64(b, requestMagic)
	binary.LittleEndian.PutUint16(b[8:], uint16(r.NIC))
	b[10] = 4
	if r.IPv6 {
		b[10] = 6
	}
	return b
}

// parseRequest parses a request. The bytes may come from any program.
func parseRequest(b []byte) (Request, error) {
	switch {
	case len(b) != requestSize:
		return Request{}, fmt.Errorf("the request has %d bytes, not %d: another version of the plugin?", len(b),
			requestSize)
	case binary.LittleEndian.Uint64(b) != requestMagic:
		return Request{}, errors.New("the request is not ddlemu's")
	case b[10] != 4 && b[10] != 6:
		return Request{}, fmt.Errorf("the request is for IP version %d", b[10])
	case [5]byte(b[11:]) != [5]byte{}:
		return Request{}, errors.New(
			"the request sets bytes that this version does not know: another version of the plugin?")
	}
	return Request{NIC: int(binary.LittleEndian.Uint16(b[8:])), IPv6: b[10] == 6}, nil
}

// answer is the daemon's answer to a request: it comes with a socket, or refuses it.
type answer struct {
	addr    netip.Addr // of the NIC
	refusal string     // why there is no socket; marshal truncates it to maxRefusal bytes
}

func (a answer) marshal() []byte {
	b := make([]byte, answerHeader, answerHeader+len(a.refusal))
	binary.LittleEndian.PutUint64(b, answerMagic)
	if a.refusal != "" {
		b[8] = 1
		return append(b, a.refusal[:min(len(a.refusal), maxRefusal)]...)
	}
	a16 := a.addr.As16()
	copy(b[16:], a16[:])
	return b
}

func parseAnswer(b []byte) (answer, error) {
	switch {
	case len(b) < answerHeader || binary.LittleEndian.Uint64(b) != answerMagic || b[8] > 1:
		return answer{}, errors.New("the answer of the fabric's daemon is malformed: is the daemon another version?")
	case b[8] == 1:
		return answer{refusal: string(b[answerHeader:])}, nil
	case len(b) != answerHeader:
		return answer{}, fmt.Errorf("the answer of the fabric's daemon has %d bytes, not %d", len(b), answerHeader)
	}
	return answer{addr: netip.AddrFrom16([16]byte(b[16:32])).Unmap()}, nil
}
