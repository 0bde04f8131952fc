// SPDX-License-Identifier: Apache-2.0

package drive

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include <stdlib.h>
#include "drive.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/host"
	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/verify"
)

// patience is how long after the last post messages may still arrive, besides what
// the run itself allows.
const patience = 2 * time.Second

// arrays is the memory of a run that C keeps pointers to.
type arrays struct{ all []unsafe.Pointer }

func (a *arrays) get(bytes uint64) unsafe.Pointer {
	p := C.calloc(C.size_t(max(bytes, 1)), 1)
	if p != nil {
		a.all = append(a.all, p)
	}
	return p
}

func (a *arrays) free() {
	for _, p := range a.all {
		C.free(p)
	}
}

// Run opens a connection for each flow, sends on all of them at once for d from when all
// are [verify.Flow.Ready], waits for
// what is under way, at most tail, and closes them. What had not arrived by then has no
// visible time. The error says what failed; a cancelled ctx ends it early.
func (w *World) Run(ctx context.Context, flows []verify.Flow, d, tail time.Duration) ([]verify.Trace, error) {
	conns, err := w.connect(ctx, flows)
	defer w.close(conns)
	if err != nil {
		return nil, err
	}
	var mem arrays
	defer mem.free()
	run := (*C.struct_drive)(mem.get(uint64(unsafe.Sizeof(C.struct_drive{}))))
	list := (*C.struct_drive_flow)(mem.get(uint64(len(flows)) * uint64(unsafe.Sizeof(C.struct_drive_flow{}))))
	if run == nil || list == nil {
		return nil, errNoMemory
	}
	all := unsafe.Slice(list, len(flows))
	for i, f := range flows {
		if !fill(&all[i], f, conns[i], &mem) {
			return nil, errNoMemory
		}
	}
	ready := time.Duration(0)
	for _, f := range flows {
		ready = max(ready, f.Ready)
	}
	start := state.Now() + int64(ready)
	for i := range all {
		all[i].next = C.int64_t(start)
	}
	run.flow, run.flows, run.nap = list, C.int(len(flows)), C.int64_t(napOf(flows))
	run.end = C.int64_t(start + int64(d))
	run.give_up = C.int64_t(start + int64(d+tail+patience))
	if err := play(ctx, run, run.nap > 0 || flows[0].Spacing > 0); err != nil {
		return nil, err
	}
	traces := make([]verify.Trace, len(flows))
	for i := range all {
		traces[i] = trace(&all[i])
		traces[i].ID = conns[i].id
	}
	return traces, nil
}

var errNoMemory = errors.New("get memory to measure with: there is none")

// What is worth a nap, and the longest.
const (
	leastNap = 50 * time.Microsecond
	mostNap  = 500 * time.Microsecond
)

// napOf is how long to sleep between rounds: short against the time between messages,
// so that some are seen in time; 0 where they come too fast for that.
func napOf(flows []verify.Flow) time.Duration {
	nap := mostNap
	for _, f := range flows {
		nap = min(nap, f.Apart/8)
	}
	if nap < leastNap {
		return 0
	}
	return nap
}

func fill(c *C.struct_drive_flow, f verify.Flow, conn *connection, mem *arrays) bool {
	most := uint64(f.Messages)
	c.sender, c.receiver = (*C.struct_ddlemu_comm)(conn.send), (*C.struct_ddlemu_comm)(conn.recv)
	c.size, c.depth, c.most, c.spacing = C.uint64_t(f.Size), C.uint64_t(min(max(f.Depth, 1), verify.MaxDepth)), C.uint64_t(most), C.int64_t(f.Spacing)
	c.least = C.int64_t(f.Least)
	c.out, c.in = (*C.char)(mem.get(uint64(f.Size))), (*C.char)(mem.get(uint64(f.Size)))
	for _, p := range []**C.int64_t{&c.posted, &c.taken, &c.visible, &c.missing} {
		if *p = (*C.int64_t)(mem.get(8 * most)); *p == nil {
			return false
		}
	}
	return c.out != nil && c.in != nil
}

func trace(c *C.struct_drive_flow) verify.Trace {
	times := func(p *C.int64_t, n C.uint64_t) []int64 {
		return slices.Clone(unsafe.Slice((*int64)(unsafe.Pointer(p)), int(n)))
	}
	return verify.Trace{Posted: times(c.posted, c.sent), Taken: times(c.taken, c.sent), Visible: times(c.visible, c.received), Missing: times(c.missing, c.received)}
}

// play runs both parts in threads of their own; in one if that is enough, or where there
// is only one core.
func play(ctx context.Context, run *C.struct_drive, one bool) error {
	parts := []C.int{C.DRIVE_SEND, C.DRIVE_RECEIVE}
	if one || host.CPUs().Usable < 2 {
		parts = []C.int{C.DRIVE_SEND | C.DRIVE_RECEIVE}
	}
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() {
			runtime.LockOSThread() // the words of an error are the thread's
			defer runtime.UnlockOSThread()
			if code := C.drive_run(run, part); code != 0 {
				errs[i] = fmt.Errorf("%s: %s (ncclResult_t %d)", [...]string{"send", "receive"}[i], transport.TakeError(), int(code))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		C.drive_stop(run)
		<-done
		return ctx.Err()
	}
	return errors.Join(errs...)
}
