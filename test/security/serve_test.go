// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// served is a fabric of root, eth1 with 2 nodes, with its live page.
type served struct {
	*world.World
	address netip.AddrPort
	token   string
}

var printed = regexp.MustCompile(`^fabric eth1: http://([0-9.:]+)/\nother users of this host need the token (\S+)\n$`)

func serve(t *testing.T) *served {
	t.Helper()
	needs.Root(t, "becoming another user")
	s := &served{World: world.New(t)}
	s.Run("up", "--profile", "eth1", "--nodes", "2", "--clock", "virtual")
	cmd := s.Command(t.Context(), "serve", "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	lines := bufio.NewReader(out)
	first, _ := lines.ReadString('\n') // what is missing is missing in what it says
	second, _ := lines.ReadString('\n')
	m := printed.FindStringSubmatch(first + second)
	if m == nil {
		t.Fatalf("the server says %q", first+second)
	}
	s.address, s.token = netip.MustParseAddrPort(m[1]), m[2]
	return s
}

// latencies are those of the links, in ns.
func (s *served) latencies() (all []int64) {
	s.Helper()
	var st struct {
		Links []struct {
			Latency int64 `json:"latency_ns"`
		}
	}
	must(s.T, json.Unmarshal([]byte(s.Run("status", "--json")), &st))
	for _, l := range st.Links {
		all = append(all, l.Latency)
	}
	return all
}

// asNobody calls do on a thread of another user. Sockets that it makes are that user's.
func asNobody(t *testing.T, do func() error) {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			if _, _, errno := unix.RawSyscall(call, nobody, nobody, nobody); errno != 0 {
				result <- errno
				return
			}
		}
		result <- do()
	}()
	must(t, <-result)
}

// connect makes a socket of this thread's user, and connects it. from is its address; its port is 0 to let the kernel
// choose.
func (s *served) connect(from netip.AddrPort) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: from.Addr().As4(), Port: int(from.Port())}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind %v: %w", from, err)
	}
	if err := unix.Connect(fd,
		&unix.SockaddrInet4{Addr: s.address.Addr().As4(), Port: int(s.address.Port())}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect: %w", err)
	}
	return fd, nil
}

// own is the address of clients.
var own = netip.MustParseAddrPort("127.0.0.1:0")

const (
	change  = `{"set":{"lat":"777us"}}`
	request = "POST /api/shape HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
)

// Another user who sends a request and ends the connection at once has no more rights than before: the kernel says that
// the sockets of connections that have ended are root's.
func TestServeTakesNoClosedSocketForRoots(t *testing.T) {
	s := serve(t)
	before := fmt.Sprint(s.latencies())
	text := fmt.Appendf(nil, request, len(change), change)
	unfinished := fmt.Appendf(nil, request, 60000, change)
	reset := func(fd int) error {
		return errors.Join(unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
			unix.Close(fd))
	}
	for name, end := range map[string]struct {
		send  []byte
		burst int // connections that are made before the first request is sent
		end   func(fd int) error
	}{
		"closed":         {text, 500, unix.Close},
		"closed, few":    {text, 10, unix.Close},
		"closed at once": {text, 1, unix.Close},
		"half closed": {text, 500,
			func(fd int) error { return errors.Join(unix.Shutdown(fd, unix.SHUT_WR), unix.Close(fd)) }},
		"closed, then opened":  {text, 500, func(fd int) error { _ = unix.Close(fd); return s.again() }},
		"reset":                {text, 500, reset},
		"reset at once":        {text, 1, reset},
		"no whole body":        {unfinished, 500, unix.Close},
		"no whole body, alone": {unfinished, 1, unix.Close},
	} {
		t.Run(name, func(t *testing.T) {
			asNobody(t, func() error {
				for range 500 / end.burst {
					if err := s.attack(end.burst, end.send, end.end); err != nil {
						return err
					}
				}
				return nil
			})
			s.answers("the owner", "")
			if after := fmt.Sprint(s.latencies()); after != before {
				t.Errorf("the latencies were %s, and are %s", before, after)
			}
		})
	}
}

