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
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// request is what the sender writes to the unix socket, with the memfd and, if it shares it, that of its GPU memory.
// The listening side answers "ok", "ok, mapped" if it maps the GPU memory, or the problem.
type request struct {
	Magic, Fabric, Nonce uint64
	Listen, NIC          uint32 // the listener; the sender's NIC
	Slot                 uint32 // the sender's
	Job                  uint32
	Generation           int64  // the sender's in its slot
	Flow                 uint64 // 1 + the number of the flow if the clock is virtual, else 0
}

const (
	answerOK     = "ok"
	answerMapped = "ok, mapped"

	requestMagic = 0x3472646d656c6464
	// requestTimeout is how long whoever connects may take to send its request. The other
	// waits of the handshake have no limit while the peer lives: it may be stopped.
	requestTimeout = time.Minute
	answerSize     = 256
)

// dial makes connection number to the rank in the handle: its memory, and the peer that maps it too.
func (e *Endpoint) dial(nic int, h transport.Handle, number uint64) (transport.Conn, error) {
	path := link.PathID(int(h.Rank), uint64(h.Listened))
	steps, reverse, hop, err := e.route(nic, int(h.NIC), path)
	if err != nil {
		return nil, err
	}
	// The process that made the handle is the one that answers, so it has its slot now.
	peer := transport.Peer{Slot: int(h.Slot), Generation: e.Fabric.Generation(int(h.Slot))}
	l := e.layout(steps)
	ring := ringSize(e.Me.Available() * l.part())
	cost := int64((ring + uint64(ringOffset)) / l.part()) // with a virtual clock the flow is elsewhere, but as large
	if ring == 0 || !e.Me.Reserve(cost) {
		e.Me.Job().Invalidate(state.RingTooSmall)
		return nil, fmt.Errorf(
			"no shared memory left for a connection: %d KiB of the budget remain; raise DDLEMU_MEMORY",
			e.Me.Available()>>10)
	}
	r, err := newRegion(l, ring, e.Fabric.ID(), link.FlowID(e.Rank.Rank, int(h.Rank), number), steps, reverse, hop)
	if err != nil {
		e.Me.Reserve(-cost)
		e.Me.Job().Invalidate(state.RingTooSmall)
		return nil, err
	}
	clockFlow, err := e.clock.newFlow(e.Endpoint, r, h, peer)
	var mapped bool
	if err == nil {
		mapped, err = e.offer(r, nic, h, peer, e.clock.number(clockFlow))
	}
	if err != nil {
		e.clock.release(clockFlow)
		r.close()
		e.Me.Reserve(-cost)
		return nil, err
	}
	// The peer has it: the descriptor is no longer needed.
	unix.Close(r.fd)
	r.fd = -1
	var memory C.struct_ddlemu_gpu_memory
	if mapped {
		memory = C.struct_ddlemu_gpu_memory{base: (*C.char)(e.gpu.Base), size: C.uint64_t(e.gpu.Size)}
	}
	return e.newConn(&C.ddlemu_shm_sender, r, path, clockFlow, peer, cost, memory)
}

// route finds the hops of a flow between two NICs, there and back, and the one that is the link between them.
func (e *Endpoint) route(src, dst int, id uint64) (steps, reverse []link.PathHop, hop int, err error) {
	if hop, err = e.Link(src, dst); err != nil || e.paths == nil {
		return e.Fabric.Path(src, dst), e.Fabric.Path(dst, src), hop, err
	}
	return e.paths(src, dst, id), e.paths(dst, src, id), hop, nil
}

// offer sends the region to the listener and waits for its answer. It says whether the listener
// has mapped this process's GPU memory.
func (e *Endpoint) offer(r *region, nic int, h transport.Handle, peer transport.Peer, flow uint64) (mapped bool,
	err error) {
	c, err := state.DialSocket(e.Fabric.Dir(), os.Getuid(), state.SocketName(e.Fabric.Name(), peer.Slot))
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := checkUser(c); err != nil {
		return false, err
	}
	var b bytes.Buffer
	req := request{requestMagic, e.Fabric.ID(), h.Nonce, h.Listen, uint32(nic), uint32(e.Me.Slot()),
		uint32(e.Me.Job().Index()), e.Me.Generation(), flow}
	if err := binary.Write(&b, binary.LittleEndian, req); err != nil {
		return false, err
	}
	fds := []int{r.fd}
	if e.gpu.Size > 0 {
		fds = append(fds, e.gpu.FD)
	}
	if _, _, err := c.WriteMsgUnix(b.Bytes(), unix.UnixRights(fds...), nil); err != nil {
		return false, err
	}
	answer, err := e.await(c, peer)
	if err != nil {
		return false, fmt.Errorf("wait for its answer: %w", err)
	}
	if answer != answerOK && answer != answerMapped {
		return false, errors.New(answer)
	}
	return answer == answerMapped, nil
}

// await reads the peer's answer, for as long as the peer lives.
func (e *Endpoint) await(c *net.UnixConn, peer transport.Peer) (string, error) {
	answer := make([]byte, answerSize)
	for {
		c.SetReadDeadline(time.Now().Add(transport.Period))
		n, err := c.Read(answer)
		if err == nil {
			return string(answer[:n]), nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return "", err
		}
		if err := e.CheckHandshake(peer); err != nil {
			return "", err
		}
	}
}

// checkUser refuses a peer that is another user, by its credentials.
func checkUser(c *net.UnixConn) error {
	uid, err := state.PeerUser(c)
	if err == nil && uid != os.Getuid() {
		err = fmt.Errorf("the peer belongs to user %d, not %d", uid, os.Getuid())
	}
	return err
}
