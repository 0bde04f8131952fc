// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <stdlib.h>
#include "glue.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/shm"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

const (
	profilerEnv  = "NCCL_PROFILER_PLUGIN"
	injectionEnv = "NVTX_INJECTION64_PATH"
)

// ledgerRecords is how many records a ledger keeps: 64 MiB.
const ledgerRecords = 1 << 20

// openLedger makes the ledger of this process, if one is wanted.
func (m *member) openLedger(r state.Rank) error {
	dir := getenv(ledger.Env)
	if dir == "" {
		return nil
	}
	e, ok := m.endpoint.(*shm.Endpoint)
	if !ok {
		return fmt.Errorf("%s: the kernel datapath writes no ledger: unset it, or use datapath shm", ledger.Env)
	}
	l, err := ledger.Create(ledger.Path(dir, r.Rank, os.Getpid()), ledgerRecords, ledger.Info{
		FabricID: m.file.ID(), Job: uint32(m.participant.Job().Index()), Rank: uint32(r.Rank), Node: uint32(r.Node),
		World: uint32(r.World),
		PID:   uint32(os.Getpid()), Virtual: m.file.Virtual(), TimeScale: int64(m.file.Fixed().TimeScale),
		Begun: m.file.Now(), BegunRealtime: time.Now().UnixNano(),
		NCCL: int(C.net_nccl_version()),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", ledger.Env, err)
	}
	if err := m.describeFabric(dir, r); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", ledger.Env, err), l.Close())
	}
	e.SetLedger(l)
	next, records, mask := l.View()
	C.net_set_ledger(next, records, C.uint64_t(mask), e.Clock())
	used, names, lost := l.Ranges()
	C.net_set_ranges(used, names, lost)
	checkInjection()
	m.offerProfiler()
	C.net_set_ledger_calls(C.net_ledger_calls()) // a real GPU has no such kernels
	return nil
}

// offerProfiler makes NCCL load this library as its profiler, which tells the ledger what messages
// are for. NCCL does so by itself since 2.28.3; 2.22 has no profiler. A profiler of the user's gets
// the events from this one.
func (m *member) offerProfiler() {
	path := C.net_path()
	user := getenv(profilerEnv)
	if path == nil || user == C.GoString(path) || strings.EqualFold(user, "none") {
		return
	}
	if user != "" {
		name := C.CString(user)
		defer C.free(unsafe.Pointer(name))
		if C.net_load_profiler(name) != 0 {
			logLine(C.NET_LOG_WARN, fmt.Sprintf("%s is %s, which cannot be loaded: NCCL runs without it", profilerEnv,
				user))
		}
	}
	name := C.CString(profilerEnv)
	defer C.free(unsafe.Pointer(name))
	C.net_setenv(name, path)
}

// checkInjection warns if NVTX gives the program's ranges to another copy of this library: it has no ledger.
func checkInjection() {
	path := getenv(injectionEnv)
	if filepath.Base(path) != "libgoemu.so" {
		return
	}
	own := C.GoString(C.net_path())
	users, err := os.Stat(path)
	if this, errThis := os.Stat(own); err != nil || errThis != nil || os.SameFile(users, this) {
		return
	}
	text := fmt.Sprintf("the program's NVTX ranges are not recorded: %s is %s, but NCCL uses %s: set it to that one",
		injectionEnv, path, own)
	fmt.Fprintf(os.Stderr, "ddlemu: %s\n", text)
	logLine(C.NET_LOG_WARN, text)
}

// describeFabric notes, beside the ledger, what the fabric is, and from then on how it changes.
func (m *member) describeFabric(dir string, r state.Rank) error {
	if err := ledger.WriteFabric(dir, m.file.Config()); err != nil {
		return err
	}
	n := &changeNotes{file: m.file, dir: dir, rank: r.Rank, seen: make([]uint32, m.file.HopCount()),
		done: make(chan struct{}), ended: make(chan struct{})}
	if err := n.note(); err != nil {
		return err
	}
	m.changes = n
	go n.watch()
	return nil
}

// changeNotes notes the changes of links while the job runs.
type changeNotes struct {
	file    *state.File
	dir     string
	rank    int
	seen    []uint32 // changes of each hop
	total   uint64
	planned int // planned changes that are noted
	done    chan struct{}
	ended   chan struct{}
}

// watch looks for changes until close. Of two changes of a hop between two looks it sees only the last one, unless they
// were planned.
func (n *changeNotes) watch() {
	defer close(n.ended)
	tick := time.NewTicker(transport.Period)
	defer tick.Stop()
	for {
		select {
		case <-n.done:
			return
		case <-tick.C:
		}
		if err := n.note(); err != nil {
			fmt.Fprintf(os.Stderr, "ddlemu: the ledger does not know all changes of links: %v\n", err)
			return
		}
	}
}

// note notes the hops that have changed.
func (n *changeNotes) note() error {
	total := n.file.Changes()
	if total == n.total {
		return nil
	}
	n.total = total
	// Of several changes of a hop between two looks, SpecOf has the last one. A change that is noted twice is read once.
	planned := n.file.Planned()
	for _, c := range planned[n.planned:] {
		if err := ledger.AppendChange(n.dir, n.rank, os.Getpid(), ledger.Change(c)); err != nil {
			return err
		}
	}
	n.planned = len(planned)
	for hop, seen := range n.seen {
		spec, since, changes := n.file.SpecOf(hop)
		if changes == seen {
			continue
		}
		n.seen[hop] = changes
		if err := ledger.AppendChange(n.dir, n.rank, os.Getpid(),
			ledger.Change{Time: since, Hop: hop, Spec: spec}); err != nil {
			return err
		}
	}
	return nil
}

// close notes the last changes.
func (n *changeNotes) close() {
	if n == nil {
		return
	}
	close(n.done)
	<-n.ended
	if err := n.note(); err != nil {
		fmt.Fprintf(os.Stderr, "ddlemu: the ledger does not know all changes of links: %v\n", err)
	}
}
