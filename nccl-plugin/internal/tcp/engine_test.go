// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/commtest"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// endpoints are two ranks on a fabric without a daemon. The tests make their streams, over this
// host's loopback.
type endpoints struct {
	file *state.File
	ends [2]*Endpoint
	fds  []int // the streams of the next connection that is dialled
}

func newEndpoints(t testing.TB) *endpoints {
	t.Helper()
	c, err := configs.Profile("loopback")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &endpoints{file: statetest.New(t, f, "engine")}
	job, err := p.file.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.ends {
		r := state.Rank{Rank: i, Node: i, World: 2}
		me, err := p.file.Join(job, r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { me.Leave() })
		e := newEndpoint(p.file, me, r, Options{})
		e.Endpoint = transport.New(p.file, me, r, handleMagic,
			func(nic int, h transport.Handle, _ uint64) (transport.Conn, error) {
				hop, err := e.Link(nic, int(h.NIC))
				if err != nil {
					return nil, err
				}
				return e.newSender(p.fds, hop, p.peer(1))
			})
		p.ends[i] = e
	}
	return p
}

// tester has the methods that testing.T and rapid.T share.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// connect makes a connection of this many streams. If there is a relay, the bytes of each stream
// pass through it.
func (p *endpoints) connect(t tester, streams int, relay func(from, to net.Conn)) (send, recv unsafe.Pointer) {
	t.Helper()
	var fds [2][]int
	for range streams {
		a, b := tcpPair(t)
		if relay != nil {
			c, d := tcpPair(t)
			go relay(b, c)
			go relay(c, b)
			b = d
		}
		for i, c := range []*net.TCPConn{a, b} {
			fd, err := detach(c)
			if err != nil {
				t.Fatal(err)
			}
			fds[i] = append(fds[i], fd)
		}
	}
	hop, err := p.ends[0].Link(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.ends[1].newReceiver(fds[1], hop, p.peer(0))
	if err != nil {
		t.Fatal(err)
	}
	recv, handle := p.accept(t, c)
	p.fds = fds[0]
	for send == nil {
		if send, err = p.ends[0].Connect(0, &handle); err != nil {
			t.Fatal(err)
		}
	}
	return send, recv
}

// accept delivers a connection to a listener of rank 1, accepts it there, and returns its comm and
// the listener's handle.
func (p *endpoints) accept(t tester, c *conn) (comm unsafe.Pointer, b [transport.HandleSize]byte) {
	t.Helper()
	id := p.ends[1].Endpoint.Listen(1, netip.AddrPort{}, &b)
	defer p.ends[1].Endpoint.CloseListen(id)
	h, err := transport.ParseHandle(&b, handleMagic, p.file.ID())
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.ends[1].Listener(uint32(id), h.Nonce, p.peer(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ends[1].Deliver(uint32(id), l, c); err != nil {
		t.Fatal(err)
	}
	if comm, err = p.ends[1].Accept(id); err != nil {
		t.Fatal(err)
	}
	return comm, b
}

func (p *endpoints) peer(i int) transport.Peer {
	return transport.Peer{Slot: p.ends[i].Me.Slot(), Generation: p.ends[i].Me.Generation()}
}

func tcpPair(t tester) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr)); err != nil {
		t.Fatal(err)
	}
	if b, err = l.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// dribble passes on a few bytes at a time, so that headers and lines are cut at every position.
func dribble(from, to net.Conn) {
	defer to.Close()
	b := make([]byte, 20000)
	for {
		n, err := from.Read(b[:1+rand.IntN(1<<(1+rand.IntN(14)))])
		if n > 0 {
			to.Write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// pattern is byte i of message m.
func pattern(m, i int) byte { return byte(m*131 + i*7 + i>>8) }

const (
	window = 32 // messages outstanding, NCCL_NET_MAX_REQUESTS
	guard  = 16 // bytes behind a receive that must not be written
	most   = 600_000
)

// slot is one outstanding message of one end.
type slot struct {
	b *commtest.Buffer
	r *commtest.Request
}

// transfer sends messages of these sizes, as many at once as NCCL may, and checks what is
// received.
func transfer(t tester, send, recv unsafe.Pointer, sizes []int) {
	t.Helper()
	var out, in [window]slot
	for i := range window {
		out[i].b, in[i].b = commtest.NewBuffer(most), commtest.NewBuffer(most+guard)
		defer out[i].b.Free()
		defer in[i].b.Free()
	}
	sent, received, completed, arrived := 0, 0, 0, 0 // sends and receives posted; sends and receives complete
	for begin := time.Now(); arrived < len(sizes); {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d of %d messages arrived in a minute", arrived, len(sizes))
		}
		if received < len(sizes) && received-arrived < window {
			s := &in[received%window]
			clear(s.b.Bytes())
			var err error
			if s.r, err = commtest.Irecv(recv, s.b, sizes[received]+received%3); err != nil || s.r == nil {
				t.Fatalf("irecv %d: %v, %v: %s", received, s.r, err, transport.TakeError())
			}
			received++
		}
		if sent < len(sizes) && sent-completed < window {
			s := &out[sent%window]
			for i := range sizes[sent] {
				s.b.Bytes()[i] = pattern(sent, i)
			}
			var err error
			if s.r, err = commtest.Isend(send, s.b, sizes[sent]); err != nil || s.r == nil {
				t.Fatalf("isend %d: %v, %v: %s", sent, s.r, err, transport.TakeError())
			}
			sent++
		}
		if completed < sent && finished(t, &out[completed%window], sizes[completed]) {
			completed++
		}
		if arrived < received && finished(t, &in[arrived%window], sizes[arrived]) {
			check(t, in[arrived%window].b.Bytes(), arrived, sizes[arrived])
			arrived++
		}
	}
	for completed < sent {
		if finished(t, &out[completed%window], sizes[completed]) {
			completed++
		}
	}
}

func finished(t tester, s *slot, size int) bool {
	t.Helper()
	done, n, err := s.r.Test()
	if err != nil {
		t.Fatalf("test: %v: %s", err, transport.TakeError())
	}
	if done && n != size {
		t.Fatalf("a message of %d bytes is complete with %d", size, n)
	}
	return done
}

func check(t tester, got []byte, msg, size int) {
	t.Helper()
	for i := range size {
		if got[i] != pattern(msg, i) {
			t.Fatalf("message %d of %d bytes: byte %d is wrong", msg, size, i)
		}
	}
	for i := size; i < size+guard; i++ {
		if got[i] != 0 {
			t.Fatalf("message %d of %d bytes: byte %d was written", msg, size, i)
		}
	}
}

// Each message arrives in its receive, without a byte behind it, and is counted: for all sizes, and
// however the bytes are cut on the way.
func TestMessagesArriveWhole(t *testing.T) {
	p := newEndpoints(t)
	messages, bytes := uint64(0), uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		streams := rapid.IntRange(1, 4).Draw(t, "streams")
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 70_000),
			rapid.IntRange(60_000, most-3)), 1, 12).Draw(t, "sizes")
		setAllPolled(rapid.Bool().Draw(t, "polled"))
		defer setAllPolled(false)
		var relay func(from, to net.Conn)
		if rapid.Bool().Draw(t, "dribble") {
			relay = dribble
		}
		send, recv := p.connect(t, streams, relay)
		defer p.ends[1].CloseComm(transport.ID(recv))
		defer p.ends[0].CloseComm(transport.ID(send))
		transfer(t, send, recv, sizes)
		for _, n := range sizes {
			messages, bytes = messages+1, bytes+uint64(n)
		}
	})
	hop, err := p.ends[0].Link(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	stats, got, sum := p.ends[0].Me.Job().Status().LinkStats[hop], uint64(0), uint64(0)
	for _, k := range stats.Size {
		got, sum = got+k.Messages, sum+k.Bytes
	}
	if got != messages || sum != bytes || stats.Aborted != 0 || stats.FirstPosted == 0 ||
		stats.LastVisible < stats.FirstPosted {
		t.Errorf("counted %d messages of %d bytes, want %d of %d; first %d, last %d, %d aborted", got, sum, messages,
			bytes, stats.FirstPosted, stats.LastVisible, stats.Aborted)
	}
}

