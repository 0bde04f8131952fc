// SPDX-License-Identifier: Apache-2.0

package goal

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Write writes a workload of computations, sends, receives and groups of them, rank by rank. It refuses collectives:
// GOAL has none, and how NCCL does one depends on the fabric. Streams, and the host's waits, become requirements.
// Steps and the upper bounds of durations are lost.
func Write(out io.Writer, w *workload.Workload) error {
	ix, err := w.Index()
	if err != nil {
		return err
	}
	tasks := NewTasks(out, w.Head.Ranks)
	tags := map[*workload.Comm]int{}
	for i := range ix.Comms {
		tags[&ix.Comms[i]] = i
	}
	for r := range w.Head.Ranks {
		p := &printer{tasks: tasks, rank: r, ix: ix, tags: tags, cpus: map[string]int{}, order: perrank.NewOrder[int]()}
		err := tasks.Rank(r, func() error {
			n := 0
			for o, err := range perrank.OfRank(ix, r) {
				if n++; err == nil {
					err = p.op(&o)
				}
				if err != nil {
					return fmt.Errorf("rank %d: operation %d: %w", r, n, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return tasks.Flush()
}

// printer writes the tasks of a rank.
type printer struct {
	tasks *Tasks
	rank  int
	ix    *workload.Index
	tags  map[*workload.Comm]int
	cpus  map[string]int
	order *perrank.Order[int]
}

// maxEdges is the number of requirements of an operation from which on they are joined in one task.
const maxEdges = 4000

func (p *printer) op(o *workload.Op) error {
	switch o.Kind {
	case workload.Step:
		return nil
	case workload.Wait:
		p.order.Wait(o)
		return nil
	}
	parts := []workload.Op{*o}
	if o.Kind == workload.Group {
		parts = o.Ops
	}
	requires, err := p.requires(o, len(parts))
	if err != nil {
		return err
	}
	var tasks []int
	for i := range parts {
		task, err := p.task(&parts[i], o.Stream)
		if err != nil {
			return err
		}
		task.Requires = requires
		n, err := p.tasks.Add(task)
		if err != nil {
			return err
		}
		tasks = append(tasks, n)
	}
	p.order.Written(o, tasks)
	return nil
}

// requires are the tasks that must have ended before the parts of an operation start.
func (p *printer) requires(o *workload.Op, parts int) ([]int, error) {
	out := p.order.Before(o, p.implied(o))
	if len(out) <= 1 || len(out)*parts <= maxEdges {
		return out, nil
	}
	join, err := p.tasks.Add(&Task{Kind: workload.Calc, Requires: out})
	return []int{join}, err
}

// implied tells whether the reader of the file puts the operation on its stream anyway, so that the order on the stream
// needs no requirement.
func (p *printer) implied(o *workload.Op) bool {
	switch o.Kind {
	case workload.Calc:
		_, isCPU := cpuOf(o.Stream)
		return isCPU
	case workload.Send, workload.Recv:
		c, _ := p.ix.CommOf(o.Comm, p.rank)
		return o.Stream == o.Comm && len(c.Ranks) == 2 && o.Comm == pairName(c.Ranks[0], c.Ranks[1])
	}
	return false
}

// task is the task of an operation. Each communicator has a tag: its messages between two ranks match in order.
func (p *printer) task(o *workload.Op, stream string) (*Task, error) {
	switch o.Kind {
	case workload.Calc:
		return &Task{Kind: o.Kind, Amount: o.Nanos, CPU: p.cpu(stream)}, nil
	case workload.Send, workload.Recv:
		c, _ := p.ix.CommOf(o.Comm, p.rank)
		size, err := workload.TypeSize(o.Type)
		if err != nil {
			return nil, err
		}
		if o.Peer < 0 || o.Peer >= len(c.Ranks) || c.Ranks[o.Peer] == p.rank {
			return nil, fmt.Errorf("peer %d: another rank of communicator %s is expected", o.Peer, o.Comm)
		}
		return &Task{Kind: o.Kind, Amount: o.Count * size, Peer: c.Ranks[o.Peer], Tag: p.tags[c]}, nil
	}
	what := strings.TrimSpace(string(o.Kind) + " " + string(o.Func))
	return nil, fmt.Errorf(
		"%s: GOAL has only computations, sends and receives, and NCCL does a collective in a way that depends on "+
			"the fabric: "+
			"`ddlemu expect --workload FILE --profile P --goal OUT.goal` writes its sends and receives", what)
}

// cpuOf is K of the stream cpuK.
func cpuOf(stream string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(stream, "cpu"))
	return n, err == nil && n >= 0 && stream == fmt.Sprintf("cpu%d", n)
}

// cpu is the number of a stream: the number in its name if it is cpuK, else the next one from 100 on.
func (p *printer) cpu(stream string) int {
	if n, ok := cpuOf(stream); ok {
		return n
	}
	if _, ok := p.cpus[stream]; !ok {
		p.cpus[stream] = 100 + len(p.cpus)
	}
	return p.cpus[stream]
}
