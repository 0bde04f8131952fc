// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/commtest"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// pair is two endpoints in this process, on a fabric of two nodes, and a connection from node 0
// to node 1.
type pair struct {
	file       *state.File
	ends       [2]*Endpoint
	send, recv unsafe.Pointer
}

func newFabric(t testing.TB, wire link.Spec, tr link.Transport) *state.File {
	t.Helper()
	return statetest.Of(t, fabricSpec(wire, tr))
}

func fabricSpec(wire link.Spec, tr link.Transport) state.Spec {
	port := wire
	port.Latency = 0
	port.Loss, port.Jitter = link.Loss{}, link.Jitter{}
	spec := state.Spec{Name: "t", Nodes: 2, GPUsPerNode: 1, NICsPerNode: 1, TimeScale: 1, Seed: 1, Transport: tr}
	for i := range uint32(2) {
		spec.Hops = append(spec.Hops, state.HopSpec{Kind: link.TxPort, Src: i, Dst: i, Spec: port},
			state.HopSpec{Kind: link.RxPort, Src: i, Dst: i, Spec: port})
	}
	spec.Hops = append(spec.Hops, state.HopSpec{Kind: link.Link, Src: 0, Dst: 1, Spec: wire},
		state.HopSpec{Kind: link.Link, Src: 1, Dst: 0, Spec: wire})
	spec.Paths = []state.PathSpec{
		{Src: 0, Dst: 1, Hops: []link.PathHop{{Hop: 0}, {Hop: 4, Private: true}, {Hop: 3}}},
		{Src: 1, Dst: 0, Hops: []link.PathHop{{Hop: 2}, {Hop: 5, Private: true}, {Hop: 1}}},
	}
	return spec
}

func newPair(t testing.TB, wire link.Spec, tr link.Transport, budget uint64) *pair {
	t.Helper()
	// The text of an error belongs to the thread that made the call.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	p := &pair{file: newFabric(t, wire, tr)}
	job, err := p.file.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.ends {
		r := state.Rank{Rank: i, Node: i, World: 2, Budget: budget}
		me, err := p.file.Join(job, r)
		if err != nil {
			t.Fatal(err)
		}
		if p.ends[i], err = NewEndpoint(p.file, me, r, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.ends[i].Close(); me.Leave() })
	}
	p.send, p.recv = p.connect(t)
	return p
}

func (p *pair) connect(t testing.TB) (send, recv unsafe.Pointer) {
	t.Helper()
	var h [transport.HandleSize]byte
	id, err := p.ends[1].Listen(1, &h)
	if err != nil {
		t.Fatal(err)
	}
	defer p.ends[1].CloseListen(id)
	deadline := time.Now().Add(20 * time.Second) // on a crowded host, too
	for send == nil || recv == nil {
		if send == nil {
			if send, err = p.ends[0].Connect(0, &h); err != nil {
				t.Fatal(err)
			}
		}
		if recv == nil {
			if recv, err = p.ends[1].Accept(id); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no connection after 20 s")
		}
	}
	return send, recv
}

var unshaped = link.Spec{MTU: 4096}

var tcp = link.Transport{Kind: link.TCP, SendBuffer: 4 << 20, Window: 6 << 20, RTO: 200e6, DownTimeout: 1e9}
var rdma = link.Transport{Kind: link.RDMA, RTO: 67e6, DownTimeout: 500e6}

