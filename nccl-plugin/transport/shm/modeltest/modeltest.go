// SPDX-License-Identifier: Apache-2.0

// Package modeltest drives the link model in C by hand, with the caller's clock,
// so that tests can hold it to shaper/link.
package modeltest

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include <stdlib.h>
#include "../model.h"

static int64_t advance(struct ddlemu_flow *f, void *state, int64_t now)
{
	struct ddlemu_header *h = state;
	struct ddlemu_model m = {
		.f = f, .path = f->path, .head = h,
		.hops = (void *)((char *)state + h->hops_off),
		.blocks = (void *)((char *)state + h->blocks_off),
		.tables = (void *)((char *)state + h->tables_off),
	};
	model_advance(&m, now);
	return f->said.next;
}

static void post(struct ddlemu_flow *f, uint64_t size, int64_t t)
{
	uint64_t end = f->posted == 0 ? 0 : tx_of(f, f->posted - 1)->end;
	*tx_of(f, f->posted) = (struct ddlemu_tx){ .size = size, .end = end + size, .posted = t };
	f->posted++;
}

static void receive(struct ddlemu_flow *f, int64_t t)
{
	*rx_of(f, f->recvd) = (struct ddlemu_rx){ .posted = t };
	f->recvd++;
}

static struct ddlemu_out out(struct ddlemu_flow *f, uint64_t i) { return *out_of(f, i); }
*/
import "C"

