// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Addresses of this host, from which the tests' clients come. userByAddress says whose they are.
const (
	owner   = "127.0.0.1"
	other   = "127.0.0.2"
	another = "127.0.0.3"
	unknown = "127.0.0.4"
)

func userByAddress(c net.Conn) (uid int, ok bool) {
	switch host, _, _ := net.SplitHostPort(c.RemoteAddr().String()); host {
	case owner:
		return 1000, true
	case other:
		return 1002, true
	case another:
		return 1003, true
	}
	return 0, false
}

// quick are limits that a test can wait for.
var quick = limits{
	header: 300 * time.Millisecond, body: 300 * time.Millisecond, answer: time.Second, idle: 300 * time.Millisecond,
	open: 12, strangers: 6, stranger: 4,
}

// testServer is a server on a loopback address.
type testServer struct {
	*testing.T
	address string
}

func startServer(t *testing.T, within limits) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", owner+":0")
	if err != nil {
		t.Fatal(err)
	}
	auth := &Auth{UID: 1000, Token: "secret", UserOf: userByAddress}
	ended := make(chan error, 1)
	go func() { ended <- serveWithin(t.Context(), within, l, auth, New(&fake{}, auth, "v1")) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &testServer{t, l.Addr().String()}
}

// client is a connection to a server.
type client struct {
	net.Conn
	in *bufio.Reader
}

func (s *testServer) connect(from string) *client {
	s.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	return &client{c, bufio.NewReader(c)}
}

// send sends text. A server that has closed the connection is found by what is read from it.
func (c *client) send(text string) *client {
	_, _ = io.WriteString(c, text)
	return c
}

const (
	get       = "GET /api/state HTTP/1.1\r\nHost: localhost\r\n\r\n"
	getSecret = "GET /api/state HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"
)

// status is that of the next answer, 0 if the server has closed the connection.
func (s *testServer) status(c *client) int {
	s.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	r, err := http.ReadResponse(c.in, nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.Fatal("no answer in 20 s")
	}
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

// isClosed reports whether a server closes a connection within a time.
func (c *client) isClosed(within time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := io.Copy(io.Discard, c.in)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// Strangers have few connections, each user and all together. The owner, and who shows the token, has an answer.
func TestLimitOfStrangers(t *testing.T) {
	within := quick
	within.header, within.idle = time.Minute, time.Minute // no connection ends by itself
	s := startServer(t, within)
	open := map[string]int{}
	for _, from := range []string{other, other, other, other, other, another, another, another, unknown} {
		c := s.connect(from)
		if c.send("G"); !c.isClosed(100 * time.Millisecond) {
			open[from]++
		}
	}
	if open[other] != 4 || open[another] != 2 || len(open) != 2 {
		t.Errorf("strangers have connections open: %v; want 4 of one and 2 of another", open)
	}
	for range 6 {
		if got := s.status(s.connect(owner).send(get)); got != http.StatusOK {
			t.Errorf("the owner has status %d", got)
		}
	}
	if got := s.status(s.connect(owner).send(get)); got != 0 {
		t.Errorf("beyond all connections the owner has status %d", got)
	}
}

// A connection that has shown the token, or has ended, no longer counts among the strangers.
func TestLimitIsOfOpenStrangers(t *testing.T) {
	s := startServer(t, quick)
	for range 5 {
		if got := s.status(s.connect(other).send(getSecret)); got != http.StatusOK {
			t.Errorf("with the token: status %d", got)
		}
	}
	for range 3 * quick.stranger {
		c := s.connect(other)
		if got := s.status(c.send(get)); got != http.StatusUnauthorized {
			t.Fatalf("without the token: status %d", got)
		}
		if !c.isClosed(10 * time.Second) {
			t.Fatal("the connection is still open after the refusal")
		}
	}
}

// Outside this host, an address is who counts.
func TestWhose(t *testing.T) {
	auth := &Auth{UID: 1000, UserOf: func(net.Conn) (int, bool) { return 1000, true }}
	who, known := auth.whose(addresses{&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 80},
		&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.7"), Port: 5000}})
	if who != "address 192.0.2.7" || known {
		t.Errorf("%q, %v", who, known)
	}
}

// addresses is a connection of which only the addresses are asked.
type addresses struct{ local, remote net.Addr }

func (a addresses) LocalAddr() net.Addr              { return a.local }
func (a addresses) RemoteAddr() net.Addr             { return a.remote }
func (addresses) Read([]byte) (int, error)           { return 0, io.EOF }
func (addresses) Write([]byte) (int, error)          { return 0, io.EOF }
func (addresses) Close() error                       { return nil }
func (addresses) SetDeadline(time.Time) error        { return nil }
func (addresses) SetReadDeadline(time.Time) error    { return nil }
func (addresses) SetWriteDeadline(t time.Time) error { return nil }

// Who is slow is disconnected, the owner too.
func TestSlowClientsAreDisconnected(t *testing.T) {
	const body = "POST /api/shape HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6000\r\n\r\n{"
	s := startServer(t, quick)
	for _, from := range []string{owner, other} {
		for name, text := range map[string]string{"says nothing": "", "no whole header": "GET / HTTP/1.1\r\nX-a: ",
			"no whole body": body} {
			if c := s.connect(from).send(text); !c.isClosed(10 * time.Second) {
				t.Errorf("%s: %s, but is still connected", from, name)
			}
		}
	}
	if c := s.connect(owner).send(get); s.status(c) != http.StatusOK || !c.isClosed(10*time.Second) {
		t.Error("an idle connection is still open")
	}
	// Its receive buffer is small, so the server cannot write all answers.
	c := s.connect(owner)
	if err := c.Conn.(*net.TCPConn).SetReadBuffer(1024); err != nil {
		t.Fatal(err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	page := strings.Replace(get, "/api/state", "/", 1)
	var err error
	for err == nil {
		_, err = io.WriteString(c, page)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("who reads no answer is still connected")
	}
}

// A stranger's body is not waited for.
func TestBodyOfAStrangerIsNotRead(t *testing.T) {
	within := quick
	within.body = time.Hour
	s := startServer(t, within)
	c := s.connect(other).send("POST /api/shape HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{")
	if got := s.status(c); got != http.StatusUnauthorized || !c.isClosed(10*time.Second) {
		t.Errorf("status %d, and the connection is open", got)
	}
}
