// SPDX-License-Identifier: Apache-2.0

// Package commtest lets tests in Go make the calls that NCCL makes on a
// connection. It works for every datapath.
package commtest

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include <stdlib.h>
#include "../../../shaper/engine/clock/clock.h"
#include "../transport/transport.h"

static int call_isend(void *c, void *data, size_t n, void **r)
{
	return ((struct ddlemu_comm *)c)->ops->isend(c, data, n, (struct ddlemu_request **)r);
}

static int call_irecv(void *c, void *data, size_t n, void **r)
{
	return ((struct ddlemu_comm *)c)->ops->irecv(c, data, n, (struct ddlemu_request **)r);
}

static int call_test(void *r, int *done, size_t *size)
{
	return ((struct ddlemu_request *)r)->comm->ops->test(r, done, size);
}

static void call_withdraw(void *c, const void *data, size_t n) { ((struct ddlemu_comm *)c)->ops->withdraw(c, data, n); }

static uint32_t events(struct ddlemu_clock_view *v) { return number_read(number_of(v, v->node, DDLEMU_EVENTS)); }

static void idle(struct ddlemu_clock_view *v, uint32_t seen)
{
	ddlemu_actor_idle(v, ddlemu_actor_application(v), DDLEMU_EVENTS, seen, DDLEMU_NEVER);
}
*/
import "C"

import (
	"fmt"
	"unsafe"

	_ "github.com/ddlemu/ddlemu/shaper/engine/clock" // its C code
)

// Buffer is memory that C may keep pointers to.
type Buffer struct {
	p unsafe.Pointer
	n int
}

// NewBuffer returns n zeroed bytes, aligned to a page.
func NewBuffer(n int) *Buffer {
	p := C.aligned_alloc(4096, C.size_t((n+4095)&^4095|4096))
	b := &Buffer{p, n}
	clear(b.Bytes())
	return b
}

// Wrap makes a buffer of memory that Go does not manage. It is not freed.
func Wrap(b []byte) *Buffer { return &Buffer{unsafe.Pointer(unsafe.SliceData(b)), len(b)} }

// Bytes is the buffer's content.
func (b *Buffer) Bytes() []byte { return unsafe.Slice((*byte)(b.p), b.n) }

// Free releases the buffer.
func (b *Buffer) Free() { C.free(b.p) }

// Request is a send or receive that is not complete.
type Request struct{ p unsafe.Pointer }

// Error is a non-zero ncclResult_t.
type Error int

func (e Error) Error() string { return fmt.Sprintf("ncclResult_t %d", int(e)) }

func result(rc C.int) error {
	if rc != 0 {
		return Error(rc)
	}
	return nil
}

// Isend starts sending the first n bytes of b; the request is nil if the call has
// to be repeated.
func Isend(comm unsafe.Pointer, b *Buffer, n int) (*Request, error) {
	var r unsafe.Pointer
	if err := result(C.call_isend(comm, b.p, C.size_t(n), &r)); err != nil || r == nil {
		return nil, err
	}
	return &Request{r}, nil
}

// Irecv starts receiving up to n bytes into b; the request is nil if the call has
// to be repeated.
func Irecv(comm unsafe.Pointer, b *Buffer, n int) (*Request, error) {
	var r unsafe.Pointer
	if err := result(C.call_irecv(comm, b.p, C.size_t(n), &r)); err != nil || r == nil {
		return nil, err
	}
	return &Request{r}, nil
}

// Test says whether the request is complete, and how many bytes it moved.
func (r *Request) Test() (bool, int, error) {
	var done C.int
	var size C.size_t
	err := result(C.call_test(r.p, &done, &size))
	return done != 0, int(size), err
}

// Len is the buffer's size in bytes.
func (b *Buffer) Len() int { return b.n }

// Withdraw says that NCCL is about to use the memory, which it has sent from, for something else.
func Withdraw(comm unsafe.Pointer, b *Buffer) { C.call_withdraw(comm, b.p, C.size_t(b.n)) }

// Events counts what has happened on this process's node of a virtual clock, a struct
// ddlemu_clock_view.
func Events(clock unsafe.Pointer) uint32 {
	return uint32(C.events((*C.struct_ddlemu_clock_view)(clock)))
}

// Idle says that all of this process waits, until something has happened since it counted seen events.
func Idle(clock unsafe.Pointer, seen uint32) {
	C.idle((*C.struct_ddlemu_clock_view)(clock), C.uint32_t(seen))
}
