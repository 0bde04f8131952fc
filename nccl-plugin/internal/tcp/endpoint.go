// SPDX-License-Identifier: Apache-2.0

package tcp

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include "conn.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/sockets"
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
	*transport.Endpoint
	options Options

	mu       sync.Mutex
	sockets  map[int]*socket // that accept streams, by NIC
	arrivals map[arrivalKey]*arrival
}

// conn is one end of one connection.
type conn struct {
	c    *C.struct_ddlemu_tcp_conn
	peer transport.Peer
}

// NewEndpoint makes an endpoint for participant me, and watches its peers. It asks
// the fabric's daemon for one socket, to see that there is one.
func NewEndpoint(f *state.File, me *state.Participant, r state.Rank, o Options) (*Endpoint, error) {
	if o.Streams < 1 || o.Streams > MaxStreams {
		return nil, fmt.Errorf("%d streams: a connection has 1 to %d", o.Streams, MaxStreams)
	}
	setAllPolled(o.Polled)
	e := newEndpoint(f, me, r, o)
	if _, err := e.listeningSocket(r.Node * f.Fixed().NICsPerNode); err != nil {
		return nil, err
	}
	e.Watch(func() {
		e.CheckPeers()
		e.CheckDaemon()
		e.checkArrivals()
	})
	return e, nil
}

func newEndpoint(f *state.File, me *state.Participant, r state.Rank, o Options) *Endpoint {
	e := &Endpoint{options: o, sockets: map[int]*socket{}, arrivals: map[arrivalKey]*arrival{}}
	e.Endpoint = transport.New(f, me, r, handleMagic, e.dial)
	return e
}

// setAllPolled says whether any receive may be one whose bytes are polled.
func setAllPolled(polled bool) {
	all := C.int(0)
	if polled {
		all = 1
	}
	C.ddlemu_tcp_set_all_polled(all)
}

// openSocket returns a fresh socket on a NIC, bound to its address and any port.
func (e *Endpoint) openSocket(nic int, ipv6 bool) (fd int, err error) {
	fd, addr, err := sockets.Open(e.Fabric.Dir(), e.Fabric.Name(), sockets.Request{NIC: nic, IPv6: ipv6})
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

// Close ends the endpoint at the end of the process, see [transport.Endpoint.Close].
func (e *Endpoint) Close() {
	e.Endpoint.Close(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, s := range e.sockets {
			s.Close()
		}
		for key := range e.arrivals {
			e.drop(key, "the process is ending")
		}
	})
}

// Listen makes a listener on a NIC (a number in the fabric) for one or more connections
// and writes the handle for the peers.
func (e *Endpoint) Listen(nic int, out *[transport.HandleSize]byte) (id uint64, err error) {
	s, err := e.listeningSocket(nic)
	if err != nil {
		return 0, err
	}
	return e.Endpoint.Listen(nic, s.addr, out), nil
}

// CloseListen ends a listener and the connections that were made to it and not accepted.
func (e *Endpoint) CloseListen(id uint64) {
	e.Endpoint.CloseListen(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.arrivals {
		if uint64(key.listen) == id {
			e.drop(key, "nobody listens there any more")
		}
	}
}

// newSender makes the sending end, see newConn.
func (e *Endpoint) newSender(fds []int, hop int, peer transport.Peer) (*conn, error) {
	return e.newConn(&C.ddlemu_tcp_sender, fds, hop, peer)
}

// newReceiver makes the receiving end, see newConn.
func (e *Endpoint) newReceiver(fds []int, hop int, peer transport.Peer) (*conn, error) {
	return e.newConn(&C.ddlemu_tcp_receiver, fds, hop, peer)
}

// newConn makes one end out of connected sockets, which it closes when it ends, and
// after an error. hop is the link between the two NICs.
func (e *Endpoint) newConn(ops *C.struct_ddlemu_ops, fds []int, hop int, peer transport.Peer) (*conn, error) {
	var list [MaxStreams]C.int
	for i, fd := range fds {
		list[i] = C.int(fd)
	}
	stats := e.Me.Job().LinkStatsOffset() + uint64(hop)*uint64(unsafe.Sizeof(C.struct_ddlemu_link_stats{}))
	patience := transport.Patience/10 + deadPeerLatencies*e.latency(hop)
	c := C.ddlemu_tcp_new(ops, C.ulong(e.NewID()), &list[0], C.uint32_t(len(fds)), e.Fabric.Base(), C.uint64_t(stats),
		C.int64_t(patience))
	if c == nil {
		for _, fd := range fds {
			closeSocket(fd)
		}
		return nil, errors.New("no memory for a connection")
	}
	return &conn{c: c, peer: peer}, nil
}

// Comm is NCCL's comm.
func (c *conn) Comm() unsafe.Pointer { return unsafe.Pointer(c.c) }

// Peer is the participant at the other end.
func (c *conn) Peer() transport.Peer { return c.peer }

// Shutdown tells the peer that this end is gone and keeps the memory.
func (c *conn) Shutdown() { shutdown(c.Comm()) }

func shutdown(comm unsafe.Pointer) { C.ddlemu_tcp_shutdown((*C.struct_ddlemu_tcp_conn)(comm)) }

// Close tells the peer that this end is gone and frees the memory.
func (c *conn) Close() { C.ddlemu_tcp_free(c.c) }