// transfer sends size bytes and returns when both ends are complete.
func (p *pair) transfer(t testing.TB, out, in *commtest.Buffer, size int) {
	t.Helper()
	r, err := commtest.Irecv(p.recv, in, in.Len())
	if err != nil || r == nil {
		t.Fatalf("irecv: %v %v", r, err)
	}
	s, err := commtest.Isend(p.send, out, size)
	if err != nil || s == nil {
		t.Fatalf("isend: %v %v", s, err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for s != nil || r != nil {
		if s != nil {
			if done, n, err := s.Test(); err != nil {
				t.Fatalf("test of the send: %v (%s)", err, transport.TakeError())
			} else if done {
				if s = nil; n != size {
					t.Fatalf("sent %d bytes, want %d", n, size)
				}
			}
		}
		if r != nil {
			if done, n, err := r.Test(); err != nil {
				t.Fatalf("test of the receive: %v (%s)", err, transport.TakeError())
			} else if done {
				if r = nil; n != size {
					t.Fatalf("received %d bytes, want %d", n, size)
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes not received after 30 s", size)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, tr := range []link.Transport{tcp, rdma} {
		p := newPair(t, unshaped, tr, 64<<20)
		const most = 24<<20 + 13
		out, in := commtest.NewBuffer(most), commtest.NewBuffer(most)
		defer out.Free()
		defer in.Free()
		rng := rand.NewChaCha8([32]byte{1})
		rng.Read(out.Bytes())
		for _, size := range []int{0, 1, 7, 8, 120, 127, 128, 129, 4096, 65535, 65536, 65537, 1 << 20, most, 0, 3} {
			clear(in.Bytes())
			p.transfer(t, out, in, size)
			if !bytes.Equal(out.Bytes()[:size], in.Bytes()[:size]) {
				t.Fatalf("transport %d: %d bytes arrived changed", tr.Kind, size)
			}
			if !allZero(in.Bytes()[size:]) {
				t.Fatalf("transport %d: bytes behind the %d of the message were written", tr.Kind, size)
			}
		}
	}
}

// No byte is visible before it is due, and the receive is not complete before either.
func TestNothingEarly(t *testing.T) {
	wire := link.Spec{Bandwidth: 1e9, Latency: 3 * time.Millisecond, MTU: 1500, Header: 40, Framing: 38}
	p := newPair(t, wire, tcp, 64<<20)
	const size = 256 << 10
	out, in := commtest.NewBuffer(size), commtest.NewBuffer(size)
	defer out.Free()
	defer in.Free()
	for i := range out.Bytes() {
		out.Bytes()[i] = 1
	}
	params, err := link.NewParams(wire, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := commtest.Irecv(p.recv, in, size)
	if err != nil {
		t.Fatal(err)
	}
	begin := state.Now()
	s, err := commtest.Isend(p.send, out, size)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if s != nil {
			if done, _, err := s.Test(); err != nil {
				t.Fatal(err)
			} else if done {
				s = nil
			}
		}
		seen := bytes.Count(in.Bytes(), []byte{1})
		after := state.Now()
		wireTime := int64(0)
		for left := seen; left > 0; left -= int(params.Segment) {
			wireTime += params.Serialization(uint32(min(left, int(params.Segment))))
		}
		if seen > 0 && after-begin < int64(wire.Latency)+wireTime {
			t.Fatalf("%d bytes visible %d ns after isend, not before %d", seen, after-begin,
				int64(wire.Latency)+wireTime)
		}
		done, _, err := r.Test()
		if err != nil {
			t.Fatal(err)
		}
		if done {
			break
		}
	}
	if took := state.Now() - begin; took < int64(wire.Latency)+
		params.Serialization(params.Segment)*int64(size)/int64(params.Segment) {
		t.Errorf("complete after %d ns", took)
	}
}

func TestLongerThanTheReceive(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	b := commtest.NewBuffer(8192)
	defer b.Free()
	r, _ := commtest.Irecv(p.recv, b, 4096)
	s, _ := commtest.Isend(p.send, b, 8192)
	_, _, err := r.Test()
	var code commtest.Error
	if !errors.As(err, &code) || code != 5 {
		t.Fatalf("receive of 4096 for 8192 bytes: %v, want ncclInvalidUsage", err)
	}
	if got := transport.TakeError(); got != "message of 8192 bytes is longer than the receive of 4096 bytes posted for it" {
		t.Errorf("message %q", got)
	}
	if _, _, err := s.Test(); err == nil {
		t.Error("the sender was not told")
	}
}

func TestThirtyTwoOutstanding(t *testing.T) {
	p := newPair(t, unshaped, rdma, 64<<20)
	b := commtest.NewBuffer(64)
	defer b.Free()
	var rs, ss []*commtest.Request
	for range 32 {
		r, err := commtest.Irecv(p.recv, b, 64)
		if err != nil || r == nil {
			t.Fatal(r, err)
		}
		s, err := commtest.Isend(p.send, b, 64)
		if err != nil || s == nil {
			t.Fatal(s, err)
		}
		rs, ss = append(rs, r), append(ss, s)
	}
	if r, err := commtest.Irecv(p.recv, b, 64); r != nil || err != nil {
		t.Errorf("33rd irecv: %v, %v, want none and no error", r, err)
	}
	if s, err := commtest.Isend(p.send, b, 64); s != nil || err != nil {
		t.Errorf("33rd isend: %v, %v, want none and no error", s, err)
	}
	for i := range rs {
		for done := false; !done; done, _, _ = rs[i].Test() {
		}
		for done := false; !done; done, _, _ = ss[i].Test() {
		}
	}
}

// Memory that is not reserved counts less.
func TestSharedMemoryIsBudgeted(t *testing.T) {
	shaped := unshaped
	shaped.Latency = 1000
	reserved, unreserved := connectionsFor(t, shaped), connectionsFor(t, unshaped)
	if reserved < 4 || reserved > 64 || unreserved < 6*reserved || unreserved > 10*reserved {
		t.Errorf("%d connections, %d of memory that is not reserved", reserved, unreserved)
	}
}

// connectionsFor makes connections over a wire until a budget of 4 MiB is used up, and returns how many there were.
func connectionsFor(t *testing.T, wire link.Spec) int {
	t.Helper()
	p := newPair(t, wire, tcp, 4<<20)
	before := p.file.Participants()[0].Rings
	n := 0
	for ; ; n++ {
		var h [transport.HandleSize]byte
		id, err := p.ends[1].Listen(1, &h)
		if err != nil {
			t.Fatal(err)
		}
		var c unsafe.Pointer
		for c == nil && err == nil {
			c, err = p.ends[0].Connect(0, &h)
		}
		p.ends[1].CloseListen(id)
		if err != nil {
			break
		}
		if n > 640 {
			t.Fatal("640 connections from a budget of 4 MiB")
		}
	}
	st := p.file.Participants()[0]
	if st.Rings > st.Budget || st.Rings <= before {
		t.Errorf("%d more connections, %d bytes of %d counted, %d before", n, st.Rings, st.Budget, before)
	}
	return n
}

func TestPeerThatClosesIsAnError(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	b := commtest.NewBuffer(64)
	defer b.Free()
	// A message that was sent before the close still arrives.
	if s, err := commtest.Isend(p.send, b, 64); s == nil || err != nil {
		t.Fatal(s, err)
	}
	p.ends[0].CloseComm(transport.ID(p.send))
	p.transferOnlyRecv(t, b)
	r, err := commtest.Irecv(p.recv, b, 64)
	if err != nil {
		t.Fatal(err)
	}
	var code commtest.Error
	if _, _, err = r.Test(); !errors.As(err, &code) || code != 6 {
		t.Errorf("receive from a closed connection: %v, want ncclRemoteError", err)
	}
}

func (p *pair) transferOnlyRecv(t *testing.T, b *commtest.Buffer) {
	t.Helper()
	r, err := commtest.Irecv(p.recv, b, 64)
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if done, _, err = r.Test(); err != nil {
			t.Fatal(err, transport.TakeError())
		}
	}
}

func TestTakenDownFabricIsAnError(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	b := commtest.NewBuffer(64)
	defer b.Free()
	r, err := commtest.Irecv(p.recv, b, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.file.TakeDown()
	for begin := time.Now(); err == nil; _, _, err = r.Test() {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("no error 20 s after the fabric was taken down")
		}
	}
}

func TestHostileHandles(t *testing.T) {
	p := newPair(t, unshaped, tcp, 64<<20)
	var good [transport.HandleSize]byte
	id, err := p.ends[1].Listen(1, &good)
	if err != nil {
		t.Fatal(err)
	}
	defer p.ends[1].CloseListen(id)
	for name, change := range map[string]func(b *[transport.HandleSize]byte){
		"zeros":          func(b *[transport.HandleSize]byte) { *b = [transport.HandleSize]byte{} },
		"another fabric": func(b *[transport.HandleSize]byte) { b[8] ^= 1 },
		"another nonce":  func(b *[transport.HandleSize]byte) { b[16] ^= 1 },
		"another slot":   func(b *[transport.HandleSize]byte) { b[24] ^= 0x40 },
		"another listen": func(b *[transport.HandleSize]byte) { b[28] ^= 0x40 },
		"a wrong NIC":    func(b *[transport.HandleSize]byte) { b[33] ^= 1 },
		"an attempt":     func(b *[transport.HandleSize]byte) { b[transport.AttemptOffset] = 99 },
	} {
		h := good
		change(&h)
		var c unsafe.Pointer
		var err error
		for begin := time.Now(); c == nil && err == nil && time.Since(begin) < 5*time.Second; {
			c, err = p.ends[0].Connect(0, &h)
		}
		if err == nil {
			t.Errorf("%s: connected", name)
		}
	}
}

func BenchmarkOneWay(b *testing.B) {
	for _, size := range []int{8, 64 << 10, 1 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			p := newPair(b, unshaped, tcp, 64<<20)
			out, in := commtest.NewBuffer(size), commtest.NewBuffer(size)
			defer out.Free()
			defer in.Free()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				p.transfer(b, out, in, size)
			}
		})
	}
}
