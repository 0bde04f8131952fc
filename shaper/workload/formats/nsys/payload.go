// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
)

// field is a value that a range of NCCL has as its payload.
type field int

// The fields that are read.
const (
	fieldComm field = iota
	fieldBytes
	fieldPeer
	fieldRoot
	fieldOp
	fieldRanks
	fieldRank
	fieldDevices
	fieldCount
)

// fieldNames are NCCL's names of the fields.
var fieldNames = map[string]field{
	"NCCL communicator ID": fieldComm, "Message size [bytes]": fieldBytes, "Bytes": fieldBytes, "Peer rank": fieldPeer,
	"Root": fieldRoot, "Reduction operation": fieldOp, "No. of ranks": fieldRanks, "Rank": fieldRank,
	"No. of devices": fieldDevices,
}

// payload is the values of a range.
type payload struct {
	values [fieldCount]uint64
	has    [fieldCount]bool
}

func (p *payload) set(f field, value uint64) { p.values[f], p.has[f] = value, true }

// number is a value of 32 bits, or missing.
func (p *payload) number(f field, missing int) int {
	if !p.has[f] {
		return missing
	}
	return int(int32(p.values[f]))
}

// entry is a field in the binary payload.
type entry struct {
	field  field
	offset uint64
	size   int // 4 or 8 bytes
}

// layout is the entries of a payload.
type layout []entry

// read reads a payload. It returns false if the data is too short.
func (l layout) read(data []byte) (p payload, ok bool) {
	for _, e := range l {
		if e.offset > uint64(len(data)) || uint64(len(data))-e.offset < uint64(e.size) {
			return p, false
		}
		if e.size == 4 {
			p.set(e.field, uint64(binary.LittleEndian.Uint32(data[e.offset:])))
		} else {
			p.set(e.field, binary.LittleEndian.Uint64(data[e.offset:]))
		}
	}
	return p, len(l) > 0
}

// entrySize is the size of a value of an NVTX type that NCCL uses, 0 if it is another type. A type from 1<<24 on is
// the type of an enumeration.
func entrySize(kind int64) int {
	switch {
	case kind == 5 || kind == 6 || kind == 15 || kind == 16 || kind >= 1<<24:
		return 4
	case kind >= 7 && kind <= 10 || kind == 17 || kind == 18 || kind == 22:
		return 8
	}
	return 0
}

// layoutOf is NCCL's layout of a payload of so many bytes of a function, nil if there is none. With NCCL 2.25, the id
// of the communicator came before the other fields.
func layoutOf(function string, size int) layout {
	withComm := func(l layout) layout {
		out := layout{{fieldComm, 0, 8}}
		for _, e := range l {
			out = append(out, entry{e.field, e.offset + 8, e.size})
		}
		return out
	}
	var plain layout
	least := 16 // bytes without the communicator
	switch function {
	case "ncclAllGather", "ncclAlltoAll", "ncclAllToAll":
		plain, least = layout{{fieldBytes, 0, 8}}, 8
	case "ncclAllReduce", "ncclReduceScatter":
		plain = layout{{fieldBytes, 0, 8}, {fieldOp, 8, 4}}
	case "ncclBroadcast", "ncclBcast", "ncclGather", "ncclScatter":
		plain = layout{{fieldBytes, 0, 8}, {fieldRoot, 8, 4}}
	case "ncclReduce":
		plain = layout{{fieldBytes, 0, 8}, {fieldRoot, 8, 4}, {fieldOp, 12, 4}}
	case "ncclSend", "ncclRecv":
		plain = layout{{fieldBytes, 0, 8}, {fieldPeer, 8, 4}}
	default:
		return layoutOfInit(function, size)
	}
	switch size {
	case least:
		return plain
	case least + 8:
		return withComm(plain)
	}
	return nil
}

// layoutOfInit is the layout of a function that makes or ends a communicator.
func layoutOfInit(function string, size int) layout {
	switch {
	case function == "ncclCommInitAll" && size == 4:
		return layout{{fieldDevices, 0, 4}}
	case function == "ncclCommInitAll" && size == 16:
		return layout{{fieldComm, 0, 8}, {fieldDevices, 8, 4}}
	case function == "ncclCommSplit" && size == 40 || function == "ncclCommGrow" && size == 32:
		return layout{{fieldComm, 0, 8}, {fieldRanks, 16, 4}, {fieldRank, 20, 4}}
	case size == 12:
		return layout{{fieldRank, 0, 4}, {fieldRanks, 4, 4}}
	case size == 24:
		return layout{{fieldComm, 0, 8}, {fieldRanks, 8, 4}, {fieldRank, 12, 4}}
	}
	return nil
}

// headerSize is the size of the fields before the payload in NVTX_EVENTS.binaryData: the domain, the schema, the size
// of the payload and one more number, of 8 bytes each.
const headerSize = 32

// splitBinary divides binaryData into the schema and the payload. It returns false if it is not of this form.
func splitBinary(data []byte) (schema uint64, body []byte, ok bool) {
	if len(data) < headerSize {
		return 0, nil, false
	}
	schema, size := binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[16:])
	if size != uint64(len(data)-headerSize) {
		return 0, nil, false
	}
	return schema, data[headerSize:], true
}

// reductions are the names that NCCL gives the reduction operators.
var reductions = map[string]uint64{"Sum": 0, "Product": 1, "Max": 2, "Min": 3, "Avg": 4}

// readText reads a payload that is exported as JSON, such as {"Message size [bytes]":4096,"Reduction
// operation":"Sum"}. Numbers may be texts, with commas between thousands.
func readText(text string) (p payload, ok bool) {
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &values) != nil {
		return p, false
	}
	for name, raw := range values {
		f, known := fieldNames[name]
		if !known {
			continue
		}
		value := strings.ReplaceAll(strings.Trim(string(raw), `"`), ",", "")
		if op, isName := reductions[value]; isName && f == fieldOp {
			p.set(f, op)
		} else if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			p.set(f, n)
		} else if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			p.set(f, uint64(n))
		} else {
			return p, false
		}
		ok = true
	}
	return p, ok
}
