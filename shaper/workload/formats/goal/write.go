// SPDX-License-Identifier: Apache-2.0

package goal

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Write writes a workload of computations, sends, receives and groups of them, rank by rank. It refuses collectives: GOAL has
// none, and how NCCL does one depends on the fabric. Streams, and the host's waits, become requirements. Steps and the upper
// bounds of durations are lost.
func Write(out io.Writer, w *workload.Workload) error {
	split, err := perrank.NewSplitter(w)
	if err != nil {
		return err
	}
	tasks := NewTasks(out, w.Head.Ranks)
	tags := map[*workload.Comm]int{}
	for i := range split.Comms {
		tags[&split.Comms[i]] = i
	}
	for r := range w.Head.Ranks {
		p := &printer{tasks: tasks, rank: r, comms: split.Index, tags: tags, cpus: map[string]int{}, streams: map[string]*stream{}, ends: map[int]end{}, waited: map[string]end{}}
		err := tasks.Rank(r, func() error {
			n := 0
			for o, err := range split.Rank(r) {
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
	tasks   *Tasks
	rank    int
	comms   perrank.Index
	tags    map[*workload.Comm]int
	cpus    map[string]int
	streams map[string]*stream
	ends    map[int]end    // of the operations with an id
	waited  map[string]end // the last operation of each stream that the host has waited for
	waits   int            // of the host
}

// stream is a stream of a rank.
type stream struct {
	last  end
	waits int // the last operation comes after so many waits of the host
}

// end is the end of an operation.
type end struct {
	stream string
	place  int // of the operation on its stream, from 1
	tasks  []int
}

// maxEdges is the number of requirements of an operation from which on they are joined in one task.
const maxEdges = 4000

func (p *printer) op(o *workload.Op) error {
	switch o.Kind {
	case workload.Step:
		return nil
	case workload.Wait:
		p.wait(o)
		return nil
	}
	st := p.streams[o.Stream]
	if st == nil {
		st = &stream{}
		p.streams[o.Stream] = st
	}
	parts := []workload.Op{*o}
	if o.Kind == workload.Group {
		parts = o.Ops
	}
	requires, err := p.requires(o, st, len(parts))
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
	st.last, st.waits = end{o.Stream, st.last.place + 1, tasks}, p.waits
	if o.ID != 0 {
		p.ends[o.ID] = st.last
	}
	return nil
}

// wait adds what the host waits for.
func (p *printer) wait(o *workload.Op) {
	p.waits++
	for name, st := range p.streams {
		if len(o.After) == 0 && st.last.place > 0 {
			p.waited[name] = st.last
		}
	}
	for _, id := range o.After {
		if e := p.ends[id]; e.place > p.waited[e.stream].place {
			p.waited[e.stream] = e
		}
	}
}

// requires are the tasks that must have ended before the parts of an operation start.
func (p *printer) requires(o *workload.Op, st *stream, parts int) ([]int, error) {
	var out []int
	implied := p.implied(o)
	if !implied {
		out = append(out, st.last.tasks...)
	}
	for _, id := range o.After {
		out = append(out, p.ends[id].tasks...)
	}
	if implied || st.waits < p.waits { // else it requires an operation that comes after these
		for _, e := range p.waited {
			out = append(out, e.tasks...)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
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
		c := p.comms.Of(o.Comm, p.rank)
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
		c := p.comms.Of(o.Comm, p.rank)
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
	return nil, fmt.Errorf("%s: GOAL has only computations, sends and receives, and NCCL does a collective in a way that depends on the fabric: "+
		"`ddlemu expect --workload FILE --profile P --goal OUT.goal` writes its sends and receives", what)
}

// cpuOf is K of the stream cpuK.
func cpuOf(stream string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(stream, "cpu"))
	return n, err == nil && n >= 0 && stream == fmt.Sprintf("cpu%d", n)
}

// cpu is the number of a stream: that of its name if it is cpuK, else the next one from 100 on.
func (p *printer) cpu(stream string) int {
	if n, ok := cpuOf(stream); ok {
		return n
	}
	if _, ok := p.cpus[stream]; !ok {
		p.cpus[stream] = 100 + len(p.cpus)
	}
	return p.cpus[stream]
}
