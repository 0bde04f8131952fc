// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

const nobody = 65534

// asNobody calls do as another user, with what the kernel allows that user. The raw system calls
// change the credentials of one thread, which ends afterwards.
func asNobody(t *testing.T, do func() error) error {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			if _, _, errno := unix.RawSyscall(call, nobody, nobody, nobody); errno != 0 {
				result <- errno
				return
			}
		}
		result <- do()
	}()
	return <-result
}

// connectAsNobody connects to an endpoint's socket as another user, and returns the answer.
func connectAsNobody(t *testing.T, path string) (answer string, err error) {
	t.Helper()
	err = asNobody(t, func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
			return err
		}
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return err
		}
		b := make([]byte, answerSize)
		n, err := unix.Read(fd, b)
		answer = string(b[:max(n, 0)])
		return err
	})
	return answer, err
}

// Another user cannot open the socket. If its mode allowed that, the user is refused by the
// credentials.
func TestAnotherUserMayNotConnect(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	dir := p.file.Dir()
	path := filepath.Join(dir, state.SocketName(p.file.Name(), p.ends[1].Me.Slot()))
	if _, err := connectAsNobody(t, path); !errors.Is(err, unix.EACCES) {
		t.Errorf("connect: %v, want EACCES", err)
	}
	must(t, os.Chmod(dir, 0o711))
	if _, err := connectAsNobody(t, path); !errors.Is(err, unix.EACCES) {
		t.Errorf("connect where the folder is open: %v, want EACCES", err)
	}
	must(t, os.Chmod(path, 0o666))
	answer, err := connectAsNobody(t, path)
	if want := "the peer belongs to user 65534, not 0"; err != nil || answer != want {
		t.Errorf("connect where all is open: %q, %v, want %q", answer, err, want)
	}
	if err := asNobody(t, func() error {
		_, err := os.Open(filepath.Join(dir, p.file.Name()+".fabric"))
		return err
	}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("open the fabric's file: %v, want a refusal", err)
	}
}

// A socket on which another user listens is refused, wherever it is: no descriptor is sent.
func TestAnotherUserMayNotListen(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	var h [transport.HandleSize]byte
	if _, err := p.ends[1].Listen(1, &h); err != nil {
		t.Fatal(err)
	}
	dir := p.file.Dir()
	path := filepath.Join(dir, state.SocketName(p.file.Name(), p.ends[1].Me.Slot()))
	must(t, os.Remove(path))
	must(t, os.Chmod(dir, 0o777)) // or he could not make his
	var theirs *net.UnixListener
	err := asNobody(t, func() (err error) {
		theirs, err = net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: path})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	got := make(chan int, 1)
	go func() {
		n := -1
		if c, err := theirs.AcceptUnix(); err == nil {
			n, _ = c.Read(make([]byte, 100))
			c.Close()
		}
		got <- n
	}()
	must(t, os.Chmod(dir, 0o700))
	if _, err := connectWith(t, p.ends[0], h); err == nil ||
		!strings.Contains(err.Error(), "the peer belongs to user 65534, not 0") {
		t.Errorf("%v, want a refusal by credentials", err)
	}
	if n := <-got; n > 0 {
		t.Errorf("the other user was sent %d bytes", n)
	}
}
