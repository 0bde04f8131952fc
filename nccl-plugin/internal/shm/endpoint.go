// SPDX-License-Identifier: Apache-2.0

package shm

/*
#include "advance.h"
#include "node.h"
#include "open.h"
*/
import "C"

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Endpoint is this process's end of all its connections. Its methods are safe for concurrent use.
type Endpoint struct {
	*transport.Endpoint
	sock   *net.UnixListener
	paths  FlowPath      // nil if all flows of two NICs have one path
	clock  *virtualClock // nil if the fabric's clock is real
	joined bool          // this endpoint has joined it, and leaves it
	// This process's part in the time of its node on a real clock; nil if it has none.
	node   *C.struct_ddlemu_clock_view
	gpu    Memory // see ShareGPU; Size 0 if there is none
	mapped mappedMemory
	ledger *ledger.Ledger // nil if this process writes none
}

// conn is one end of one connection.
type conn struct {
	c      *C.struct_ddlemu_conn
	e      *Endpoint
	region *region
	gpu    *mapping // of the peer, if this end copies out of it; else nil
	peer   transport.Peer
	cost   int64 // bytes counted against the budget of this process
}

// FlowPath is the path of a flow from one NIC to another, which are on different nodes.
type FlowPath func(src, dst int, id uint64) []link.PathHop

// inDir calls do with a short path to the folder of fabrics.
func inDir(path string, do func(dir string) error) error { return state.InDir(path, os.Getuid(), do) }

// ShareGPU lets the receivers of this process's connections copy what it sends out of this memory, so that each byte is
// copied once. That needs a virtual clock and a transport whose sends are complete when the bytes have arrived (rdma).
// It is called before the first connection.
func (e *Endpoint) ShareGPU(m Memory) {
	if e.clock != nil && e.clock.view.engine.transport.kind == C.DDLEMU_RDMA {
		e.gpu = m
	}
}

// layout is the layout of a connection over a path.
func (e *Endpoint) layout(path []link.PathHop) layout {
	switch {
	case e.clock != nil:
		return placesAndRing
	case e.isUnshaped(path):
		return unshapedFlowAndRing
	default:
		return flowAndRing
	}
}

// isUnshaped says whether no hop of a path takes time now.
func (e *Endpoint) isUnshaped(path []link.PathHop) bool {
	return !slices.ContainsFunc(path, func(h link.PathHop) bool {
		p := e.Fabric.InForce(h.Hop)
		return p.NsDen != 0 || p.Latency != 0
	})
}

// Close ends the endpoint at the end of the process, see [transport.Endpoint.Close].
func (e *Endpoint) Close() {
	e.Endpoint.Close(func() {
		e.sock.Close()
		// If the folder is gone, so is the socket.
		_ = inDir(e.Fabric.Dir(), func(dir string) error {
			return os.Remove(filepath.Join(dir, state.SocketName(e.Fabric.Name(), e.Me.Slot())))
		})
	})
	if e.joined {
		leaveClock(e.clock, e.node, e.Me.Job())
	}
}

// leaveClock ends this process's part in the virtual clock, or in the time of its node on a real one.
func leaveClock(clock *virtualClock, node *C.struct_ddlemu_clock_view, job state.Job) {
	clock.leave(job)
	if node != nil {
		C.ddlemu_node_leave(node)
	}
}

// Clock is this process's part in the virtual clock, a struct ddlemu_clock_view; nil if the clock is real.
func (e *Endpoint) Clock() unsafe.Pointer { return unsafe.Pointer(e.clock.viewOf()) }

// Listen makes a listener on a NIC (a number in the fabric) for one or more connections
// and writes the handle for the peers.
func (e *Endpoint) Listen(nic int, out *[transport.HandleSize]byte) (id uint64, err error) {
	return e.Endpoint.Listen(nic, netip.AddrPort{}, out), nil
}

// newConn makes this end of a connection. path is what its path is drawn by. clockFlow is its flow if the clock is
// virtual, else nil.
func (e *Endpoint) newConn(ops *C.struct_ddlemu_ops, r *region, path uint64, clockFlow *C.struct_ddlemu_clock_flow,
	peer transport.Peer, cost int64, memory C.struct_ddlemu_gpu_memory) (*conn, error) {
	checked := C.struct_ddlemu_region{memory: unsafe.Pointer(&r.mem[0]), ring_off: C.uint64_t(r.ring),
		ring_size: C.uint64_t(uintptr(len(r.mem)) - r.ring), path: r.path}
	c := C.ddlemu_conn_new(ops, C.ulong(e.NewID()), &checked, e.Fabric.Base(), C.uint64_t(e.Me.Job().LinkStatsOffset()),
		e.clock.viewOf(), clockFlow, memory)
	if c == nil {
		r.close()
		e.Me.Reserve(-cost)
		return nil, errors.New("no memory for a connection")
	}
	src, dst := e.ends(c)
	nics := e.Fabric.Fixed().NICsPerNode
	c.src_node, c.dst_node = C.int(src/nics), C.int(dst/nics)
	e.note(c, path)
	return &conn{c: c, e: e, region: r, peer: peer, cost: cost}, nil
}

// SetLedger makes the connections made from now on write a ledger, which stays open until the process ends.
func (e *Endpoint) SetLedger(l *ledger.Ledger) { e.ledger = l }

// ends are the NICs at the ends of a connection's path.
func (e *Endpoint) ends(c *C.struct_ddlemu_conn) (src, dst int) {
	path := c.engine.path
	return int(e.Fabric.Entry(int(path.hop[0])).Src), int(e.Fabric.Entry(int(path.hop[path.n-1])).Dst)
}

// note enters a new connection in the ledger, if there is one.
func (e *Endpoint) note(c *C.struct_ddlemu_conn, path uint64) {
	if e.ledger == nil {
		return
	}
	src, dst := e.ends(c)
	x := ledger.Connection{Path: path, Flow: uint64(c.f.id), Link: uint32(c.engine.path.link), Src: uint32(src),
		Dst: uint32(dst)}
	if c.base.ops == &C.ddlemu_shm_sender {
		x.Sends = 1
	}
	if c.clock_flow != nil {
		x.Order = uint64(c.clock_flow.sim.order)
	}
	c.ledger_conn = C.uint32_t(e.ledger.Add(x))
	next, records, mask := e.ledger.View()
	c.ledger = C.struct_ddlemu_ledger_view{next: (*C.uint64_t)(next), records: (*C.struct_ddlemu_record)(records),
		mask: C.uint64_t(mask)}
}

// Comm is NCCL's comm.
func (c *conn) Comm() unsafe.Pointer { return unsafe.Pointer(c.c) }

// Peer is the participant at the other end.
func (c *conn) Peer() transport.Peer { return c.peer }

// Shutdown tells the peer that this end is gone and keeps the memory.
func (c *conn) Shutdown() {
	C.conn_unlink(c.c)
	C.ddlemu_conn_close(c.c)
}

// Close tells the peer that this end is gone and frees the memory.
func (c *conn) Close() {
	C.ddlemu_conn_close(c.c)
	C.ddlemu_conn_free(c.c)
	c.region.close()
	c.e.mapped.close(c.gpu)
	c.e.Me.Reserve(-c.cost)
}
