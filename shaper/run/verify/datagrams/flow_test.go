// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// Datagrams are identified by number. A lost one has no times. A duplicate, or one of another flow, changes nothing.
func TestRecord(t *testing.T) {
	f := &flow{Stream: verify.Stream{Size: 16}, tag: 7, buf: make([]byte, 64)}
	block := f.fill(2, 4)
	if len(block) != 64 {
		t.Fatalf("%d bytes for 4 of 16", len(block))
	}
	header := func(i int) uint64 { return binary.LittleEndian.Uint64(block[16*i:]) }
	f.record(header(0), 100, 110)   // number 2
	f.record(header(3), 300, 310)   // number 5
	f.record(header(3), 400, 410)   // a duplicate
	f.record(header(1)+1, 500, 510) // another flow's 3
	f.sent = make([]int64, 7)
	p := f.packets()
	if want := []int64{0, 0, 100, 0, 0, 300}; !slices.Equal(p.Arrived, want) || p.Seen[5] != 310 || f.next.Load() != 6 {
		t.Errorf("arrived %v, want %v; seen %v, next %d", p.Arrived, want, p.Seen, f.next.Load())
	}
	if f.connected.Load() {
		t.Error("connected without a greeting")
	}
	if f.record(binary.LittleEndian.Uint64(f.fill(greeting, 3)[32:]), 1, 1); !f.connected.Load() || f.next.Load() != 6 {
		t.Errorf("a greeting: connected %t, next %d", f.connected.Load(), f.next.Load())
	}
}

func TestParseControl(t *testing.T) {
	message := func(level, kind int32, data []byte) []byte {
		b := make([]byte, unix.CmsgSpace(len(data)))
		binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(data))))
		binary.NativeEndian.PutUint32(b[8:], uint32(level))
		binary.NativeEndian.PutUint32(b[12:], uint32(kind))
		copy(b[unix.CmsgLen(0):], data)
		return b
	}
	stamp := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 3), 5)
	size := binary.NativeEndian.AppendUint32(nil, 1472)
	both := append(message(unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, stamp), message(unix.SOL_UDP, unix.UDP_GRO, size)...)
	if at, n := parseControl(both); at != 3e9+5 || n != 1472 {
		t.Errorf("at %d, %d bytes", at, n)
	}
	if at, n := parseControl(both[:20]); at != 0 || n != 0 {
		t.Errorf("truncated: at %d, %d bytes", at, n)
	}
}
