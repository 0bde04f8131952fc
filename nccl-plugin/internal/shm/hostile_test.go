// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// refused checks that connect with h fails for the given reason.
func refused(t *testing.T, e *Endpoint, h [transport.HandleSize]byte, want string) {
	t.Helper()
	if _, err := connectWith(t, e, h); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// A handle of one fabric is refused on another, also if that has a listener with the same numbers.
func TestHandleOfAnotherFabric(t *testing.T) {
	p, q := newPair(t, unshaped, tcp, 64<<20), newPair(t, unshaped, tcp, 64<<20)
	var theirs, ours [transport.HandleSize]byte
	for _, l := range []struct {
		e *Endpoint
		h *[transport.HandleSize]byte
	}{{p.ends[1], &ours}, {q.ends[1], &theirs}} {
		id, err := l.e.Listen(1, l.h)
		if err != nil {
			t.Fatal(err)
		}
		defer l.e.CloseListen(id)
	}
	refused(t, p.ends[0], theirs, "the peer is on another fabric")
	// With this fabric's number, the handle still has another nonce.
	copy(theirs[8:16], ours[8:16])
	refused(t, p.ends[0], theirs, "nobody listens there any more")
}

// A handle can be used again while its listener is open, as NCCL allows. It is refused when the
// listener is closed, or when another process has joined in the slot of its process.
func TestHandleReplayed(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	var h [transport.HandleSize]byte
	id, err := p.ends[1].Listen(1, &h)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c, err := connectWith(t, p.ends[0], h)
		if err != nil {
			t.Fatal(err)
		}
		p.ends[0].CloseComm(transport.ID(c))
	}
	p.ends[1].CloseListen(id)
	refused(t, p.ends[0], h, "nobody listens there any more")

	slot := p.ends[1].Me.Slot()
	p.ends[1].Close()
	refused(t, p.ends[0], h, "no such file or directory")
	p.ends[1].Me.Leave()
	next, err := p.file.Join(p.ends[0].Me.Job(), state.Rank{Rank: 1, Node: 1, World: 2, Budget: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if next.Slot() != slot {
		t.Fatalf("the next participant has slot %d, not %d", next.Slot(), slot)
	}
	if p.ends[1], err = NewEndpoint(p.file, next, state.Rank{Rank: 1, Node: 1, World: 2}, nil); err != nil {
		t.Fatal(err)
	}
	defer next.Leave()
	var fresh [transport.HandleSize]byte
	if _, err = p.ends[1].Listen(1, &fresh); err != nil {
		t.Fatal(err)
	}
	refused(t, p.ends[0], h, "nobody listens there any more")
}

// The number of an attempt to connect, which connect keeps in the handle, is valid only with that
// handle and NIC, and once.
func TestHandleWithSomebodysAttempt(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	var first, second [transport.HandleSize]byte
	for _, h := range []*[transport.HandleSize]byte{&first, &second} {
		id, err := p.ends[1].Listen(1, h)
		if err != nil {
			t.Fatal(err)
		}
		defer p.ends[1].CloseListen(id)
	}
	if c, err := p.ends[0].Connect(0, &first); c != nil || err != nil {
		t.Fatalf("%v, %v", c, err)
	}
	copy(second[transport.AttemptOffset:], first[transport.AttemptOffset:transport.AttemptOffset+8])
	refused(t, p.ends[0], second, "unknown here")
	if _, err := p.ends[0].Connect(1, &first); err == nil {
		t.Error("an attempt of one NIC was continued from another")
	}
	used := first
	c, err := connectWith(t, p.ends[0], first)
	if err != nil {
		t.Fatal(err)
	}
	defer p.ends[0].CloseComm(transport.ID(c))
	refused(t, p.ends[0], used, "unknown here")
}

// dialRaw connects to the listening socket of an endpoint and sends b and fds.
func dialRaw(t *testing.T, e *Endpoint, b []byte, fds ...int) string {
	t.Helper()
	var c *net.UnixConn
	err := inDir(e.Fabric.Dir(), func(dir string) (err error) {
		c, err = net.DialUnix("unixpacket", nil,
			&net.UnixAddr{Net: "unixpacket", Name: filepath.Join(dir, state.SocketName(e.Fabric.Name(), e.Me.Slot()))})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(requestTimeout))
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix(b, oob, nil); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, answerSize)
	n, err := c.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer[:n])
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A request is refused unless it is complete and has one descriptor. No descriptor of a refused
// request stays open.
func TestHostileRequests(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	e := p.ends[1]
	var h [transport.HandleSize]byte
	id, err := e.Listen(1, &h)
	if err != nil {
		t.Fatal(err)
	}
	defer e.CloseListen(id)
	r := freshRegion(t)
	defer r.close()
	handle, err := transport.ParseHandle(&h, handleMagic, p.file.ID())
	if err != nil {
		t.Fatal(err)
	}
	good := request{Magic: requestMagic, Fabric: p.file.ID(), Nonce: handle.Nonce, Listen: uint32(id),
		Slot: uint32(p.ends[0].Me.Slot()), Generation: p.ends[0].Me.Generation()}
	encode := func(change func(*request)) []byte {
		req := good
		change(&req)
		var b bytes.Buffer
		if err := binary.Write(&b, binary.LittleEndian, req); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	same := encode(func(*request) {})
	before := descriptors(t)
	for name, tc := range map[string]struct {
		b    []byte
		fds  []int
		want string
	}{
		"no descriptor":     {same, nil, "carries no descriptor"},
		"three descriptors": {same, []int{r.fd, r.fd, r.fd}, "carries 3 descriptors, not 1 to 2"},
		"many descriptors":  {same, []int{r.fd, r.fd, r.fd, r.fd, r.fd}, "descriptor"},
		"short":             {same[:len(same)-1], []int{r.fd}, "another version of the plugin"},
		"long":              {append(bytes.Clone(same), 0), []int{r.fd}, "another version of the plugin"},
		"very long": {append(bytes.Clone(same), make([]byte, 4096)...), []int{r.fd},
			"another version of the plugin"},
		"another magic":     {encode(func(r *request) { r.Magic++ }), []int{r.fd}, "not for this fabric"},
		"another fabric":    {encode(func(r *request) { r.Fabric++ }), []int{r.fd}, "not for this fabric"},
		"another nonce":     {encode(func(r *request) { r.Nonce++ }), []int{r.fd}, "nobody listens"},
		"another listener":  {encode(func(r *request) { r.Listen = 1 << 31 }), []int{r.fd}, "nobody listens"},
		"no such slot":      {encode(func(r *request) { r.Slot = 1<<32 - 1 }), []int{r.fd}, "does not take part"},
		"a free slot":       {encode(func(r *request) { r.Slot = 77 }), []int{r.fd}, "does not take part"},
		"a former owner":    {encode(func(r *request) { r.Generation-- }), []int{r.fd}, "does not take part"},
		"no such NIC":       {encode(func(r *request) { r.NIC = 1<<32 - 1 }), []int{r.fd}, "no path"},
		"a wrong NIC":       {encode(func(r *request) { r.NIC = 1 }), []int{r.fd}, "no path"},
		"the socket itself": {same, []int{0}, "map the peer's memory"},
		"a foreign region":  {same, []int{r.fd}, "does not describe this connection"},
	} {
		if got := dialRaw(t, e, tc.b, tc.fds...); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if c, err := e.Accept(id); c != nil || err != nil {
		t.Errorf("accept of a connection that nobody made: %v, %v", c, err)
	}
	for begin := time.Now(); descriptors(t) > before; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			t.Fatalf("%d descriptors are open, %d before", descriptors(t), before)
		}
	}
	c, err := connectWith(t, p.ends[0], h)
	if err != nil {
		t.Fatalf("the listener does not work any more: %v", err)
	}
	p.ends[0].CloseComm(transport.ID(c))
}

// Other users may not access a fabric in use: its folder, files and sockets.
func TestFilesArePrivate(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	p := newPair(t, unshaped, tcp, 64<<20)
	dir := p.file.Dir()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 { // the fabric and two sockets
		t.Errorf("%d files, want 3: %v", len(files), files)
	}
	for _, name := range append([]string{"."}, names(files)...) {
		st, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, st.Mode())
		}
	}
}

