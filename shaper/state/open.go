// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// File is the mapped file of a fabric. Its methods are safe for concurrent use
// by any number of goroutines and processes, except Close.
type File struct {
	dir string
	fd  int
	mem []byte
}

// ErrNotUsable is wrapped by the errors of Open for a file that is there but not
// of this program, version, boot, time namespace or user.
var ErrNotUsable = errors.New("not usable")

// Open maps the fabric called name. The error wraps fs.ErrNotExist when there is
// none and ErrNotUsable when it cannot be used; it names cause and next step.
func (d *Dir) Open(name string) (*File, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(d.fd, name+Suffix, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open fabric %s: %w", name, err)
	}
	f, err := openFD(fd, d.uid)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open fabric %s: %w (remove it with `ddlemu down %s`)", name, err, name)
	}
	f.dir = d.Path
	return f, nil
}

func openFD(fd int, uid uint32) (*File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uid || st.Mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: owned by user %d with mode %04o, want user %d and mode 0600", ErrNotUsable, st.Uid, st.Mode&0o7777, uid)
	}
	if st.Size < page {
		return nil, fmt.Errorf("%w: %d bytes, truncated", ErrNotUsable, st.Size)
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	f := &File{fd: fd, mem: mem}
	boot, ns, err := bootAndTime()
	if err == nil {
		err = f.head().check(uint64(st.Size), uid, boot, ns)
	}
	if err != nil {
		unix.Munmap(mem)
		return nil, err
	}
	return f, nil
}

// check refuses a header that does not describe a file of this size that this
// program can use here and now.
func (h *header) check(size uint64, uid uint32, boot [16]byte, ns uint64) error {
	switch {
	case h.Magic != Magic:
		return fmt.Errorf("%w: not a ddlemu fabric", ErrNotUsable)
	case h.Version != Version || h.Layout != layoutSum:
		return fmt.Errorf("%w: made by another version of ddlemu (format %d, this one has %d)", ErrNotUsable, h.Version, Version)
	case h.FileSize != size:
		return fmt.Errorf("%w: truncated: %d bytes of %d", ErrNotUsable, size, h.FileSize)
	case h.UID != uid:
		return fmt.Errorf("%w: made for user %d", ErrNotUsable, h.UID)
	case h.BootID != boot:
		return fmt.Errorf("%w: made before the last boot", ErrNotUsable)
	case h.TimeNamespace != ns:
		return fmt.Errorf("%w: made in another time namespace, whose clock differs", ErrNotUsable)
	}
	return h.checkTables(size)
}

func (h *header) checkTables(size uint64) error {
	nics := uint64(h.Nodes) * uint64(h.NICsPerNode)
	ok := h.Nodes > 0 && h.NICsPerNode > 0 && h.TimeScale > 0 && h.TimeScale <= link.MaxTimeScale &&
		h.Nodes < 1<<16 && h.NICsPerNode < 1<<8 && h.Hops <= 1<<16 && h.Blocks >= h.Hops && h.Jobs > 0 &&
		h.Participants == maxParticipants && h.Events == maxEvents && uint64(h.Paths) == nics*nics &&
		bytes.IndexByte(h.Name[:], 0) > 0 && bytes.IndexByte(h.Profile[:], 0) >= 0
	for _, t := range []struct {
		off  uint64
		size uintptr
		n    uint64
	}{
		{h.HopsOff, unsafe.Sizeof(Hop{}), uint64(h.Hops)}, {h.PathsOff, unsafe.Sizeof(pathEntry{}), uint64(h.Paths)},
		{h.BlocksOff, unsafe.Sizeof(Block{}), uint64(h.Blocks)}, {h.JobsOff, unsafe.Sizeof(jobEntry{}), uint64(h.Jobs)},
		{h.CellsOff, unsafe.Sizeof(Cell{}), uint64(h.Jobs) * uint64(h.Hops)},
		{h.ParticipantsOff, unsafe.Sizeof(participantEntry{}), uint64(h.Participants)},
		{h.EventsOff, unsafe.Sizeof(eventEntry{}), uint64(h.Events)},
		{h.TablesOff, unsafe.Sizeof(link.JitterTable{}), 3}, {h.ConfigOff, 1, uint64(h.ConfigLen)},
	} {
		// n and the sizes are below 2^40 together, so the product cannot wrap.
		ok = ok && t.n < 1<<32 && t.off%page == 0 && t.off >= page && t.off <= size && uint64(t.size)*t.n <= size-t.off
	}
	if !ok {
		return fmt.Errorf("%w: corrupt header", ErrNotUsable)
	}
	return nil
}

// Close unmaps the file. Nothing obtained from it may be used afterwards. It
// also ends the liveness of every participant this process has in the fabric.
func (f *File) Close() error {
	if err := unix.Munmap(f.mem); err != nil {
		return fmt.Errorf("unmap fabric: %w", err)
	}
	f.mem = nil
	return unix.Close(f.fd)
}

