// SPDX-License-Identifier: Apache-2.0

package transport

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include "transport.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Period is the time between two looks at the peers' liveness. A look costs one system
// call per peer, and is not part of NCCL's calls.
const Period = 200 * time.Millisecond

// Peer is one participant. The generation tells it from the next one in its slot.
type Peer struct {
	Slot       int
	Generation int64
}

// Conn is one end of a connection, as a datapath makes it.
type Conn interface {
	// Comm is NCCL's comm, a struct ddlemu_comm.
	Comm() unsafe.Pointer
	// Peer is the participant at the other end.
	Peer() Peer
	// Shutdown tells the peer that this end is gone. The memory stays: a call of NCCL may
	// be in progress.
	Shutdown()
	// Close tells the peer, and frees the connection. No call may be in progress.
	Close()
}

// Endpoint is this process's end of all its connections. A datapath adds how connections
// are made. Its methods are safe for concurrent use.
type Endpoint struct {
	Fabric  *state.File
	Me      *state.Participant
	Rank    state.Rank
	Done    chan struct{}  // closed by Close
	Running sync.WaitGroup // goroutines that use the fabric's file

	magic uint64
	dial  func(nic int, h Handle, number uint64) (Conn, error)

	daemonDied atomic.Bool // see CheckDaemon

	mu        sync.Mutex
	rankDied  func(rank int) // see FailTogether; nil: it is not wanted
	also      func()         // see EachPeriod; nil for none
	lost      int            // ranks of the job that it had lost when this process looked last
	lastID    uint64
	listeners map[uint32]*Listener
	attempts  map[uint64]*attempt
	conns     map[uint64]Conn
	dialled   map[int32]uint64 // connections made to each rank so far
	listened  uint32           // connections that this rank has listened for, without those to itself
}

// attempt is one connect in progress.
type attempt struct {
	to   Handle
	nic  int
	done chan struct{} // closed when conn and err are set
	conn Conn
	err  error
}

// New makes the endpoint of participant me. The magic number begins this datapath's
// handles. dial makes connection number (0, 1, ...) from a NIC of this node to the rank
// in the handle; it runs in a goroutine of its own and may take as long as the peer lives.
func New(f *state.File, me *state.Participant, r state.Rank, magic uint64,
	dial func(nic int, h Handle, number uint64) (Conn, error)) *Endpoint {
	return &Endpoint{
		Fabric: f, Me: me, Rank: r, Done: make(chan struct{}), magic: magic, dial: dial, lost: me.LostBefore(),
		listeners: map[uint32]*Listener{}, attempts: map[uint64]*attempt{}, conns: map[uint64]Conn{},
		dialled: map[int32]uint64{},
	}
}

// FailTogether makes the death of any rank of the job fail all connections that are open by then, also those between
// ranks that live. Then it calls rankDied.
func (e *Endpoint) FailTogether(rankDied func(rank int)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rankDied = rankDied
}

// EachPeriod makes the endpoint call do every Period from now on, besides its own checks. One call at a time.
func (e *Endpoint) EachPeriod(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.also = do
}

// callAlso calls what EachPeriod was given.
func (e *Endpoint) callAlso() {
	e.mu.Lock()
	do := e.also
	e.mu.Unlock()
	if do != nil {
		do()
	}
}

// Watch calls check every Period until Close, and looks after the slots of participants that
// died, see [state.Participant.ReapNext].
func (e *Endpoint) Watch(check func()) {
	e.Running.Go(func() {
		tick := time.NewTicker(Period)
		defer tick.Stop()
		for {
			select {
			case <-e.Done:
				return
			case <-tick.C:
			}
			e.Me.ReapNext()
			e.CheckJob()
			check()
			e.callAlso()
		}
	})
}

// CheckJob fails all connections if the job has lost a rank since the last call, and all are to fail together.
func (e *Endpoint) CheckJob() {
	if rank, rankDied := e.loseConns(); rankDied != nil {
		rankDied(rank)
	}
}

// loseConns is CheckJob under the lock. It returns the rank and whom to tell, nil if there is nothing to tell.
func (e *Endpoint) loseConns() (rank int, tell func(rank int)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lost := e.Me.Job().Lost()
	if lost == e.lost || e.rankDied == nil {
		return 0, nil
	}
	rank = e.Me.Job().LostRank(e.lost)
	e.lost = lost
	for _, c := range e.conns {
		C.ddlemu_set_rank_died((*C.struct_ddlemu_comm)(c.Comm()), C.int(rank))
	}
	return rank, e.rankDied
}

