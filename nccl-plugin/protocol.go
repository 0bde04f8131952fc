// SPDX-License-Identifier: Apache-2.0

package main

/*
#include "glue.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// unsafeLL128 ends the messages about LL128.
const unsafeLL128 = "LL128, which is not safe on a GPU while data goes through host memory"

// protocol is whether NCCL may choose LL128 on a real GPU. LL128 needs 128 bytes to arrive
// at once, which a copy through host memory does not promise.
type protocol struct {
	unchecked bool        // NCCL_PROTO lets NCCL choose LL128 without checking the hardware
	tuned     atomic.Bool // NCCL shows its choices to our tuner, so NCCL_PROTO does not matter
	warned    atomic.Bool
}

// checkProtocol warns about NCCL_PROTO. If NCCL asks our tuner and shows its choices, the
// tuner decides instead whether the job is INVALID.
func (m *member) checkProtocol(gpu string) {
	if gpu == "" || !allowsLL128(getenv(protoEnv)) {
		return
	}
	m.protocol.unchecked = true
	logLine(C.NET_LOG_WARN, fmt.Sprintf("%s lets NCCL choose %s: unset it", protoEnv, unsafeLL128))
}

// keptLL128 makes the job INVALID because the tuner could not remove LL128: NCCL has no other
// choice or, if not sure, shows no choice at all. Then 2.22 and 2.23 use the best ring that
// NCCL_PROTO allows.
func (m *member) keptLL128(collective string, bytes uint64, sure bool) {
	if !sure && !m.protocol.unchecked {
		return
	}
	m.participant.Job().Invalidate(state.UnsafeLL128)
	if !m.protocol.warned.Swap(true) {
		logLine(C.NET_LOG_WARN,
			fmt.Sprintf("%s of %d bytes: NCCL is left with %s: let NCCL_PROTO and NCCL_ALGO allow more", collective,
				bytes, unsafeLL128))
	}
}

// settleProtocol decides by NCCL_PROTO, at the end of a process in which our tuner was shown
// nothing: NCCL used another tuner or none, or is older than 2.22.
func (m *member) settleProtocol() {
	if job := m.participant.Job(); m.protocol.unchecked && !m.protocol.tuned.Load() && job.Nodes() > 1 {
		job.Invalidate(state.UnsafeLL128)
	}
}

// collectives are the names that NCCL_PROTO can have.
var collectives = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}

// allowsLL128 says whether this NCCL_PROTO lets NCCL choose LL128 for some collective without
// the check of the hardware that NCCL makes when the variable is unset. Before 2.24 it is one
// list, in which unknown words mean nothing; since then each collective may have a list. The
// plugin does not know NCCL's version here, so either counts.
func allowsLL128(proto string) bool {
	return listAllowsLL128(proto) || collectiveAllowsLL128(proto)
}

// listAllowsLL128 reads a list of protocols that are allowed or, after ^, of those that are
// not: then all others are allowed. Like NCCL it does not trim blanks.
func listAllowsLL128(list string) bool {
	words, not := strings.CutPrefix(list, "^")
	named := slices.ContainsFunc(strings.Split(words, ","),
		func(w string) bool { return strings.EqualFold(w, "LL128") })
	return named != not
}

// collectiveAllowsLL128 reads lists per collective, as in "LL,Simple;allreduce:^LL". The first
// may be for all collectives. For what NCCL rejects, the result has no meaning.
func collectiveAllowsLL128(proto string) bool {
	allowed := map[string]bool{}
	for entry := range strings.SplitSeq(proto, ";") {
		parts := strings.FieldsFunc(entry, func(r rune) bool { return r == ':' })
		for _, c := range collectives {
			switch {
			case len(parts) == 1:
				allowed[c] = listAllowsLL128(parts[0])
			case len(parts) > 1 && strings.EqualFold(parts[0], c):
				allowed[c] = listAllowsLL128(parts[1])
			}
		}
	}
	for _, yes := range allowed {
		if yes {
			return true
		}
	}
	return false
}
