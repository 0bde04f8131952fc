// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/internal/queue"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// tasksOf are the tasks of all ranks of a job.
func tasksOf(t *testing.T, j *plan.Job, f *Fabric) [][]plan.Task {
	t.Helper()
	of := plan.NewTasks(j, f.Node)
	out := make([][]plan.Task, len(j.Ranks))
	for r := range out {
		err := of.Rank(r, func(task *plan.Task) error {
			out[r] = append(out[r], *task)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// way is the messages with one tag from a rank to another.
type way struct{ from, to, tag int }

// checkTasks checks that tasks name earlier ones, that sends with one tag start in their order, and that each message
// is received as it is sent, in the same order.
func checkTasks(t *testing.T, ranks [][]plan.Task) {
	t.Helper()
	sent, received := map[way][]uint64{}, map[way][]uint64{}
	for r, tasks := range ranks {
		last := map[way]int{}
		for i, task := range tasks {
			for _, before := range slices.Concat(task.Requires, task.Follows) {
				if before < 0 || before >= i {
					t.Fatalf("rank %d: task %d requires %d", r, i, before)
				}
			}
			switch task.Kind {
			case plan.Sends:
				key := way{r, task.Peer, task.Tag}
				if before, ok := last[key]; ok && len(task.Follows) == 0 &&
					slices.Equal(task.Requires, tasks[before].Requires) {
					t.Errorf("rank %d: nothing says whether task %d or %d sends first", r, before, i)
				}
				last[key] = i
				sent[key] = append(sent[key], task.Bytes)
			case plan.Receives:
				received[way{task.Peer, r, task.Tag}] = append(received[way{task.Peer, r, task.Tag}], task.Bytes)
			}
		}
	}
	if d := gocmp.Diff(sent, received, gocmp.AllowUnexported(way{})); d != "" {
		t.Errorf("messages that are sent, and received: %s", d)
	}
}

// logGP plays tasks on an ideal network, and returns when the last one ends: a NIC takes perByte ns per byte in each
// direction, a message latency ns more. A send ends when its receive has. It knows nothing of this package but tasks.
func logGP(t *testing.T, ranks [][]plan.Task, latency, perByte float64) float64 {
	t.Helper()
	type event struct {
		at         float64
		rank, task int
		ends       bool // else it starts
	}
	events := queue.New(func(a, b event) bool {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.task, b.task), cmp.Compare(a.rank, b.rank)) < 0
	})
	type dependent struct {
		task  int
		ended bool // it needs the end, else the start
	}
	missing, dependents := make([][]int, len(ranks)), make([][][]dependent, len(ranks))
	for r, tasks := range ranks {
		missing[r], dependents[r] = make([]int, len(tasks)), make([][]dependent, len(tasks))
		for i, task := range tasks {
			missing[r][i] = len(task.Requires) + len(task.Follows)
			for _, before := range task.Requires {
				dependents[r][before] = append(dependents[r][before], dependent{i, true})
			}
			for _, before := range task.Follows {
				dependents[r][before] = append(dependents[r][before], dependent{i, false})
			}
			if missing[r][i] == 0 {
				events.Push(event{0, r, i, false})
			}
		}
	}
	type end struct {
		rank, task int
		at         float64 // of arrival, or since when it waits
	}
	arrived, waiting := map[way][]end{}, map[way][]end{}
	in, out := make([]float64, len(ranks)), make([]float64, len(ranks))
	last, left := 0.0, 0
	for _, tasks := range ranks {
		left += len(tasks)
	}
	meet := func(key way) {
		for len(arrived[key]) > 0 && len(waiting[key]) > 0 {
			s, r := arrived[key][0], waiting[key][0]
			arrived[key], waiting[key] = arrived[key][1:], waiting[key][1:]
			at := max(s.at, r.at)
			events.Push(event{at, s.rank, s.task, true})
			events.Push(event{at, r.rank, r.task, true})
		}
	}
	for events.Len() > 0 {
		e := events.Pop()
		task := &ranks[e.rank][e.task]
		for _, d := range dependents[e.rank][e.task] {
			if d.ended == e.ends {
				if missing[e.rank][d.task]--; missing[e.rank][d.task] == 0 {
					events.Push(event{e.at, e.rank, d.task, false})
				}
			}
		}
		if e.ends {
			last = max(last, e.at)
			left--
			continue
		}
		switch task.Kind {
		case plan.Computes:
			events.Push(event{e.at + float64(task.Nanos), e.rank, e.task, true})
		case plan.Sends:
			key, wire := way{e.rank, task.Peer, task.Tag}, float64(task.Bytes)*perByte
			start := max(e.at, out[e.rank])
			out[e.rank] = start + wire
			in[task.Peer] = max(in[task.Peer], start+latency) + wire
			arrived[key] = append(arrived[key], end{e.rank, e.task, in[task.Peer]})
			meet(key)
		case plan.Receives:
			key := way{task.Peer, e.rank, task.Tag}
			waiting[key] = append(waiting[key], end{e.rank, e.task, e.at})
			meet(key)
		}
	}
	if left > 0 {
		t.Errorf("%d tasks never end", left)
	}
	return last
}

// patOf is a decision by PAT.
func patOf(coll nccl.Collective, ranks int, bytes uint64) plan.Decision {
	d := decide(coll, plan.PAT, plan.Simple, ranks, 2, bytes)
	d.Version = 22907
	return d
}

// The messages of each schedule match, end, and take about as long as the model says. What the protocols need for
// acknowledgements is small here: the messages are large.
func TestTasksOfCollectives(t *testing.T) {
	s := star{bandwidth: 10e9, latency: 5 * time.Microsecond, tr: rdma()}
	decisions := map[string]plan.Decision{
		"ring, Simple":     decide(nccl.AllReduce, plan.Ring, plan.Simple, 5, 2, 30<<20),
		"ring, uneven":     decide(nccl.AllReduce, plan.Ring, plan.Simple, 5, 1, 5<<20+20),
		"ring, LL":         decide(nccl.AllReduce, plan.Ring, plan.LL, 4, 2, 3<<20),
		"ring, LL128":      decide(nccl.AllReduce, plan.Ring, plan.LL128, 4, 2, 8<<20),
		"ring, few LL":     decide(nccl.AllReduce, plan.Ring, plan.LL, 6, 1, 8),
		"tree, Simple":     decide(nccl.AllReduce, plan.Tree, plan.Simple, 7, 2, 16<<20),
		"tree, LL128":      decide(nccl.AllReduce, plan.Tree, plan.LL128, 4, 2, 8<<20),
		"broadcast":        decide(nccl.Broadcast, plan.Ring, plan.Simple, 4, 2, 16<<20),
		"reduce":           decide(nccl.Reduce, plan.Ring, plan.Simple, 4, 2, 16<<20),
		"all-gather":       decide(nccl.AllGather, plan.Ring, plan.Simple, 4, 2, 4<<20),
		"reduce-scatter":   decide(nccl.ReduceScatter, plan.Ring, plan.Simple, 4, 1, 4<<20),
		"all-gather, PAT":  patOf(nccl.AllGather, 7, 1<<20),
		"reduce-scat, PAT": patOf(nccl.ReduceScatter, 6, 3<<20),
		"all-to-all":       sends(nccl.AllToAll, 22907, 5, 4, 2<<20),
	}
	for name, d := range decisions {
		f := s.build()
		f.InOrder = true
		j := spmd(d.Ranks, []plan.Decision{d}, plan.Item{Kind: plan.Collective})
		ranks := tasksOf(t, j, f)
		checkTasks(t, ranks)
		bytes := map[bool]uint64{}
		for _, tasks := range ranks {
			for _, task := range tasks {
				bytes[task.Kind == plan.Sends] += task.Bytes
			}
		}
		_, p, err := newSimulated(&d, f, choose())
		if err != nil {
			t.Fatal(err)
		}
		var e Estimate
		if err := e.addTraffic(p, f); err != nil {
			t.Fatal(err)
		}
		want := uint64(0)
		for _, c := range e.Traffic {
			want += c.Bytes
		}
		if bytes[true] != want || bytes[false] != want {
			t.Errorf("%s: %d bytes are sent, %d received, the model sends %d", name, bytes[true], bytes[false], want)
		}
		got := logGP(t, ranks, float64(s.latency), s.payload(1))
		model := float64(simulateJob(t, j, f).End())
		if tolerance := 0.05 * model; math.Abs(got-model) > tolerance && name != "ring, few LL" {
			t.Errorf("%s: %.1f us, the model says %.1f", name, got/1e3, model/1e3)
		}
	}
}

// The kernels of LL do not wait for empty messages: nothing but the next receive requires one.
func TestTasksOfEmptyMessages(t *testing.T) {
	j := spmd(6, []plan.Decision{decide(nccl.AllReduce, plan.Ring, plan.LL, 6, 1, 8)}, plan.Item{Kind: plan.Collective})
	empty := 0
	for r, tasks := range tasksOf(t, j, star{bandwidth: 10e9, latency: 1000, tr: rdma()}.build()) {
		for i, task := range tasks {
			for _, n := range task.Requires {
				if of := tasks[n]; of.Kind == plan.Receives && of.Bytes == 0 {
					if empty++; task.Kind != plan.Receives {
						t.Errorf("rank %d: task %d requires an empty message", r, i)
					}
				}
			}
		}
	}
	if empty == 0 {
		t.Error("no message is empty")
	}
}

// A rank that waits for one child reads nothing from the other one, whose buffer has 8 messages.
func TestTasksOfFullBuffers(t *testing.T) {
	j := spmd(3, []plan.Decision{decide(nccl.AllReduce, plan.Tree, plan.Simple, 3, 1, 16<<20)}, plan.Item{Kind: plan.Collective})
	tasks := tasksOf(t, j, star{bandwidth: 10e9, latency: 1000, tr: rdma()}.build())[0]
	received := map[int][]int{} // by child
	for i, task := range tasks {
		if task.Kind != plan.Receives {
			continue
		}
		if n := len(received[task.Peer]); n >= plan.Steps {
			if other := received[3-task.Peer][n-plan.Steps]; !slices.Contains(task.Requires, other) {
				t.Errorf("receive %d from rank %d requires %v, want %d too", n, task.Peer, task.Requires, other)
			}
		}
		received[task.Peer] = append(received[task.Peer], i)
	}
	if len(received[1]) <= plan.Steps {
		t.Errorf("%d messages: the buffer is never full", len(received[1]))
	}
}

// The bytes of a ring are those of its formulas: 2(n-1)/n of the size for each rank, and with LL twice that.
func TestTasksMoveTheBytesOfARing(t *testing.T) {
	const size = 10 << 20
	for _, tc := range []struct {
		coll  nccl.Collective
		proto plan.Protocol
		count uint64 // bytes of Count
		want  uint64
	}{
		{nccl.AllReduce, plan.Simple, size, 2 * 4 * size / 5},
		{nccl.AllReduce, plan.LL, size, 2 * 2 * 4 * size / 5},
		{nccl.AllGather, plan.Simple, size / 5, 4 * size / 5},
		{nccl.ReduceScatter, plan.Simple, size / 5, 4 * size / 5},
	} {
		f := star{bandwidth: 10e9, latency: 1000, tr: rdma()}.build()
		d := decide(tc.coll, plan.Ring, tc.proto, 5, 1, tc.count)
		for r, tasks := range tasksOf(t, spmd(5, []plan.Decision{d}, plan.Item{Kind: plan.Collective}), f) {
			sum := uint64(0)
			for _, task := range tasks {
				if task.Kind == plan.Sends {
					sum += task.Bytes
				}
			}
			if sum != tc.want {
				t.Errorf("%v by %v: rank %d sends %d bytes, want %d", tc.coll, tc.proto, r, sum, tc.want)
			}
		}
	}
}

// Streams, waits, groups and communicators of some ranks keep their order.
func TestTasksOfAJob(t *testing.T) {
	s := star{bandwidth: 10e9, latency: 5 * time.Microsecond, tr: rdma()}
	f := s.build()
	f.InOrder = true
	j := mixedJob()
	ranks := tasksOf(t, j, f)
	checkTasks(t, ranks)
	got, want := logGP(t, ranks, float64(s.latency), s.payload(1)), float64(simulateJob(t, j, f).End())
	if math.Abs(got-want) > 0.03*want {
		t.Errorf("%.0f us, the model says %.0f", got/1e3, want/1e3)
	}
	// What waits for nothing starts at once; the rest comes after the computation.
	for i, task := range ranks[3] {
		if len(task.Requires) == 0 != (i == 0) {
			t.Errorf("task %d of rank 3 requires %v", i, task.Requires)
		}
	}
	s.perNode = 2
	local := 0
	for _, task := range tasksOf(t, j, s.build())[0] {
		if task.Local != (task.Kind != plan.Computes && task.Peer == 1) {
			t.Errorf("to rank %d: local is %v", task.Peer, task.Local)
		}
		if task.Local {
			local++
		}
	}
	if local == 0 {
		t.Error("no message is local")
	}
}

// mixedJob has computations, collectives, groups, sends and waits on several streams and communicators.
func mixedJob() *plan.Job {
	const ms = 1_000_000
	reduce, gather := decide(nccl.AllReduce, plan.Ring, plan.Simple, 4, 2, 8<<20),
		decide(nccl.AllGather, plan.Ring, plan.Simple, 4, 2, 2<<20)
	pair := decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 16<<20)
	p2p := sends(nccl.SendRecv, 22203, 4, 4, 0)
	j := &plan.Job{Comms: []plan.Comm{
		{Ranks: all(4), Calls: []plan.Group{plan.Alone(reduce), {{reduce}, {gather}}}, P2P: p2p},
		{Ranks: []int{0, 2}, Calls: []plan.Group{plan.Alone(pair)}, P2P: p2p},
		{Ranks: []int{3, 1}, Calls: []plan.Group{plan.Alone(pair)}, P2P: p2p},
	}}
	for r := range 4 {
		next, before := map[int]uint64{(r + 1) % 4: 3 << 20}, map[int]uint64{(r + 3) % 4: 3 << 20}
		j.Ranks = append(j.Ranks, []plan.Item{
			{Nanos: int64(r+1) * ms, Stream: 0},
			{Kind: plan.Collective, Comm: 1 + r%2, Stream: 1, After: []int{0}},
			{Nanos: 2 * ms, Stream: 0},
			{Kind: plan.HostWait, After: []int{1}},
			{Kind: plan.Collective, Call: 1, Stream: 2, Sends: next, Recvs: before},
			{Kind: plan.Exchange, Stream: 1, Sends: next, Recvs: before},
			{Kind: plan.HostWait, After: []int{5}},
			{Nanos: ms, Stream: 3},
			{Kind: plan.Collective, Stream: 2},
			{Stream: 3, After: []int{8}},
		})
	}
	return j
}

// A communicator does one call after the other, also on two streams. Each channel has its tag, and so have its sends.
func TestTasksOfACommunicator(t *testing.T) {
	d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 2, 4<<20)
	p2p := sends(nccl.SendRecv, 22203, 2, 1, 0)
	j := &plan.Job{Comms: []plan.Comm{{Ranks: all(2), Calls: []plan.Group{plan.Alone(d)}, P2P: p2p}}}
	for r := range 2 {
		peer := map[int]uint64{1 - r: 100}
		j.Ranks = append(j.Ranks, []plan.Item{{Kind: plan.Collective}, {Kind: plan.Exchange, Stream: 1, Sends: peer, Recvs: peer}})
	}
	tasks := tasksOf(t, j, star{bandwidth: 10e9, latency: 1000, tr: rdma()}.build())[0]
	tags := map[int]bool{}
	for _, task := range tasks {
		if task.Kind == plan.Sends {
			tags[task.Tag] = true
		}
	}
	if len(tags) != 3 {
		t.Errorf("tags %v: want those of 2 channels, and of sends", tags)
	}
	for i, task := range tasks {
		if task.Bytes == 100 && len(task.Requires) == 0 {
			t.Errorf("task %d requires nothing: want the collective", i)
		}
	}
}

