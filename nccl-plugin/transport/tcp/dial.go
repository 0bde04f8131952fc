// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/transport/peers"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// underWay is how many latencies of the link bytes of a dead peer may take: what it
// sent crosses the link once, and again if it was lost.
const underWay = 4

// link is the hop between two NICs.
func (e *Endpoint) link(src, dst int) (int, error) {
	for _, s := range e.fabric.Path(src, dst) {
		if e.fabric.Hops()[s.Hop].Kind == state.Link {
			return s.Hop, nil
		}
	}
	return 0, fmt.Errorf("the fabric has no link from NIC %d to NIC %d", src, dst)
}

// latency is that of a link, scaled.
func (e *Endpoint) latency(hop int) time.Duration {
	return e.fabric.Hops()[hop].Spec.Latency * time.Duration(e.fabric.Fixed().TimeScale)
}

// dial makes a connection, number to its peer.
func (e *Endpoint) dial(nic int, h handle, number uint64) (*conn, error) {
	hop, err := e.link(nic, int(h.NIC))
	if err != nil {
		return nil, err
	}
	peer := peers.Tenant{Slot: int(h.Slot), Tenancy: e.fabric.Tenancy(int(h.Slot))}
	var fds []int
	give := func() {
		for _, fd := range fds {
			closeSocket(fd)
		}
	}
	for range e.options.Streams {
		fd, err := e.socket(nic, h.addr.Addr().Is6())
		if err != nil {
			give()
			return nil, err
		}
		fds = append(fds, fd)
		if err := unix.Connect(fd, sockaddr(h.addr)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			give()
			return nil, err
		}
	}
	me := hello{
		streams: uint16(len(fds)), fabric: e.fabric.ID(), nonce: h.Nonce, connection: number, listen: h.Listen,
		slot: uint32(e.me.Slot()), tenancy: e.me.Tenancy(), nic: uint32(nic),
	}
	for i, fd := range fds {
		me.stream = uint16(i)
		if err := e.greet(fd, &me, peer); err != nil {
			give()
			return nil, err
		}
	}
	for _, fd := range fds {
		if err := e.answered(fd, peer); err != nil {
			give()
			return nil, err
		}
	}
	return e.sender(fds, hop, peer)
}

// greet says hello when the stream is connected.
func (e *Endpoint) greet(fd int, me *hello, peer peers.Tenant) error {
	if err := e.await(fd, unix.POLLOUT, peer); err != nil {
		return err
	}
	if code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
		return err
	} else if code != 0 {
		return unix.Errno(code)
	}
	// A fresh stream's buffer takes it whole.
	if _, err := unix.Write(fd, me.put()); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	return nil
}

// answered reads the receiver's answer on a stream.
func (e *Endpoint) answered(fd int, peer peers.Tenant) error {
	b, got := make([]byte, 1+maxAnswer), 0
	for got == 0 || got < 1+int(b[0]) {
		if err := e.await(fd, unix.POLLIN, peer); err != nil {
			return err
		}
		want := 1 // not a byte more than the answer: nothing else is the handshake's
		if got > 0 {
			want = 1 + int(b[0])
		}
		n, err := unix.Read(fd, b[got:want])
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for its answer: %w", err)
		case n == 0:
			return errors.New("it closed the stream without an answer")
		}
		got += max(n, 0)
	}
	if b[0] > 0 {
		return errors.New(string(b[1:got]))
	}
	return nil
}

// await waits until a socket is ready, for as long as the peer lives: it may be
// stopped.
func (e *Endpoint) await(fd int, events int16, peer peers.Tenant) error {
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(p, int(peers.Period/time.Millisecond))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0:
			return nil
		case e.fabric.Down():
			return fmt.Errorf("fabric %s was taken down", e.fabric.Name())
		case !e.fabric.Lives(peer.Slot, peer.Tenancy):
			return errors.New("the peer's process died")
		}
		select {
		case <-e.done:
			return errors.New("the process is ending")
		default:
		}
	}
}

// prepare binds a fresh socket and keeps small messages from waiting for others.
func prepare(fd int, addr netip.Addr) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	return unix.Bind(fd, sockaddr(netip.AddrPortFrom(addr, 0)))
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func closeSocket(fd int) { _ = unix.Close(fd) } // nothing was written that a failure could lose

// own takes a connected stream out of Go's hands, for the engine in C.
func own(c *net.TCPConn) (int, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	if cerr := raw.Control(func(have uintptr) { fd, err = unix.FcntlInt(have, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil {
		return -1, cerr
	}
	if err != nil {
		return -1, os.NewSyscallError("dup", err)
	}
	return fd, nil
}
