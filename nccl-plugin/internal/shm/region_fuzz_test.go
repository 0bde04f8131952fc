// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/commtest"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// word is one change to a header: the value of 8 bytes, and their position in words.
type word struct {
	At    uint16
	Value uint64
}

// scribble makes the changes that b describes to mem.
func scribble(mem []byte, b []byte) {
	for n := binary.Size(word{}); len(b) >= n; b = b[n:] {
		var w word
		// It cannot fail: there are enough bytes.
		_, _ = binary.Decode(b, binary.LittleEndian, &w)
		binary.LittleEndian.PutUint64(mem[int(w.At)%(len(mem)/8)*8:], w.Value)
	}
}

func words(ws ...word) []byte {
	var b []byte
	for _, w := range ws {
		b, _ = binary.Append(b, binary.LittleEndian, w)
	}
	return b
}

// A path of three hops, and back.
var stepsThere, stepsBack = []link.PathHop{{Hop: 0}, {Hop: 4, Private: true}, {Hop: 3}},
	[]link.PathHop{{Hop: 2}, {Hop: 5, Private: true}, {Hop: 1}}

func freshRegion(t testing.TB) *region {
	t.Helper()
	r, err := newRegion(flowAndRing, minRing, 7, 8, stepsThere, stepsBack, 4)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// connOf is the connection of a comm, without its Go side.
func connOf(comm unsafe.Pointer) (c conn) {
	*(*unsafe.Pointer)(unsafe.Pointer(&c.c)) = comm // a test cannot name types of C
	return c
}

// FuzzRingHeader maps memory whose header has arbitrary changes. It is refused unless it is as
// newRegion makes it, except for the flow's number.
func FuzzRingHeader(f *testing.F) {
	f.Add([]byte{})
	for at := range uint16(40) {
		f.Add(words(word{at, ^uint64(0)}))
		f.Add(words(word{at, 1}))
	}
	f.Add(words(word{2, 99}))                   // the flow's number
	f.Add(words(word{3, 1 << 40}, word{5, 16})) // sizes
	f.Add(words(word{uint16(ringOffset/8 - 1), 1}))
	f.Fuzz(func(t *testing.T, changes []byte) {
		r := freshRegion(t)
		defer r.close()
		before := bytes.Clone(r.mem[:ringOffset])
		scribble(r.mem[:ringOffset], changes)
		id := unsafe.Offsetof(r.flow().id)
		got, err := openRegion(r.fd, flowAndRing, 7, stepsThere, stepsBack, 4)
		copy(before[id:id+8], r.mem[id:id+8])
		if same := bytes.Equal(before, r.mem[:ringOffset]); same != (err == nil) {
			t.Fatalf("unchanged: %v, error %v", same, err)
		}
		if err == nil {
			unix.Munmap(got.mem)
		}
	})
}

// FuzzRingInUse lets a peer write arbitrary words to its fields of a connection in use. The calls
// of the other end may fail or deliver wrong data, but they return and access no other memory.
func FuzzRingInUse(f *testing.F) {
	p := newPair(f, unshaped, tcp, 4<<20)
	for at := range uint16(20) {
		for _, v := range []uint64{^uint64(0), 1 << 63, 1 << 20, 40, 1, 0} {
			f.Add(words(word{at, v}), uint16(100), true)
			f.Add(words(word{at, v}), uint16(100), false)
		}
	}
	f.Fuzz(func(t *testing.T, changes []byte, size uint16, badSender bool) {
		const capacity, guard = 4096, 4096
		send, recv := p.connect(t)
		out, in := commtest.NewBuffer(capacity), commtest.NewBuffer(capacity+guard)
		defer out.Free()
		defer in.Free()
		r, err := commtest.Irecv(recv, in, capacity)
		if err != nil {
			t.Fatal(err)
		}
		s, err := commtest.Isend(send, out, int(size)%capacity)
		if err != nil {
			t.Fatal(err)
		}
		flow := connOf(recv).c.f
		if badSender {
			scribble(unsafe.Slice((*byte)(unsafe.Pointer(&flow.posted)),
				unsafe.Offsetof(flow.receives_posted)-unsafe.Offsetof(flow.posted)), changes)
			scribble(unsafe.Slice((*byte)(unsafe.Pointer(&flow.sends)), unsafe.Sizeof(flow.sends)), changes)
			s = r
		} else {
			scribble(unsafe.Slice((*byte)(unsafe.Pointer(&flow.receives_posted)),
				unsafe.Offsetof(flow.lock)-unsafe.Offsetof(flow.receives_posted)), changes)
			scribble(unsafe.Slice((*byte)(unsafe.Pointer(&flow.receives)), unsafe.Sizeof(flow.receives)), changes)
		}
		begin := time.Now()
		for range 20 {
			done, n, err := s.Test()
			if done && n > capacity {
				t.Fatalf("%d bytes moved to a buffer of %d", n, capacity)
			}
			if done || err != nil {
				break
			}
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("20 calls took %v", took)
		}
		if !allZero(in.Bytes()[capacity:]) {
			t.Error("bytes behind the buffer were written")
		}
		p.ends[0].CloseComm(transport.ID(send))
		p.ends[1].CloseComm(transport.ID(recv))
	})
}

func allZero(b []byte) bool { return !slices.ContainsFunc(b, func(v byte) bool { return v != 0 }) }
