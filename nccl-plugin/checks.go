// SPDX-License-Identifier: Apache-2.0

package main

/*
#include "glue.h"
*/
import "C"

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// These checks find out whether NCCL's idea of the nodes is the fabric's. If it is not,
// traffic goes around the emulated links, and the job is INVALID.

// checkHostID makes sure that NCCL was told this process's node. The library's constructor
// does that (hostid.c), unless somebody else set NCCL_HOSTID.
func (m *member) checkHostID() error {
	node := m.placement.Node
	want := fmt.Sprintf("ddlemu-node%d", node)
	switch got := getenv(hostIDEnv); {
	case got == want:
		return nil
	case strings.HasPrefix(got, "ddlemu-"):
		return fmt.Errorf("NCCL was told %s, but this process is on node%d: set %s for it before NCCL starts", got,
			node, fabric.NodeEnv)
	case got == "":
		return fmt.Errorf(
			"NCCL_HOSTID is not set, so NCCL takes all ranks for one node: set NCCL_HOSTID=%s before NCCL starts", want)
	default:
		// Good as long as it has one value per node: checkOthers compares it.
		logLine(C.NET_LOG_INFO, fmt.Sprintf("NCCL_HOSTID %s was set by somebody else and is kept", got))
		return nil
	}
}

// checkOthers compares this process with the other processes of its job. Of two
// processes, the one that joins later sees the other.
func (m *member) checkOthers(r state.Rank) {
	job := m.participant.Job()
	withoutMPS := r.GPU != "" && getenv("CUDA_MPS_PIPE_DIRECTORY") == ""
	for _, p := range m.file.Participants() {
		if p.Job != job.Index() || p.Slot == m.participant.Slot() {
			continue
		}
		// Ranks that share a GPU without MPS wait for each other's time slices: no
		// measured time means anything.
		if withoutMPS && p.GPU == r.GPU {
			job.Invalidate(state.SharedGPU)
			m.file.Event(fmt.Sprintf("rank %d shares GPU %s with rank %d", r.Rank, r.GPU, p.Rank))
		}
		if (p.Node == r.Node) != (p.HostID == r.HostID) {
			job.Invalidate(state.ForeignHostID)
			m.file.Event(fmt.Sprintf("%s of ranks %d (node%d) and %d (node%d) does not fit their nodes", hostIDEnv,
				r.Rank, r.Node, p.Rank, p.Node))
		}
	}
}

// checkNodes compares the ranks and nodes that NCCL counted in a communicator with the
// processes of the job and their nodes. All ranks have joined by then, and some may have gone.
func (m *member) checkNodes(ranks, nodes int) {
	job := m.participant.Job()
	processes := job.Joined()
	if ranks > processes {
		job.Invalidate(state.SeveralRanks)
		logLine(C.NET_LOG_WARN,
			fmt.Sprintf(
				"NCCL counts %d ranks in %d processes: traffic between ranks of one process is not emulated; give "+
					"each rank a process", ranks, processes))
		return
	}
	if want := job.Nodes(); nodes != want && m.isWholeJob(ranks, processes) {
		job.Invalidate(state.NodesDiffer)
		logLine(C.NET_LOG_WARN,
			fmt.Sprintf(
				"NCCL counts %d nodes, the %d ranks are on %d emulated nodes: some traffic will go around the "+
					"emulated links", nodes, ranks, want))
	}
}

const algoEnv = "NCCL_ALGO"

// checkAlone warns of a communicator in which some ranks are alone on their node and others are not. Such a rank rates
// Tree lower (NCCL's graph/tuning.cc: the pattern of its tree is another one), so ranks may choose different algorithms
// for one call. NCCL 2.22 then returns wrong sums, or fails.
func (m *member) checkAlone(ranks, nodes int) {
	if !someAlone(ranks, nodes) || getenv(algoEnv) != "" || !m.warnedAlone.CompareAndSwap(false, true) {
		return
	}
	logLine(C.NET_LOG_WARN,
		fmt.Sprintf(
			"NCCL counts %d ranks on %d nodes: a rank that is alone on its node may choose another algorithm than the "+
				"others, and then sums are wrong; use as many ranks on each node, or set %s=Ring", ranks, nodes,
			algoEnv))
}

// someAlone says whether, of so many ranks on so many nodes, some must be alone on their node and some cannot be.
func someAlone(ranks, nodes int) bool { return nodes < ranks && ranks < 2*nodes }

// isWholeJob says whether a communicator of this many ranks has all ranks of the job, which
// this many processes have joined. If no variable says how many ranks the job has, its
// processes are all ranks as long as none has gone.
func (m *member) isWholeJob(ranks, processes int) bool {
	if m.placement.World > 0 {
		return ranks == m.placement.World
	}
	died, left := m.participant.Job().Gone()
	return ranks == processes && died+left == 0
}
