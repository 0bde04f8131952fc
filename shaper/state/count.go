// SPDX-License-Identifier: Apache-2.0

package state

import (
	"reflect"
	"sync/atomic"
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// counterOffsets are the places in a Hop of the fields of link.Counters, which have
// the same names. Every counter has 8 bytes.
var counterOffsets = func() (offsets []uintptr) {
	for _, c := range reflect.VisibleFields(reflect.TypeFor[link.Counters]()) {
		f, ok := reflect.TypeFor[Hop]().FieldByName(c.Name)
		if !ok || f.Type.Size() != 8 || c.Type.Size() != 8 {
			panic("state: Hop has no counter " + c.Name + " of 8 bytes")
		}
		offsets = append(offsets, f.Offset)
	}
	return offsets
}()

// counter is the counter of h that is field i of link.Counters. All access is atomic.
func (h *Hop) counter(i int) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(h), counterOffsets[i]))
}

// words are the fields of c.
func words(c *link.Counters) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(c)), len(counterOffsets))
}

// counters reads what h has carried.
func (h *Hop) counters() (c link.Counters) {
	for i := range counterOffsets {
		words(&c)[i] = atomic.LoadUint64(h.counter(i))
	}
	return c
}

// Count adds to what hop i has carried, for a datapath that counts elsewhere.
func (f *File) Count(i int, c link.Counters) {
	for k, n := range words(&c) {
		atomic.AddUint64(f.hops()[i].counter(k), n)
	}
}
