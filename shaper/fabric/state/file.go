// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"errors"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// ErrNotUsable is wrapped by the errors of Open for a file that exists but is not of this
// program, version, boot, time namespace or user.
var ErrNotUsable = errors.New("not usable")

// File is the mapped file of a fabric. Its methods are safe for concurrent use
// by any number of goroutines and processes, except Close.
type File struct {
	dir string
	fd  int
	mem []byte
}

// Now is the clock of the fabric: CLOCK_MONOTONIC in ns.
func Now() int64 {
	var ts unix.Timespec
	// This does not fail with a valid clock and pointer.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

func (f *File) head() *header { return (*header)(unsafe.Pointer(&f.mem[0])) }

func table[T any](f *File, off uint64, n uint32) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(f.mem[off:]))), n)
}

func (f *File) hops() []link.Hop { return table[link.Hop](f, f.head().HopsOff, f.head().Hops) }

func (f *File) pathTable() []pathEntry {
	return table[pathEntry](f, f.head().PathsOff, f.head().Paths)
}

func (f *File) planned() []link.PlannedChange {
	return table[link.PlannedChange](f, f.head().PlannedOff, f.head().Planned)
}

func (f *File) blocks() []link.Block {
	return table[link.Block](f, f.head().BlocksOff, f.head().Blocks)
}

func (f *File) jobs() []jobEntry { return table[jobEntry](f, f.head().JobsOff, f.head().Jobs) }

func (f *File) linkStats() []LinkStats {
	return table[LinkStats](f, f.head().LinkStatsOff, f.head().Jobs*f.head().Hops)
}

func (f *File) nodeStats() []LinkStats {
	return table[LinkStats](f, f.head().NodeStatsOff, f.head().Jobs*f.head().NodeRows)
}

// jobLinkStats are the link statistics of job i, by hop.
func (f *File) jobLinkStats(i int) []LinkStats {
	hops := len(f.hops())
	return f.linkStats()[i*hops : (i+1)*hops : (i+1)*hops]
}

// jobNodeStats are the statistics of the nodes of job i.
func (f *File) jobNodeStats(i int) []LinkStats {
	n := int(f.head().NodeRows)
	return f.nodeStats()[i*n : (i+1)*n : (i+1)*n]
}

func (f *File) snapshotTable() []Snapshot {
	return table[Snapshot](f, f.head().SnapshotsOff, f.head().Snapshots)
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

// Base is the address of the mapping, for C code.
func (f *File) Base() unsafe.Pointer { return unsafe.Pointer(&f.mem[0]) }

// Dir is the folder the fabric is in.
func (f *File) Dir() string { return f.dir }

// Name is the fabric's name.
func (f *File) Name() string { return cString(f.head().Name[:]) }

// Profile is the name of the fabric's configuration.
func (f *File) Profile() string { return cString(f.head().Profile[:]) }

// ID distinguishes this fabric from all others, also from fabrics of the same name.
func (f *File) ID() uint64 { return f.head().FabricID }

// Fixed is the values of a fabric that never change.
type Fixed struct {
	Nodes, GPUsPerNode, NICsPerNode, TimeScale int
	Seed                                       uint64
	Transport                                  link.Transport // scaled
	Created                                    int64
}

// Fixed returns the values that never change.
func (f *File) Fixed() Fixed {
	h := f.head()
	return Fixed{
		Nodes: int(h.Nodes), GPUsPerNode: int(h.GPUsPerNode), NICsPerNode: int(h.NICsPerNode),
		TimeScale: int(h.TimeScale),
		Seed:      h.Seed, Created: h.Created,
		Transport: h.Transport,
	}
}

// Config is the fabric's configuration as text.
func (f *File) Config() []byte {
	h := f.head()
	return bytes.Clone(f.mem[h.ConfigOff : h.ConfigOff+uint64(h.ConfigLen)])
}

// FlowPaths says whether each flow has a path of its own. Then the links between switches count what they carried.
func (f *File) FlowPaths() bool { return f.head().FlowPaths != 0 }

// Path returns the path from NIC src to NIC dst, empty if there is none. Where each flow has its own, it is one of
// those.
func (f *File) Path(src, dst int) []link.PathHop {
	nics := f.head().nics()
	if src < 0 || dst < 0 || src >= nics || dst >= nics {
		return nil
	}
	e := f.pathTable()[src*nics+dst]
	var steps []link.PathHop
	for i := range min(int(e.N), link.MaxHops) {
		if int(e.Hops[i]) >= len(f.hops()) {
			return nil
		}
		steps = append(steps, link.PathHop{Hop: int(e.Hops[i]), Private: e.Private>>i&1 == 1})
	}
	return steps
}

// Removed reports whether the file, or its folder, has been removed.
func (f *File) Removed() bool {
	var st unix.Stat_t
	return unix.Fstat(f.fd, &st) == nil && st.Nlink == 0
}

// TakeDown tells every participant that the fabric has been taken down. Dir.Remove removes the file.
func (f *File) TakeDown() { atomic.StoreUint32(&f.head().Closed, 1) }

// Down reports whether TakeDown was called.
func (f *File) Down() bool { return atomic.LoadUint32(&f.head().Closed) != 0 }

func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
