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

	"github.com/ddlemu/ddlemu/shaper/state"
)

// unsafeLL128 ends what is said of LL128 where NCCL may choose it.
const unsafeLL128 = "LL128, which is not safe on a GPU while data goes through host memory"

// protocol watches over LL128 on a real GPU. LL128 relies on 128 bytes arriving at
// once, which a copy through host memory does not promise there.
type protocol struct {
	unchecked bool        // NCCL_PROTO lets NCCL choose it without a check of its own
	tuned     atomic.Bool // NCCL shows our tuner what it can choose from, so NCCL_PROTO doesn't matter
	warned    atomic.Bool
}

// checkProtocol warns of NCCL_PROTO. Whether LL128 can be chosen is for the tuner to
// say, where NCCL asks ours and shows what there is to choose from.
func (m *member) checkProtocol(gpu string) {
	if gpu == "" || !allowsLL128(getenv(protoEnv)) {
		return
	}
	m.protocol.unchecked = true
	logLine(C.NET_LOG_WARN, fmt.Sprintf("%s lets NCCL choose %s: unset it", protoEnv, unsafeLL128))
}

// left notes what the tuner could not take LL128 out of: a collective that has
// nothing else or, not sure, one for which NCCL shows nothing at all. Then 2.22 and
// 2.23 fall back on the best ring that NCCL_PROTO allows.
func (m *member) left(collective string, bytes uint64, sure bool) {
	if !sure && !m.protocol.unchecked {
		return
	}
	m.part.Job().Invalidate(state.UnsafeLL128)
	if !m.protocol.warned.Swap(true) {
		logLine(C.NET_LOG_WARN, fmt.Sprintf("%s of %d bytes: NCCL is left with %s: let NCCL_PROTO and NCCL_ALGO allow more", collective, bytes, unsafeLL128))
	}
}

// settleProtocol decides by NCCL_PROTO at the end of a process in which our tuner saw
// nothing: NCCL had another or none, or was older than 2.22, which shows no costs.
func (m *member) settleProtocol() {
	if job := m.part.Job(); m.protocol.unchecked && !m.protocol.tuned.Load() && job.Nodes() > 1 {
		job.Invalidate(state.UnsafeLL128)
	}
}

// collectives are those that NCCL_PROTO can name.
var collectives = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}

// allowsLL128 says whether this NCCL_PROTO has NCCL choose LL128 for some collective
// without the check of the hardware that it makes when nothing is set. Before 2.24
// it is one list, in which unknown words mean nothing; since then there may be a
// list for each collective. Which NCCL reads it is not known, so either counts.
func allowsLL128(proto string) bool {
	return listAllowsLL128(proto) || collectiveAllowsLL128(proto)
}

// listAllowsLL128 reads a list of what is wanted or, after ^, of what is not: the
// rest is then wanted, without a check. As NCCL it takes a blank for part of a word.
func listAllowsLL128(list string) bool {
	words, not := strings.CutPrefix(list, "^")
	named := slices.ContainsFunc(strings.Split(words, ","), func(w string) bool { return strings.EqualFold(w, "LL128") })
	return named != not
}

// collectiveAllowsLL128 reads lists as in "LL,Simple;allreduce:^LL", the first of
// which may be for all collectives. What NCCL rejects may give anything.
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
