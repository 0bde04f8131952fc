// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
)

// socket is where the streams to one NIC arrive, for all listeners.
type socket struct {
	*net.TCPListener
	addr netip.AddrPort
}

// backlog is how many streams may wait to be accepted.
const backlog = 1024

// helloTimeout is how long whoever connects may take to say hello.
const helloTimeout = time.Minute

// listeningSocket returns the socket of a NIC, and opens it when it is first needed.
func (e *Endpoint) listeningSocket(nic int) (*socket, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Ending() {
		return nil, errors.New("the process is ending")
	}
	if s := e.sockets[nic]; s != nil {
		return s, nil
	}
	fd, err := e.openSocket(nic, e.options.IPv6)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "listen")
	defer f.Close()
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, fmt.Errorf("listen on NIC %d: %w", nic, err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listen on NIC %d: %w", nic, err)
	}
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	s := &socket{l.(*net.TCPListener), netip.AddrPortFrom(addr.Addr().Unmap().WithZone(""), addr.Port())}
	e.sockets[nic] = s
	e.Running.Go(func() {
		transport.Serve(e.Done, s.AcceptTCP, func(c *net.TCPConn) { e.answer(c, nic) },
			func(c *net.TCPConn) { refuse(c, transport.ErrNoDescriptor.Error()) })
	})
	return s, nil
}

// arrivalKey tells a connection from all others.
type arrivalKey struct {
	listen uint32
	from   transport.Peer
	number uint64 // the sender's for it
}

// arrival is a connection some streams of which have been accepted.
type arrival struct {
	listener *transport.Listener
	nic      int // the sender's
	streams  []*net.TCPConn
	missing  int
}

// refuse tells the sender why there is no connection.
func (a *arrival) refuse(why string) {
	for _, c := range a.streams {
		if c != nil {
			go refuse(c, why)
		}
	}
}

func refuse(c *net.TCPConn, why string) {
	c.SetDeadline(time.Now().Add(time.Second))
	_, _ = c.Write(putAnswer(why)) // the peer may be gone
	c.Close()
}

// drop gives an arrival up, under the lock.
func (e *Endpoint) drop(key arrivalKey, why string) {
	e.arrivals[key].refuse(why)
	delete(e.arrivals, key)
}

// checkArrivals gives up the arrivals whose sender died.
func (e *Endpoint) checkArrivals() {
	down, alive := e.Fabric.Down(), e.Liveness()
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.arrivals {
		if down || !alive(key.from) {
			e.drop(key, "the peer's process died")
		}
	}
}

// answer reads a stream's hello and adds the stream to its connection. The last stream of
// a connection completes it.
func (e *Endpoint) answer(c *net.TCPConn, nic int) {
	b := make([]byte, helloSize)
	c.SetDeadline(time.Now().Add(helloTimeout))
	if _, err := io.ReadFull(c, b); err != nil {
		c.Close()
		return
	}
	h, err := parseHello(b, e.Fabric.ID())
	if err == nil {
		err = errors.Join(c.SetKeepAlive(false), c.SetDeadline(time.Time{}))
	}
	if err != nil {
		refuse(c, err.Error())
		return
	}
	key := arrivalKey{h.listen, transport.Peer{Slot: int(h.slot), Generation: h.generation}, h.connection}
	a, err := e.addStream(c, nic, h, key)
	if err != nil {
		refuse(c, err.Error())
		return
	}
	if a != nil {
		e.complete(a, key)
	}
}

// addStream adds a stream to its connection, and returns that when it has all.
func (e *Endpoint) addStream(c *net.TCPConn, nic int, h hello, key arrivalKey) (*arrival, error) {
	// Under the lock, so that CloseListen either sees the arrival or comes first.
	e.mu.Lock()
	defer e.mu.Unlock()
	l, err := e.Listener(h.listen, h.nonce, key.from)
	if err != nil {
		return nil, err
	}
	if l.NIC != nic {
		return nil, errors.New("the listener is on another NIC")
	}
	a := e.arrivals[key]
	if a == nil {
		a = &arrival{listener: l, nic: int(h.nic), streams: make([]*net.TCPConn, h.streams), missing: int(h.streams)}
		e.arrivals[key] = a
	}
	if len(a.streams) != int(h.streams) || a.nic != int(h.nic) || a.streams[h.stream] != nil {
		return nil, errors.New("the streams of the connection contradict each other")
	}
	a.streams[h.stream] = c
	if a.missing--; a.missing > 0 {
		return nil, nil
	}
	delete(e.arrivals, key)
	return a, nil
}

// complete makes a connection out of its streams, tells the sender, and queues the
// connection for Accept.
func (e *Endpoint) complete(a *arrival, key arrivalKey) {
	hop, err := e.Link(a.nic, a.listener.NIC)
	if err != nil {
		a.refuse(err.Error())
		return
	}
	var fds []int
	for _, c := range a.streams {
		fd, err := detach(c)
		if err != nil {
			a.refuse(err.Error())
			for _, fd := range fds {
				closeSocket(fd)
			}
			return
		}
		fds = append(fds, fd)
	}
	// The answer goes first: from then on the C code writes to the streams.
	for _, fd := range fds {
		_, _ = unix.Write(fd, putAnswer("")) // if the peer is gone, the first receive says so
	}
	if c, err := e.newReceiver(fds, hop, key.from); err == nil {
		_ = e.Deliver(key.listen, a.listener, c) // if the listener is closed, the peer sees the connection end
	}
}
