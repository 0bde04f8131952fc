// SPDX-License-Identifier: Apache-2.0

// Package roce has the headers of RoCEv2 (InfiniBand Architecture Specification, volume 1, release 1.4:
// chapter 9 and 12, annex 17) as gopacket layers. gopacket has none.
package roce

import (
	"encoding/binary"
	"errors"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Port is the UDP port of RoCEv2.
const Port = 4791

// Opcode is what a packet does.
type Opcode uint8

// Opcodes of reliable connections, and of unreliable datagrams.
const (
	WriteFirst         Opcode = 0x06
	WriteMiddle        Opcode = 0x07
	WriteLastImmediate Opcode = 0x09
	WriteOnlyImmediate Opcode = 0x0b
	Acknowledge        Opcode = 0x11
	SendOnlyUD         Opcode = 0x64
)

// Syndromes of acknowledgements.
const (
	ACK = 0x1f // without credits
	NAK = 0x60 // PSN sequence error
)

// Sizes of headers in bytes.
const (
	bthSize       = 12
	rethSize      = 16
	immediateSize = 4
	aethSize      = 4
	dethSize      = 8
	icrcSize      = 4
)

// LayerType is the layer type of Packet.
var LayerType = gopacket.RegisterLayerType(4791,
	gopacket.LayerTypeMetadata{Name: "RoCEv2", Decoder: gopacket.DecodeFunc(decode)})

func init() { layers.RegisterUDPPortLayerType(Port, LayerType) }

// Packet is a base transport header with the headers behind it, and what they carry.
type Packet struct {
	Opcode Opcode
	DestQP uint32
	PSN    uint32
	AckReq bool

	// RETH, of the first packet of a write, and immediate data, of the last one.
	Address   uint64
	Key       uint32
	Length    uint32
	Immediate uint32
	// AETH, of acknowledgements.
	Syndrome uint8
	MSN      uint32
	// DETH, of datagrams.
	QKey     uint32
	SourceQP uint32

	contents, payload []byte
}

// LayerType is of gopacket.Layer.
func (p *Packet) LayerType() gopacket.LayerType { return LayerType }

// LayerContents is of gopacket.Layer.
func (p *Packet) LayerContents() []byte { return p.contents }

// LayerPayload is of gopacket.Layer.
func (p *Packet) LayerPayload() []byte { return p.payload }

// headers is the size of the headers of an opcode, 0 if it is not known here.
func (o Opcode) headers() int {
	switch o {
	case WriteMiddle:
		return bthSize
	case WriteFirst:
		return bthSize + rethSize
	case WriteLastImmediate:
		return bthSize + immediateSize
	case WriteOnlyImmediate:
		return bthSize + rethSize + immediateSize
	case Acknowledge:
		return bthSize + aethSize
	case SendOnlyUD:
		return bthSize + dethSize
	}
	return 0
}

// SerializeTo is of gopacket.SerializableLayer. The invariant CRC is 0: it does not hold.
func (p *Packet) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	n := p.Opcode.headers()
	if n == 0 {
		return errors.New("write a RoCEv2 packet: its opcode is not known")
	}
	if _, err := b.AppendBytes(icrcSize); err != nil {
		return err
	}
	h, err := b.PrependBytes(n)
	if err != nil {
		return err
	}
	clear(h)
	h[0] = uint8(p.Opcode)
	binary.BigEndian.PutUint16(h[2:], 0xffff) // the default partition
	binary.BigEndian.PutUint32(h[4:], p.DestQP&0xffffff)
	p.PutPSN(h)
	switch rest := h[bthSize:]; p.Opcode {
	case WriteFirst, WriteOnlyImmediate:
		binary.BigEndian.PutUint64(rest, p.Address)
		binary.BigEndian.PutUint32(rest[8:], p.Key)
		binary.BigEndian.PutUint32(rest[12:], p.Length)
		if p.Opcode == WriteOnlyImmediate {
			binary.BigEndian.PutUint32(rest[16:], p.Immediate)
		}
	case WriteLastImmediate:
		binary.BigEndian.PutUint32(rest, p.Immediate)
	case Acknowledge:
		binary.BigEndian.PutUint32(rest, uint32(p.Syndrome)<<24|p.MSN&0xffffff)
	case SendOnlyUD:
		binary.BigEndian.PutUint32(rest, p.QKey)
		binary.BigEndian.PutUint32(rest[4:], p.SourceQP&0xffffff)
	}
	return nil
}

// PutPSN writes the sequence number and the wish for an acknowledgement into a header.
func (p *Packet) PutPSN(h []byte) {
	v := p.PSN & 0xffffff
	if p.AckReq {
		v |= 1 << 31
	}
	binary.BigEndian.PutUint32(h[8:], v)
}

var errShort = errors.New("a RoCEv2 packet that is too short, or of an unknown opcode")

// DecodeFromBytes reads a packet.
func (p *Packet) DecodeFromBytes(b []byte, df gopacket.DecodeFeedback) error {
	if len(b) < bthSize+icrcSize || Opcode(b[0]).headers() == 0 || len(b) < Opcode(b[0]).headers()+icrcSize {
		df.SetTruncated()
		return errShort
	}
	n := Opcode(b[0]).headers()
	seq := binary.BigEndian.Uint32(b[8:])
	*p = Packet{Opcode: Opcode(b[0]), DestQP: binary.BigEndian.Uint32(b[4:]) & 0xffffff, PSN: seq & 0xffffff,
		AckReq: seq>>31 == 1, contents: b[:n], payload: b[n : len(b)-icrcSize]}
	switch rest := b[bthSize:]; p.Opcode {
	case WriteFirst, WriteOnlyImmediate:
		p.Address, p.Key, p.Length = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:]),
			binary.BigEndian.Uint32(rest[12:])
		if p.Opcode == WriteOnlyImmediate {
			p.Immediate = binary.BigEndian.Uint32(rest[16:])
		}
	case WriteLastImmediate:
		p.Immediate = binary.BigEndian.Uint32(rest)
	case Acknowledge:
		p.Syndrome, p.MSN = rest[0], binary.BigEndian.Uint32(rest)&0xffffff
	case SendOnlyUD:
		p.QKey, p.SourceQP = binary.BigEndian.Uint32(rest), binary.BigEndian.Uint32(rest[4:])&0xffffff
	}
	return nil
}

func decode(data []byte, b gopacket.PacketBuilder) error {
	p := &Packet{}
	if err := p.DecodeFromBytes(data, b); err != nil {
		return err
	}
	b.AddLayer(p)
	return b.NextDecoder(gopacket.LayerTypePayload)
}
