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
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// answer reads a peer's request, makes this end of the connection, and answers.
func (e *Endpoint) answer(c *net.UnixConn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(requestTimeout))
	answer, err := e.accept(c)
	if err != nil {
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

// accept maps the memory that a peer offers, queues the connection for Accept, and returns what to answer.
func (e *Endpoint) accept(c *net.UnixConn) (answer string, err error) {
	if err := checkUser(c); err != nil {
		return "", err
	}
	req, fds, err := readRequest(c)
	if err != nil {
		return "", err
	}
	defer closeAll(fds) // the mappings are enough
	if req.Magic != requestMagic || req.Fabric != e.Fabric.ID() {
		return "", errors.New("the request is not for this fabric")
	}
	peer := transport.Peer{Slot: int(req.Slot), Generation: req.Generation}
	l, err := e.Listener(req.Listen, req.Nonce, peer)
	if err != nil {
		return "", err
	}
	path := link.PathID(e.Rank.Rank, uint64(l.Listened))
	steps, reverse, hop, err := e.route(int(req.NIC), l.NIC, path)
	if err != nil {
		return "", err
	}
	r, err := openRegion(fds[0], e.layout(steps), e.Fabric.ID(), steps, reverse, hop)
	if err != nil {
		return "", err
	}
	r.fd = -1
	clockFlow, err := e.clock.flow(req.Flow, r)
	if err != nil {
		r.close()
		return "", err
	}
	gpu, answer := e.mapGPU(fds[1:])
	k, err := e.newConn(&C.ddlemu_shm_receiver, r, path, clockFlow, peer, 0, memoryOf(gpu))
	if err != nil {
		e.mapped.close(gpu)
		return "", err
	}
	k.gpu = gpu
	return answer, e.Deliver(req.Listen, l, k)
}

// mapGPU maps the GPU memory that a peer offers, if it does, and returns what to answer. A peer whose
// memory cannot be mapped, perhaps because this process has no address space left, uses the ring.
func (e *Endpoint) mapGPU(fds []int) (*mapping, string) {
	if len(fds) == 0 || e.clock == nil {
		return nil, answerOK
	}
	m, err := e.mapped.open(fds[0])
	if err != nil {
		return nil, answerOK
	}
	return m, answerMapped
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// readRequest reads a request and the one or two descriptors that come with it.
func readRequest(c *net.UnixConn) (req request, fds []int, err error) {
	b, oob := make([]byte, binary.Size(req)+1), make([]byte, unix.CmsgSpace(3*4)) // one more than there may be
	n, oobn, flags, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return req, nil, fmt.Errorf("read the peer's request: %w", err)
	}
	if flags&unix.MSG_CTRUNC != 0 && oobn == 0 {
		return req, nil, transport.ErrNoDescriptor
	}
	if fds, err = state.Descriptors(oob[:oobn], 2); err != nil {
		return req, nil, err
	}
	if n != binary.Size(req) {
		err = fmt.Errorf("the peer's request has %d bytes, not %d: another version of the plugin?", n, binary.Size(req))
	} else {
		err = binary.Read(bytes.NewReader(b[:n]), binary.LittleEndian, &req)
	}
	if err != nil {
		closeAll(fds)
	}
	return req, fds, err
}
