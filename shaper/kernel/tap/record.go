// SPDX-License-Identifier: Apache-2.0

package tap

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxSnap is the most bytes of a packet that a record has.
const MaxSnap = 256

// NoHop is the hop of a notice about packets whose link is not known.
const NoHop = ^uint32(0)

// Fate says what happened to a packet. The eBPF programs have the same numbers (tap.h).
type Fate uint8

// Fates.
const (
	Sent     Fate = iota
	Marked        // sent with an ECN mark
	Lost          // dropped by the loss of the link
	Down          // dropped because the link or a port is down
	LinkFull      // dropped by the queue of the link
	PortFull      // dropped by the queue of the receive port
	Seen          // it came to the switch; what happened to it is not known
	Notice        // there is no packet: the record only tells how many are missing
)

// Dropped reports whether the packet was dropped.
func (f Fate) Dropped() bool { return f == Lost || f == Down || f == LinkFull || f == PortFull }

// Record is a packet on a link, or what segmentation offload (GSO) has not yet divided into packets. Times are
// CLOCK_MONOTONIC in ns, not scaled.
type Record struct {
	Enqueued int64  // when the packet came to the link
	Departs  int64  // when the link model lets it arrive; 0 if the shaper's queues decide, or if it was dropped
	Missed   uint64 // how many records of this link were left out since the one before
	Hop      uint32 // of the link, see fabric.Fabric.Hops
	Length   uint32 // bytes of the packet with its Ethernet header
	Packets  uint16 // how many packets it is on the link; 0 if that is not known
	Fate     Fate   //
	Data     []byte // the first bytes of the packet, at most MaxSnap
}

// headerSize is the length of a record without its data: struct tap_record in tap.h up to its data.
const headerSize = 40

// errRecord says that bytes are not a record.
var errRecord = errors.New("the tap's record is malformed: is the fabric's daemon another version?")

// Append appends the record to b, as the eBPF programs write it, with no more data than it has.
func (r *Record) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Enqueued))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Departs))
	b = binary.LittleEndian.AppendUint64(b, r.Missed)
	b = binary.LittleEndian.AppendUint32(b, r.Hop)
	b = binary.LittleEndian.AppendUint32(b, r.Length)
	b = binary.LittleEndian.AppendUint16(b, r.Packets)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.Data)))
	b = append(b, byte(r.Fate), 0, 0, 0)
	return append(b, r.Data...)
}

// Parse reads the record at the begin of b, and returns the rest. The record's data are part of b.
func Parse(b []byte) (r Record, rest []byte, err error) {
	if len(b) < headerSize {
		return r, nil, errRecord
	}
	n := int(binary.LittleEndian.Uint16(b[34:]))
	r = Record{
		Enqueued: int64(binary.LittleEndian.Uint64(b)), Departs: int64(binary.LittleEndian.Uint64(b[8:])),
		Missed: binary.LittleEndian.Uint64(b[16:]),
		Hop:    binary.LittleEndian.Uint32(b[24:]), Length: binary.LittleEndian.Uint32(b[28:]),
		Packets: binary.LittleEndian.Uint16(b[32:]), Fate: Fate(b[36]),
	}
	if n > MaxSnap || len(b) < headerSize+n || r.Fate > Notice || uint32(n) > r.Length {
		return Record{}, nil, errRecord
	}
	r.Data = b[headerSize : headerSize+n]
	return r, b[headerSize+n:], nil
}

// Kind says what a daemon reads the packets with.
type Kind uint8

// Kinds.
const (
	Programs Kind = iota + 1 // the eBPF programs of the shaper: they know what happens to a packet
	Socket                   // a packet socket at the switch: it sees packets before the shaper
)

// The wire format: a client sends one request, as one packet of the daemon's Unix socket. After the daemon's answer
// (see sockets.Server) comes a greeting with the kind, then packets of records until the daemon closes the connection.
//
//	request   magic (8), most bytes of a packet (2), 0 (6)
//	greeting  magic (8), kind (1)
const (
	requestMagic  = 0x31706174_6d656464 // "ddemtap1"
	greetingMagic = 0x31746872_6d656464 // "ddemrht1"
	requestSize   = 16
	greetingSize  = 9
	maxMessage    = 60_000 // bytes of records in one packet
)

func marshalRequest(snap int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, requestMagic)
	b = binary.LittleEndian.AppendUint16(b, uint16(snap))
	return append(b, make([]byte, requestSize-len(b))...)
}

// parseRequest parses a request. The bytes may come from any program. isTap is false if they are a request for
// something else.
func parseRequest(b []byte) (snap int, isTap bool, err error) {
	if len(b) < 8 || binary.LittleEndian.Uint64(b) != requestMagic {
		return 0, false, nil
	}
	if len(b) != requestSize || [6]byte(b[10:16]) != [6]byte{} {
		return 0, true, errors.New("the request sets bytes that this version does not know: another version of ddlemu?")
	}
	snap = int(binary.LittleEndian.Uint16(b[8:]))
	if snap < 1 || snap > MaxSnap {
		return 0, true, fmt.Errorf("%d bytes of each packet are asked for: the least is 1, the most %d", snap, MaxSnap)
	}
	return snap, true, nil
}

func marshalGreeting(k Kind) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, greetingMagic), byte(k))
}

func parseGreeting(b []byte) (Kind, error) {
	if len(b) != greetingSize || binary.LittleEndian.Uint64(b) != greetingMagic {
		return 0, errors.New("the greeting of the fabric's daemon is malformed: is the daemon another version?")
	}
	return Kind(b[8]), nil
}
