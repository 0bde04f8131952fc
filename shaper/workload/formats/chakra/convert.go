// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/bounds"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// The streams of a rank: one computation at a time on the CPU and on the GPU, and one collective.
const (
	streamCPU    = "cpu"
	streamGPU    = "compute"
	streamMemory = "memory"
	streamComm   = "nccl0"
)

// job converts the traces of other tools.
type job struct {
	options input.Options
	ranks   int
	comms   perrank.Registry
	groups  map[string]workload.Ranks // ranks by pg_name
	named   map[namedKey]named        // what comm has returned
	left    struct{ dims, sizeless, untimed, memory, eager, untyped, singles, foreign, long int }
	unknown map[string]bool // process groups of which nothing lists the ranks
	timed   bool
}

// namedKey is a process group as a rank names it, named is its communicator with the number of the members.
type (
	namedKey struct {
		rank int
		name string
	}
	named struct {
		comm    string
		members int
	}
)

func newJob(traces []*trace, o input.Options) (*job, error) {
	j := &job{options: o, ranks: len(traces), groups: map[string]workload.Ranks{}, unknown: map[string]bool{},
		named: map[namedKey]named{}}
	if len(traces) == 1 && (o.Ranks > 1 || traces[0].world > 1 || hasComm(traces[0])) {
		if err := o.CheckRanks(traces[0].file, traces[0].world); err != nil {
			return nil, err
		}
		switch {
		case !o.OneForAll:
			return nil, fmt.Errorf("%s: the trace is of one rank: give the traces of all", traces[0].file)
		case o.Ranks == 0 && traces[0].world > 1:
			o.Ranks = traces[0].world
		case o.Ranks == 0:
			return nil, fmt.Errorf(
				"%s does not say how many ranks the job had: give the traces of all, or add --ranks N",
				traces[0].file)
		}
		j.ranks = o.Ranks
	} else {
		for i, t := range traces {
			if t.number != i {
				return nil, fmt.Errorf(
					"%d traces and none of rank %d, by their names such as NAME.%d.et: give the traces of all ranks",
					len(traces), i, i)
			}
		}
	}
	for _, t := range traces {
		j.readGroups(t)
	}
	if len(traces) > 1 {
		j.usedGroups(traces)
	}
	return j, nil
}

func hasComm(t *trace) bool {
	return slices.ContainsFunc(t.nodes, func(n *node) bool {
		return n.has[commType] || n.kind == sendNode || n.kind == receiveNode
	})
}

// readGroups reads the node in which PyTorch lists its process groups.
func (j *job) readGroups(t *trace) {
	for _, n := range t.nodes {
		first, last := strings.Index(n.values, "[{"), strings.LastIndex(n.values, "}]")
		if !n.listsGroups() || first < 0 || last < first {
			continue
		}
		var groups []struct {
			Name  string `json:"pg_name"`
			Ranks []int  `json:"ranks"`
		}
		text := strings.ReplaceAll(n.values[first:last+2], `\"`, `"`)
		if json.Unmarshal([]byte(text), &groups) != nil {
			continue
		}
		for _, g := range groups {
			if len(g.Ranks) > 0 {
				j.groups[g.Name] = g.Ranks
			}
		}
	}
}

// usedGroups takes the ranks that use a group, if nothing lists its ranks.
func (j *job) usedGroups(traces []*trace) {
	listed := map[string]bool{}
	for name := range j.groups {
		listed[name] = true
	}
	for r, t := range traces {
		for _, n := range t.nodes {
			if name := n.group; name != "" && !listed[name] && !slices.Contains(j.groups[name], r) {
				j.groups[name] = append(j.groups[name], r)
			}
		}
	}
}

// What a node and a dependency take in a file, about, by which what a node depends on in all is bounded.
const bytesOfNode, bytesOfDependency = 20, 4

