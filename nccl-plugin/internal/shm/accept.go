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
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// answer reads a peer's request, makes this end of the connection, and answers.
func (e *Endpoint) answer(c *net.UnixConn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(requestTimeout))
	answer := "ok"
	if err := e.accept(c); err != nil {
		answer = err.Error()
	}
	c.Write([]byte(answer[:min(len(answer), answerSize)]))
}

// refuse answers without a descriptor for what comes with the request.
func refuse(c *net.UnixConn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Read(make([]byte, answerSize)); err == nil {
		c.Write([]byte(transport.ErrNoDescriptor.Error()))
	}
}

// accept maps the memory that a peer offers, and queues the connection for Accept.
func (e *Endpoint) accept(c *net.UnixConn) error {
	if err := checkUser(c); err != nil {
		return err
	}
	req, fd, err := readRequest(c)
	if err != nil {
		return err
	}
	defer unix.Close(fd) // the mapping is enough
	if req.Magic != requestMagic || req.Fabric != e.Fabric.ID() {
		return errors.New("the request is not for this fabric")
	}
	peer := transport.Peer{Slot: int(req.Slot), Generation: req.Generation}
	l, err := e.Listener(req.Listen, req.Nonce, peer)
	if err != nil {
		return err
	}
	steps, reverse, link, err := e.route(int(req.NIC), l.NIC)
	if err != nil {
		return err
	}
	r, err := openRegion(fd, e.layout(), e.Fabric.ID(), steps, reverse, link)
	if err != nil {
		return err
	}
	r.fd = -1
	clockFlow, err := e.clock.flow(req.Flow, r)
	if err != nil {
		r.close()
		return err
	}
	k, err := e.newConn(&C.ddlemu_shm_receiver, r, clockFlow, peer, 0)
	if err != nil {
		return err
	}
	return e.Deliver(req.Listen, l, k)
}

// readRequest reads a request and the descriptor that comes with it.
func readRequest(c *net.UnixConn) (req request, fd int, err error) {
	b, oob := make([]byte, binary.Size(req)+1), make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return req, -1, fmt.Errorf("read the peer's request: %w", err)
	}
	if flags&unix.MSG_CTRUNC != 0 && oobn == 0 {
		return req, -1, transport.ErrNoDescriptor
	}
	if fd, err = state.OneDescriptor(oob[:oobn]); err != nil {
		return req, -1, err
	}
	if n != binary.Size(req) {
		err = fmt.Errorf("the peer's request has %d bytes, not %d: another version of the plugin?", n, binary.Size(req))
	} else {
		err = binary.Read(bytes.NewReader(b[:n]), binary.LittleEndian, &req)
	}
	if err != nil {
		unix.Close(fd)
	}
	return req, fd, err
}
