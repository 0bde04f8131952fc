// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// Numbers of fields. The control dependencies (4) are not read: they lead to the caller of an operation, in both
// directions, and ASTRA-sim does not wait for them either.
const (
	nodeID, nodeName, nodeKind, nodeData, nodeDuration, nodeInputs, nodeAttribute = 1, 2, 3, 5, 7, 8, 10
	headVersion, headAttribute                                                    = 1, 2
	attributeName, attributeText, attributeBools                                  = 1, 29, 28
	inputValues                                                                   = 1
)

// maxMessage is the maximum size of one message.
const maxMessage = 64 << 20

// messages reads delimited messages.
type messages struct {
	in    *input.Reader
	name  string
	n     int   // of the message, from 1
	start int64 // where it begins
	at    int64 // where the next one begins
}

// next is the next message, io.EOF after the last one.
func (m *messages) next() ([]byte, error) {
	m.n, m.start = m.n+1, m.at
	size, err := binary.ReadUvarint(m.in)
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, m.errorf("the size of a message: %w", err)
	}
	if size > maxMessage {
		return nil,
			m.errorf("a message of %d bytes: at most %d are possible; this is no Chakra trace, or it is damaged", size,
				maxMessage)
	}
	data := make([]byte, 0, min(size, 1<<16))
	for uint64(len(data)) < size {
		n := min(size-uint64(len(data)), 1<<16)
		part := make([]byte, n)
		if _, err := io.ReadFull(m.in, part); err != nil {
			return nil, m.errorf("the file ends within a message of %d bytes: it was cut", size)
		}
		data = append(data, part...)
	}
	m.at += int64(protowire.SizeVarint(size)) + int64(size)
	return data, nil
}

func (m *messages) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: message %d, byte %d: %w", m.name, m.n, m.start, fmt.Errorf(format, args...))
}

// fields calls field for each field of a message. value is the number of a varint or fixed field.
func fields(data []byte, field func(number protowire.Number, value uint64, bytes []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		var value uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(data)
			value = uint64(v)
		case protowire.Fixed64Type:
			value, n = protowire.ConsumeFixed64(data)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := field(number, value, bytes); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// parseNode reads a node.
func parseNode(data []byte) (*node, error) {
	n := &node{}
	err := fields(data, func(number protowire.Number, value uint64, bytes []byte) error {
		switch number {
		case nodeID:
			n.id = value
		case nodeName:
			n.name = string(bytes)
		case nodeKind:
			n.kind = nodeType(value)
		case nodeData:
			return n.dependencies(value, bytes)
		case nodeDuration:
			n.micros = value
		case nodeInputs:
			return fields(bytes, func(number protowire.Number, _ uint64, bytes []byte) error {
				if number == inputValues && n.listsGroups() {
					n.values = string(bytes)
				}
				return nil
			})
		case nodeAttribute:
			return attribute(bytes, n)
		}
		return nil
	})
	return n, err
}

// dependencies are packed, or one per field.
func (n *node) dependencies(value uint64, packed []byte) error {
	if packed == nil {
		n.after = append(n.after, value)
		return nil
	}
	for len(packed) > 0 {
		v, size := protowire.ConsumeVarint(packed)
		if size < 0 {
			return protowire.ParseError(size)
		}
		n.after = append(n.after, v)
		packed = packed[size:]
	}
	return nil
}

// attributes takes the attributes of a message.
type attributes interface {
	setNumber(name string, value int64)
	setText(name, value string)
	setFalse(name string) // one of a list of boolean values is false
}

// attribute reads a name and a value of any type.
func attribute(data []byte, to attributes) error {
	name := ""
	return fields(data, func(number protowire.Number, value uint64, bytes []byte) error {
		switch {
		case number == attributeName:
			name = string(bytes)
		case number == attributeText:
			to.setText(name, string(bytes))
		case number == attributeBools:
			return fields(bytes, func(_ protowire.Number, value uint64, packed []byte) error {
				if slices.Contains(packed, 0) || packed == nil && value == 0 {
					to.setFalse(name)
				}
				return nil
			})
		case bytes != nil:
		case number == 3: // double
			to.setNumber(name, int64(math.Float64frombits(value)))
		case number == 5: // float
			to.setNumber(name, int64(math.Float32frombits(uint32(value))))
		case number == 15 || number == 17: // sint32 and sint64
			to.setNumber(name, protowire.DecodeZigZag(value))
		default:
			to.setNumber(name, int64(value))
		}
		return nil
	})
}

// parseHead reads the attributes of the first message that are texts.
func parseHead(data []byte) (head, error) {
	h := head{}
	err := fields(data, func(number protowire.Number, _ uint64, bytes []byte) error {
		if number == headAttribute {
			return attribute(bytes, h)
		}
		return nil
	})
	return h, err
}

// Like tells whether a file that begins with head may be a Chakra trace: its first message is a GlobalMetadata.
func Like(head []byte) bool {
	size, n := protowire.ConsumeVarint(head)
	if n < 0 || size > maxMessage {
		return false
	}
	rest := head[n:]
	if size == 0 { // metadata without anything, before a node
		size, n = protowire.ConsumeVarint(rest)
		return n > 0 && size > 0 && len(rest) > n && (rest[n] == 0x08 || rest[n] == 0x12)
	}
	cut := uint64(len(rest)) < size
	rest = rest[:min(size, uint64(len(rest)))]
	known := false
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || kind != protowire.BytesType || number != headVersion && number != headAttribute {
			return cut && known
		}
		rest = rest[n:]
		_, n = protowire.ConsumeBytes(rest)
		if n < 0 {
			return cut
		}
		known, rest = true, rest[n:]
	}
	return known
}