// rank makes the operations of a trace. Nodes that take no time vanish: what depends on them depends on what they
// depend on. A receive that depends on a send starts with it: a send of NCCL ends only when it is received, a send of
// ASTRA-sim before.
func (j *job) rank(t *trace) ([]workload.Op, error) {
	order, err := sorted(t.nodes)
	if err != nil {
		return nil, err
	}
	t.nodes = nil // a trace may have many: each is let go when its operation is made
	ops := make([]workload.Op, 0, len(order))
	after := make(map[uint64][]int, len(order)) // ids that must have ended, for what depends on a node
	started := map[uint64][]int{}               // the same for a receive, of sends: those that a send depends on
	var budget bounds.Budget
	for i, n := range order {
		order[i] = nil
		budget.Read(bytesOfNode + bytesOfDependency*int64(len(n.after)))
		var need, early []int
		sends := false
		for _, d := range n.after {
			if err := budget.Make(int64(2*len(after[d])+len(started[d])), 8); err != nil {
				return nil, fmt.Errorf("what node %d, %q, depends on: %w", n.id, n.name, err)
			}
			need = append(need, after[d]...)
			if ids, ok := started[d]; ok {
				sends, early = true, append(early, ids...)
			} else {
				early = append(early, after[d]...)
			}
		}
		if n.kind == receiveNode && sends {
			j.left.eager++
			need = early
		}
		slices.Sort(need)
		need = slices.Compact(need)
		op, err := j.op(t, n)
		if err != nil {
			return nil, fmt.Errorf("node %d, %q: %w", n.id, n.name, err)
		}
		if op == nil {
			after[n.id] = need
			continue
		}
		if op.Kind == workload.Calc && n.micros > workload.MaxNanos/1000 {
			j.left.long++
		}
		op.ID, op.After = len(ops)+1, need
		after[n.id] = []int{op.ID}
		if n.kind == sendNode {
			slices.Sort(early)
			started[n.id] = slices.Compact(early)
		}
		ops = append(ops, *op)
	}
	return ops, nil
}

// op is the operation of a node, nil if it takes no time.
func (j *job) op(t *trace, n *node) (*workload.Op, error) {
	name := n.name
	if len(name) > 80 {
		name = name[:80]
	}
	calc := &workload.Op{Kind: workload.Calc, Name: strings.ToValidUTF8(name, "?"), Stream: streamGPU,
		Nanos: int64(min(n.micros, workload.MaxNanos/1000) * 1000)}
	j.timed = j.timed || n.micros > 0
	if n.numbers[onCPU] != 0 {
		calc.Stream = streamCPU
	}
	typed := n.has[commType]
	if !n.kind.known() {
		j.left.foreign++
		return nil, nil
	}
	switch n.kind {
	case sendNode, receiveNode:
		return j.message(t, n)
	case collectiveNode:
		if typed {
			return j.collective(t, n)
		}
		if calc.Stream != streamCPU { // on the CPU it is the caller of another node
			j.left.untyped++
		}
		if n.micros == 0 {
			return nil, nil
		}
		return calc, nil
	case computeNode:
		if n.micros == 0 {
			if n.numbers[numOps] > 0 {
				j.left.untimed++
			}
			return nil, nil
		}
		return calc, nil
	case loadNode, storeNode:
		j.left.memory++
		if calc.Stream = streamMemory; n.micros > 0 {
			return calc, nil
		}
	}
	return nil, nil
}

// functions are the numbers of CollectiveCommType. 9, a barrier, is an all-reduce of one element.
var functions = []workload.Func{workload.AllReduce, workload.Reduce, workload.AllGather, workload.Gather,
	workload.Scatter,
	workload.Broadcast, workload.AllToAll, workload.ReduceScatter, workload.ReduceScatter, workload.AllReduce}

const barrier = 9

// collective is the operation of a collective. Its comm_size is the size of the input of a rank, as ASTRA-sim takes it.
func (j *job) collective(t *trace, n *node) (*workload.Op, error) {
	number, size := n.numbers[commType], n.numbers[commSize]
	if number < 0 || number >= int64(len(functions)) {
		return nil, fmt.Errorf("comm_type %d is not known", number)
	}
	if size < 0 {
		return nil, fmt.Errorf("comm_size %d", size)
	}
	if n.partial {
		j.left.dims++
	}
	comm, members, err := j.comm(t, n.group)
	if err != nil {
		return nil, err
	}
	if members == 1 {
		j.left.singles++
		return nil, nil
	}
	op := &workload.Op{Kind: workload.Coll, Func: functions[number], Comm: comm, Stream: streamComm}
	parts := 1
	if f := op.Func; f == workload.ReduceScatter || f == workload.AllToAll || f == workload.Scatter {
		parts = members
	}
	op.Count, op.Type = j.options.Elements(size, parts)
	if number == barrier {
		op.Count, op.Type = 1, "float32"
	} else if size == 0 {
		j.left.sizeless++
	}
	return op, nil
}

