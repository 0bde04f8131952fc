// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Info says whose ledger it is.
type Info struct {
	FabricID               uint64
	Job, Rank, Node, World uint32
	PID                    uint32
	Virtual                bool  // the clock of the fabric
	TimeScale              int64 // 1 on a virtual clock
	Begun                  int64 // ns of the fabric's clock
	BegunRealtime          int64 // CLOCK_REALTIME at that moment, ns since 1970
	NCCL                   int   // version as ncclGetVersion says it, for example 22907; 0: not known
}

// Ledger is a ledger that this process writes, by C.
type Ledger struct {
	mu       sync.Mutex // for the table of connections
	mem      []byte
	capacity uint64
}

// Create makes a ledger with space for a number of records, a power of two. The file must not
// exist. Its memory is reserved: no write fails later because the disk is full.
func Create(path string, capacity uint64, i Info) (l *Ledger, err error) {
	if capacity == 0 || capacity&(capacity-1) != 0 {
		return nil, fmt.Errorf("make the ledger %s: %d records are no power of two", path, capacity)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "make the ledger", Path: path, Err: err}
	}
	defer func() {
		unix.Close(fd) // the mapping is enough
		if err != nil {
			os.Remove(path)
		}
	}()
	size := int64(recordsAt + capacity*recordSize)
	if err := errors.Join(unix.Ftruncate(fd, size), unix.Fallocate(fd, 0, 0, size)); err != nil {
		return nil, fmt.Errorf("reserve %d KiB for the ledger %s (is the disk full? see df): %w", size>>10, path, err)
	}
	mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map the ledger %s: %w", path, err)
	}
	_ = unix.Madvise(mem, unix.MADV_DONTFORK) // a child must not write; if this fails, it only has the memory too
	h := (*header)(unsafe.Pointer(&mem[0]))
	*h = header{
		Version: version, RecordSize: recordSize, Capacity: capacity,
		FabricID: i.FabricID, Job: i.Job, Rank: i.Rank, Node: i.Node, World: i.World, PID: i.PID,
		TimeScale: i.TimeScale, Begun: i.Begun, BegunRealtime: i.BegunRealtime,
		NCCL: uint32(i.NCCL),
	}
	if i.Virtual {
		h.VirtualClock = 1
	}
	h.Names = 1 // the empty name
	h.Magic = magic
	return &Ledger{mem: mem, capacity: capacity}, nil
}

// View is what the writer in C needs, as in struct ddlemu_ledger_view.
func (l *Ledger) View() (next, records unsafe.Pointer, mask uint64) {
	return unsafe.Pointer(&l.head().Next), unsafe.Pointer(&l.mem[recordsAt]), l.capacity - 1
}

// Ranges is where C writes the names of ranges, and counts the ranges that it loses.
func (l *Ledger) Ranges() (used, names, lost unsafe.Pointer) {
	return unsafe.Pointer(&l.head().Names), unsafe.Pointer(&l.mem[namesAt]), unsafe.Pointer(&l.head().LostRanges)
}

// Add notes a connection, before its first record, and returns its place in the table. A process that
// makes more than 16384 of them loses the others, and counts them: their records have no connection.
func (l *Ledger) Add(c Connection) uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.head().Connections
	if n == maxConnections {
		atomic.AddUint64(&l.head().LostConnections, 1)
		return maxConnections
	}
	*(*Connection)(unsafe.Pointer(&l.mem[connectionsAt+n*uint64(unsafe.Sizeof(c))])) = c
	atomic.StoreUint64(&l.head().Connections, n+1)
	return uint32(n)
}

func (l *Ledger) head() *header { return (*header)(unsafe.Pointer(&l.mem[0])) }

// Close unmaps the ledger. Nobody may write any more.
func (l *Ledger) Close() error { return unix.Munmap(l.mem) }
