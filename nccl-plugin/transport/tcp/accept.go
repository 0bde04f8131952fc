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

	"github.com/ddlemu/ddlemu/nccl-plugin/transport/peers"
)

// door is where the streams to one NIC arrive, for all listens.
type door struct {
	*net.TCPListener
	at netip.AddrPort
}

// backlog is how many streams may wait to be accepted.
const backlog = 1024

// Whoever connects has this long to say hello.
const helloTime = time.Minute

// door is that of a NIC, opened when it is first needed.
func (e *Endpoint) door(nic int) (*door, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("the process is ending")
	}
	if d := e.doors[nic]; d != nil {
		return d, nil
	}
	fd, err := e.socket(nic, e.options.IPv6)
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
	d := &door{TCPListener: l.(*net.TCPListener)}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	d.at = netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	e.doors[nic] = d
	e.running.Go(func() { e.serve(d, nic) })
	return d, nil
}

// serve accepts the streams that come to a door. It keeps a descriptor in reserve, by
// which it can tell a peer when there is no other: the peer would wait.
func (e *Endpoint) serve(d *door, nic int) {
	reserve := spare()
	defer func() { closeSocket(reserve) }()
	for {
		c, err := d.AcceptTCP()
		if reserve >= 0 && (errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) {
			closeSocket(reserve)
			if c, err = d.AcceptTCP(); err == nil {
				refuse(c, "it has no file descriptor left: raise its limit (ulimit -n)")
			}
			reserve = spare()
			continue
		}
		if err == nil {
			go e.welcome(c, nic) // ends by itself, and with the process
			continue
		}
		select {
		case <-e.done:
			return
		case <-time.After(10 * time.Millisecond): // out of descriptors: some are given back soon
		}
	}
}

// spare opens a descriptor that is good for nothing else, -1 if there is none.
func spare() int {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// connectionID tells a connection from all others to one listen.
type connectionID struct {
	peer   peers.Tenant
	number uint64
}

// arrival is a connection whose streams are coming in.
type arrival struct {
	nic     int // the sender's
	streams []*net.TCPConn
	missing int
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
	_, _ = c.Write(putAnswer(why)) // whoever it is may be gone
	c.Close()
}

// welcome reads a stream's hello and puts it where it belongs. The last stream of a
// connection completes it.
func (e *Endpoint) welcome(c *net.TCPConn, nic int) {
	b := make([]byte, helloSize)
	c.SetDeadline(time.Now().Add(helloTime))
	if _, err := io.ReadFull(c, b); err != nil {
		c.Close()
		return
	}
	h, err := parseHello(b, e.fabric.ID())
	if err == nil {
		err = errors.Join(c.SetKeepAlive(false), c.SetDeadline(time.Time{}))
	}
	if err != nil {
		refuse(c, err.Error())
		return
	}
	id := connectionID{peers.Tenant{Slot: int(h.slot), Tenancy: h.tenancy}, h.connection}
	l, a, err := e.arrive(c, nic, h, id)
	if err != nil {
		refuse(c, err.Error())
		return
	}
	if a != nil {
		e.complete(l, a, h, id)
	}
}

// arrive adds a stream to its connection, and returns that when it has all.
func (e *Endpoint) arrive(c *net.TCPConn, nic int, h hello, id connectionID) (*listener, *arrival, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.listens[h.listen]
	if l == nil || l.Nonce != h.nonce || l.NIC != nic {
		return nil, nil, errors.New("nobody listens there any more")
	}
	if !e.fabric.Lives(id.peer.Slot, id.peer.Tenancy) {
		return nil, nil, errors.New("the sender does not take part in this fabric")
	}
	a := l.waiting[id]
	if a == nil {
		a = &arrival{nic: int(h.nic), streams: make([]*net.TCPConn, h.streams), missing: int(h.streams)}
		l.waiting[id] = a
	}
	if len(a.streams) != int(h.streams) || a.nic != int(h.nic) || a.streams[h.stream] != nil {
		return nil, nil, errors.New("the streams of the connection contradict each other")
	}
	a.streams[h.stream] = c
	if a.missing--; a.missing > 0 {
		return l, nil, nil
	}
	delete(l.waiting, id)
	return l, a, nil
}

// complete makes a connection out of its streams, queues it for accept, and tells the
// sender.
func (e *Endpoint) complete(l *listener, a *arrival, h hello, id connectionID) {
	hop, err := e.link(a.nic, l.NIC)
	if err != nil {
		a.refuse(err.Error())
		return
	}
	var fds []int
	for _, c := range a.streams {
		fd, err := own(c)
		if err != nil {
			a.refuse(err.Error())
			for _, fd := range fds {
				closeSocket(fd)
			}
			return
		}
		fds = append(fds, fd)
	}
	// The answer goes first: from then on the engine in C writes to the streams.
	for _, fd := range fds {
		_, _ = unix.Write(fd, putAnswer("")) // if it is gone, the first receive says so
	}
	k, err := e.receiver(fds, hop, id.peer)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listens[h.listen] != l {
		k.free()
		return
	}
	l.Ready = append(l.Ready, k)
}