// comm is the communicator of a process group, all ranks if it has no name. Each is looked at once for each rank.
func (j *job) comm(t *trace, name string) (comm string, members int, err error) {
	if j.groups[name] == nil {
		if name != "" {
			j.unknown[name] = true
		}
		name = ""
	}
	key := namedKey{t.number, name}
	known, ok := j.named[key]
	if !ok {
		known.comm, known.members, err = j.communicator(t, name)
		j.named[key] = known
	}
	return known.comm, known.members, err
}

// communicator adds the communicator of a process group of which the ranks are known, or of all ranks.
func (j *job) communicator(t *trace, name string) (comm string, members int, err error) {
	ranks := j.groups[name]
	if name == "" {
		ranks, name = perrank.All(j.ranks), workload.World
	}
	for _, r := range ranks {
		if r < 0 || r >= j.ranks {
			return "", 0, fmt.Errorf("process group %s has rank %d of a job of %d ranks", name, r, j.ranks)
		}
	}
	if !slices.Contains(ranks, t.number) {
		return "", 0, fmt.Errorf("rank %d calls process group %s, of ranks %s", t.number, name, ranks)
	}
	if j.ranks == 1 {
		return "", 1, nil
	}
	return j.comms.Add(name, ranks), len(ranks), nil
}

// message is the operation of a send or receive: on a communicator and a stream of its own for each pair of ranks and
// direction, so that messages of other pairs do not wait for it.
func (j *job) message(t *trace, n *node) (*workload.Op, error) {
	op := &workload.Op{Kind: workload.Send, Peer: 1}
	from, to := int64(t.number), n.numbers[commDestination]
	if n.kind == receiveNode {
		op.Kind, op.Peer = workload.Recv, 0
		from, to = n.numbers[commSource], int64(t.number)
	}
	if from < 0 || from >= int64(j.ranks) || to < 0 || to >= int64(j.ranks) || from == to {
		return nil, fmt.Errorf("a message from rank %d to rank %d of a job of %d ranks", from, to, j.ranks)
	}
	if n.numbers[commSize] < 0 {
		return nil, fmt.Errorf("comm_size %d", n.numbers[commSize])
	}
	op.Comm = j.comms.Add(fmt.Sprintf("%d>%d", from, to), workload.Ranks{int(from), int(to)})
	op.Stream = op.Comm
	if n.numbers[commSize] == 0 {
		j.left.sizeless++
	}
	op.Count, op.Type = j.options.Elements(n.numbers[commSize], 1)
	return op, nil
}

// source says what the traces do not.
func (j *job) source(traces []*trace) workload.Source {
	s := workload.Source{Kind: "chakra", File: input.Title(traces[0].file, len(traces)),
		Missing: []string{"the type of the elements", "roots and reduction operators"}}
	missing := input.Sentences(&s.Missing)
	missing(j.timed, "time that no node takes, such as the host's time between two operations")
	missing(!j.timed, "no computation is known")
	missing(len(traces) == 1 && j.ranks > 1, "only one rank was recorded: all %d ranks are taken to do the same",
		j.ranks)
	note := input.Counts(&s.Notes)
	note(j.left.untimed, "computation", "left out, the trace has operations (num_ops) and no time")
	note(j.left.long, "node", "of more than two years; two years were taken")
	note(j.left.memory, "memory access", "only its duration was taken")
	note(j.left.dims, "collective",
		"involved_dim names some dimensions of a network that is not in the trace; all ranks were taken")
	note(j.left.eager, "receive",
		"each depends on a send and starts with it, since a send of NCCL ends only when it is received")
	note(j.left.sizeless, "call", "of no bytes (comm_size)")
	note(j.left.untyped, "collective", "the trace does not say which (comm_type); only its duration was taken")
	note(j.left.foreign, "node", "left out, of a type that is not known")
	note(j.left.singles, "call", "left out, in a group of one rank")
	note(len(j.unknown), "process group", "the trace does not say its ranks; all ranks were taken")
	return s
}
