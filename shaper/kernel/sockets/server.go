// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Options are what the sockets are made with.
type Options struct {
	Plan       *netns.Plan
	Owner      int // user that may ask, besides root
	SendBuffer int // bytes of payload that a sender may have unsent, 0 = the kernel's choice
	Window     int // bytes of payload that a receiver may have unread, 0 = the kernel's choice
	// RequestTimeout is how long a client has to make its request, so that nobody keeps the
	// others from theirs; 0 = 30 s. A client on a crowded host may need seconds.
	RequestTimeout time.Duration
}

const (
	atOnce   = 64   // requests that are served at once
	backlog  = 4096 // and this many wait
	patience = 30 * time.Second
)

// Server serves sockets until Close.
type Server struct {
	o    Options
	nics map[int]place
	sock *net.UnixListener
	path string
	room chan struct{}
	all  sync.WaitGroup
}

// place is a NIC and the namespace that it is in.
type place struct {
	namespace    string
	addr4, addr6 netip.Addr
}

// Serve listens at path, which becomes the owner's, and serves in the background.
func Serve(path string, o Options) (*Server, error) {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = patience
	}
	s := &Server{o: o, nics: map[int]place{}, path: path, room: make(chan struct{}, atOnce)}
	for _, n := range o.Plan.Nodes {
		for _, nic := range n.NICs {
			s.nics[nic.Number] = place{n.Namespace, nic.Addr4, nic.Addr6}
		}
	}
	err := state.InDir(filepath.Dir(path), o.Owner, func(dir string) (err error) {
		short := filepath.Join(dir, filepath.Base(path))
		if err := os.Remove(short); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		s.sock, err = listen(short, o.Owner)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("serve sockets at %s: %w", path, err)
	}
	s.all.Add(1)
	go s.serve()
	return s, nil
}

// listen makes the unix socket as user uid would: a name that root made would have
// to be given away, and by then could stand for another file.
func listen(path string, uid int) (*net.UnixListener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := unix.Fchmod(fd, 0o600); err != nil { // the mode that its name gets
		return nil, err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with what it became
		if err := unix.Setfsuid(uid); err != nil {
			done <- err
			return
		}
		done <- unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}()
	if err := <-done; err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, err
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	sock := l.(*net.UnixListener)
	sock.SetUnlinkOnClose(false)
	return sock, nil
}

// Close ends the server and returns when nothing is served any more. Sockets that
// were given out live on.
func (s *Server) Close() error {
	err := s.sock.Close()
	s.all.Wait()
	rerr := state.InDir(filepath.Dir(s.path), s.o.Owner, func(dir string) error { return os.Remove(filepath.Join(dir, filepath.Base(s.path))) })
	if errors.Is(rerr, os.ErrNotExist) {
		rerr = nil
	}
	return errors.Join(err, rerr)
}

func (s *Server) serve() {
	defer s.all.Done()
	for {
		s.room <- struct{}{}
		c, err := s.sock.AcceptUnix()
		if err != nil {
			<-s.room
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // no descriptors: some are given back soon
			continue
		}
		s.all.Add(1)
		go func() {
			defer s.all.Done()
			defer func() { <-s.room }()
			defer c.Close()
			c.SetDeadline(time.Now().Add(s.o.RequestTimeout))
			s.answer(c)
		}()
	}
}

// answer serves one client. That a client is gone by now is its own affair.
func (s *Server) answer(c *net.UnixConn) {
	fd, addr, err := s.one(c)
	if err != nil {
		_, _ = c.Write(answer{why: err.Error()}.put())
		return
	}
	defer unix.Close(fd)
	_, _, _ = c.WriteMsgUnix(answer{addr: addr}.put(), unix.UnixRights(fd), nil)
}

// one makes the socket that a client asks for.
func (s *Server) one(c *net.UnixConn) (int, netip.Addr, error) {
	// First, because who is refused with a request unread finds the answer gone.
	b := make([]byte, requestSize+1)
	n, err := c.Read(b) // of descriptors that come with it the kernel lets go
	if err != nil {
		return -1, netip.Addr{}, fmt.Errorf("read the request: %w", err)
	}
	uid, err := state.PeerUser(c)
	if err != nil {
		return -1, netip.Addr{}, err
	}
	if uid != s.o.Owner && uid != 0 {
		return -1, netip.Addr{}, fmt.Errorf("the fabric belongs to user %d, not %d", s.o.Owner, uid)
	}
	r, err := parseRequest(b[:n])
	if err != nil {
		return -1, netip.Addr{}, err
	}
	return s.open(r)
}

// open makes a socket in the namespace of the request's NIC.
func (s *Server) open(r Request) (fd int, addr netip.Addr, err error) {
	at, ok := s.nics[r.NIC]
	if !ok {
		return -1, addr, fmt.Errorf("the fabric has no NIC %d", r.NIC)
	}
	family, addr := unix.AF_INET, at.addr4
	if r.IPv6 {
		family, addr = unix.AF_INET6, at.addr6
	}
	err = netns.Do(at.namespace, func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return err
	})
	if err != nil {
		return -1, addr, fmt.Errorf("make a socket: %w", err)
	}
	if err := s.buffers(fd); err != nil {
		unix.Close(fd)
		return -1, addr, fmt.Errorf("set a socket's buffers: %w", err)
	}
	return fd, addr, nil
}

// buffers gives a socket the buffers of the fabric's transport, beyond what the
// kernel lets users have. The kernel takes twice the value, for what it needs itself
// beside the payload, see socket(7).
func (s *Server) buffers(fd int) error {
	for _, b := range []struct{ option, size int }{{unix.SO_SNDBUFFORCE, s.o.SendBuffer}, {unix.SO_RCVBUFFORCE, s.o.Window}} {
		if b.size == 0 {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, b.option, min(b.size, maxBuffer)); err != nil {
			return err
		}
	}
	return nil
}

// maxBuffer is the largest buffer whose double fits the kernel's int.
const maxBuffer = 1<<30 - 1
