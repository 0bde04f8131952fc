// SPDX-License-Identifier: Apache-2.0

package tcp

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include "conn.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/transport/meet"
	"github.com/ddlemu/ddlemu/nccl-plugin/transport/peers"
	"github.com/ddlemu/ddlemu/shaper/kernel/sockets"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// MaxStreams is the most TCP streams of one connection.
const MaxStreams = C.DDLEMU_TCP_STREAMS

// Options are what an endpoint is made with.
type Options struct {
	Streams int  // of each connection that this end makes, 1 to MaxStreams
	IPv6    bool // listen on the nodes' IPv6 addresses
	// Polled says that any receive may be one whose bytes are polled, see LL and LL128.
	// Otherwise NCCL says which are.
	Polled bool
}

// Endpoint is this process's end of all its connections. Its methods are safe for
// concurrent use.
type Endpoint struct {
	fabric  *state.File
	me      *state.Participant
	rank    state.Rank
	options Options
	done    chan struct{}
	running sync.WaitGroup // what must end before the fabric's file is closed

	mu       sync.Mutex
	closed   bool
	nextID   uint64
	doors    map[int]*door // by NIC
	listens  map[uint32]*listener
	attempts meet.Attempts[handle, *conn]
	conns    map[uint64]*conn
}

// listener is one listen; some of a connection's streams may have come.
type listener struct {
	meet.Listener[*conn]
	waiting map[connectionID]*arrival
}

// conn is one end of one connection.
type conn struct {
	id   uint64
	c    *C.struct_ddlemu_tcp_conn
	peer peers.Tenant
}

// NewEndpoint makes an endpoint for participant me, and watches its peers. It asks
// the fabric's daemon for one socket, to see that there is one.
func NewEndpoint(f *state.File, me *state.Participant, r state.Rank, o Options) (*Endpoint, error) {
	if o.Streams < 1 || o.Streams > MaxStreams {
		return nil, fmt.Errorf("%d streams: a connection has 1 to %d", o.Streams, MaxStreams)
	}
	orderAll(o.Polled)
	e := &Endpoint{
		fabric: f, me: me, rank: r, options: o, done: make(chan struct{}),
		doors: map[int]*door{}, listens: map[uint32]*listener{}, attempts: meet.Attempts[handle, *conn]{}, conns: map[uint64]*conn{},
	}
	first := r.Node * f.Fixed().NICsPerNode
	if _, err := e.door(first); err != nil {
		return nil, err
	}
	e.running.Go(func() { peers.Watch(f, e.done, e.look) })
	return e, nil
}

// orderAll says whether any receive may be one whose bytes are polled.
func orderAll(polled bool) {
	all := C.int(0)
	if polled {
		all = 1
	}
	C.ddlemu_tcp_order_all(all)
}

// socket is a fresh socket on a NIC, bound to its address and any port.
func (e *Endpoint) socket(nic int, ipv6 bool) (fd int, err error) {
	fd, addr, err := sockets.Open(e.fabric.Dir(), e.fabric.Name(), sockets.Request{NIC: nic, IPv6: ipv6})
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return -1, fmt.Errorf("%w: is it up? see `ddlemu status`", err)
	}
	if err != nil {
		return -1, err
	}
	if err := prepare(fd, addr); err != nil {
		closeSocket(fd)
		return -1, fmt.Errorf("bind to %v of NIC %d: %w", addr, nic, err)
	}
	return fd, nil
}

// Close ends the endpoint, at the end of the process, and tells the peer of every
// connection that is left. Their memory stays: NCCL's threads may be in a call.
func (e *Endpoint) Close() {
	e.mu.Lock()
	e.closed = true
	close(e.done)
	for _, d := range e.doors {
		d.Close()
	}
	e.mu.Unlock()
	e.running.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		c.shutdown()
	}
	for _, l := range e.listens {
		e.endListen(l)
	}
	e.conns, e.listens = map[uint64]*conn{}, map[uint32]*listener{}
}

// shutdown tells the peer that this end is gone.
func (c *conn) shutdown() { C.ddlemu_tcp_shutdown(c.c) }

// free ends a connection that no call is made on any more.
func (c *conn) free() { C.ddlemu_tcp_free(c.c) }

// Open is the number of connections that are open.
func (e *Endpoint) Open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

