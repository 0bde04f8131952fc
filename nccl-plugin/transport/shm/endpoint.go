// SPDX-License-Identifier: Apache-2.0

package shm

/*
#include "conn.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/transport/meet"
	"github.com/ddlemu/ddlemu/nccl-plugin/transport/peers"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Endpoint is this process's end of all its connections. Its methods are safe
// for concurrent use.
type Endpoint struct {
	fabric  *state.File
	me      *state.Participant
	rank    state.Rank
	sock    *net.UnixListener
	done    chan struct{}
	watched chan struct{} // closed when watch has ended

	mu       sync.Mutex
	nextID   uint64
	listens  map[uint32]*listener
	attempts meet.Attempts[handle, *conn]
	conns    map[uint64]*conn
	flows    map[int32]uint64 // connections made to each rank, ever
}

type listener = meet.Listener[*conn]

// conn is one end of one connection.
type conn struct {
	id     uint64
	c      *C.struct_ddlemu_conn
	region *region
	peer   peers.Tenant
	cost   int64 // bytes counted against the budget of this process
}

// NewEndpoint listens for peers in the fabric's folder, and watches them.
func NewEndpoint(f *state.File, me *state.Participant, r state.Rank) (*Endpoint, error) {
	e := &Endpoint{
		fabric: f, me: me, rank: r, done: make(chan struct{}), watched: make(chan struct{}),
		listens: map[uint32]*listener{}, attempts: meet.Attempts[handle, *conn]{}, conns: map[uint64]*conn{}, flows: map[int32]uint64{},
	}
	err := inDir(f.Dir(), func(dir string) (err error) {
		path := filepath.Join(dir, socketName(f, me.Slot()))
		os.Remove(path)
		if e.sock, err = net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: path}); err != nil {
			return err
		}
		e.sock.SetUnlinkOnClose(false)
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		if e.sock != nil {
			e.sock.Close()
		}
		return nil, fmt.Errorf("listen for peers in %s: %w", f.Dir(), err)
	}
	go e.serve()
	go func() {
		defer close(e.watched)
		peers.Watch(f, e.done, e.look)
	}()
	return e, nil
}

func socketName(f *state.File, slot int) string { return fmt.Sprintf("%s.%d.sock", f.Name(), slot) }

// inDir calls do with a short path to the folder of fabrics.
func inDir(path string, do func(dir string) error) error { return state.InDir(path, os.Getuid(), do) }

// Close ends the endpoint, at the end of the process, and tells the peer of every
// connection that is left. Their memory stays: NCCL's threads may be in a call.
func (e *Endpoint) Close() {
	close(e.done)
	e.sock.Close()
	<-e.watched // the fabric's file may be closed after this
	// When the folder is gone, so is the socket.
	_ = inDir(e.fabric.Dir(), func(dir string) error { return os.Remove(filepath.Join(dir, socketName(e.fabric, e.me.Slot()))) })
	e.mu.Lock()
	var left []*conn
	for _, c := range e.conns {
		left = append(left, c)
	}
	for _, l := range e.listens {
		left = append(left, l.Ready...)
	}
	e.conns, e.listens = map[uint64]*conn{}, map[uint32]*listener{}
	e.mu.Unlock()
	for _, c := range left {
		C.ddlemu_conn_unlink(c.c)
		C.ddlemu_conn_close(c.c)
	}
}

// Open is the number of connections that are open.
func (e *Endpoint) Open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

// Listen opens NIC nic (a number in the fabric) for one or more connections and
// writes the handle for the peers.
func (e *Endpoint) Listen(nic int, out *[HandleSize]byte) (uint64, error) {
	l := meet.Listen[*conn](e.fabric, e.me, nic)
	e.mu.Lock()
	e.nextID++
	id := e.nextID
	e.listens[uint32(id)] = &l
	e.mu.Unlock()
	h := handle{Fabric: e.fabric.ID(), Nonce: l.Nonce, Slot: uint32(e.me.Slot()), Listen: uint32(id), NIC: uint32(nic), Rank: int32(e.rank.Rank)}
	h.Put(out, handleMagic)
	return id, nil
}

// CloseListen ends a listen and the connections on it that nobody accepted.
func (e *Endpoint) CloseListen(id uint64) {
	e.mu.Lock()
	l := e.listens[uint32(id)]
	delete(e.listens, uint32(id))
	e.mu.Unlock()
	if l == nil {
		return
	}
	for _, c := range l.Ready {
		e.end(c)
	}
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
	h, err := meet.ParseHandle(b, handleMagic, e.fabric.ID())
	if err != nil {
		return nil, err
	}
	key := binary.LittleEndian.Uint64(b[meet.AttemptOffset:])
	if key == 0 {
		binary.LittleEndian.PutUint64(b[meet.AttemptOffset:], e.begin(nic, h))
		return nil, nil
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

func (e *Endpoint) begin(nic int, h handle) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nextID++
	key := e.nextID
	end := e.attempts.Begin(key, nic, h)
	number := e.flows[h.Rank]
	e.flows[h.Rank]++
	go func() { end(e.dial(nic, h, number)) }()
	return key
}

// CloseComm ends a connection.
func (e *Endpoint) CloseComm(id uint64) {
	e.mu.Lock()
	c := e.conns[id]
	delete(e.conns, id)
	e.mu.Unlock()
	if c != nil {
		e.end(c)
	}
}

func (e *Endpoint) end(c *conn) {
	C.ddlemu_conn_close(c.c)
	C.ddlemu_conn_free(c.c)
	c.region.close()
	e.me.Reserve(-c.cost)
}

// TakeError returns the words of the last failure on this thread.
func TakeError() string {
	if s := C.ddlemu_take_error(); s != nil {
		return C.GoString(s)
	}
	return ""
}