import (
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Flow is a flow of the model in C over the hops of a fabric's file. It has the
// methods of link.Flow that tests need.
type Flow struct {
	f     *C.struct_ddlemu_flow
	state *state.File
}

// New makes a flow in memory of its own; Free releases it.
func New(f *state.File, id uint64, src, dst int) *Flow {
	c := (*C.struct_ddlemu_flow)(C.aligned_alloc(128, C.sizeof_struct_ddlemu_flow))
	*c = C.struct_ddlemu_flow{id: C.uint64_t(id)}
	steps, reverse := f.Path(src, dst), f.Path(dst, src)
	c.path.n, c.path.reverse_n = C.uint32_t(len(steps)), C.uint32_t(len(reverse))
	for i, s := range steps {
		c.path.hop[i] = C.uint32_t(s.Hop)
		if s.Private {
			c.path.private_mask |= 1 << i
		}
	}
	for i, s := range reverse {
		c.path.reverse[i] = C.uint32_t(s.Hop)
	}
	return &Flow{c, f}
}

// Free releases the flow.
func (f *Flow) Free() { C.free(unsafe.Pointer(f.f)) }

// Post is link.Flow.Post for a flow that is not full.
func (f *Flow) Post(size uint64, t int64) { C.post(f.f, C.uint64_t(size), C.int64_t(t)) }

// Recv is link.Flow.Recv for a flow that is not full.
func (f *Flow) Recv(t int64) { C.receive(f.f, C.int64_t(t)) }

// Advance is link.Flow.Advance.
func (f *Flow) Advance(now int64) int64 {
	return int64(C.advance(f.f, f.state.Base(), C.int64_t(now)))
}

// Message returns what the model says of message i.
func (f *Flow) Message(i uint64) link.Message {
	o := C.out(f.f, C.uint64_t(i))
	return link.Message{Due: int64(o.due), Sent: int64(o.sent), Distortion: int64(o.distortion)}
}

// Arrived is link.Flow.Arrived.
func (f *Flow) Arrived() uint64 { return uint64(f.f.now.arrived) }

// Stalls is link.Flow.Stalls.
func (f *Flow) Stalls() uint64 { return uint64(f.f.stalls) }

// Forgotten is how many messages the model needs no more, which makes room for others.
func (f *Flow) Forgotten() uint64 { return uint64(f.f.said.oldest_msg) }

// Serialise is link.Params.Serialise for hop h of the fabric.
func Serialise(f *state.File, h int, n uint32) int64 {
	head := (*C.struct_ddlemu_header)(f.Base())
	blocks := unsafe.Slice((*C.struct_ddlemu_params)(unsafe.Add(f.Base(), head.blocks_off)), int(head.blocks))
	return int64(C.model_serialise(&blocks[h], C.uint32_t(n)))
}

// Offset is the place of one field in the C layout of the fabric's file.
type Offset struct {
	Name string
	At   uintptr
}

// Layout lists the version, the verdict's limits, the sizes and the fields of the structs in layout.h.
func Layout() []Offset {
	var p C.struct_ddlemu_params
	var h C.struct_ddlemu_hop
	var k C.struct_ddlemu_class
	var c C.struct_ddlemu_cell
	var d C.struct_ddlemu_header
	var t C.struct_ddlemu_transport
	return []Offset{
		{"version of the format", C.DDLEMU_STATE_VERSION}, {"p50 floor", C.DDLEMU_P50_FLOOR}, {"p50 part", C.DDLEMU_P50_PART},
		{"p99 floor", C.DDLEMU_P99_FLOOR}, {"p99 part", C.DDLEMU_P99_PART},
		{"params", unsafe.Sizeof(p)}, {"params.jitter_kind", unsafe.Offsetof(p.jitter_kind)}, {"params.jitter", unsafe.Offsetof(p.jitter)},
		{"params.loss_p", unsafe.Offsetof(p.loss_p)}, {"params.queue_ns", unsafe.Offsetof(p.queue_ns)}, {"params.payload", unsafe.Offsetof(p.payload)},
		{"params.down", unsafe.Offsetof(p.down)}, {"params.stated_bandwidth", unsafe.Offsetof(p.stated_bandwidth)},
		{"params.stated_loss_p", unsafe.Offsetof(p.stated_loss_p)}, {"params.stated_mtu", unsafe.Offsetof(p.stated_mtu)}, {"params.retired", unsafe.Offsetof(p.retired)},
		{"hop", unsafe.Sizeof(h)}, {"hop.params", unsafe.Offsetof(h.params)}, {"hop.changes", unsafe.Offsetof(h.changes)}, {"hop.next_free", unsafe.Offsetof(h.next_free)}, {"hop.host_free", unsafe.Offsetof(h.host_free)}, {"hop.buffer", unsafe.Offsetof(h.buffer)},
		{"hop.bytes", unsafe.Offsetof(h.bytes)}, {"hop.drops", unsafe.Offsetof(h.drops)}, {"hop.busy_ns", unsafe.Offsetof(h.busy_ns)}, {"hop.classes", unsafe.Offsetof(h.classes)},
		{"hop.marks", unsafe.Offsetof(h.marks)}, {"hop.paused_ns", unsafe.Offsetof(h.paused_ns)}, {"params.ecn_ns", unsafe.Offsetof(p.ecn_ns)}, {"params.stated_ecn", unsafe.Offsetof(p.stated_ecn)},
		{"class", unsafe.Sizeof(k)}, {"class.over_p99", unsafe.Offsetof(k.over_p99)}, {"class.max_late", unsafe.Offsetof(k.max_late)}, {"class.late", unsafe.Offsetof(k.late)},
		{"cell", unsafe.Sizeof(c)}, {"cell.model_busy", unsafe.Offsetof(c.model_busy)}, {"cell.first_posted", unsafe.Offsetof(c.first_posted)},
		{"cell.stalls", unsafe.Offsetof(c.stalls)}, {"cell.held_sends", unsafe.Offsetof(c.held_sends)},
		{"transport", unsafe.Sizeof(t)}, {"transport.send_buffer", unsafe.Offsetof(t.send_buffer)}, {"transport.congestion", unsafe.Offsetof(t.congestion)}, {"transport.second", unsafe.Offsetof(t.second)}, {"transport.gap", unsafe.Offsetof(t.gap)},
		{"transport.host_per_message", unsafe.Offsetof(t.host_per_message)}, {"transport.host_ns_den", unsafe.Offsetof(t.host_ns_den)},
		{"header", unsafe.Sizeof(d)}, {"header.boot_id", unsafe.Offsetof(d.boot_id)}, {"header.closed", unsafe.Offsetof(d.closed)},
		{"header.fabric_id", unsafe.Offsetof(d.fabric_id)}, {"header.seed", unsafe.Offsetof(d.seed)}, {"header.time_scale", unsafe.Offsetof(d.time_scale)},
		{"header.nics_per_node", unsafe.Offsetof(d.nics_per_node)}, {"header.config_len", unsafe.Offsetof(d.config_len)},
		{"header.hops_off", unsafe.Offsetof(d.hops_off)}, {"header.cells_off", unsafe.Offsetof(d.cells_off)}, {"header.config_off", unsafe.Offsetof(d.config_off)},
		{"header.transport", unsafe.Offsetof(d.transport)}, {"header.next_event", unsafe.Offsetof(d.next_event)}, {"header.name", unsafe.Offsetof(d.name)},
		{"header.followed", unsafe.Offsetof(d.followed)}, {"header.marks_off", unsafe.Offsetof(d.marks_off)}, {"header.marks", unsafe.Offsetof(d.marks)},
	}
}
