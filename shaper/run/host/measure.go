// SPDX-License-Identifier: Apache-2.0

package host

/*
#cgo CFLAGS: -O2 -std=gnu11 -Wall -Wextra -Werror
#include <stdlib.h>
#include "poll.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Buffers of each thread. The ring has the size of a busy connection's shared memory, so that no cache can hold the
// rings of several ranks; the buffers have the size of NCCL's buffer for one channel.
const (
	ringSize   = 8 << 20
	bufferSize = 4 << 20
)

// MaxThreads is the maximum number of threads that Measure starts. With more, every host is overloaded, and the
// measurement would show the memory of the threads.
const MaxThreads = 64

// phaseTime is the length of a phase if each thread has half a core: long compared with a time slice of the scheduler,
// short compared with the measurement. With less of a core per thread it is longer in proportion, so that every thread
// runs in every phase.
const phaseTime = 20 * time.Millisecond

func phaseOf(threads int, cpus float64) time.Duration {
	return time.Duration(float64(phaseTime) * max(float64(threads)/(2*cpus), 1))
}

// Host is the result of a measurement.
type Host struct {
	Threads int     // busy threads
	CPUs    float64 // usable processors, see CPUs
	// Rate is the rate of the slowest thread in bytes per second, in and out of shared memory, while half of the
	// threads copied. 0 if a thread got no processor.
	Rate float64

	quiet, busy gaps // between polls, while no thread copied and while half of them did
}

// Measure runs busy-polling threads for about d, at least four phases, and returns what they achieved. Use as many
// threads as the run will have: one per rank, two with the software CUDA. They load the host as NCCL's progress threads
// do, see poll.c. The number is limited to 2 to MaxThreads; each uses 16 MiB of memory. Measure ends early with the
// context's error when ctx is done. It must not run twice at once or during a job: it would measure and disturb the
// other.
func Measure(ctx context.Context, threads int, d time.Duration) (Host, error) {
	threads = min(max(threads, 2), MaxThreads)
	cpus := CPUs().Usable
	phase := phaseOf(threads, cpus)
	d = max(d.Round(4*phase), 4*phase) // whole rounds of four phases
	mem, err := unix.Mmap(-1, 0, threads*(ringSize+2*bufferSize), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return Host{}, fmt.Errorf("get %d MiB of shared memory to measure this host with: %w",
			threads*(ringSize+2*bufferSize)>>20, err)
	}
	defer func() { _ = unix.Munmap(mem) }() // it cannot fail for memory from Mmap
	ts, err := measure(ctx, threads, d, phase, mem)
	if err != nil {
		return Host{}, err
	}
	defer C.free(unsafe.Pointer(ts))
	if err := ctx.Err(); err != nil {
		return Host{}, fmt.Errorf("measure this host: %w", err)
	}
	h := gather(unsafe.Slice(ts, threads))
	h.CPUs = cpus
	return h, nil
}

// measure runs the threads. The caller frees the result.
func measure(ctx context.Context, threads int, d, phase time.Duration, mem []byte) (*C.struct_host_thread, error) {
	ts := (*C.struct_host_thread)(C.calloc(C.size_t(threads), C.sizeof_struct_host_thread))
	stop := (*C.int)(C.calloc(1, C.sizeof_int))
	defer C.free(unsafe.Pointer(stop))
	if ts == nil || stop == nil {
		C.free(unsafe.Pointer(ts))
		return nil, errors.New("get memory to measure this host with: there is none")
	}
	// All threads begin at the same time, after the last one was created.
	start := state.Now() + int64(2*time.Millisecond) + int64(threads)*int64(200*time.Microsecond)
	var wg sync.WaitGroup
	for i := range threads {
		t := &unsafe.Slice(ts, threads)[i]
		part := mem[i*(ringSize+2*bufferSize):]
		t.start, t.end, t.slice = C.int64_t(start), C.int64_t(start+int64(d)), C.int64_t(phase)
		t.odd = C.uint32_t(i % 2)
		t.ring_size, t.buffer_size = ringSize, bufferSize
		t.ring = (*C.char)(unsafe.Pointer(&part[0]))
		t.from = (*C.char)(unsafe.Pointer(&part[ringSize]))
		t.to = (*C.char)(unsafe.Pointer(&part[ringSize+bufferSize]))
		t.stop = stop
		wg.Go(func() { C.host_poll(t) }) // Go does not preempt a thread that is in C
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		C.host_stop(stop)
		<-done
	}
	return ts, nil
}

// gather combines the results of all threads.
func gather(ts []C.struct_host_thread) Host {
	h := Host{Threads: len(ts), Rate: math.Inf(1)}
	for i := range ts {
		t := &ts[i]
		rate := 0.0
		if t.copy_ns > 0 {
			rate = float64(t.copied) / (float64(t.copy_ns) / 1e9)
		}
		h.Rate = min(h.Rate, rate)
		addGaps(&h.quiet, &t.quiet)
		addGaps(&h.busy, &t.busy)
	}
	return h
}

func addGaps(g *gaps, c *C.struct_host_gaps) {
	for b := range c.count {
		g.count[b] += float64(c.count[b])
		g.total[b] += float64(c.total[b])
	}
	g.max = max(g.max, time.Duration(c.max))
}
