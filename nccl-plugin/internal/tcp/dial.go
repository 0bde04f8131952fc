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

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
)

// deadPeerLatencies is how many latencies of the link the bytes of a dead peer may take:
// they cross the link once, and again if they were lost.
const deadPeerLatencies = 4

// latency is the link's latency, scaled.
func (e *Endpoint) latency(hop int) time.Duration {
	spec, _, _ := e.Fabric.SpecOf(hop)
	return spec.Latency * time.Duration(e.Fabric.Fixed().TimeScale)
}

// dial makes connection number to the rank in the handle.
func (e *Endpoint) dial(nic int, h transport.Handle, number uint64) (c transport.Conn, err error) {
	hop, err := e.Link(nic, int(h.NIC))
	if err != nil {
		return nil, err
	}
	if h.Addr.Port() == 0 || !h.Addr.Addr().IsGlobalUnicast() {
		return nil, fmt.Errorf("its handle names the address %v, where nobody can listen", h.Addr)
	}
	peer := transport.Peer{Slot: int(h.Slot), Generation: e.Fabric.Generation(int(h.Slot))}
	fds, err := e.openStreams(nic, h.Addr)
	if err == nil {
		err = e.shakeHands(fds, &hello{
			streams: uint16(len(fds)), fabric: e.Fabric.ID(), nonce: h.Nonce, connection: number, listen: h.Listen,
			slot: uint32(e.Me.Slot()), generation: e.Me.Generation(), nic: uint32(nic),
		}, peer)
	}
	if err != nil {
		for _, fd := range fds {
			closeSocket(fd)
		}
		return nil, fmt.Errorf("at %v: %w", h.Addr, err)
	}
	return e.newSender(fds, hop, peer)
}

// openStreams begins to connect the streams of a connection. After an error it returns
// those that it has opened.
func (e *Endpoint) openStreams(nic int, to netip.AddrPort) (fds []int, err error) {
	for range e.options.Streams {
		fd, err := e.openSocket(nic, to.Addr().Is6())
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
		if err := unix.Connect(fd, sockaddr(to)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			return fds, err
		}
	}
	return fds, nil
}

// shakeHands says hello on all streams and waits for the answers.
func (e *Endpoint) shakeHands(fds []int, me *hello, peer transport.Peer) error {
	for i, fd := range fds {
		me.stream = uint16(i)
		if err := e.sayHello(fd, me, peer); err != nil {
			return err
		}
	}
	for _, fd := range fds {
		if err := e.readAnswer(fd, peer); err != nil {
			return err
		}
	}
	return nil
}

// sayHello writes the hello when the stream is connected.
func (e *Endpoint) sayHello(fd int, me *hello, peer transport.Peer) error {
	if err := e.await(fd, unix.POLLOUT, peer); err != nil {
		return err
	}
	if code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil {
		return err
	} else if code != 0 {
		return unix.Errno(code)
	}
	// The buffer of a fresh stream has space for all of it.
	if _, err := unix.Write(fd, me.put()); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	return nil
}

// readAnswer reads the receiver's answer on a stream.
func (e *Endpoint) readAnswer(fd int, peer transport.Peer) error {
	b, got := make([]byte, 1+maxAnswer), 0
	for got == 0 || got < 1+int(b[0]) {
		if err := e.await(fd, unix.POLLIN, peer); err != nil {
			return err
		}
		want := 1 // and not a byte more than the answer: what follows is not part of the handshake
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

// await waits until a socket is ready, for as long as the peer lives.
func (e *Endpoint) await(fd int, events int16, peer transport.Peer) error {
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(p, int(transport.Period/time.Millisecond))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0:
			return nil
		}
		if err := e.CheckHandshake(peer); err != nil {
			return err
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

// detach returns a connected stream as a descriptor that Go does not poll, for the C code.
func detach(c *net.TCPConn) (int, error) {
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