// CheckPeers tells the connections whose peer died or whose fabric was taken down, and
// the listeners that nobody will connect to.
func (e *Endpoint) CheckPeers() {
	down, alive := e.Fabric.Down(), e.Liveness()
	if slices.ContainsFunc(e.peers(), func(p Peer) bool { return !alive(p) }) {
		// Whose connection fails looks which rank the job has lost.
		e.Fabric.Reap()
		e.CheckJob()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		switch {
		case down:
			C.ddlemu_set_dead((*C.struct_ddlemu_comm)(c.Comm()), C.DDLEMU_FABRIC_DOWN)
		case !alive(c.Peer()):
			C.ddlemu_set_dead((*C.struct_ddlemu_comm)(c.Comm()), C.DDLEMU_PEER_DIED)
		}
	}
	for _, l := range e.listeners {
		l.checkPeers(e.Fabric, e.Me)
	}
}

// peers are the peers of the open connections.
func (e *Endpoint) peers() []Peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Peer
	for _, c := range e.conns {
		out = append(out, c.Peer())
	}
	return out
}

var errDaemonDied = errors.New("the fabric's daemon died: see `ddlemu status`")

// CheckDaemon tells all connections and listeners if the fabric's daemon, which their packets need, has ended without
// `ddlemu down`.
func (e *Endpoint) CheckDaemon() {
	if e.Fabric.Served() || e.Fabric.Down() { // in this order: `ddlemu down` says so before the daemon ends
		return
	}
	e.daemonDied.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		C.ddlemu_set_dead((*C.struct_ddlemu_comm)(c.Comm()), C.DDLEMU_DAEMON_DIED)
	}
	for _, l := range e.listeners {
		l.unwanted = errDaemonDied
	}
}

// Liveness returns a function that says whether a peer lives. It asks the kernel once per
// peer.
func (e *Endpoint) Liveness() func(Peer) bool {
	known := map[Peer]bool{}
	return func(p Peer) bool {
		alive, seen := known[p]
		if !seen {
			alive = e.Fabric.Lives(p.Slot, p.Generation)
			known[p] = alive
		}
		return alive
	}
}

// CheckHandshake says why there is no point in waiting for a peer's part of the handshake
// any longer: nil as long as the peer lives, which may be stopped.
func (e *Endpoint) CheckHandshake(p Peer) error {
	switch {
	case e.Ending():
		return errors.New("the process is ending")
	case e.Fabric.Down():
		return fmt.Errorf("fabric %s was taken down", e.Fabric.Name())
	case e.daemonDied.Load():
		return errDaemonDied
	case !e.Fabric.Lives(p.Slot, p.Generation):
		return errors.New("the peer's process died")
	}
	return nil
}

// Ending says whether Close was called.
func (e *Endpoint) Ending() bool {
	select {
	case <-e.Done:
		return true
	default:
		return false
	}
}

// Close ends the endpoint, at the end of the process, and tells the peers of all
// connections that are open. Their memory stays: NCCL's threads may be in a call. stop
// closes what the datapath listens on.
func (e *Endpoint) Close(stop func()) {
	e.mu.Lock()
	close(e.Done)
	e.mu.Unlock()
	stop()
	e.Running.Wait() // the fabric's file may be closed after this
	e.mu.Lock()
	open := slices.Collect(maps.Values(e.conns))
	for _, l := range e.listeners {
		open = append(open, l.ready...)
	}
	e.conns, e.listeners = map[uint64]Conn{}, map[uint32]*Listener{}
	e.mu.Unlock()
	for _, c := range open {
		c.Shutdown()
	}
}

// Open is the number of connections that are open.
func (e *Endpoint) Open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

// NewID returns a number that no connection, listener or attempt of this process has.
func (e *Endpoint) NewID() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastID++
	return e.lastID
}

// Link is the hop that is the link between two NICs.
func (e *Endpoint) Link(src, dst int) (hop int, err error) {
	for _, s := range e.Fabric.Path(src, dst) {
		if kind, _, _ := e.Fabric.EndsOf(s.Hop); kind == link.Link {
			return s.Hop, nil
		}
	}
	return 0, fmt.Errorf("the fabric has no path from NIC %d to NIC %d", src, dst)
}

// Listen makes a listener on a NIC for one or more connections, and writes the handle for
// the peers. addr is where streams arrive, on datapaths that have streams.
func (e *Endpoint) Listen(nic int, addr netip.AddrPort, out *[HandleSize]byte) (id uint64) {
	l := newListener(e.Fabric, e.Me, nic)
	id = e.NewID()
	e.mu.Lock()
	e.listeners[uint32(id)] = l
	l.Listened = e.listened
	e.listened++
	e.mu.Unlock()
	h := Handle{Listened: l.Listened, Fabric: e.Fabric.ID(), Nonce: l.nonce, Slot: uint32(e.Me.Slot()),
		Listen: uint32(id), NIC: uint32(nic), Rank: int32(e.Rank.Rank), Addr: addr}
	h.put(out, e.magic)
	return id
}

