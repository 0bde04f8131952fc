// SPDX-License-Identifier: Apache-2.0

package link

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#cgo nocallback advance
#cgo noescape advance
#include <stdlib.h>
#include <string.h>
#include "engine.h"

static int64_t advance(struct ddlemu_engine *e, int64_t now)
{
	flow_advance(e, now);
	return flow_next(e->flow);
}

// new_flow returns a flow with nothing posted. The entries of its tables are written before
// they are read.
static struct ddlemu_flow *new_flow(void)
{
	struct ddlemu_flow *f = aligned_alloc(128, sizeof *f);
	if (f != NULL)
		memset(f, 0, offsetof(struct ddlemu_flow, sends));
	return f;
}
*/
import "C"

import (
	"math"
	"unsafe"
)

// HopRecord is one segment on one hop: struct ddlemu_hop_record of engine.h. Times are in ns.
type HopRecord struct {
	Flow          uint32 // number of the flow in its network, from 0
	Hop           uint32 // place in the flow's path
	Msg           uint64
	Segment       uint32 // of the flow, the lower half of its number
	Bytes         uint32 // payload; 0: go-back-N sent one packet, and the receiver discarded it
	Last          uint32 // 1: the last segment of its message
	Retransmitted uint32 // packets sent again with it, which occupied this hop too
	Marked        uint32 // packets that this hop gave an ECN mark
	Flags         HopRecordFlags
	Ready         int64 // when it could have occupied the hop
	Start, Dur    int64 // when and for how long it did
	Next          int64 // when its first byte is at the next hop
	Finish        int64 // when its last byte is there, or at the receiver
}

// HopRecordFlags are what else is known of a record.
type HopRecordFlags uint32

// Flags of a record.
const (
	CarriesMark HopRecordFlags = C.DDLEMU_RECORD_CE      // an ECN mark, of this hop or of one before it
	Dropped     HopRecordFlags = C.DDLEMU_RECORD_DROPPED // by a queue, here or before: the segment occupied nothing
	// the first segment behind a reduction of the congestion window; at hop 0
	WindowReduced HopRecordFlags = C.DDLEMU_RECORD_REDUCED
)

// Never is a time that is not known yet, or does not come.
const Never = math.MaxInt64

// The most segments and messages that one flow keeps. A flow that reaches MaxSegments stops
// sending until the oldest segment has arrived, and counts that in Stalls: the model no
// longer holds. With a congestion window it waits for that segment's acknowledgement
// instead, as a full window does. MaxMessages limits the messages posted and not yet given back by Take.
const (
	MaxSegments = C.DDLEMU_MAX_SEGMENTS
	MaxMessages = C.DDLEMU_MAX_MESSAGES
)

// MaxAttempts is the most transmissions of one packet: the last one arrives. MaxDiscarded is
// the most packets for which the state of burst losses is followed while the receiver
// discards what comes.
const (
	MaxAttempts  = C.DDLEMU_MAX_ATTEMPTS
	MaxDiscarded = C.DDLEMU_MAX_DISCARDED
)

// Network is hops in private memory, and the flows that share them, in the caller's time. It
// is not safe for concurrent use. Close releases its memory and the memory of its flows.
type Network struct {
	Hops      []Hop
	blocks    []Block
	transport *Transport
	direct    *Transport // of flows within a node
	tables    *C.int32_t
	seed      uint64
	memory    []unsafe.Pointer
	records   *C.struct_ddlemu_hop_records // nil: nobody wants to know
	flows     uint32
}

// NewNetwork returns hops at rest, hop i with params[i]. tables may be nil if no hop has
// jitter that needs them. seed is the seed of all draws.
func NewNetwork(params []Params, t *Transport, tables *JitterTables, seed uint64) *Network {
	n := &Network{seed: seed}
	n.Hops, n.blocks = allocate[Hop](n, len(params)), allocate[Block](n, len(params))
	for i, p := range params {
		n.Hops[i] = Hop{ID: uint32(i), Block: uint32(i)}
		n.blocks[i].Params = p
	}
	n.transport = &allocate[Transport](n, 1)[0]
	*n.transport = *t
	n.direct = &allocate[Transport](n, 1)[0]
	*n.direct = t.direct()
	if tables != nil {
		c := allocate[JitterTables](n, 1)
		c[0] = *tables
		n.tables = (*C.int32_t)(unsafe.Pointer(&c[0]))
	}
	return n
}

