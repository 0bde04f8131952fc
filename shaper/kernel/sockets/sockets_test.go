// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// shortTimeout is how long the servers of these tests wait for a request.
const shortTimeout = 2 * time.Second

// nobody is a user without privileges.
const nobody = 65534

// startServer creates two nodes without a shaper and serves their sockets to user uid. It returns the fabric's folder.
func startServer(t *testing.T, uid int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: this test makes network namespaces; run it as root")
	}
	dir, err := os.MkdirTemp("/dev/shm", "ddlemu-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, -1); err != nil {
		t.Fatal(err)
	}
	p, err := netns.NewPlan(dir, "lab", 2, 1, netip.MustParsePrefix("10.99.0.0/16"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Remove(p); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(nodes.Create(t.Context(), p, nodes.Options{MTU: 1500}), nodes.ConnectBridge(p)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, state.DaemonSocket("lab"))
	s, err := Serve(path, Options{Plan: p, Owner: uid, SendBuffer: 4 << 20, Window: 6 << 20,
		RequestTimeout: shortTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Close left the socket's file: %v", err)
		}
	})
	return dir
}

// Sockets of two nodes reach each other, over IPv4 and IPv6.
func TestSocketsReachEachOther(t *testing.T) {
	dir := startServer(t, 0)
	for _, ipv6 := range []bool{false, true} {
		listen, addr := mustOpen(t, dir, Request{NIC: 1, IPv6: ipv6})
		if err := errors.Join(unix.Bind(listen, sockaddr(addr, 0)), unix.Listen(listen, 1)); err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(listen), "listen")
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				fmt.Fprint(c, "hello")
				c.Close()
			}
		}()
		fd, here := mustOpen(t, dir, Request{NIC: 0, IPv6: ipv6})
		for option, want := range map[int]int{unix.SO_SNDBUF: 4 << 20, unix.SO_RCVBUF: 6 << 20} {
			if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || got != 2*want {
				t.Errorf("buffer %d of %d bytes, %v; want %d", option, got, err, 2*want)
			}
		}
		if err := unix.Bind(fd, sockaddr(here, 0)); err != nil {
			t.Fatal(err)
		}
		to := l.Addr().(*net.TCPAddr).AddrPort()
		if err := unix.Connect(fd, sockaddr(addr, int(to.Port()))); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Fatal(err)
		}
		c := os.NewFile(uintptr(fd), "connect")
		c.SetDeadline(time.Now().Add(10 * time.Second))
		got, err := io.ReadAll(c)
		if string(got) != "hello" || err != nil {
			t.Errorf("over %v: %q, %v", addr, got, err)
		}
		c.Close()
	}
}

func mustOpen(t *testing.T, dir string, r Request) (int, netip.Addr) {
	t.Helper()
	fd, addr, err := Open(dir, "lab", r)
	if err != nil {
		t.Fatal(err)
	}
	return fd, addr
}

func sockaddr(a netip.Addr, port int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: port}
}

// Bad requests are refused, and the server answers the next one.
func TestRefusals(t *testing.T) {
	dir := startServer(t, 0)
	if _, _, err := Open(dir, "lab", Request{NIC: 2}); err == nil || !strings.Contains(err.Error(), "no NIC 2") {
		t.Errorf("a NIC that does not exist: %v", err)
	}
	if _, _, err := Open(dir, "other", Request{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a fabric that does not exist: %v", err)
	}
	for _, request := range []string{"", "x", strings.Repeat("x", requestSize), strings.Repeat("x", 5000)} {
		c, err := net.DialUnix("unixpacket", nil,
			&net.UnixAddr{Net: "unixpacket", Name: filepath.Join(dir, state.DaemonSocket("lab"))})
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		c.Write([]byte(request))
		b := make([]byte, answerHeader+maxRefusal)
		n, _ := c.Read(b)
		if a, err := parseAnswer(b[:n]); err != nil || a.refusal == "" {
			t.Errorf("%.20q was answered with %+v, %v", request, a, err)
		}
		c.Close()
	}
	fd, _ := mustOpen(t, dir, Request{})
	unix.Close(fd)
}

// Clients that send nothing delay others by at most the timeout.
func TestSilentClients(t *testing.T) {
	dir := startServer(t, 0)
	for range maxClients + 10 {
		c, err := net.DialUnix("unixpacket", nil,
			&net.UnixAddr{Net: "unixpacket", Name: filepath.Join(dir, state.DaemonSocket("lab"))})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	begin := time.Now()
	fd, _ := mustOpen(t, dir, Request{})
	unix.Close(fd)
	if took := time.Since(begin); took > 2*shortTimeout {
		t.Errorf("a socket took %v", took)
	}
}

// The owner gets sockets. Other users are refused, even if they have access to the folder.
func TestUsers(t *testing.T) {
	dir := startServer(t, nobody)
	path := filepath.Join(dir, state.DaemonSocket("lab"))
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Uid != nobody || st.Mode&0o777 != 0o600 {
		t.Errorf("the socket belongs to user %d with mode %04o, %v", st.Uid, st.Mode&0o777, err)
	}
	for uid, want := range map[int]string{nobody: "ok", nobody - 1: "the fabric belongs to user 65534"} {
		// The file permissions admit the other user, so that the server itself must refuse.
		for name, mode := range map[string]os.FileMode{dir: 0o777, path: 0o777} {
			if uid == nobody {
				mode &= 0o700
			}
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsUser$", "-test.v")
		cmd.Env = []string{"SOCKETS_AT=" + path}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if cerr := os.Chmod(dir, 0o700); cerr != nil {
			t.Fatal(cerr)
		}
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("user %d: %v\n%s", uid, err, out)
		}
	}
}

// TestAsUser is the client process of TestUsers.
func TestAsUser(t *testing.T) {
	path := os.Getenv("SOCKETS_AT")
	if path == "" {
		t.Skip("run by TestUsers")
	}
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	c.Write(Request{}.marshal())
	b := make([]byte, answerHeader+maxRefusal)
	n, err := c.Read(b)
	a, perr := parseAnswer(b[:n])
	if err != nil || perr != nil {
		t.Fatal(err, perr)
	}
	if a.refusal == "" {
		a.refusal = "ok"
	}
	fmt.Println(a.refusal)
}
