// SPDX-License-Identifier: Apache-2.0

// Package pcapng writes capture files with names, comments and times in nanoseconds
// (draft-ietf-opsawg-pcapng). gopacket reads such files, but does not write comments.
package pcapng

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/netip"
)

// Types of blocks.
const (
	sectionHeader  = 0x0a0d0d0a
	interfaceBlock = 1
	nameResolution = 4
	statistics     = 5
	enhancedPacket = 6
	byteOrder      = 0x1a2b3c4d
	ethernet       = 1 // LINKTYPE_ETHERNET
	nameRecordIPv4 = 1
	nanoseconds    = 9  // if_tsresol: 10^-9 s
	unknownLength  = ^0 // of a section
	optComment     = 1
	optApplication = 4
	optName        = 2 // of an interface
	optDescription = 3
	optSpeed       = 8
	optResolution  = 9
	optPacketFlags = 2
	optMissed      = 4 // of a packet: how many are missing on its interface since the one before
	optVerdict     = 7
	optStart       = 2 // of statistics
	optEnd         = 3
	optReceived    = 4
	optDropped     = 5
)

// The verdict of a packet that a program of the kernel's traffic control has dropped (epb_verdict, linux/pkt_cls.h).
const (
	verdictTC = 1
	actShot   = 2
)

// Directions of a packet, as seen from its interface (epb_flags).
const (
	Inbound  = 1
	Outbound = 2
)

// Writer writes a file with one section.
type Writer struct {
	w     *bufio.Writer
	block []byte // used again for each
	err   error
}

// NewWriter begins a file. comment says what it is.
func NewWriter(w io.Writer, application, comment string) *Writer {
	p := &Writer{w: bufio.NewWriterSize(w, 1<<20)}
	b := p.begin(sectionHeader)
	b = binary.LittleEndian.AppendUint32(b, byteOrder)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint16(b, 0)
	length := int64(unknownLength)
	b = binary.LittleEndian.AppendUint64(b, uint64(length))
	b = option(b, optComment, comment)
	b = option(b, optApplication, application)
	p.end(endOptions(b))
	return p
}

// Close writes the rest, and returns the first error.
func (p *Writer) Close() error {
	if p.err == nil {
		p.err = p.w.Flush()
	}
	return p.err
}

// begin begins a block, whose length is not known yet.
func (p *Writer) begin(kind uint32) []byte {
	b := binary.LittleEndian.AppendUint32(p.block[:0], kind)
	return binary.LittleEndian.AppendUint32(b, 0)
}

func (p *Writer) end(b []byte) {
	length := uint32(len(b) + 4)
	binary.LittleEndian.PutUint32(b[4:], length)
	p.block = binary.LittleEndian.AppendUint32(b, length)
	if p.err == nil {
		_, p.err = p.w.Write(p.block)
	}
}

// pad fills up to a multiple of 4 bytes.
func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func option[T string | []byte](b []byte, code uint16, value T) []byte {
	b = binary.LittleEndian.AppendUint16(b, code)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	return pad(append(b, value...))
}

// endOptions ends the options of a block.
func endOptions(b []byte) []byte { return append(b, 0, 0, 0, 0) }

// Flush writes what was added until now, and returns the first error.
func (p *Writer) Flush() error { return p.Close() }

// Interface adds an interface. The first one has the number 0. speed is in bit/s, 0 if it has no limit. snap is the
// most bytes of a packet that the file has, 0 if it has no limit.
func (p *Writer) Interface(name, description string, speed uint64, snap int) {
	b := p.begin(interfaceBlock)
	b = binary.LittleEndian.AppendUint16(b, ethernet)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(snap))
	b = option(b, optName, name)
	b = option(b, optDescription, description)
	if speed != 0 {
		b = option(b, optSpeed, binary.LittleEndian.AppendUint64(nil, speed))
	}
	b = option(b, optResolution, []byte{nanoseconds})
	p.end(endOptions(b))
}

// Names tells the names of addresses.
func (p *Writer) Names(names map[netip.Addr]string) {
	b := p.begin(nameResolution)
	for addr, name := range names {
		b = binary.LittleEndian.AppendUint16(b, nameRecordIPv4)
		b = binary.LittleEndian.AppendUint16(b, uint16(4+len(name)+1))
		ip := addr.As4()
		b = append(b, ip[:]...)
		b = append(b, name...)
		b = pad(append(b, 0))
	}
	b = append(b, 0, 0, 0, 0) // nrb_record_end
	p.end(endOptions(b))
}

// PacketInfo describes a packet beside its bytes.
type PacketInfo struct {
	Direction uint32 // Inbound or Outbound
	Comment   []byte // none if it is empty
	Dropped   bool   // the kernel's traffic control has dropped it
	Missed    uint64 // how many packets are missing on the interface since the one before
}

// Packet adds a packet at a time in ns since 1970. data is its begin; it had length bytes.
func (p *Writer) Packet(iface int, at int64, data []byte, length int, info PacketInfo) {
	b := p.begin(enhancedPacket)
	b = binary.LittleEndian.AppendUint32(b, uint32(iface))
	b = timestamp(b, at)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = binary.LittleEndian.AppendUint32(b, uint32(length))
	b = pad(append(b, data...))
	if len(info.Comment) > 0 {
		b = option(b, optComment, info.Comment)
	}
	b = binary.LittleEndian.AppendUint16(b, optPacketFlags)
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = binary.LittleEndian.AppendUint32(b, info.Direction)
	if info.Missed > 0 {
		b = numberOption(b, optMissed, info.Missed)
	}
	if info.Dropped {
		b = option(b, optVerdict, binary.LittleEndian.AppendUint64([]byte{verdictTC}, actShot))
	}
	p.end(endOptions(b))
}

// Statistics adds what became of the packets of an interface between two times in ns since 1970: how many came, and how
// many of these are missing in the file.
func (p *Writer) Statistics(iface int, start, end int64, came, missed uint64) {
	b := p.begin(statistics)
	b = binary.LittleEndian.AppendUint32(b, uint32(iface))
	b = timestamp(b, end)
	b = option(b, optStart, timestamp(nil, start))
	b = option(b, optEnd, timestamp(nil, end))
	b = numberOption(b, optReceived, came)
	b = numberOption(b, optDropped, missed)
	p.end(endOptions(b))
}

// timestamp appends a time, whose higher half comes first.
func timestamp(b []byte, at int64) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(uint64(at)>>32))
	return binary.LittleEndian.AppendUint32(b, uint32(at))
}

func numberOption(b []byte, code uint16, v uint64) []byte {
	return option(b, code, binary.LittleEndian.AppendUint64(nil, v))
}
