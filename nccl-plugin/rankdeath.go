// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <stdlib.h>
#include "glue.h"
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"
)

// Ranks of one node reach each other by NCCL's SHM and P2P. A net plugin learns nothing of these. If one of them dies,
// ranks that wait only for it wait for ever, as on a real cluster. With DDLEMU_FAIL_TOGETHER the death of a rank fails
// all ranks of its job: every connection that they have fails, and on the software CUDA so does every kernel that
// waits.

// abortDelay is how long NCCL has to end a process by itself, after a rank has died.
const abortDelay = time.Second

// rankDied fails what this process has in flight, because a rank of its job died.
func (m *member) rankDied(rank int) {
	if C.net_exiting() != 0 {
		return
	}
	why := fmt.Sprintf("rank %d of the job died", rank)
	logLine(C.NET_LOG_WARN, why)
	m.failed.Store(true)
	C.net_rank_died(C.int(rank))
	if !m.settings.abort {
		return
	}
	time.AfterFunc(abortDelay, func() {
		if m.failed.Load() && m.participant.Communicators() > 0 && C.net_exiting() == 0 {
			abort(why)
		}
	})
}

// communicatorMade notes a new communicator. It has nothing to do with a rank that died before.
func (m *member) communicatorMade() {
	m.participant.AddCommunicator()
	if m.failed.Swap(false) {
		C.net_rank_died(-1)
	}
}

// noteConnection notes that the process has a connection, unless comm is nil: NCCL then asks again.
func (m *member) noteConnection(comm unsafe.Pointer) {
	if comm != nil {
		m.participant.NotePast()
	}
}

// tellsOfCommunicators says whether NCCL tells the plugin when it makes a communicator: since 2.21 it does, by the
// tuner that it has. version is as in ncclGetVersion, 0 if it is not known. tuner is the value of NCCL_TUNER_PLUGIN.
func tellsOfCommunicators(version int, tuner string) bool {
	return (version == 0 || version >= 22100) && (tuner == "" || strings.Contains(filepath.Base(tuner), "goemu"))
}

// abort ends the process, as DDLEMU_ABORT_ON_ERROR asks for.
func abort(why string) {
	fmt.Fprintf(os.Stderr, "ddlemu: %s: ending the process (%s)\n", why, abortEnv)
	C.abort()
}
