// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"cmp"
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

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// Options configure a Server.
type Options struct {
	Plan       *netns.Plan
	Owner      int // user whose processes may request sockets; root's may too
	SendBuffer int // bytes of payload that a socket may have unsent, 0 for the kernel's default
	Window     int // bytes of payload that a socket may have unread, 0 for the kernel's default
	// RequestTimeout is how long the server waits for the request of a client that has connected, 0 for 30 s. It bounds
	// how long clients that send nothing delay the others. On a busy host, a client may need seconds.
	RequestTimeout time.Duration
	// Other is called with requests of other kinds than for sockets. It returns nil if the kind is unknown. Otherwise
	// the server answers that the request is accepted, and the function serves it until it returns.
	Other func(c *net.UnixConn, request []byte) (serve func(), err error)
}

const (
	maxClients     = 64   // clients that are served concurrently
	backlog        = 4096 // clients that may wait
	requestTimeout = 30 * time.Second
)

// Server answers requests for sockets until Close.
type Server struct {
	o        Options
	nics     map[int]nic
	listener *net.UnixListener
	path     string
	clients  chan struct{} // semaphore of maxClients
	running  sync.WaitGroup
}

// nic has the namespace and the addresses of a NIC.
type nic struct {
	namespace    string
	addr4, addr6 netip.Addr
}

// Serve listens on a Unix socket at path, which belongs to the owner, and answers requests in the background.
func Serve(path string, o Options) (*Server, error) {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, requestTimeout)
	s := &Server{o: o, nics: map[int]nic{}, path: path, clients: make(chan struct{}, maxClients)}
	for _, n := range o.Plan.Nodes {
		for _, c := range n.NICs {
			s.nics[c.Number] = nic{n.Namespace, c.Addr4, c.Addr6}
		}
	}
	err := state.InDir(filepath.Dir(path), o.Owner, func(dir string) (err error) {
		short := filepath.Join(dir, filepath.Base(path))
		if err := os.Remove(short); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		s.listener, err = listen(short, o.Owner)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("serve sockets at %s: %w", path, err)
	}
	s.running.Add(1)
	go s.serve()
	return s, nil
}

// listen opens a Unix socket at path. The bind runs as user uid, so the file belongs to that user from the start. If
// root created it and changed its owner afterwards, the path could stand for another file by then.
func listen(path string, uid int) (*net.UnixListener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := unix.Fchmod(fd, 0o600); err != nil { // the file gets this mode
		return nil, err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread has another user, and ends with the goroutine
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
	listener := l.(*net.UnixListener)
	listener.SetUnlinkOnClose(false) // Close unlinks it, by a path that is short enough
	return listener, nil
}

// Close stops the server and returns when no request is being answered. Sockets that clients have received remain open.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.running.Wait()
	rerr := state.InDir(filepath.Dir(s.path), s.o.Owner,
		func(dir string) error { return os.Remove(filepath.Join(dir, filepath.Base(s.path))) })
	if errors.Is(rerr, os.ErrNotExist) {
		rerr = nil
	}
	return errors.Join(err, rerr)
}

func (s *Server) serve() {
	defer s.running.Done()
	for {
		s.clients <- struct{}{}
		c, err := s.listener.AcceptUnix()
		if err != nil {
			<-s.clients
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors: other clients will release some
			continue
		}
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			defer func() { <-s.clients }()
			defer c.Close()
			c.SetDeadline(time.Now().Add(s.o.RequestTimeout))
			s.answer(c)
		}()
	}
}

// answer answers the request of one client. Errors of writing are ignored: the client has gone away.
func (s *Server) answer(c *net.UnixConn) {
	b, err := s.read(c)
	var serve func()
	if err == nil && s.o.Other != nil {
		serve, err = s.o.Other(c, b)
	}
	var fd int
	var addr netip.Addr
	if err == nil && serve == nil {
		fd, addr, err = s.open(b)
	}
	switch {
	case err != nil:
		_, _ = c.Write(answer{refusal: err.Error()}.marshal())
	case serve != nil:
		_, _ = c.Write(answer{}.marshal())
		serve()
	default:
		_, _, _ = c.WriteMsgUnix(answer{addr: addr}.marshal(), unix.UnixRights(fd), nil)
		unix.Close(fd)
	}
}

// read reads a client's request, and checks that the client may make one.
func (s *Server) read(c *net.UnixConn) ([]byte, error) {
	// Read the request before refusing it: closing a socket with unread data discards the reply.
	b := make([]byte, requestSize+1)
	n, err := c.Read(b) // the kernel closes descriptors that a client sends along
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	uid, err := state.PeerUser(c)
	if err != nil {
		return nil, err
	}
	if uid != s.o.Owner && uid != 0 {
		return nil, fmt.Errorf("the fabric belongs to user %d, not %d", s.o.Owner, uid)
	}
	return b[:n], nil
}

// open makes the socket that a request is for, in the namespace of its NIC.
func (s *Server) open(request []byte) (fd int, addr netip.Addr, err error) {
	r, err := parseRequest(request)
	if err != nil {
		return -1, addr, err
	}
	nic, ok := s.nics[r.NIC]
	if !ok {
		return -1, addr, fmt.Errorf("the fabric has no NIC %d", r.NIC)
	}
	family, addr := unix.AF_INET, nic.addr4
	if r.IPv6 {
		family, addr = unix.AF_INET6, nic.addr6
	}
	err = netns.Do(nic.namespace, func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return err
	})
	if err != nil {
		return -1, addr, fmt.Errorf("make a socket: %w", err)
	}
	if err := s.setBuffers(fd); err != nil {
		unix.Close(fd)
		return -1, addr, fmt.Errorf("set a socket's buffers: %w", err)
	}
	return fd, addr, nil
}

// setBuffers sets a socket's buffers to the buffers of the fabric's transport, beyond the limits of unprivileged users.
// The kernel doubles the values, because its bookkeeping uses a part of a buffer, see socket(7).
func (s *Server) setBuffers(fd int) error {
	for _, b := range []struct{ option, size int }{{unix.SO_SNDBUFFORCE, s.o.SendBuffer},
		{unix.SO_RCVBUFFORCE, s.o.Window}} {
		if b.size == 0 {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, b.option, min(b.size, maxBuffer)); err != nil {
			return err
		}
	}
	return nil
}

// maxBuffer is the largest size in bytes whose double fits the kernel's int.
const maxBuffer = 1<<30 - 1
