// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// The first bytes that the connecting side of a connection sends.
const (
	pluginMagic = "ddlemuP1"         // libgoemu.so
	ncclMagic   = 0x564ab9f2fc4b9d6c // NCCL, unless a communicator has a magic of its own
	ncclHeader  = 12                 // bytes of NCCL's magic and of the type of socket
)

// Types of NCCL's sockets that carry no data of collectives (enum ncclSocketType).
const (
	ncclBootstrap = 1
	ncclProxy     = 2
)

// The table of connections is a set-associative cache. A connection may be in any of the 8 slots of its set. If they
// are all in use, a new connection replaces the one without packets for the longest time.
const (
	flowSlots   = 1 << 13
	slotsPerSet = 8
)

// tcpSYN and tcpACK are TCP flags.
const (
	tcpSYN = 2
	tcpACK = 16
)

// flow is a TCP connection. Its key has the NIC and the port of both ends, the lower first.
type flow struct {
	key      uint64
	lastUsed int64  // arrival of its last packet, in ns
	firstSeq uint32 // sequence number of the first byte from the connecting side
	fromLow  bool   // the lower end of the key is the connecting side
	got      uint8  // how many bytes of first are known
	alone    bool   // the magic came in a segment of its own, as NCCL sends it
	decided  bool   // class is final
	class    uint8
	first    [ncclHeader]byte
}

// flows determines the class of TCP connections from the first bytes that the connecting side sends. Connections whose
// beginning it has not seen are of class state.OtherFlow.
type flows struct {
	table [flowSlots]flow
}

// classOf returns the flow class of a packet.
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
	key, seq, flags := low<<32|high, binary.BigEndian.Uint32(l4[4:]), l4[13]
	opens := flags&(tcpSYN|tcpACK) == tcpSYN
	f := t.find(key, opens)
	if f == nil {
		return state.OtherFlow
	}
	if opens {
		*f = flow{key: key, firstSeq: seq + 1, fromLow: fromLow, class: state.OtherFlow}
	}
	f.lastUsed = p.arrived
	if !f.decided && f.fromLow == fromLow {
		f.inspect(seq, l4[h.payload-h.l4:])
	}
	return int(f.class)
}

// find returns the slot of a connection. If there is none, it returns the slot to replace for a new connection,
// otherwise nil.
func (t *flows) find(key uint64, isNew bool) *flow {
	at := int((key * 0x9e3779b97f4a7c15) >> 32 % (flowSlots / slotsPerSet))
	set := t.table[at*slotsPerSet : (at+1)*slotsPerSet]
	oldest := &set[0]
	for i := range set {
		if set[i].key == key {
			return &set[i]
		}
		if set[i].lastUsed < oldest.lastUsed {
			oldest = &set[i]
		}
	}
	if !isNew {
		return nil
	}
	return oldest
}

// inspect reads data that the connecting side sent, and decides the class once there is enough.
func (f *flow) inspect(seq uint32, data []byte) {
	if len(data) == 0 || seq-f.firstSeq != uint32(f.got) {
		return // out of order: TCP sends the missing bytes again
	}
	n := copy(f.first[f.got:], data)
	f.alone = f.alone || f.got == 0 && len(data) == len(pluginMagic)
	f.got += uint8(n)
	if int(f.got) < len(pluginMagic) {
		return
	}
	if bytes.HasPrefix(f.first[:], []byte(pluginMagic)) {
		f.decided, f.class = true, state.PluginFlow
		return
	}
	// A communicator may have a magic of its own. NCCL sends the magic in a segment of its own.
	if binary.LittleEndian.Uint64(f.first[:]) != ncclMagic && !f.alone {
		f.decided = true
		return
	}
	if f.got < ncclHeader {
		return
	}
	f.decided = true
	if k := binary.LittleEndian.Uint32(f.first[8:]); k == ncclBootstrap || k == ncclProxy {
		f.class = state.BootstrapFlow
	}
}
