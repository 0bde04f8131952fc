// SPDX-License-Identifier: Apache-2.0

package shm

/*
#include "conn.h"
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/transport/peers"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// The words that two ends exchange on the unix socket: one request with the
// memfd, one answer, "ok" or what is wrong.
type request struct {
	Magic, Fabric, Nonce uint64
	Listen, NIC          uint32 // the listener; the sender's NIC
	Slot                 uint32 // the sender's
	Job                  uint32
	Tenancy              int64 // the sender's in its slot
}

const (
	requestMagic = 0x3272646d656c6464
	// A process that is stopped in between is not gone: whoever waits for one that is
	// known waits while it lives. This is for those who say nothing.
	dialTimeout = time.Minute
	answerSize  = 256
)

// dial makes a connection: its memory, and the peer that maps it too.
func (e *Endpoint) dial(nic int, h handle, number uint64) (*conn, error) {
	steps, reverse, hop, err := e.route(nic, int(h.NIC))
	if err != nil {
		return nil, err
	}
	// The answer comes from the process that made the handle, so it had its slot now.
	tenancy := e.fabric.Tenancy(int(h.Slot))
	ring := ringSize(e.me.Available())
	cost := int64(ring) + int64(ringOffset)
	if ring == 0 || !e.me.Reserve(cost) {
		e.me.Job().Invalidate(state.RingTooSmall)
		return nil, fmt.Errorf("no shared memory left for a connection: %d KiB of the budget remain; raise DDLEMU_MEMORY", e.me.Available()>>10)
	}
	r, err := newRegion(ring, e.fabric.ID(), FlowID(e.rank.Rank, int(h.Rank), number), steps, reverse, hop)
	if err != nil {
		e.me.Reserve(-cost)
		e.me.Job().Invalidate(state.RingTooSmall)
		return nil, err
	}
	if err := e.offer(r, nic, h, tenancy); err != nil {
		r.close()
		e.me.Reserve(-cost)
		return nil, fmt.Errorf("connect to rank %d: %w", h.Rank, err)
	}
	// The peer has it: the descriptor is no longer needed.
	unix.Close(r.fd)
	r.fd = -1
	return e.newConn(&C.ddlemu_shm_sender, r, peers.Tenant{Slot: int(h.Slot), Tenancy: tenancy}, cost)
}

// route finds the hops between two NICs, there and back, and the one that is the
// link between them.
func (e *Endpoint) route(src, dst int) (steps, reverse []state.PathStep, hop int, err error) {
	steps, reverse = e.fabric.Path(src, dst), e.fabric.Path(dst, src)
	if len(steps) == 0 || len(reverse) == 0 {
		return nil, nil, 0, fmt.Errorf("the fabric has no path from NIC %d to NIC %d", src, dst)
	}
	for _, s := range steps {
		if e.fabric.Hops()[s.Hop].Kind == state.Link {
			return steps, reverse, s.Hop, nil
		}
	}
	return nil, nil, 0, fmt.Errorf("the path from NIC %d to NIC %d has no link", src, dst)
}

// FlowID names a flow the same way in every run: by its ends, and by how many
// connections were made between them before.
func FlowID(src, dst int, number uint64) uint64 {
	return link.Draw(uint64(uint32(src))<<32|uint64(uint32(dst)), 0, 0, number, 0)
}

func (e *Endpoint) newConn(ops *C.struct_ddlemu_ops, r *region, peer peers.Tenant, cost int64) (*conn, error) {
	e.mu.Lock()
	e.nextID++
	id := e.nextID
	e.mu.Unlock()
	c := C.ddlemu_conn_new(ops, C.ulong(id), unsafe.Pointer(&r.mem[0]), e.fabric.Base(), C.uint64_t(e.me.Job().CellsOffset()))
	if c == nil {
		r.close()
		e.me.Reserve(-cost)
		return nil, errors.New("no memory for a connection")
	}
	return &conn{id: id, c: c, region: r, peer: peer, cost: cost}, nil
}

// offer sends the region to the listener and waits for its answer.
func (e *Endpoint) offer(r *region, nic int, h handle, tenancy int64) error {
	var c *net.UnixConn
	err := inDir(e.fabric.Dir(), func(dir string) (err error) {
		name := filepath.Join(dir, socketName(e.fabric, int(h.Slot)))
		c, err = net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: name})
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := sameUser(c); err != nil {
		return err
	}
	var b bytes.Buffer
	req := request{requestMagic, e.fabric.ID(), h.Nonce, h.Listen, uint32(nic), uint32(e.me.Slot()), uint32(e.me.Job().Index()), e.me.Tenancy()}
	if err := binary.Write(&b, binary.LittleEndian, req); err != nil {
		return err
	}
	if _, _, err := c.WriteMsgUnix(b.Bytes(), unix.UnixRights(r.fd), nil); err != nil {
		return err
	}
	answer, err := e.await(c, peers.Tenant{Slot: int(h.Slot), Tenancy: tenancy})
	if err != nil {
		return fmt.Errorf("wait for its answer: %w", err)
	}
	if answer != "ok" {
		return errors.New(answer)
	}
	return nil
}

// await reads the peer's answer, for as long as the peer lives: it may be stopped.
func (e *Endpoint) await(c *net.UnixConn, peer peers.Tenant) (string, error) {
	answer := make([]byte, answerSize)
	for {
		c.SetReadDeadline(time.Now().Add(peers.Period))
		n, err := c.Read(answer)
		switch {
		case err == nil:
			return string(answer[:n]), nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return "", err
		case e.fabric.Down():
			return "", fmt.Errorf("fabric %s was taken down", e.fabric.Name())
		case !e.fabric.Lives(peer.Slot, peer.Tenancy):
			return "", errors.New("the peer's process died")
		}
	}
}

// sameUser refuses a peer that is another user, by its credentials.
func sameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("ask who the peer is: %w", err)
	}
	if int(cred.Uid) != os.Getuid() {
		return fmt.Errorf("the peer belongs to user %d, not %d", cred.Uid, os.Getuid())
	}
	return nil
}

// take maps what a peer offers and queues it for accept.
func (e *Endpoint) take(c *net.UnixConn) error {
	if err := sameUser(c); err != nil {
		return err
	}
	b, oob := make([]byte, binary.Size(request{})+1), make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return fmt.Errorf("read the peer's request: %w", err)
	}
	if flags&unix.MSG_CTRUNC != 0 && oobn == 0 {
		return errNoDescriptor
	}
	fd, err := oneDescriptor(oob[:oobn])
	if err != nil {
		return err
	}
	defer unix.Close(fd) // the mapping is enough
	var req request
	if n != binary.Size(req) {
		return fmt.Errorf("the peer's request has %d bytes, not %d: another version of the plugin?", n, binary.Size(req))
	}
	if err := binary.Read(bytes.NewReader(b[:n]), binary.LittleEndian, &req); err != nil {
		return err
	}
	e.mu.Lock()
	l := e.listens[req.Listen]
	e.mu.Unlock()
	switch {
	case req.Magic != requestMagic || req.Fabric != e.fabric.ID():
		return errors.New("the request is not for this fabric")
	case l == nil || l.Nonce != req.Nonce:
		return errors.New("nobody listens there any more")
	case !e.fabric.Lives(int(req.Slot), req.Tenancy):
		return errors.New("the sender does not take part in this fabric")
	}
	steps, reverse, hop, err := e.route(int(req.NIC), l.NIC)
	if err != nil {
		return err
	}
	r, err := openRegion(fd, e.fabric.ID(), steps, reverse, hop)
	if err != nil {
		return err
	}
	r.fd = -1
	k, err := e.newConn(&C.ddlemu_shm_receiver, r, peers.Tenant{Slot: int(req.Slot), Tenancy: req.Tenancy}, 0)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listens[req.Listen] != l {
		go e.end(k)
		return errors.New("nobody listens there any more")
	}
	l.Ready = append(l.Ready, k)
	return nil
}

func oneDescriptor(oob []byte) (int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return -1, errors.New("the request carries no memory")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return -1, errors.New("the request does not carry one piece of memory")
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil
}
