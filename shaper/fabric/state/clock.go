// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
)

// Virtual reports whether the fabric has a virtual clock.
func (f *File) Virtual() bool { return f.head().VirtualClock != 0 }

// Clock is the memory of the virtual clock, for C code; nil if the fabric has none.
func (f *File) Clock() unsafe.Pointer {
	if !f.Virtual() {
		return nil
	}
	return unsafe.Pointer(&f.mem[f.head().ClockOff])
}

// ClockStatus is the state of the virtual clock, nil if the fabric has none.
func (f *File) ClockStatus() *clock.Status {
	if !f.Virtual() {
		return nil
	}
	return new(clock.StatusOf(f.Clock()))
}

// Now is the time of the fabric's clock in ns.
func (f *File) Now() int64 {
	if !f.Virtual() {
		return Now()
	}
	return clock.Now(f.Clock())
}

// resetClock puts the virtual clock and the flows in order, if there are any and no process takes part, under
// the lock joining. Ranks that died may have left messages under way, and parts of links that
// these have reserved: the next job begins when every link is idle.
func (f *File) resetClock() error {
	if !f.head().hasFlows() || !f.isEmpty() {
		return nil
	}
	d, err := OpenDir(f.Dir(), os.Getuid(), false)
	if err != nil {
		return err
	}
	defer d.Close()
	flows, err := d.OpenFlows(f)
	if err != nil {
		return err
	}
	idle := int64(0)
	for i := range f.hops() {
		h := &f.hops()[i]
		idle = max(idle, atomic.LoadInt64(&h.NextFree), atomic.LoadInt64(&h.HostFree), atomic.LoadInt64(&h.BufferFree))
	}
	clock.Reset(f.Clock(), flows.Base(), idle)
	return flows.Close()
}

// isEmpty reports whether all slots are free.
func (f *File) isEmpty() bool {
	for i := range f.participants() {
		if atomic.LoadUint32(&f.participants()[i].State) != slotFree {
			return false
		}
	}
	return true
}

// flowsName is the name of the file of the flows of a fabric, see hasFlows. The id
// keeps the files of two fabrics of one name apart, of which one is just being removed.
func flowsName(fabric string, id uint64) string {
	return fmt.Sprintf("%s.%016x%s", fabric, id, flowsSuffix)
}

// makeFlows makes the file of the flows, without memory for them: whoever makes a connection reserves it.
func (d *Dir) makeFlows(f *File) error {
	name := flowsName(f.Name(), f.ID())
	fd, err := unix.Openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("make the file of the fabric's flows in %s: %w", d.Path, err)
	}
	defer unix.Close(fd)
	err = errors.Join(unix.Ftruncate(fd, clock.FlowsSize), unix.Fallocate(fd, 0, 0, clock.FlowsHead))
	if err == nil && int(d.uid) != unix.Getuid() {
		err = unix.Fchown(fd, int(d.uid), -1)
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd, name, 0)
		return fmt.Errorf("reserve %d KiB in %s for the fabric's flows (is it full? see df): %w", clock.FlowsHead>>10,
			d.Path, err)
	}
	return nil
}

// Flows is the mapped file of the flows of a fabric that has one: with a virtual clock, or whose nodes cost time.
type Flows struct {
	fd  int
	mem []byte
}

// OpenFlows maps the file of the fabric's flows.
func (d *Dir) OpenFlows(f *File) (*Flows, error) {
	name := flowsName(f.Name(), f.ID())
	fd, err := unix.Openat(d.fd, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the fabric's flows, %s in %s: %w", name, d.Path, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Size != clock.FlowsSize || st.Uid != d.uid || st.Mode&0o077 != 0) {
		err = fmt.Errorf("%w: made by another build of ddlemu, or not of user %d alone", ErrNotUsable, d.uid)
	}
	if err == nil {
		err = unix.Fallocate(fd, 0, 0, clock.FlowsHead)
	}
	var mem []byte
	if err == nil {
		mem, err = unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map the fabric's flows: %w", err)
	}
	_ = unix.Madvise(mem, unix.MADV_DONTFORK) // as of a connection's memory: it only costs address space
	return &Flows{fd, mem}, nil
}

// Base is the address of the mapping, for C code.
func (x *Flows) Base() unsafe.Pointer { return unsafe.Pointer(&x.mem[0]) }

// File is the descriptor of the file, for C code.
func (x *Flows) File() int { return x.fd }

// Reserve reserves the memory of a part of the file, so that access to it cannot fail later.
func (x *Flows) Reserve(offset, size uint64) error {
	return unix.Fallocate(x.fd, 0, int64(offset), int64(size))
}

// Close unmaps the file.
func (x *Flows) Close() error { return errors.Join(unix.Munmap(x.mem), unix.Close(x.fd)) }