// until calls f until it fails, and returns the text of the failure and the time until then.
func until(t *testing.T, f func() error) (string, time.Duration) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; {
		if err := f(); err != nil {
			return transport.TakeError(), time.Since(begin)
		}
	}
	t.Fatal("no error after 10 s")
	return "", 0
}

// If a message is longer than its receive, both ends get an error with both sizes.
func TestLongerThanItsReceive(t *testing.T) {
	p := newEndpoints(t)
	send, recv := p.connect(t, 2, nil)
	b := commtest.NewBuffer(1000)
	defer b.Free()
	r, err := commtest.Irecv(recv, b, 500)
	if err != nil {
		t.Fatal(err)
	}
	sends := func() error {
		_, err := commtest.Isend(send, b, 700)
		return err
	}
	if err := sends(); err != nil {
		t.Fatal(err)
	}
	said, _ := until(t, func() error { _, _, err := r.Test(); return err })
	back, _ := until(t, sends)
	for _, text := range []string{said, back} {
		if !strings.Contains(text, "700") || !strings.Contains(text, "500") {
			t.Errorf("%q does not name both sizes", text)
		}
	}
}

// An end gets an error when the other one is gone, in time and with the reason.
func TestPeerIsGone(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*testing.T, *endpoints, int, unsafe.Pointer)
		says string
		most time.Duration
	}{
		{"closed", func(_ *testing.T, p *endpoints, i int, c unsafe.Pointer) { p.ends[i].CloseComm(transport.ID(c)) },
			"closed the connection", 300 * time.Millisecond},
		{"cut off", func(_ *testing.T, _ *endpoints, _ int, c unsafe.Pointer) { shutdown(c) }, "closed the connection",
			2 * time.Second},
		{"down", func(t *testing.T, p *endpoints, _ int, _ unsafe.Pointer) {
			p.file.TakeDown()
			for _, e := range p.ends {
				e.CheckPeers()
			}
		}, "taken down", 300 * time.Millisecond},
		{"dead", func(t *testing.T, p *endpoints, _ int, _ unsafe.Pointer) {
			for _, e := range p.ends {
				e.Me.Leave()
			}
			for _, e := range p.ends {
				e.CheckPeers()
			}
		}, "the peer's process died", 2 * time.Second},
	} {
		for _, who := range []string{"sender", "receiver"} {
			t.Run(tc.name+" for the "+who, func(t *testing.T) {
				p := newEndpoints(t)
				send, recv := p.connect(t, 1, nil)
				b := commtest.NewBuffer(100)
				defer b.Free()
				if who == "sender" {
					tc.end(t, p, 1, recv)
					said, took := until(t, func() error { _, err := commtest.Isend(send, b, 100); return err })
					if !strings.Contains(said, tc.says) || took > tc.most {
						t.Errorf("%q after %v, want %q in %v", said, took, tc.says, tc.most)
					}
					return
				}
				r, err := commtest.Irecv(recv, b, 100)
				if err != nil {
					t.Fatal(err)
				}
				tc.end(t, p, 0, send)
				said, took := until(t, func() error { _, _, err := r.Test(); return err })
				if !strings.Contains(said, tc.says) || took > tc.most {
					t.Errorf("%q after %v, want %q in %v", said, took, tc.says, tc.most)
				}
			})
		}
	}
}