// attack makes connections, and then sends the request on each and ends it.
func (s *served) attack(burst int, request []byte, end func(fd int) error) error {
	var fds []int
	for range burst {
		fd, err := s.connect(own)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	for _, fd := range fds {
		_, _ = unix.SendmsgN(fd, request, nil, nil, unix.MSG_NOSIGNAL) // the server may have closed it
		if err := end(fd); err != nil && !errors.Is(err, unix.ENOTCONN) {
			return err
		}
	}
	return nil
}

// again connects once more, so that the server is kept busy.
func (s *served) again() error {
	fd, err := s.connect(own)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// A connection of root from the same port, but another address, gives another user no rights.
func TestServeTellsAddressesApart(t *testing.T) {
	s := serve(t)
	roots, err := s.connect(own)
	must(t, err)
	defer unix.Close(roots)
	name, err := unix.Getsockname(roots)
	must(t, err)
	port := uint16(name.(*unix.SockaddrInet4).Port)
	for _, from := range []string{"127.0.0.0", "127.0.0.2", "127.255.255.254"} {
		asNobody(t, func() error {
			fd, err := s.connect(netip.AddrPortFrom(netip.MustParseAddr(from), port))
			if errors.Is(err, unix.EADDRNOTAVAIL) {
				return nil
			} else if err != nil {
				return err
			}
			defer unix.Close(fd)
			if _, err := unix.Write(fd, []byte("GET /api/state HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
				return err
			}
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
				&unix.Timeval{Sec: 20}); err != nil {
				return err
			}
			b := make([]byte, 100)
			n, err := unix.Read(fd, b)
			if err != nil {
				return err
			}
			if want := "HTTP/1.1 401 "; string(b[:min(n, len(want))]) != want {
				t.Errorf("from %s: %s", from, b[:n])
			}
			return nil
		})
	}
}

// answers checks that the server answers soon, with a token if there is one.
func (s *served) answers(who, token string) {
	s.Helper()
	var d net.Dialer
	client := http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: d.DialContext}}
	if token != "" { // as another user
		client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (c net.Conn, err error) {
			asNobody(s.T, func() error {
				fd, err := s.connect(own)
				if err != nil {
					return err
				}
				f := os.NewFile(uintptr(fd), "socket")
				defer f.Close()
				c, err = net.FileConn(f)
				return err
			})
			return c, err
		}
	}
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+s.address.String()+"/api/state", nil)
	must(s.T, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := client.Do(r)
	if err != nil {
		s.Errorf("%s: %v", who, err)
		return
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		s.Errorf("%s: status %d", who, a.StatusCode)
	}
}

// Another user who holds connections keeps nobody from the page, and cannot hold many.
func TestServeHasRoomForItsOwner(t *testing.T) {
	s := serve(t)
	s.answers("another user with the token", s.token)
	for name, text := range map[string]string{
		"no request":      "",
		"no whole header": "GET / HTTP/1.1\r\nHost: localhost\r\nX-a: ",
		"no whole body":   fmt.Sprintf(request, 60000, "{"),
		"no reader":       "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\nGET /x HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var fds []int
			defer func() {
				for _, fd := range fds {
					unix.Close(fd)
				}
			}()
			asNobody(t, func() error {
				for range 1000 {
					fd, err := s.connect(own)
					if err != nil {
						return err
					}
					fds = append(fds, fd)
					_, _ = unix.SendmsgN(fd, []byte(text), nil, nil, unix.MSG_NOSIGNAL) // the server may have closed it
				}
				return nil
			})
			s.answers("the owner", "")
			if open := connected(fds); open > 100 {
				t.Errorf("another user has %d connections open", open)
			}
		})
	}
}

// connected counts the sockets whose other end is connected.
func connected(fds []int) (n int) {
	for _, fd := range fds {
		// TCP_ESTABLISHED
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && info.State == 1 {
			n++
		}
	}
	return n
}
