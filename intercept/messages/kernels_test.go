// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"reflect"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger/ledgertest"
)

// A kernel has the tasks that NCCL told of, and those that it told of itself, whose groups are counted apart.
func TestKernels(t *testing.T) {
	task := func(kind ledger.Kind, group uint32) ledger.Task {
		return ledger.Task{Kind: kind, Func: allReduce, Comm: 7, Group: group, Ranks: 2}
	}
	l := ledgertest.Ledger{
		Info: of(0),
		Tasks: []ledger.Task{
			task(ledger.KernelTask, 1), task(ledger.TaskKind, 1), task(ledger.TaskKind, 2), task(ledger.TaskKind, 0),
		},
		Kernels: []ledger.Kernel{
			{Stream: 3, Group: 1, KernelGroup: 1, Launched: 10, Begun: 20, Ended: 30},
			{Stream: 4, Begun: 5, Ended: 15},
			{Stream: 3, Group: 2, Launched: 12},
			{Stream: 3, Launched: 50, Begun: 40, Ended: 60}, // damaged
		},
	}
	tr := load(t, write(t, l))
	want := []Kernel{
		{Stream: 3, Tasks: []int{1, 0}, Launched: 10, Begun: 20, Ended: 30},
		{Stream: 4, Begun: 5, Ended: 15},
		{Stream: 3, Tasks: []int{2}, Launched: 12},
	}
	if !reflect.DeepEqual(tr.Kernels, want) || tr.Unreadable != 1 {
		t.Errorf("%+v, %d unreadable\nwant %+v", tr.Kernels, tr.Unreadable, want)
	}
	if !tr.Kernels[1].IsComputation() || tr.Kernels[2].IsComputation() {
		t.Error("what was launched is no computation, and the reverse")
	}
}

// Communicators within a node exchange no messages. If there are several of one size, their ranks are supposed to be in
// the order of the job.
func TestCommunicatorsWithinNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		ranks    []int // in their communicators of two
		nodes    []int
		comms    []int // which ranks are in the same one
		supposed int
	}{
		"one on each node": {ranks: []int{0, 1, 0, 1}, nodes: []int{0, 0, 1, 1}, comms: []int{0, 0, 1, 1}},
		"two on a node": {ranks: []int{0, 1, 0, 1}, nodes: []int{0, 0, 0, 0}, comms: []int{0, 0, 1, 1},
			supposed: 2},
		"two on a node, apart": {ranks: []int{0, 0, 1, 1}, nodes: []int{0, 0, 0, 0}, comms: []int{0, 1, 0, 1},
			supposed: 2},
		"not complete":   {ranks: []int{0, 1, 0}, nodes: []int{0, 0, 0}, comms: []int{0, 1, 2}},
		"over two nodes": {ranks: []int{0, 0, 1, 1}, nodes: []int{0, 0, 1, 1}, comms: []int{0, 1, 2, 3}},
	} {
		tr := &Trace{Nodes: map[[2]int]int{}}
		for rank, place := range tc.ranks {
			tr.Nodes[[2]int{0, rank}] = tc.nodes[rank]
			tr.Tasks = append(tr.Tasks, Task{Owner: rank, Comm: uint64(100+rank)<<32 | 1, local: true,
				Func: "AllReduce", Ranks: 2, Rank: place})
		}
		tr.joinComms()
		for i := range tc.comms {
			for j := range i {
				if (tr.Tasks[i].Comm == tr.Tasks[j].Comm) != (tc.comms[i] == tc.comms[j]) {
					t.Errorf("%s: ranks %d and %d are in %x and %x", name, j, i, tr.Tasks[j].Comm, tr.Tasks[i].Comm)
				}
			}
		}
		if tr.Supposed != tc.supposed {
			t.Errorf("%s: %d supposed, want %d", name, tr.Supposed, tc.supposed)
		}
	}
}
