// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/ddlemu/ddlemu/shaper/state"
)

// What the connecting side of a connection sends first.
const (
	pluginMagic = "ddlemuP1"         // libgoemu.so
	ncclMagic   = 0x564ab9f2fc4b9d6c // NCCL's sockets, unless a communicator has its own
	ncclFirst   = 12                 // NCCL's magic, and the kind of socket
)

// Kinds of NCCL's sockets that are for setting up (enum ncclSocketType).
const (
	ncclBootstrap = 1
	ncclProxy     = 2
)

// The table of connections has room for 8 times what a place in it can be taken by.
// When all of those are taken, the one that has been quiet longest gives way.
const (
	flowSlots = 1 << 13
	flowWays  = 8
)

// tcpSYN and tcpACK are TCP flags.
const (
	tcpSYN = 2
	tcpACK = 16
)

// flow is a TCP connection. Its key is both ends' NICs and ports, the lower first.
type flow struct {
	key     uint64
	used    int64 // when a packet of it came
	begin   uint32
	fromLow bool // who connected
	got     uint8
	single  bool // the magic came alone, as NCCL sends it
	decided bool
	class   uint8
	first   [ncclFirst]byte
}

// flows says of TCP connections what they are for, by the first bytes that their
// connecting side sends. What began before it was looked at is of no class.
type flows struct {
	table [flowSlots]flow
}

// classOf is the flow class of a packet.
func (t *flows) classOf(p *packet) int {
	h := &p.headers
	if h.protocol != protoTCP || p.dst < 0 {
		return state.OtherFlow
	}
	l4 := p.buf[vnetLen+h.l4:]
	low := uint64(p.src)<<16 | uint64(binary.BigEndian.Uint16(l4))
	high := uint64(p.dst)<<16 | uint64(binary.BigEndian.Uint16(l4[2:]))
	fromLow := low < high
	if !fromLow {
		low, high = high, low
	}
	key, seq, kind := low<<32|high, binary.BigEndian.Uint32(l4[4:]), l4[13]
	opens := kind&(tcpSYN|tcpACK) == tcpSYN
	f := t.find(key, opens)
	if f == nil {
		return state.OtherFlow
	}
	if opens {
		*f = flow{key: key, begin: seq + 1, fromLow: fromLow, class: state.OtherFlow}
	}
	f.used = p.arrived
	if !f.decided && f.fromLow == fromLow {
		f.learn(seq, l4[h.payload-h.l4:])
	}
	return int(f.class)
}

// find is the place of a connection, or the one that a new one gets.
func (t *flows) find(key uint64, make bool) *flow {
	at := int((key * 0x9e3779b97f4a7c15) >> 32 % (flowSlots / flowWays))
	ways := t.table[at*flowWays : (at+1)*flowWays]
	oldest := &ways[0]
	for i := range ways {
		if ways[i].key == key {
			return &ways[i]
		}
		if ways[i].used < oldest.used {
			oldest = &ways[i]
		}
	}
	if !make {
		return nil
	}
	return oldest
}

// learn looks at data that the connecting side sent.
func (f *flow) learn(seq uint32, data []byte) {
	if len(data) == 0 || seq-f.begin != uint32(f.got) {
		return // nothing, or not what comes next: it comes again
	}
	n := copy(f.first[f.got:], data)
	f.single = f.single || f.got == 0 && len(data) == len(pluginMagic)
	f.got += uint8(n)
	if int(f.got) < len(pluginMagic) {
		return
	}
	if bytes.HasPrefix(f.first[:], []byte(pluginMagic)) {
		f.decided, f.class = true, state.PluginFlow
		return
	}
	// A communicator may have a magic of its own, which NCCL sends in a packet of
	// its own.
	if binary.LittleEndian.Uint64(f.first[:]) != ncclMagic && !f.single {
		f.decided = true
		return
	}
	if f.got < ncclFirst {
		return
	}
	f.decided = true
	if k := binary.LittleEndian.Uint32(f.first[8:]); k == ncclBootstrap || k == ncclProxy {
		f.class = state.BootstrapFlow
	}
}
