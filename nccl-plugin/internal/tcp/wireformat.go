// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const handleMagic = 0x3170746868656c64 // "dlehhtp1"

// Each stream begins with these 8 bytes; a shaper tells the plugin's flows by them.
const helloMagic = "ddlemuP1"

const (
	helloVersion = 1
	helloSize    = 64
)

// hello is what the sender says first on each stream.
type hello struct {
	streams, stream uint16 // of the connection; this one's number
	fabric, nonce   uint64
	connection      uint64 // the sender's number for it
	listen, slot    uint32 // the listener's; the sender's
	generation      int64  // the sender's in its slot
	nic             uint32 // the sender's
}

func (h *hello) put() []byte {
	b, le := make([]byte, helloSize), binary.LittleEndian
	copy(b, helloMagic)
	le.PutUint32(b[8:], helloVersion)
	le.PutUint16(b[12:], h.streams)
	le.PutUint16(b[14:], h.stream)
	le.PutUint64(b[16:], h.fabric)
	le.PutUint64(b[24:], h.nonce)
	le.PutUint64(b[32:], h.connection)
	le.PutUint32(b[40:], h.listen)
	le.PutUint32(b[44:], h.slot)
	le.PutUint64(b[48:], uint64(h.generation))
	le.PutUint32(b[56:], h.nic)
	return b
}

// parseHello reads a hello, which may be anybody's bytes.
func parseHello(b []byte, fabric uint64) (hello, error) {
	le := binary.LittleEndian
	if len(b) != helloSize || string(b[:8]) != helloMagic {
		return hello{}, errors.New("what connected is not the plugin")
	}
	if v := le.Uint32(b[8:]); v != helloVersion {
		return hello{}, fmt.Errorf("the peer speaks version %d, this is %d: use one version of the plugin", v,
			helloVersion)
	}
	h := hello{
		streams: le.Uint16(b[12:]), stream: le.Uint16(b[14:]), fabric: le.Uint64(b[16:]), nonce: le.Uint64(b[24:]),
		connection: le.Uint64(b[32:]), listen: le.Uint32(b[40:]), slot: le.Uint32(b[44:]),
		generation: int64(le.Uint64(b[48:])), nic: le.Uint32(b[56:]),
	}
	switch {
	case h.fabric != fabric:
		return hello{}, errors.New("the peer is on another fabric")
	case h.streams < 1 || h.streams > MaxStreams || h.stream >= h.streams:
		return hello{}, fmt.Errorf("the peer says that this is stream %d of %d", h.stream, h.streams)
	}
	return h, nil
}

// The receiver answers each stream with the length of a text and the text: why there
// is no connection, empty if there is one.
const maxAnswer = 255

func putAnswer(why string) []byte {
	why = why[:min(len(why), maxAnswer)]
	return append([]byte{byte(len(why))}, why...)
}
