// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// The words on the wire: one request, one answer, each one packet of a unix socket.
// Little-endian.
const (
	requestMagic = 0x31716572_6d656464 // "ddemreq1"
	answerMagic  = 0x31736e61_6d656464 // "ddemans1"
	requestSize  = 16
	answerHeader = 32
	maxText      = 256
)

// Request asks for one TCP socket.
type Request struct {
	NIC  int // number in the fabric, which says the node too; 0 to 65535
	IPv6 bool
}

// put writes a request as its bytes.
func (r Request) put() []byte {
	b := make([]byte, requestSize)
	binary.LittleEndian.PutUint64(b, requestMagic)
	binary.LittleEndian.PutUint16(b[8:], uint16(r.NIC))
	b[10] = 4
	if r.IPv6 {
		b[10] = 6
	}
	return b
}

// parseRequest reads a request, which may be anybody's bytes.
func parseRequest(b []byte) (Request, error) {
	switch {
	case len(b) != requestSize:
		return Request{}, fmt.Errorf("the request has %d bytes, not %d: another version of the plugin?", len(b), requestSize)
	case binary.LittleEndian.Uint64(b) != requestMagic:
		return Request{}, errors.New("the request is not ddlemu's")
	case b[10] != 4 && b[10] != 6:
		return Request{}, fmt.Errorf("the request is for IP version %d", b[10])
	case [5]byte(b[11:]) != [5]byte{}:
		return Request{}, errors.New("the request has more in it than this version knows")
	}
	return Request{NIC: int(binary.LittleEndian.Uint16(b[8:])), IPv6: b[10] == 6}, nil
}

// answer is what comes with a socket, or in its place.
type answer struct {
	addr netip.Addr // of the NIC
	why  string     // there is no socket; at most maxText bytes are sent
}

func (a answer) put() []byte {
	b := make([]byte, answerHeader, answerHeader+len(a.why))
	binary.LittleEndian.PutUint64(b, answerMagic)
	if a.why != "" {
		b[8] = 1
		return append(b, a.why[:min(len(a.why), maxText)]...)
	}
	a16 := a.addr.As16()
	copy(b[16:], a16[:])
	return b
}

// parseAnswer reads an answer.
func parseAnswer(b []byte) (answer, error) {
	switch {
	case len(b) < answerHeader || binary.LittleEndian.Uint64(b) != answerMagic || b[8] > 1:
		return answer{}, errors.New("the fabric's daemon answered with something else than a socket: is it of another version?")
	case b[8] == 1:
		return answer{why: string(b[answerHeader:])}, nil
	case len(b) != answerHeader:
		return answer{}, fmt.Errorf("the answer of the fabric's daemon has %d bytes, not %d", len(b), answerHeader)
	}
	return answer{addr: netip.AddrFrom16([16]byte(b[16:32])).Unmap()}, nil
}