// slowly passes bytes on after 300 ms.
func slowly(from, to net.Conn) {
	defer to.Close()
	b := make([]byte, 1000)
	for {
		n, err := from.Read(b)
		time.Sleep(300 * time.Millisecond)
		if n > 0 {
			to.Write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// A message that was sent before the sender closed and died is still received.
func TestSentBeforeTheEnd(t *testing.T) {
	p := newEndpoints(t)
	send, recv := p.connect(t, 1, slowly)
	b, c := commtest.NewBuffer(100), commtest.NewBuffer(100)
	defer b.Free()
	defer c.Free()
	if r, err := commtest.Isend(send, b, 100); err != nil || r == nil {
		t.Fatal(r, err)
	}
	p.ends[0].CloseComm(transport.ID(send))
	p.ends[0].Me.Leave()
	p.ends[1].CheckPeers()
	for i := range 2 {
		r, err := commtest.Irecv(recv, c, 100)
		if err != nil || r == nil {
			t.Fatal(r, err)
		}
		if i == 1 {
			until(t, func() error { _, _, err := r.Test(); return err })
			return
		}
		for done, begin := false, time.Now(); !done; {
			if done, _, err = r.Test(); err != nil || time.Since(begin) > 10*time.Second {
				t.Fatal(err, transport.TakeError())
			}
		}
	}
}

// A send that was not complete when its connection was closed is counted as aborted.
func TestAborted(t *testing.T) {
	p := newEndpoints(t)
	send, _ := p.connect(t, 1, nil)
	b := commtest.NewBuffer(32 << 20)
	defer b.Free()
	if r, err := commtest.Isend(send, b, b.Len()); err != nil || r == nil {
		t.Fatal(r, err)
	}
	p.ends[0].CloseComm(transport.ID(send))
	hop, err := p.ends[0].Link(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if stats := p.ends[0].Me.Job().Status().LinkStats[hop]; stats.Aborted != 1 {
		t.Errorf("%d aborted, want 1", stats.Aborted)
	}
}