// Now is the clock of the fabric: CLOCK_MONOTONIC in ns.
func Now() int64 {
	var ts unix.Timespec
	// It cannot fail with a valid clock and pointer.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

func bootAndTime() (boot [16]byte, ns uint64, err error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return boot, 0, fmt.Errorf("read this boot's id: %w", err)
	}
	hex := strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
	for i := range boot {
		if _, err := fmt.Sscanf(hex[2*i:2*i+2], "%02x", &boot[i]); err != nil {
			return boot, 0, fmt.Errorf("read this boot's id %q: %w", hex, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/time", &st); err != nil {
		return boot, 0, nil // a kernel without time namespaces has one clock
	}
	return boot, st.Ino, nil
}

func (f *File) head() *header { return (*header)(unsafe.Pointer(&f.mem[0])) }

func table[T any](f *File, off uint64, n uint32) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(f.mem[off:]))), n)
}

func (f *File) hops() []Hop { return table[Hop](f, f.head().HopsOff, f.head().Hops) }
func (f *File) pathTable() []pathEntry {
	return table[pathEntry](f, f.head().PathsOff, f.head().Paths)
}
func (f *File) blocks() []Block  { return table[Block](f, f.head().BlocksOff, f.head().Blocks) }
func (f *File) jobs() []jobEntry { return table[jobEntry](f, f.head().JobsOff, f.head().Jobs) }
func (f *File) cells() []Cell {
	return table[Cell](f, f.head().CellsOff, f.head().Jobs*f.head().Hops)
}
func (f *File) participants() []participantEntry {
	return table[participantEntry](f, f.head().ParticipantsOff, f.head().Participants)
}
func (f *File) events() []eventEntry {
	return table[eventEntry](f, f.head().EventsOff, f.head().Events)
}
func (f *File) tables() []link.JitterTable {
	return table[link.JitterTable](f, f.head().TablesOff, 3)
}

// Base is the address of the mapping, for the engine in C.
func (f *File) Base() unsafe.Pointer { return unsafe.Pointer(&f.mem[0]) }

// Dir is the folder the fabric is in.
func (f *File) Dir() string { return f.dir }

// Name is the fabric's name.
func (f *File) Name() string { return cString(f.head().Name[:]) }

// Profile is the name of the profile it was made from.
func (f *File) Profile() string { return cString(f.head().Profile[:]) }

// ID tells this fabric from every other, also from one of the same name.
func (f *File) ID() uint64 { return f.head().FabricID }

// Fixed is the fabric's fixed numbers.
type Fixed struct {
	Nodes, GPUsPerNode, NICsPerNode, TimeScale int
	Seed                                       uint64
	Transport                                  link.Transport // scaled
	Created                                    int64
}

// Fixed returns the fabric's fixed numbers.
func (f *File) Fixed() Fixed {
	h := f.head()
	t := h.Transport
	return Fixed{
		Nodes: int(h.Nodes), GPUsPerNode: int(h.GPUsPerNode), NICsPerNode: int(h.NICsPerNode), TimeScale: int(h.TimeScale),
		Seed: h.Seed, Created: h.Created,
		Transport: link.Transport{
			Kind: link.TransportKind(t.Kind), SelectiveRepeat: t.SelectiveRepeat != 0, SendBuffer: t.SendBuffer, Window: t.Window,
			RTO: t.RTO, DownTimeout: t.DownTimeout, Overhead: t.Overhead, Gap: t.Gap,
		},
	}
}

// Config is the text the fabric was made from.
func (f *File) Config() []byte {
	h := f.head()
	return bytes.Clone(f.mem[h.ConfigOff : h.ConfigOff+uint64(h.ConfigLen)])
}

// Path returns the hops from NIC src to NIC dst, empty if there is no way.
func (f *File) Path(src, dst int) []PathStep {
	nics := int(f.head().Nodes * f.head().NICsPerNode)
	if src < 0 || dst < 0 || src >= nics || dst >= nics {
		return nil
	}
	e := f.pathTable()[src*nics+dst]
	var steps []PathStep
	for i := range min(int(e.N), link.MaxHops) {
		if int(e.Hops[i]) >= len(f.hops()) {
			return nil
		}
		steps = append(steps, PathStep{Hop: int(e.Hops[i]), Private: e.Private>>i&1 == 1})
	}
	return steps
}

// TakeDown tells every participant that the fabric is gone. Remove its name with
// Dir.Remove.
func (f *File) TakeDown() { atomic.StoreUint32(&f.head().Closed, 1) }

// Down says whether TakeDown was called.
func (f *File) Down() bool { return atomic.LoadUint32(&f.head().Closed) != 0 }

// Event notes a line of at most 111 bytes in the ring of events.
func (f *File) Event(text string) {
	n := atomic.AddUint64(&f.head().NextEvent, 1) - 1
	e := &f.events()[n%maxEvents]
	atomic.StoreUint64(&e.Sequence, 0)
	e.Time = Now()
	e.Text = [112]byte{}
	copy(e.Text[:111], text)
	atomic.StoreUint64(&e.Sequence, n+1)
}

// Event is one line of the ring of events.
type Event struct {
	Time time.Duration // since the fabric was made
	Text string
}

// Events returns the lines still in the ring, oldest first.
func (f *File) Events() []Event {
	var out []Event
	next := atomic.LoadUint64(&f.head().NextEvent)
	for n := next - min(next, maxEvents); n < next; n++ {
		e := &f.events()[n%maxEvents]
		if atomic.LoadUint64(&e.Sequence) == n+1 {
			out = append(out, Event{time.Duration(e.Time - f.head().Created), cString(e.Text[:])})
		}
	}
	return out
}

func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
