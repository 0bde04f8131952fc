// SPDX-License-Identifier: Apache-2.0

package shm

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include "open.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

const (
	pageSize = 4096
	// A ring holds the bytes that are in flight or not yet read, at most 8 steps of NCCL per
	// connection: 4 MiB with Simple, 4.7 MiB with LL128.
	maxRing = 8 << 20
	minRing = 256 << 10
	// A connection gets at most one ringShare-th of the remaining budget, so that the
	// hundredth connection still gets a ring.
	ringShare = 32
	// Memory that is not reserved grows as it is used, which is usually less than this part of it. So this part is
	// counted against the budget.
	unreservedPart = 8
)

const ringOffset = (unsafe.Sizeof(C.struct_ddlemu_flow{}) + pageSize - 1) &^ (pageSize - 1)

// layout is what a region holds.
type layout struct {
	offset  uintptr // of the ring
	reserve bool    // the memory is reserved when the region is made, and no access faults later
}

var (
	// A real clock: the flow and the ring. NCCL's calls must not wait for the kernel.
	flowAndRing = layout{ringOffset, true}
	// A real clock, and links without a bandwidth or latency that could be missed: the same, and it grows as it is
	// used.
	unshapedFlowAndRing = layout{ringOffset, false}
	// A virtual clock: a description of the flow, the places of the messages, and the ring. It grows as it is used,
	// because many ranks share a host's memory, and time stands still meanwhile.
	placesAndRing = layout{pageSize + unsafe.Sizeof(C.ddlemu_places{}), false}
)

// part is the part of a connection's memory that is counted against the budget: 1/part.
func (l layout) part() uint64 {
	if l.reserve {
		return 1
	}
	return unreservedPart
}

// region is the memory of one connection, and what this process knows of it: the peer may write to all of the memory.
type region struct {
	fd   int
	mem  []byte
	ring uintptr // where the ring begins
	path C.struct_ddlemu_path
}

func (r *region) flow() *C.struct_ddlemu_flow {
	return (*C.struct_ddlemu_flow)(unsafe.Pointer(&r.mem[0]))
}

// ringSize is the size of a new connection's ring when this many bytes of the budget are
// available, 0 if they are too few for the smallest ring.
func ringSize(available uint64) uint64 {
	n := min(max(available/ringShare, minRing), maxRing) &^ (pageSize - 1)
	if n+uint64(ringOffset) > available {
		return 0
	}
	return n
}

// newRegion makes and maps a region for a connection over the given path.
func newRegion(l layout, ring uint64, fabricID, flowID uint64, steps, reverse []link.PathHop, hop int) (*region,
	error) {
	size := uint64(l.offset) + ring
	fd, err := unix.MemfdCreate("ddlemu-connection", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	// If there is no memory, this fails. A first access would end the process, or another one.
	if err := l.allocate(fd, size); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("seal shared memory: %w", err)
	}
	r, err := l.mapRegion(fd, size, pathOf(steps, reverse, hop))
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := r.flow()
	f.magic, f.fabric_id, f.id = C.DDLEMU_FLOW_MAGIC, C.uint64_t(fabricID), C.uint64_t(flowID)
	f.size, f.ring_off, f.ring_size = C.uint64_t(size), C.uint64_t(l.offset), C.uint64_t(ring)
	f.path = r.path
	return r, nil
}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// allocate makes the file have this size, and the memory for it if that is reserved.
func (l layout) allocate(fd int, size uint64) error {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return fmt.Errorf("set the size of shared memory: %w", err)
	}
	if !l.reserve {
		return nil
	}
	if err := unix.Fallocate(fd, 0, 0, int64(size)); err != nil {
		return fmt.Errorf("reserve %d KiB of shared memory: %w", size>>10, err)
	}
	return nil
}

