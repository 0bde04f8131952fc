// SPDX-License-Identifier: Apache-2.0

package shm

/*
#include "node.h"
#include "open.h"

// flow_of is the flow with a number from 0, NULL if there is none.
static struct ddlemu_clock_flow *flow_of(struct ddlemu_clock_flows *f, uint64_t number)
{
	if (number >= DDLEMU_CLOCK_FLOWS || !clock_flow_is_made(f, (uint32_t)number))
		return NULL;
	return &f->flow[number];
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// virtualClock is this process's part in the virtual clock of a fabric. Its methods work on nil, for a real clock.
type virtualClock struct {
	view  *C.struct_ddlemu_clock_view
	flows *state.Flows
}

// joinClock joins the fabric's virtual clock, if it has one. From then on the clock waits for this process.
func joinClock(f *state.File, me *state.Participant, r state.Rank) (*virtualClock, error) {
	if !f.Virtual() {
		return nil, nil
	}
	v, flows, err := newView(f, me, r)
	if err != nil {
		return nil, err
	}
	v.reasons, v.not_waited_for = (*C.uint64_t)(me.Job().ReasonsWord()), C.uint64_t(state.NotWaitedFor)
	C.ddlemu_clock_place(v, f.Clock(), flows.Base())
	return &virtualClock{C.ddlemu_clock_join(v), flows}, nil
}

// joinNode makes the calls for the time of this rank's node, if the fabric has it and its clock is real. It returns
// this process's part in it, else nil.
func joinNode(f *state.File, me *state.Participant, r state.Rank) (*C.struct_ddlemu_clock_view, error) {
	if f.Virtual() || !f.HasNodeTime() {
		return nil, nil
	}
	v, flows, err := newView(f, me, r)
	if err != nil {
		return nil, err
	}
	v.flows = (*C.struct_ddlemu_clock_flows)(flows.Base())
	gpu := me.Job().NodeStatsOffset() + uint64(r.Rank*state.NodeParts)*uint64(unsafe.Sizeof(state.LinkStats{}))
	return C.ddlemu_node_join(v, (*C.struct_ddlemu_link_stats)(unsafe.Add(f.Base(), gpu)),
		C.int64_t(f.Fixed().TimeScale)), nil
}

// NodeCalls is the table of calls for the time of this process's node on a real clock, a struct ddlemu_node_calls; NULL
// if it has none.
func NodeCalls() unsafe.Pointer { return unsafe.Pointer(C.ddlemu_node_calls()) }

// newView makes a view of a fabric's flows, which stay open until the process ends.
func newView(f *state.File, me *state.Participant, r state.Rank) (*C.struct_ddlemu_clock_view, *state.Flows, error) {
	if err := checkNodeTime(f, r); err != nil {
		return nil, nil, err
	}
	d, err := state.OpenDir(f.Dir(), os.Getuid(), false)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	flows, err := d.OpenFlows(f)
	if err != nil {
		return nil, nil, err
	}
	file, first, step := f.SlotLocks()
	v := &C.struct_ddlemu_clock_view{
		fabric_file: C.int(file), lock_at: C.int64_t(first), lock_step: C.int64_t(step),
		engine: C.ddlemu_engine_of(f.Base()), participant: C.uint32_t(me.Slot()),
		node: C.uint32_t(r.Node), job: C.uint32_t(me.Job().Index()), rank: C.uint32_t(r.Rank),
		ranks: C.uint32_t(r.World), flows_file: C.int(flows.File()),
		node_time: (*C.struct_ddlemu_node_time)(f.NodeTime()),
	}
	C.ddlemu_place_changes(v, f.Base())
	return v, flows, nil
}

// checkNodeTime says if nodes cost time and a rank is not where its number says: its GPU follows from that.
func checkNodeTime(f *state.File, r state.Rank) error {
	gpus := f.Fixed().GPUsPerNode
	if !f.HasNodeTime() || r.Rank >= 0 && r.Node == r.Rank/gpus {
		return nil
	}
	return fmt.Errorf("rank %d is on node %d: in a fabric whose nodes cost time, each node has %s, in order: change "+
		"--set gpus_per_node or the ranks' nodes, or leave --set node_time=on out", r.Rank, r.Node, units.Count(gpus, "rank"))
}

// leave ends this process's part in the clock: it no longer waits for this process.
func (c *virtualClock) leave(job state.Job) {
	if c == nil {
		return
	}
	if c.view.clock.deadlocked != 0 {
		job.Invalidate(state.Deadlocked)
	}
	C.ddlemu_clock_leave(c.view)
}

// viewOf is the view for C, NULL for a real clock.
func (c *virtualClock) viewOf() *C.struct_ddlemu_clock_view {
	if c == nil {
		return nil
	}
	return c.view
}

// newFlow makes the flow that region r describes, from this process to the peer; nil if the clock is real.
func (c *virtualClock) newFlow(e *transport.Endpoint, r *region, h transport.Handle,
	peer transport.Peer) (*C.struct_ddlemu_clock_flow, error) {
	if c == nil {
		return nil, nil
	}
	x := C.clock_take_place(c.view.flows)
	if x == nil {
		return nil, fmt.Errorf("a fabric with a virtual clock has at most %d connections, and all are in use",
			clock.MaxFlows)
	}
	if err := c.flows.Reserve(uint64(uintptr(unsafe.Pointer(x))-uintptr(c.flows.Base())), clock.FlowSize); err != nil {
		C.clock_set_place(c.view.flows, x, C.DDLEMU_FLOW_FREE)
		return nil, fmt.Errorf("reserve %d KiB for a connection in %s (is it full? see df): %w", clock.FlowSize>>10,
			e.Fabric.Dir(), err)
	}
	C.clock_clear_flow(x)
	described := r.flow()
	x.flow.id, x.flow.path = described.id, r.path
	x.sim.order = C.flow_order(C.uint64_t(e.Me.Job().Index()), C.uint64_t(e.Rank.Rank), C.uint64_t(h.Rank),
		C.uint64_t(h.Listened))
	x.sender_node, x.receiver_node = c.view.node, C.uint32_t(e.Fabric.NodeOf(peer.Slot))
	C.clock_set_place(c.view.flows, x, C.DDLEMU_FLOW_MADE)
	return x, nil
}

// number is 1 + the number of a flow, 0 if the clock is real.
func (c *virtualClock) number(x *C.struct_ddlemu_clock_flow) uint64 {
	if c == nil {
		return 0
	}
	return 1 + uint64(C.clock_flow_number(c.view.flows, x))
}

// release gives a flow back that no peer knows.
func (c *virtualClock) release(x *C.struct_ddlemu_clock_flow) {
	if c != nil && x != nil {
		C.clock_set_place(c.view.flows, x, C.DDLEMU_FLOW_FREE)
	}
}

// flow is the flow of this number (from 1), which region r must describe; nil if the clock is real.
func (c *virtualClock) flow(number uint64, r *region) (*C.struct_ddlemu_clock_flow, error) {
	if c == nil {
		return nil, nil
	}
	x, described := C.flow_of(c.view.flows, C.uint64_t(number-1)), r.flow()
	if x == nil || x.flow.id != described.id || x.flow.path != r.path {
		return nil, errors.New("the flow that the peer names is not the one of this connection")
	}
	x.receiver_node = c.view.node
	return x, nil
}

// ClockCalls is the table of calls of this process's virtual clock, a struct
// ddlemu_clock_calls; NULL if it has joined none.
func ClockCalls(s configs.ClockSettings) unsafe.Pointer {
	return unsafe.Pointer(C.ddlemu_clock_calls(C.struct_ddlemu_clock_settings{
		compute: C.double(s.Compute), compute_hold: C.int64_t(s.ComputeHold),
		waits_on_deadlock: s.OnDeadlock == configs.DeadlockWait,
	}))
}