// The tasks of many ranks take little memory: those of one rank at a time, and not all of them.
func TestTasksOfManyRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("plays the tasks of 1024 ranks")
	}
	const ranks = 1024
	j := spmd(ranks, []plan.Decision{decide(nccl.AllReduce, plan.Ring, plan.Simple, ranks, 2, 1<<30)},
		plan.Item{Kind: plan.Collective})
	f := star{bandwidth: 10e9, latency: 1000, tr: rdma()}.build()
	f.Node = func(r int) int { return r }
	tasks := plan.NewTasks(j, f.Node)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n, most := 0, uint64(0)
	for _, r := range []int{0, 1, 500, ranks - 1} {
		err := tasks.Rank(r, func(*plan.Task) error {
			if n++; n%10_000 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if used := int64(most) - int64(before.HeapAlloc); used > 32<<20 || n < 4*4*ranks {
		t.Errorf("%d tasks took %d MiB", n, used>>20)
	}
}

func ExampleTasks() {
	d := decide(nccl.Broadcast, plan.Ring, plan.Simple, 3, 1, 600<<10)
	f := star{bandwidth: 10e9, latency: 1000, tr: rdma()}.build()
	tasks := plan.NewTasks(spmd(3, []plan.Decision{d}, plan.Item{Kind: plan.Collective}), f.Node)
	_ = tasks.Rank(1, func(t *plan.Task) error {
		fmt.Println(map[plan.TaskKind]string{plan.Sends: "send", plan.Receives: "receive"}[t.Kind], t.Bytes, t.Peer, t.Requires)
		return nil
	})
	// Output:
	// receive 524288 0 []
	// send 524288 2 [0]
	// receive 90112 0 [0]
	// send 90112 2 [2]
}
