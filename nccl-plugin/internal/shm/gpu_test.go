// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/commtest"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// virtualPair is two endpoints in this process on a fabric with a virtual clock, and a connection
// whose sender shares the memory of a GPU.
type virtualPair struct {
	pair
	gpu []byte // what the sender shares
}

const gpuSize = 32 << 20

// gpuMemory is memory as that of a software GPU, with these seals.
func gpuMemory(t *testing.T, seals int) (fd int, mem []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("gpu", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, gpuSize); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	if mem, err = unix.Mmap(fd, 0, gpuSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	return fd, mem
}

func newVirtualPair(t *testing.T, tr link.Transport) *virtualPair {
	t.Helper()
	spec := fabricSpec(unshaped, tr)
	spec.Virtual = true
	fd, mem := gpuMemory(t, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL) // it is there as long as the connections
	p := &virtualPair{pair: pair{file: statetest.Of(t, spec)}, gpu: mem}
	job, err := p.file.JoinJob(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.ends {
		r := state.Rank{Rank: i, Node: i, World: 2, Budget: 512 << 20}
		me, err := p.file.Join(job, r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { me.Leave() })
		if i == 0 {
			p.ends[i], err = NewEndpoint(p.file, me, r, nil)
		} else {
			p.ends[i], err = p.ends[0].Another(me, r)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.ends[i].Close)
	}
	p.ends[0].ShareGPU(Memory{FD: fd, Base: unsafe.Pointer(&mem[0]), Size: gpuSize})
	p.send, p.recv = p.connect(t)
	return p
}

// wait lets virtual time go on until the requests are complete or one has failed.
func (p *virtualPair) wait(t *testing.T, requests ...*commtest.Request) error {
	t.Helper()
	clock := p.ends[0].Clock()
	for begin := time.Now(); time.Since(begin) < 10*time.Second; {
		seen, complete := commtest.Events(clock), true
		for i, r := range requests {
			if r == nil {
				continue
			}
			done, _, err := r.Test()
			if err != nil {
				return err
			}
			if done {
				requests[i] = nil
			}
			complete = complete && done
		}
		if complete {
			return nil
		}
		commtest.Idle(clock, seen)
	}
	t.Fatal("not complete after 10 s")
	return nil
}

func isend(t *testing.T, p *virtualPair, data []byte) *commtest.Request {
	t.Helper()
	r, err := commtest.Isend(p.send, commtest.Wrap(data), len(data))
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	return r
}

func irecv(t *testing.T, p *virtualPair, b *commtest.Buffer) *commtest.Request {
	t.Helper()
	r, err := commtest.Irecv(p.recv, b, b.Len())
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	return r
}

// ring is what the connection's ring contains.
func (p *virtualPair) ring() []byte {
	c := connOf(p.send).c
	return unsafe.Slice((*byte)(unsafe.Pointer(c.ring)), c.ring_size)
}

func randomBytes(b []byte) {
	for i := range b {
		b[i] = byte(1 + rand.IntN(255)) // none is 0
	}
}

// On a virtual clock the receiver copies out of the sender's GPU memory, and nothing is in the
// ring. Messages from other memory are, and both kinds can be mixed.
func TestBytesAreCopiedOnce(t *testing.T) {
	p := newVirtualPair(t, rdma)
	randomBytes(p.gpu)
	private := commtest.NewBuffer(8 << 20)
	defer private.Free()
	randomBytes(private.Bytes())
	got := commtest.NewBuffer(12 << 20)
	defer got.Free()
	for i := range 300 {
		from, size := p.gpu, rand.IntN(12<<20)
		if i >= 100 && rand.IntN(2) == 0 {
			from, size = private.Bytes(), rand.IntN(3<<20)
		}
		switch rand.IntN(8) {
		case 0:
			size = 0
		case 1:
			size = rand.IntN(300)
		}
		at := rand.IntN(len(from) - size)
		sent := from[at : at+size]
		clear(got.Bytes())
		if err := p.wait(t, isend(t, p, sent), irecv(t, p, got)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes()[:size], sent) || !allZero(got.Bytes()[size:]) {
			t.Fatalf("message %d of %d bytes: other bytes arrived", i, size)
		}
		if i == 99 && !allZero(p.ring()) {
			t.Fatal("bytes of GPU memory are in the ring")
		}
	}
	if allZero(p.ring()) {
		t.Error("the bytes of other memory are not in the ring")
	}
}

// NCCL may write to the memory of a send as soon as that is complete.
func TestSendIsCompleteWhenItsBytesAreCopied(t *testing.T) {
	p := newVirtualPair(t, rdma)
	randomBytes(p.gpu[:1<<20])
	want := bytes.Clone(p.gpu[:1<<20])
	got := commtest.NewBuffer(1 << 20)
	defer got.Free()
	s, r := isend(t, p, p.gpu[:1<<20]), irecv(t, p, got)
	clock := p.ends[0].Clock()
	for received := false; !received || s != nil; {
		seen := commtest.Events(clock)
		if s != nil {
			done, _, err := s.Test()
			if err != nil {
				t.Fatal(err)
			}
			if done {
				clear(p.gpu)
				s = nil
			}
		}
		if !received {
			var err error
			if received, _, err = r.Test(); err != nil {
				t.Fatal(err)
			}
		}
		commtest.Idle(clock, seen)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("other bytes arrived")
	}
}

// With tcp a send is complete before its bytes have arrived, so they are always in the ring. The
// same is true for memory that begins in a GPU's and ends outside.
func TestBytesAreInTheRing(t *testing.T) {
	got := commtest.NewBuffer(4096)
	defer got.Free()
	for name, tc := range map[string]struct {
		tr   link.Transport
		size uint64
	}{"tcp": {tcp, gpuSize}, "not wholly shared": {rdma, 4095}} {
		t.Run(name, func(t *testing.T) {
			p := newVirtualPair(t, tc.tr)
			p.ends[0].gpu.Size = min(p.ends[0].gpu.Size, tc.size)
			p.send, p.recv = p.connect(t)
			randomBytes(p.gpu[:4096])
			if err := p.wait(t, isend(t, p, p.gpu[:4096]), irecv(t, p, got)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), p.ring()[:4096]) || !bytes.Equal(got.Bytes(), p.gpu[:4096]) {
				t.Error("other bytes")
			}
		})
	}
}

// NCCL withdraws memory while messages from it are under way, because it aborts: they arrive as
// they were, if the ring is large enough for them. Else they fail.
func TestMemoryIsWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		size     int
		withdraw func(*virtualPair)
		fails    bool
	}{
		"in order": {1 << 20, func(p *virtualPair) {
			commtest.Withdraw(p.send, commtest.Wrap(p.gpu))
			p.ends[0].CloseComm(transport.ID(p.send))
		}, false},
		"only closed": {1 << 20, func(p *virtualPair) { p.ends[0].CloseComm(transport.ID(p.send)) }, false},
		"too large": {5 << 20, func(p *virtualPair) {
			commtest.Withdraw(p.send, commtest.Wrap(p.gpu))
			p.ends[0].CloseComm(transport.ID(p.send))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newVirtualPair(t, rdma)
			randomBytes(p.gpu)
			want := bytes.Clone(p.gpu)
			var got [2]*commtest.Buffer
			for i := range got {
				isend(t, p, p.gpu[i*tc.size:(i+1)*tc.size])
				got[i] = commtest.NewBuffer(tc.size)
				defer got[i].Free()
			}
			tc.withdraw(p)
			clear(p.gpu)
			err := p.wait(t, irecv(t, p, got[0]), irecv(t, p, got[1]))
			if tc.fails {
				wantRemoteError(t, "receive", err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if !bytes.Equal(got[i].Bytes(), want[i*tc.size:(i+1)*tc.size]) {
					t.Errorf("message %d: other bytes arrived", i)
				}
			}
		})
	}
}

