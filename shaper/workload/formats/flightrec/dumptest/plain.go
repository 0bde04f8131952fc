// SPDX-License-Identifier: Apache-2.0

package dumptest

import (
	"encoding/binary"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// PlainFile is the file of the dump as PyTorch 2.2 writes it: the pickle of a list of entries, with neither groups nor
// types. The layout is in NCCLTraceBuffer::dump in torch/csrc/distributed/c10d/TraceUtils.h of 2.2, the
// operations of the pickle are in torch/csrc/jit/serialization/pickler.cpp. One number counts the calls of a
// group, sends and receives too: the number of collectives is taken.
func (d *Dump) PlainFile() input.File {
	p := pickler{0x80, 2, ']', '('}
	for _, e := range d.entries {
		p = append(p, '}', '(')
		p.item("pg_id", e["pg_id"])
		p.item("seq_id", e["collective_seq_id"])
		p.item("profiling_name", e["profiling_name"])
		p.item("time_created_us", int(e["time_created_ns"].(int64)/1000))
		for _, key := range []string{"input_sizes", "output_sizes", "state", "retired"} {
			p.item(key, e[key])
		}
		p.item("frames", [][]int{})
		p = append(p, 'u')
	}
	return input.Bytes(fmt.Sprintf("nccl_trace_rank_%d", d.rank), append(p, 'e', '.'))
}

// pickler writes a pickle of protocol 2.
type pickler []byte

// item writes a key of a dict and its value.
func (p *pickler) item(key string, value any) {
	p.value(key)
	p.value(value)
}

func (p *pickler) value(value any) {
	switch v := value.(type) {
	case string:
		*p = append(binary.LittleEndian.AppendUint32(append(*p, 'X'), uint32(len(v))), v...)
	case bool:
		*p = append(*p, map[bool]byte{true: 0x88, false: 0x89}[v])
	case int:
		*p = binary.LittleEndian.AppendUint64(append(*p, 0x8a, 8), uint64(v))
	case []int:
		*p = append(*p, ']', '(')
		for _, n := range v {
			p.value(n)
		}
		*p = append(*p, 'e')
	case [][]int:
		*p = append(*p, ']', '(')
		for _, size := range v {
			p.value(size)
		}
		*p = append(*p, 'e')
	default:
		panic(fmt.Sprintf("%T has no place in a dump", value))
	}
}
