// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// Task is what one rank does for a collective, or one send or receive of its program.
type Task struct {
	Job      int    // place in Trace.Jobs
	Owner    int    // rank
	Comm     uint64 // the communicator: NCCL's hash, or a number if the software CUDA's kernels have reported the task
	Func     string // as NCCL names it, "" if unknown
	Algo     string // "" if NCCL does not say
	Proto    string
	Datatype string
	Seq      int // of a collective: the calls of this function on this communicator before it
	Count    uint64
	Peer     int   // rank in the communicator: of a send or receive the other end, of a collective the root
	Ranks    int   // of the communicator, 0 if unknown
	Rank     int   // in the communicator, -1 if unknown
	Begun    int64 // when NCCL had planned it
	Call     int   // place in Trace.Calls
	// If the job was only recorded: when the kernel began and ended, as NCCL's profiler says; 0 if it does not. Without
	// that, when the last part of the task over the network had ended, as NCCL's progress thread saw it.
	KernelBegun, KernelEnded, ProxyEnded int64
	group                                uint32
	fromGroup                            int  // the ledger that the group is of
	local                                bool // Comm is a number of the process
}

// NCCL's names, by its numbers.
var (
	functions = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv",
		"AlltoAll", "Scatter", "Gather", "AllGatherV"}
	algorithms = []string{"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"}
	protocols  = []string{"LL", "LL128", "Simple"}
	datatypes  = []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
		"fp8e4m3", "fp8e5m2"}
)

func name(names []string, number uint8) string {
	if int(number) < len(names) {
		return names[number]
	}
	return ""
}

// mostRanks is how many ranks a communicator has at most: more are damage.
const mostRanks = 1 << 20

// IsP2P says whether the task is a send or receive of the program.
func (t *Task) IsP2P() bool { return t.Func == "Send" || t.Func == "Recv" }

// HasLocalComm says that Comm is not NCCL's hash: a kernel of the software CUDA has reported the task.
func (t *Task) HasLocalComm() bool { return t.local }

// SameGroup says whether two tasks of one process were planned together, as the tasks of a group of NCCL are.
func (t *Trace) SameGroup(a, b int) bool {
	x, y := &t.Tasks[a], &t.Tasks[b]
	// NCCL and kernels count apart
	return x.group != 0 && x.group == y.group && x.fromGroup == y.fromGroup && x.local == y.local
}

// numbered finds records by the lower halves of their numbers, which grow from record to record.
type numbered []uint64

// find is the place of a record, -1 if there is none with that number.
func (n numbered) find(lower uint32) int {
	if len(n) == 0 {
		return -1
	}
	number := n[0] + uint64(lower-uint32(n[0]))
	if i, ok := slices.BinarySearch(n, number); ok {
		return i
	}
	return -1
}

// places finds the tasks of all ledgers: of each process, the numbers of its tasks, and the place of the
// first one in Trace.Tasks.
type places map[int32]placesOf

type placesOf struct {
	numbered
	first int
}

// of is the place of a task, -1 if it is not known.
func (p places) of(pid int32, lower uint32) int {
	x := p[pid]
	if i := x.find(lower); i >= 0 {
		return x.first + i
	}
	return -1
}

// addTasks adds the tasks of all ledgers, and returns their places.
func (t *Trace) addTasks(all []recorded) places {
	n := 0
	for _, c := range all {
		n += len(c.Tasks)
	}
	out := places{}
	t.Tasks = make([]Task, 0, n)
	for l, c := range all {
		x := placesOf{make(numbered, len(c.Tasks)), len(t.Tasks)}
		for i, r := range c.Tasks {
			x.numbered[i] = r.Number
			if r.Ranks < 0 || r.Ranks > mostRanks || r.Rank < -1 || r.Rank >= max(r.Ranks, 1) {
				r.Ranks, r.Rank = 0, -1 // damaged
			}
			t.Tasks = append(t.Tasks, Task{
				Job: c.job, Owner: int(c.Rank), Comm: r.Comm, Func: name(functions, r.Func),
				Algo: name(algorithms, r.Algo), Proto: name(protocols, r.Proto),
				Datatype: name(datatypes, r.Datatype), Seq: int(r.Seq), Count: r.Count, Peer: int(r.Peer),
				Ranks: int(r.Ranks), Rank: int(r.Rank),
				Begun: r.Begun, Call: -1, group: r.Group, fromGroup: l, local: r.Kind == ledger.KernelTask,
			})
		}
		out[int32(c.PID)] = x
	}
	return out
}

// operations are the operations of one ledger, and how many messages of each were seen.
type operations struct {
	numbered
	all      []ledger.Op
	messages []int
}

func operationsOf(c *ledger.Content) *operations {
	o := &operations{make(numbered, len(c.Ops)), c.Ops, make([]int, len(c.Ops))}
	for i := range c.Ops {
		o.numbered[i] = c.Ops[i].Number
	}
	return o
}

// addOperation notes what record r of message m is for. Records come in the order of their posts.
func (m *Message) addOperation(r ledger.Record, ops *operations, tasks places) {
	if r.Op == 0 {
		return
	}
	i := ops.find(r.Op)
	if i < 0 {
		return
	}
	step := ops.messages[i]
	ops.messages[i]++
	o := &ops.all[i]
	task := tasks.of(o.PID, o.Task)
	if task < 0 {
		return
	}
	m.Channel, m.Step = int(o.Channel), step
	if r.Kind == ledger.Send {
		m.SendTask = task
	} else {
		m.ReceiveTask = task
	}
}
