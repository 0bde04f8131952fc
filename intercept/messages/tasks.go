// SPDX-License-Identifier: Apache-2.0

package messages

import "github.com/ddlemu/ddlemu/shaper/ledger"

// Task is what one rank does for a collective, or one send or receive of its program.
type Task struct {
	Job       int    // place in Trace.Jobs
	Owner     int    // rank
	Comm      uint64 // the communicator: NCCL's hash, or a number if the software CUDA's kernels have told of the task
	Func      string // as NCCL names it, "" if unknown
	Algo      string // "" if NCCL does not say
	Proto     string
	Datatype  string
	Seq       int // of a collective: the calls of this function on this communicator before it
	Count     uint64
	Peer      int   // rank in the communicator: of a send or receive the other end, of a collective the root
	Ranks     int   // of the communicator, 0 if unknown
	Rank      int   // in the communicator, -1 if unknown
	Begun     int64 // when NCCL had planned it
	Call      int   // place in Trace.Calls
	group     uint32
	fromGroup int  // the ledger that the group is of
	local     bool // Comm is a number of the process
}

// NCCL's names, by its numbers.
var (
	functions  = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv", "AlltoAll", "Scatter", "Gather", "AllGatherV"}
	algorithms = []string{"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"}
	protocols  = []string{"LL", "LL128", "Simple"}
	datatypes  = []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "fp8e4m3", "fp8e5m2"}
)

func name(names []string, number uint8) string {
	if int(number) < len(names) {
		return names[number]
	}
	return ""
}

// mostRanks is how many ranks a communicator has at most: more are damage.
const mostRanks = 1 << 20

// isP2P says whether the task is a send or receive of the program.
func (t *Task) isP2P() bool { return t.Func == "Send" || t.Func == "Recv" }

// taskKey names the record of a task: the process, and the lower half of the record's number.
type taskKey struct {
	pid    int32
	number uint32
}

// addTasks adds the tasks of all ledgers, and returns their places.
func (t *Trace) addTasks(all []recorded) map[taskKey]int {
	n := 0
	for _, c := range all {
		n += len(c.Tasks)
	}
	places := make(map[taskKey]int, n)
	t.Tasks = make([]Task, 0, n)
	for l, c := range all {
		for _, r := range c.Tasks {
			if r.Ranks < 0 || r.Ranks > mostRanks || r.Rank < -1 || r.Rank >= max(r.Ranks, 1) {
				r.Ranks, r.Rank = 0, -1 // damaged
			}
			places[taskKey{int32(c.PID), uint32(r.Number)}] = len(t.Tasks)
			t.Tasks = append(t.Tasks, Task{
				Job: c.job, Owner: int(c.Rank), Comm: r.Comm, Func: name(functions, r.Func), Algo: name(algorithms, r.Algo), Proto: name(protocols, r.Proto),
				Datatype: name(datatypes, r.Datatype), Seq: int(r.Seq), Count: r.Count, Peer: int(r.Peer), Ranks: int(r.Ranks), Rank: int(r.Rank),
				Begun: r.Begun, Call: -1, group: r.Group, fromGroup: l, local: r.Kind == ledger.KernelTask,
			})
		}
	}
	return places
}

// operation is a record of an operation, and how many of its messages were seen.
type operation struct {
	ledger.Op
	messages int
}

// operations are those of one ledger, by the lower half of their records' numbers.
type operations map[uint32]*operation

func operationsOf(c *ledger.Content) operations {
	ops := make(operations, len(c.Ops))
	all := make([]operation, len(c.Ops))
	for i, o := range c.Ops {
		all[i].Op = o
		ops[uint32(o.Number)] = &all[i]
	}
	return ops
}

// of is the operation of a message's record, nil if it is not known.
func (o operations) of(number uint32) *operation {
	if number == 0 {
		return nil
	}
	return o[number]
}

// addOperation notes what record r of message m is for. Records come in the order of their posts.
func (m *Message) addOperation(r ledger.Record, o *operation, tasks map[taskKey]int) {
	if o == nil {
		return
	}
	step := o.messages
	o.messages++
	task, ok := tasks[taskKey{o.PID, o.Task}]
	if !ok {
		return
	}
	m.Channel, m.Step = int(o.Channel), step
	if r.Kind == ledger.Send {
		m.SendTask = task
	} else {
		m.ReceiveTask = task
	}
}
