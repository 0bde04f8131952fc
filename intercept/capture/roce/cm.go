// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"net/netip"
)

// Attributes of the connection manager's messages (chapter 12.6).
const (
	request = 0x10
	reply   = 0x13
	ready   = 0x14

	madSize  = 256
	madData  = 24
	cmClass  = 7
	cmQKey   = 0x80010000
	cmQP     = 1 // that the connection manager's messages are sent from and to
	maxRetry = 7
)

// Connection is two queue pairs.
type Connection struct {
	From, To     netip.Addr
	FromQP, ToQP uint32
	Number       uint64 // of the connection: it names the exchange
}

// CM is a packet with a message of the connection manager, and its payload. Its three messages tell a
// reader which queue pairs belong together.
func (c *Connection) CM(step int) (*Packet, []byte) {
	m := make([]byte, madSize)
	m[0], m[1], m[2], m[3] = 1, cmClass, 2, 3 // version; class; its version; method Send
	binary.BigEndian.PutUint64(m[8:], c.Number+1)
	d := m[madData:]
	local, remote := uint32(2*c.Number+1), uint32(2*c.Number+2)
	attribute := uint16(request)
	switch step {
	case 0:
		binary.BigEndian.PutUint32(d, local)
		binary.BigEndian.PutUint64(d[8:], Port) // service
		PutUint24(d[32:], c.FromQP)
		d[43] = maxRetry << 3 // response timeout; a reliable connection
		PutUint24(d[44:], 0)  // first PSN
		d[47] = maxRetry
		binary.BigEndian.PutUint16(d[48:], 0xffff) // partition
		gid(d[56:], c.From)
		gid(d[72:], c.To)
	case 1:
		attribute = reply
		binary.BigEndian.PutUint32(d, remote)
		binary.BigEndian.PutUint32(d[4:], local)
		PutUint24(d[12:], c.ToQP)
	default:
		attribute = ready
		binary.BigEndian.PutUint32(d, local)
		binary.BigEndian.PutUint32(d[4:], remote)
	}
	binary.BigEndian.PutUint16(m[16:], attribute)
	return &Packet{Opcode: SendOnlyUD, DestQP: cmQP, PSN: uint32(step), QKey: cmQKey, SourceQP: cmQP}, m
}

// PutUint24 writes a number of three bytes.
func PutUint24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

// gid writes an IPv4 address as an InfiniBand GID.
func gid(b []byte, a netip.Addr) {
	ip := a.As4()
	b[10], b[11] = 0xff, 0xff
	copy(b[12:], ip[:])
}