func names(files []os.DirEntry) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

// A folder of fabrics that was replaced after the fabric was opened is not used: neither a link nor
// a folder that other users may enter.
func TestReplacedFolder(t *testing.T) {
	for name, tc := range map[string]struct {
		replace func(t *testing.T, path, moved string)
		want    string
	}{
		"by a link": {func(t *testing.T, path, moved string) { must(t, os.Symlink(moved, path)) },
			"not a directory"},
		"by an open one": {
			func(t *testing.T, path, _ string) { must(t, os.Mkdir(path, 0o700)); must(t, os.Chmod(path, 0o755)) },
			"mode 0755, want user"},
		"by a file": {func(t *testing.T, path, _ string) { must(t, os.WriteFile(path, nil, 0o600)) },
			"not a directory"},
		"by nothing": {func(*testing.T, string, string) {}, "no such file or directory"},
		"by another user's": {func(t *testing.T, path, _ string) {
			if os.Getuid() != 0 {
				t.Skip("only root can make another user's folder")
			}
			must(t, os.Mkdir(path, 0o700))
			must(t, os.Chown(path, 65534, -1))
		}, "belongs to user 65534"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, unshaped, tcp, 64<<20)
			var h [transport.HandleSize]byte
			if _, err := p.ends[1].Listen(1, &h); err != nil {
				t.Fatal(err)
			}
			dir := p.file.Dir()
			moved := dir + ".moved"
			must(t, os.Rename(dir, moved))
			t.Cleanup(func() { os.RemoveAll(moved) })
			tc.replace(t, dir, moved)
			refused(t, p.ends[0], h, tc.want)
			if _, err := NewEndpoint(p.file, p.ends[0].Me, state.Rank{}, nil); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("listen: %v, want %q", err, tc.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
