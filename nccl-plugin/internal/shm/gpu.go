// SPDX-License-Identifier: Apache-2.0

package shm

/*
#include "conn.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is the memory of a software GPU, as mapped in its own process. The file cannot shrink.
type Memory struct {
	FD   int
	Base unsafe.Pointer
	Size uint64
}

// mappedMemory is the memory of other processes' GPUs. Connections from one process share a mapping.
type mappedMemory struct {
	mu   sync.Mutex
	maps map[fileID]*mapping
}

type fileID struct{ device, inode uint64 }

type mapping struct {
	mem  []byte
	id   fileID
	uses int
}

// open maps the memory of a GPU of another process for reading.
func (m *mappedMemory) open(fd int) (*mapping, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at the peer's GPU memory: %w", err)
	}
	id := fileID{uint64(st.Dev), st.Ino}
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.maps[id]; x != nil {
		x.uses++
		return x, nil
	}
	if err := checkGPUMemory(fd, &st); err != nil {
		return nil, fmt.Errorf("map the peer's GPU memory: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d GiB of the peer's GPU memory: %w", st.Size>>30, err)
	}
	// Neither a child nor a core dump needs it. If this fails, it costs address space and a larger dump.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP)
	x := &mapping{mem: mem, id: id, uses: 1}
	if m.maps == nil {
		m.maps = map[fileID]*mapping{}
	}
	m.maps[id] = x
	return x, nil
}

// close ends one use of a mapping, nil for none.
func (m *mappedMemory) close(x *mapping) {
	if x == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.uses--; x.uses == 0 {
		unix.Munmap(x.mem)
		delete(m.maps, x.id)
	}
}

// checkGPUMemory fails if a read could raise SIGBUS.
func checkGPUMemory(fd int, st *unix.Stat_t) error {
	if err := checkPlain(fd, st, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	if st.Size == 0 {
		return errors.New("it is empty")
	}
	return nil
}

// memoryOf is the mapping for C.
func memoryOf(x *mapping) C.struct_ddlemu_gpu_memory {
	if x == nil {
		return C.struct_ddlemu_gpu_memory{}
	}
	return C.struct_ddlemu_gpu_memory{base: (*C.char)(unsafe.Pointer(&x.mem[0])), size: C.uint64_t(len(x.mem))}
}