// Listen opens NIC nic (a number in the fabric) for one or more connections and
// writes the handle for the peers.
func (e *Endpoint) Listen(nic int, out *[HandleSize]byte) (uint64, error) {
	d, err := e.door(nic)
	if err != nil {
		return 0, err
	}
	l := &listener{meet.Listen[*conn](e.fabric, e.me, nic), map[connectionID]*arrival{}}
	e.mu.Lock()
	e.nextID++
	id := e.nextID
	e.listens[uint32(id)] = l
	e.mu.Unlock()
	h := handle{
		meet.Handle{Fabric: e.fabric.ID(), Nonce: l.Nonce, Slot: uint32(e.me.Slot()), Listen: uint32(id), NIC: uint32(nic), Rank: int32(e.rank.Rank)}, d.at,
	}
	h.put(out)
	return id, nil
}

// CloseListen ends a listen and the connections on it that nobody accepted.
func (e *Endpoint) CloseListen(id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.listens[uint32(id)]; l != nil {
		delete(e.listens, uint32(id))
		e.endListen(l)
	}
}

// endListen ends what came to a listen, under the lock.
func (e *Endpoint) endListen(l *listener) {
	for id, a := range l.waiting {
		delete(l.waiting, id)
		a.refuse("nobody listens there any more")
	}
	for _, c := range l.Ready {
		c.free()
	}
	l.Ready = nil
}

// Accept returns the comm of a connection that a peer has made, nil if there is
// none yet.
func (e *Endpoint) Accept(id uint64) (unsafe.Pointer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.listens[uint32(id)]
	if l == nil {
		return nil, errors.New("accept on a listen that is closed")
	}
	c, ok, err := l.Accept(e.fabric)
	if !ok {
		return nil, err
	}
	e.conns[c.id] = c
	return unsafe.Pointer(c.c), nil
}

// Connect begins or continues a connection from NIC nic to where the handle says
// and returns its comm, nil while it is under way. It keeps its place in the
// handle, as NCCL's own transports do.
func (e *Endpoint) Connect(nic int, b *[HandleSize]byte) (unsafe.Pointer, error) {
	h, err := parseHandle(b, e.fabric.ID())
	if err != nil {
		return nil, err
	}
	key := binary.LittleEndian.Uint64(b[meet.AttemptOffset:])
	if key == 0 {
		key, err := e.begin(nic, h)
		binary.LittleEndian.PutUint64(b[meet.AttemptOffset:], key)
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok, err := e.attempts.Result(key, nic, h)
	if !ok {
		return nil, err
	}
	e.conns[c.id] = c
	return unsafe.Pointer(c.c), nil
}

func (e *Endpoint) begin(nic int, h handle) (uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, errors.New("the process is ending")
	}
	e.nextID++
	key := e.nextID
	end := e.attempts.Begin(key, nic, h)
	e.running.Go(func() {
		c, err := e.dial(nic, h, key)
		if err != nil {
			err = fmt.Errorf("connect to rank %d at %v: %w", h.Rank, h.addr, err)
		}
		end(c, err)
	})
	return key, nil
}

// CloseComm ends a connection.
func (e *Endpoint) CloseComm(id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.conns[id]; c != nil {
		delete(e.conns, id)
		c.free()
	}
}

// sender makes the sending end, see newConn.
func (e *Endpoint) sender(fds []int, hop int, peer peers.Tenant) (*conn, error) {
	return e.newConn(&C.ddlemu_tcp_sender, fds, hop, peer)
}

// receiver makes the receiving end, see newConn.
func (e *Endpoint) receiver(fds []int, hop int, peer peers.Tenant) (*conn, error) {
	return e.newConn(&C.ddlemu_tcp_receiver, fds, hop, peer)
}

// newConn makes one end out of connected sockets, which are its own from then on,
// even after an error. hop is the link between the two NICs.
func (e *Endpoint) newConn(ops *C.struct_ddlemu_ops, fds []int, hop int, peer peers.Tenant) (*conn, error) {
	e.mu.Lock()
	e.nextID++
	id := e.nextID
	e.mu.Unlock()
	var list [MaxStreams]C.int
	for i, fd := range fds {
		list[i] = C.int(fd)
	}
	cell := e.me.Job().CellsOffset() + uint64(hop)*uint64(unsafe.Sizeof(C.struct_ddlemu_cell{}))
	patience := peers.Patience/10 + underWay*e.latency(hop)
	c := C.ddlemu_tcp_new(ops, C.ulong(id), &list[0], C.uint32_t(len(fds)), e.fabric.Base(), C.uint64_t(cell), C.int64_t(patience))
	if c == nil {
		for _, fd := range fds {
			closeSocket(fd)
		}
		return nil, errors.New("no memory for a connection")
	}
	return &conn{id: id, c: c, peer: peer}, nil
}

// TakeError returns the words of the last failure on this thread.
func TakeError() string {
	if s := C.ddlemu_tcp_take_error(); s != nil {
		return C.GoString(s)
	}
	return ""
}