// Memory that is withdrawn, and of which nothing is under way, changes nothing.
func TestOtherMemoryIsWithdrawn(t *testing.T) {
	p := newVirtualPair(t, rdma)
	randomBytes(p.gpu)
	got := commtest.NewBuffer(4096)
	defer got.Free()
	s := isend(t, p, p.gpu[:4096])
	commtest.Withdraw(p.send, commtest.Wrap(p.gpu[4096:]))
	if err := p.wait(t, s, irecv(t, p, got)); err != nil {
		t.Fatal(err)
	}
	if !allZero(p.ring()) {
		t.Error("the message is in the ring")
	}
}

// A place outside of the shared memory is not read.
func TestPlaceOutsideOfTheMemory(t *testing.T) {
	p := newVirtualPair(t, rdma)
	got := commtest.NewBuffer(4096)
	defer got.Free()
	isend(t, p, p.gpu[:4096])
	for _, place := range []uint64{gpuSize - 4094, 1 << 63, 1<<64 - 2} {
		*(*uint64)(unsafe.Pointer(connOf(p.send).c.places)) = place
		r, err := commtest.Irecv(p.recv, got, 4096)
		if err != nil {
			t.Fatal(err)
		}
		wantRemoteError(t, "receive", p.wait(t, r))
		if text := transport.TakeError(); !strings.Contains(text, "invalid values") {
			t.Errorf("place %#x: %q", place, text)
		}
	}
}

// A file that could shrink, or is no plain memory, is not mapped. One process's memory is mapped
// once, for all its connections.
func TestMemoryOfAPeer(t *testing.T) {
	var m mappedMemory
	unsealed, _ := gpuMemory(t, 0)
	shrinkable, _ := gpuMemory(t, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	for name, fd := range map[string]int{"unsealed": unsealed, "shrinkable": shrinkable, "a terminal": 0} {
		if x, err := m.open(fd); err == nil {
			t.Errorf("%s: mapped %d bytes", name, len(x.mem))
		}
	}
	fd, mem := gpuMemory(t, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	one, err := m.open(fd)
	if err != nil {
		t.Fatal(err)
	}
	two, err := m.open(fd)
	if err != nil || one != two {
		t.Errorf("mapped twice: %v", err)
	}
	mem[5] = 7
	m.close(one)
	if two.mem[5] != 7 || len(m.maps) != 1 {
		t.Error("unmapped while it is used")
	}
	m.close(two)
	if len(m.maps) != 0 {
		t.Error("still mapped")
	}
}
