// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connect returns both ends of a connection to a listener at an address.
func connect(t *testing.T, listen string, dial func(address string) (net.Conn, error)) (server, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); c.Close() })
	return s.(*net.TCPConn), c.(*net.TCPConn)
}

func dial(address string) (net.Conn, error) { return net.Dial("tcp", address) }

// dialMapped connects an IPv6 socket to an address of IPv4, as some programs do.
func dialMapped(address string) (net.Conn, error) {
	to := netip.MustParseAddrPort(address)
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// The kernel knows whose the other end of a connection is.
func TestUserOf(t *testing.T) {
	for name, c := range map[string]struct {
		listen string
		dial   func(string) (net.Conn, error)
	}{
		"IPv4": {"127.0.0.1:0", dial},
		"IPv6": {"[::1]:0", dial},
		"a listener of both": {"[::]:0",
			func(a string) (net.Conn, error) { _, port, _ := net.SplitHostPort(a); return dial("127.0.0.1:" + port) }},
		"IPv4 by an IPv6 socket": {"127.0.0.1:0", dialMapped},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := connect(t, c.listen, c.dial)
			if uid, ok := userOf(server); !ok || uid != os.Getuid() {
				t.Errorf("user %d, %v", uid, ok)
			}
		})
	}
}

// Whose a closed socket was, the kernel has forgotten: it says user 0.
func TestUserOfClosedEnds(t *testing.T) {
	for name, end := range map[string]func(c *net.TCPConn) error{
		"closed":       (*net.TCPConn).Close,
		"half closed":  (*net.TCPConn).CloseWrite,
		"reset":        func(c *net.TCPConn) error { _ = c.SetLinger(0); return c.Close() },
		"data, closed": func(c *net.TCPConn) error { _, _ = c.Write([]byte("GET ")); return c.Close() },
		"data and reset": func(c *net.TCPConn) error {
			_,
				_ = c.Write([]byte("GET "))
			_ = c.SetLinger(0)
			return c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := connect(t, "127.0.0.1:0", dial)
			if err := end(client); err != nil {
				t.Fatal(err)
			}
			for isConnected(server) { // the kernel delivers it at once, but in the background
				time.Sleep(time.Millisecond)
			}
			if uid, ok := userOf(server); ok {
				t.Errorf("user %d is certain", uid)
			}
		})
	}
}

// A client that has closed its socket, but has more to send than the server reads, looks connected to the server.
func TestUserOfClosedEndWithDataLeft(t *testing.T) {
	server, client := connect(t, "127.0.0.1:0", dial)
	data := make([]byte, 16<<20)
	_ = client.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := client.Write(data); n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes: %v", n, err)
	}
	client.Close()
	if !isConnected(server) {
		t.Fatal("the server knows that the client has closed")
	}
	if uid, ok := userOf(server); ok {
		t.Errorf("user %d is certain", uid)
	}
}

// A socket whose addresses were another's a moment ago is not taken for it.
func TestUserOfReusedAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// bind chooses a port that nobody else has, connect does not
	var from net.Addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	var servers []net.Conn
	for range 2 {
		d := net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		from = c.LocalAddr()
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		servers = append(servers, s)
		if len(servers) == 1 {
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
		} else {
			defer c.Close()
		}
	}
	if uid, ok := userOf(servers[0]); ok {
		t.Errorf("the first connection was reset, but is user %d's", uid)
	}
	if _, ok := userOf(servers[1]); !ok {
		t.Error("nobody knows whose the second connection is")
	}
}

// Each thing that the kernel says about a socket counts.
func TestIsHeld(t *testing.T) {
	a, b := netip.MustParseAddrPort("127.0.0.1:5000"), netip.MustParseAddrPort("127.0.0.1:80")
	good := socket{local: a, remote: b, state: established, uid: 1, inode: 7}
	if !good.isHeld(a, b) {
		t.Fatalf("%+v is not held", good)
	}
	for name, change := range map[string]func(s *socket){
		"no process":          func(s *socket) { s.inode = 0 },
		"TIME_WAIT":           func(s *socket) { s.state = 6 },
		"CLOSE_WAIT":          func(s *socket) { s.state = 8 },
		"LISTEN":              func(s *socket) { s.state = 10 },
		"another address":     func(s *socket) { s.local = netip.MustParseAddrPort("127.0.0.2:5000") },
		"another port":        func(s *socket) { s.local = netip.MustParseAddrPort("127.0.0.1:5001") },
		"another destination": func(s *socket) { s.remote = netip.MustParseAddrPort("127.0.0.2:80") },
	} {
		s := good
		if change(&s); s.isHeld(a, b) {
			t.Errorf("%s: %+v is held", name, s)
		}
	}
}

// Answers that are too short are refused.
func TestParseSocketRefuses(t *testing.T) {
	for n := range diagAnswerSize {
		if s, err := parseSocket(make([]byte, n)); err == nil {
			t.Errorf("%d bytes are %+v", n, s)
		}
	}
}