func (l layout) mapRegion(fd int, size uint64, path C.struct_ddlemu_path) (*region, error) {
	flags := unix.MAP_SHARED
	if l.reserve {
		flags |= unix.MAP_POPULATE
	}
	mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("map %d KiB of shared memory: %w", size>>10, err)
	}
	// A forked child does not need the mapping. If this fails, it only costs the child address space.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	return &region{fd: fd, mem: mem, ring: l.offset, path: path}, nil
}

// openRegion maps the memory that a peer sent. It fails unless accessing the memory is safe and
// the memory describes a new connection over the given path.
func openRegion(fd int, l layout, fabricID uint64, steps, reverse []link.PathHop, hop int) (*region, error) {
	size, err := l.checkMemory(fd)
	if err != nil {
		return nil, fmt.Errorf("map the peer's memory: %w", err)
	}
	r, err := l.mapRegion(fd, size, pathOf(steps, reverse, hop))
	if err != nil {
		return nil, err
	}
	if !r.describes(fabricID) {
		unix.Munmap(r.mem)
		return nil, errors.New("the peer's memory does not describe this connection: another version of the plugin?")
	}
	return r, nil
}

// checkMemory returns the size of a peer's memory. It fails if an access could raise SIGBUS: if
// the memory can shrink, or is not plain memory. It reserves the pages that are missing.
func (l layout) checkMemory(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	if err := checkPlain(fd, &st, seals); err != nil {
		return 0, err
	}
	size := uint64(st.Size)
	if size < uint64(l.offset)+pageSize || size > uint64(l.offset)+maxRing || size%pageSize != 0 {
		return 0, fmt.Errorf("%d bytes are not possible", size)
	}
	// The plugin reserves all of it, but another program may not have.
	return size, l.allocate(fd, size)
}

// checkPlain fails unless a file is plain memory of this user with these seals.
func checkPlain(fd int, st *unix.Stat_t, seals int) error {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return errors.New("it is not sealed")
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	switch {
	case fs.Type != unix.TMPFS_MAGIC: // there may be no huge page when one is accessed
		return fmt.Errorf("its file system is of type %#x, not plain memory", fs.Type)
	case int(st.Uid) != os.Getuid():
		return fmt.Errorf("it belongs to user %d, not %d", st.Uid, os.Getuid())
	}
	return nil
}

// describes says whether the region is one that newRegion has just made for a
// connection over its path: nothing has been sent yet, so all its counts are zero.
func (r *region) describes(fabricID uint64) bool {
	f := r.flow()
	return f.magic == C.DDLEMU_FLOW_MAGIC && uint64(f.fabric_id) == fabricID && uint64(f.size) == uint64(len(r.mem)) &&
		uint64(f.ring_off) == uint64(r.ring) && uint64(f.ring_size) == uint64(len(r.mem))-uint64(r.ring) &&
		f.path == r.path &&
		r.allZero(unsafe.Offsetof(f.posted), r.ring)
}

// allZero says whether these bytes of the region are zero. It does not read them by the mapping: that would give memory
// to pages that have none yet.
func (r *region) allZero(from, to uintptr) bool {
	var chunk [4 * pageSize]byte
	for from < to {
		n, err := unix.Pread(r.fd, chunk[:min(uintptr(len(chunk)), to-from)], int64(from))
		if err != nil || n == 0 || slices.ContainsFunc(chunk[:n], func(v byte) bool { return v != 0 }) {
			return false
		}
		from += uintptr(n)
	}
	return true
}

func pathOf(steps, reverse []link.PathHop, hop int) C.struct_ddlemu_path {
	p := C.struct_ddlemu_path{n: C.uint32_t(len(steps)), reverse_n: C.uint32_t(len(reverse)), link: C.uint32_t(hop)}
	for i, s := range steps {
		p.hop[i] = C.uint32_t(s.Hop)
		if s.Private {
			p.private_mask |= 1 << i
		}
	}
	for i, s := range reverse {
		p.reverse[i] = C.uint32_t(s.Hop)
	}
	return p
}

func (r *region) close() {
	unix.Munmap(r.mem)
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
}