// Allocate returns memory of so many bytes that C may keep, zeroed. Close releases it.
func (n *Network) Allocate(bytes uintptr) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(allocate[byte](n, int(bytes))))
}

// allocate returns memory that C may keep, zeroed.
func allocate[T any](n *Network, count int) []T {
	var zero T
	p := C.calloc(C.size_t(max(count, 1)), C.size_t(unsafe.Sizeof(zero)))
	n.memory = append(n.memory, p)
	return unsafe.Slice((*T)(p), count)
}

// Close releases the network's memory. Neither it nor its hops and flows may be used again.
func (n *Network) Close() {
	for _, p := range n.memory {
		C.free(p)
	}
	*n = Network{}
}

// KeepHopRecords makes the network note what each segment does, for HopRecords. Call it before NewFlow.
func (n *Network) KeepHopRecords() {
	const most = 2 * MaxSegments * MaxHops // of two steps: the event loop looks when there is no place for one
	n.records = &allocate[C.struct_ddlemu_hop_records](n, 1)[0]
	n.records.at, n.records.capacity = &allocate[C.struct_ddlemu_hop_record](n, most)[0], most
}

// HopRecords appends what segments did since the last call to out. Call it after each Advance, or run of an event loop.
func (n *Network) HopRecords(out []HopRecord) []HopRecord {
	if n.records == nil || n.records.n == 0 {
		return out
	}
	out = append(out, unsafe.Slice((*HopRecord)(unsafe.Pointer(n.records.at)), n.records.n)...)
	n.records.n = 0
	return out
}

// Params are the parameters in force on a hop.
func (n *Network) Params(hop int) Params { return n.blocks[hop].Params }

// Change puts parameters in force on a hop at time now, between two calls of the network's flows. As in a fabric's file
// (shaper/fabric/state), a hop that comes up was not free before, and one that stays down is down since it went down.
func (n *Network) Change(hop int, p Params, now int64) {
	h, b := &n.Hops[hop], &n.blocks[hop]
	switch {
	case !p.Down:
		if b.Params.Down {
			h.NextFree = max(h.NextFree, now)
		}
		b.DownSince = 0
	case !b.Params.Down:
		b.DownSince = now
	}
	b.Params = p
	h.Changes++
}

// PathHop is a hop as seen from one path.
type PathHop struct {
	Hop int // number
	// Private means that everything on this hop comes from the path's previous hop. As long
	// as the hop is not slower than that one, nothing waits for it, and it is not reserved.
	Private bool
}

// Message has the times of one message, in ns or Never.
type Message struct {
	Size   uint64
	Posted int64 // the sender called isend
	Ready  int64 // the sending host has handled it: Posted if hosts cost nothing
	Recv   int64 // the receiver called irecv
	Due    int64 // the last byte is at the receiver
	Sent   int64 // the send is complete for the sender
	// Distortion bounds how much earlier Due could have been if every step of this message
	// had been made in time.
	Distortion int64
}

// Flow carries the messages of one connection over a path, in order. Post and Recv say what
// the two ends did, Advance makes the steps whose time has come. Not safe for concurrent
// use.
type Flow struct {
	engine *C.struct_ddlemu_engine
	flow   *C.struct_ddlemu_flow
	posted uint64
	recvd  uint64
	taken  uint64
}

// NewFlow returns a flow with nothing posted. Its path has 1 to MaxHops hops; acknowledgements
// take the latency of the hops in reverse. id names the flow in draws.
func (n *Network) NewFlow(id uint64, path []PathHop, reverse []int) *Flow {
	engine, flow := &allocate[C.struct_ddlemu_engine](n, 1)[0], C.new_flow()
	n.memory = append(n.memory, unsafe.Pointer(flow))
	flow.id = C.uint64_t(id)
	p := &engine.path
	p.n, p.reverse_n = C.uint32_t(len(path)), C.uint32_t(len(reverse))
	for i, h := range path {
		p.hop[i] = C.uint32_t(h.Hop)
		if h.Private {
			p.private_mask |= 1 << i
		}
	}
	for i, h := range reverse {
		p.reverse[i] = C.uint32_t(h)
	}
	engine.flow, engine.seed, engine.tables = flow, C.uint64_t(n.seed), n.tables
	engine.records, engine.number = n.records, C.uint32_t(n.flows)
	n.flows++
	engine.transport = (*C.struct_ddlemu_transport)(unsafe.Pointer(n.transport))
	engine.hops = (*C.struct_ddlemu_hop)(unsafe.Pointer(unsafe.SliceData(n.Hops)))
	engine.blocks = (*C.struct_ddlemu_block)(unsafe.Pointer(unsafe.SliceData(n.blocks)))
	return &Flow{engine: engine, flow: flow}
}