// CloseListen ends a listener and the connections that were made to it and not accepted.
func (e *Endpoint) CloseListen(id uint64) {
	e.mu.Lock()
	l := e.listeners[uint32(id)]
	delete(e.listeners, uint32(id))
	e.mu.Unlock()
	if l == nil {
		return
	}
	for _, c := range l.ready {
		c.Close()
	}
}

var errNoListener = errors.New("nobody listens there any more")

// Listener finds the listener that the request of a peer is for. It fails unless the
// peer knows the nonce and takes part in the fabric.
func (e *Endpoint) Listener(id uint32, nonce uint64, from Peer) (*Listener, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.listeners[id]
	switch {
	case l == nil || l.nonce != nonce:
		return nil, errNoListener
	case !e.Fabric.Lives(from.Slot, from.Generation):
		return nil, errors.New("the sender does not take part in this fabric")
	}
	return l, nil
}

// Deliver queues a connection for Accept. If the listener was closed meanwhile, it closes
// the connection and fails.
func (e *Endpoint) Deliver(id uint32, l *Listener, c Conn) error {
	e.mu.Lock()
	open := e.listeners[id] == l
	if open {
		l.ready = append(l.ready, c)
	}
	e.mu.Unlock()
	if !open {
		c.Close()
		return errNoListener
	}
	return nil
}

// Accept returns the comm of a connection that a peer has made, nil if there is none yet.
func (e *Endpoint) Accept(id uint64) (unsafe.Pointer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.listeners[uint32(id)]
	if l == nil {
		return nil, errors.New("accept on a listener that is closed")
	}
	return e.open(l.accept(e.Fabric))
}

// Connect begins or continues a connection from a NIC of this node to where the handle
// says, and returns its comm, nil while it is in progress. The number of the attempt is
// kept in the handle, as NCCL's own transports do.
func (e *Endpoint) Connect(nic int, b *[HandleSize]byte) (unsafe.Pointer, error) {
	h, err := ParseHandle(b, e.magic, e.Fabric.ID())
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	key := binary.LittleEndian.Uint64(b[AttemptOffset:])
	if key == 0 {
		key, err := e.begin(nic, h)
		binary.LittleEndian.PutUint64(b[AttemptOffset:], key)
		return nil, err
	}
	return e.open(e.result(key, nic, h))
}

// begin starts an attempt to connect, under the lock.
func (e *Endpoint) begin(nic int, h Handle) (key uint64, err error) {
	if e.Ending() {
		return 0, errors.New("the process is ending")
	}
	e.lastID++
	a, number := &attempt{to: h, nic: nic, done: make(chan struct{})}, e.dialled[h.Rank]
	e.dialled[h.Rank]++
	if int(h.Slot) == e.Me.Slot() {
		// NCCL tries at the start, with a connection of a rank to itself, whether a NIC reaches the GPU's memory
		e.listened--
	}
	e.attempts[e.lastID] = a
	e.Running.Go(func() {
		defer close(a.done)
		if a.conn, a.err = e.dial(nic, h, number); a.err != nil {
			a.err = fmt.Errorf("connect to rank %d: %w", h.Rank, a.err)
		}
	})
	return e.lastID, nil
}

// result returns the connection that an attempt made, nil while it is in progress. The
// peer, or anybody, may have written the key: it must be of this NIC and handle.
func (e *Endpoint) result(key uint64, nic int, to Handle) (Conn, error) {
	a := e.attempts[key]
	if a == nil || a.to != to || a.nic != nic {
		return nil, errors.New(
			"connect with a handle whose attempt is unknown here: it was used before, or another process began it")
	}
	select {
	case <-a.done:
	default:
		return nil, nil
	}
	delete(e.attempts, key)
	return a.conn, a.err
}

// open enters a connection among the open ones, under the lock.
func (e *Endpoint) open(c Conn, err error) (unsafe.Pointer, error) {
	if c == nil || err != nil {
		return nil, err
	}
	e.conns[ID(c.Comm())] = c
	return c.Comm(), nil
}

// CloseComm ends the connection with this ID.
func (e *Endpoint) CloseComm(id uint64) {
	e.mu.Lock()
	c := e.conns[id]
	delete(e.conns, id)
	e.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// ID is the number by which the endpoint knows a comm.
func ID(comm unsafe.Pointer) uint64 { return uint64((*C.struct_ddlemu_comm)(comm).id) }

// TakeError returns the text of the last failure of a call of NCCL on this thread, "" if
// there was none since.
func TakeError() string {
	if s := C.ddlemu_take_error(); s != nil {
		return C.GoString(s)
	}
	return ""
}
