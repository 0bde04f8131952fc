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
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// patience is how long messages may still arrive after the last post, added to what Run is
// given.
const patience = 2 * time.Second

// arrays is the memory of a run, which C code keeps pointers to.
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

// Run opens a connection for each flow and waits until all are [verify.Flow.Ready]. It sends on
// all of them at once for d, waits for messages in flight, at most tail longer than they need, and
// closes the connections. A message that has not arrived then has no visible time. Cancelling ctx
// ends the run early.
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
	start := w.file.Now() + int64(ready)
	for i := range all {
		all[i].next = C.int64_t(start)
	}
	run.flow, run.flows, run.nap = list, C.int(len(flows)), C.int64_t(napOf(flows))
	run.clock = (*C.struct_ddlemu_clock_view)(w.nics[0].end.Clock())
	run.end = C.int64_t(start + int64(d))
	run.give_up = C.int64_t(start + int64(d+tail+patience))
	if err := play(ctx, run, run.clock != nil || run.nap > 0 || flows[0].Spacing > 0); err != nil {
		return nil, err
	}
	traces := make([]verify.Trace, len(flows))
	for i := range all {
		traces[i] = trace(&all[i])
		traces[i].ID = conns[i].id
	}
	return traces, nil
}

var errNoMemory = errors.New("no memory to measure with")

// The shortest and the longest sleep between two rounds.
const (
	minNap = 50 * time.Microsecond
	maxNap = 500 * time.Microsecond
)

// napOf is how long to sleep between rounds: much less than the time between arrivals, so that some
// messages are seen in time. It is 0 if messages arrive too fast for that.
func napOf(flows []verify.Flow) time.Duration {
	nap := maxNap
	for _, f := range flows {
		nap = min(nap, f.Apart/8)
	}
	if nap < minNap {
		return 0
	}
	return nap
}

func fill(c *C.struct_drive_flow, f verify.Flow, conn *connection, mem *arrays) bool {
	messages := uint64(f.Messages)
	c.sender, c.receiver = (*C.struct_ddlemu_comm)(conn.send), (*C.struct_ddlemu_comm)(conn.recv)
	c.size, c.depth, c.messages, c.spacing = C.uint64_t(f.Size), C.uint64_t(min(max(f.Depth, 1), verify.MaxDepth)),
		C.uint64_t(messages), C.int64_t(f.Spacing)
	c.least = C.int64_t(f.Least)
	c.out, c.in = (*C.char)(mem.get(uint64(f.Size))), (*C.char)(mem.get(uint64(f.Size)))
	for _, p := range []**C.int64_t{&c.posted, &c.returned, &c.visible, &c.missing} {
		if *p = (*C.int64_t)(mem.get(8 * messages)); *p == nil {
			return false
		}
	}
	return c.out != nil && c.in != nil
}

func trace(c *C.struct_drive_flow) verify.Trace {
	times := func(p *C.int64_t, n C.uint64_t) []int64 {
		return slices.Clone(unsafe.Slice((*int64)(unsafe.Pointer(p)), int(n)))
	}
	return verify.Trace{Posted: times(c.posted, c.sent), Returned: times(c.returned, c.sent),
		Visible: times(c.visible, c.received), Missing: times(c.missing, c.received)}
}

// play runs the sending and the receiving loop in a thread each, or both in one thread if oneThread is
// set or only one core is usable.
func play(ctx context.Context, run *C.struct_drive, oneThread bool) error {
	roles := []C.int{C.DRIVE_SEND, C.DRIVE_RECEIVE}
	if oneThread || host.CPUs().Usable < 2 {
		roles = []C.int{C.DRIVE_SEND | C.DRIVE_RECEIVE}
	}
	errs := make([]error, len(roles))
	var wg sync.WaitGroup
	for i, role := range roles {
		wg.Go(func() {
			runtime.LockOSThread() // the text of an error belongs to the thread
			defer runtime.UnlockOSThread()
			if code := C.drive_run(run, role); code != 0 {
				errs[i] = fmt.Errorf("%s: %s (ncclResult_t %d)", [...]string{"send", "receive"}[i],
					transport.TakeError(), int(code))
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