// NewDirectFlow returns a flow between two GPUs of a node: a kernel writes to the other GPU's memory, so no proxy and
// no transport takes part. A message starts when it is posted, if its receive was posted one latency before.
func (n *Network) NewDirectFlow(id uint64, path []PathHop, reverse []int) *Flow {
	f := n.NewFlow(id, path, reverse)
	f.engine.transport = (*C.struct_ddlemu_transport)(unsafe.Pointer(n.direct))
	return f
}

// Engine is the flow for the event loop (shaper/engine/sim), a struct ddlemu_engine. roundRobin: each step reads one
// message.
func (f *Flow) Engine(roundRobin bool) unsafe.Pointer {
	f.engine.posts_at_once = 0
	if roundRobin {
		f.engine.posts_at_once = 1
	}
	return unsafe.Pointer(f.engine)
}

// Number is the number of the flow in its network, from 0.
func (f *Flow) Number() int { return int(f.engine.number) }

// Post describes a message of size bytes that the sender handed over at time t, not before
// any earlier one, and returns its number. It reports false, and changes nothing, if
// MaxMessages are unfinished.
func (f *Flow) Post(size uint64, t int64) (uint64, bool) { return f.Write(size, t, 0) }

// Write is Post for a message that a kernel writes from time t until written: its last byte does not leave before.
func (f *Flow) Write(size uint64, t, written int64) (uint64, bool) {
	if f.posted-f.floor() == MaxMessages {
		return 0, false
	}
	// As flow_post does in memory that is shared. Here no other thread reads it, and crossing to C would cost more.
	k, end := f.posted%MaxMessages, uint64(0)
	if f.posted > 0 {
		end = uint64(f.flow.sends[(f.posted-1)%MaxMessages].end)
	}
	f.flow.sends[k] = C.struct_ddlemu_send{size: C.uint64_t(size), end: C.uint64_t(end + size), posted: C.int64_t(t),
		written: C.int64_t(written)}
	f.posted++
	f.flow.posted = C.uint64_t(f.posted)
	return f.posted - 1, true
}

// Recv describes the receiver's call of irecv, at time t, for the next message. It reports
// false, and changes nothing, if MaxMessages are unfinished.
func (f *Flow) Recv(t int64) bool {
	if f.recvd-f.floor() == MaxMessages {
		return false
	}
	f.flow.receives[f.recvd%MaxMessages] = C.struct_ddlemu_receive{posted: C.int64_t(t)} // as flow_receive does
	f.recvd++
	f.flow.receives_posted = C.uint64_t(f.recvd)
	return true
}

// floor is the oldest message that anything may still ask for.
func (f *Flow) floor() uint64 { return min(f.taken, uint64(f.flow.published.oldest_msg)) }

// Advance makes every step whose time has come by now, and returns the time before which
// another call changes nothing, unless Post or Recv is called.
func (f *Flow) Advance(now int64) int64 { return int64(C.advance(f.engine, C.int64_t(now))) }

// Message returns message i: posted, and not yet taken.
func (f *Flow) Message(i uint64) Message {
	c, k := f.flow, i%MaxMessages
	m := Message{Size: uint64(c.sends[k].size), Posted: int64(c.sends[k].posted), Ready: Never,
		Recv: Never, Due: Never, Sent: Never}
	if i < f.recvd {
		m.Recv = int64(c.receives[k].posted)
	}
	if i < uint64(c.known) {
		t := &c.times[k]
		m.Ready = max(m.Posted, int64(t.ready))
		m.Due, m.Sent, m.Distortion = int64(t.due), int64(t.complete), int64(t.distortion)
	}
	return m
}

// Arrived is the stream offset up to which bytes had arrived by the time last given to
// Advance.
func (f *Flow) Arrived() uint64 { return uint64(f.flow.results.arrived) }

// Take gives back the oldest message, once its Due and Sent have passed.
func (f *Flow) Take() { f.taken++ }

// Stalls is how often the flow kept too many segments to send another one.
func (f *Flow) Stalls() uint64 { return uint64(f.flow.stalls) }

// Broken says whether a hop was down for longer than the transport's DownTimeout.
func (f *Flow) Broken() bool { return f.flow.broken != 0 }
