// SPDX-License-Identifier: Apache-2.0

package aicb

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// Lines that are no collectives.
const (
	computation = "computation"
	epochEnd    = "epoch_end"
	barrier     = "barrier"
	send        = "isend"
	recv        = "irecv"
)

// groups are AICB's groups.
var groups = map[string]perrank.Group{
	"tp_group": perrank.Tensor, "dp_group": perrank.Data, "pp_group": perrank.Pipeline, "ep_group": perrank.Expert,
	"ep_dp_group": perrank.DataExpert, "ep_tp_group": perrank.TensorExpert, "embedding_group": perrank.Embedding,
	"all": perrank.Everyone, "": perrank.Everyone,
}

// builder makes operations of lines.
type builder struct {
	perrank.Parallel
	options  input.Options
	used     map[perrank.Group]bool
	measured bool // the calls have times: the file is the log of a run, and its times are in ms, else in ns
	computes bool
	untimed  int // computations without a time
	rootless int // calls with a root that the file does not say
	singles  int // calls in groups of one rank
	nobody   int // messages at the ends of the pipeline
	halves   int // calls of the first and last stages that only one of them has
	halved   bool
	stage    int
	ranks    workload.Ranks // of the stage, if there are several
	ops      []workload.Op
}

// lineError is an error of a line. The name of the file comes before it.
func lineError(line int, err error) error { return fmt.Errorf(":%d: %w", line, err) }

func build(stages []stage, o input.Options) (*workload.Workload, error) {
	b := &builder{options: o, used: map[perrank.Group]bool{}}
	if o.Type == "" {
		b.options.Type = "bfloat16" // AICB runs every call in it
	}
	if err := b.sizes(stages); err != nil {
		return nil, err
	}
	for i := range stages {
		if b.stage = i; len(stages) > 1 {
			b.ranks = stages[i].ranks
		}
		for k := range stages[i].rows {
			r := &stages[i].rows[k]
			if err := b.row(r); err != nil {
				return nil, lineError(r.line, err)
			}
		}
	}
	comms, err := b.Comms(b.used, o.Limit)
	if err != nil {
		return nil, lineError(1, err)
	}
	return &workload.Workload{Ops: b.ops, Head: workload.Head{Format: workload.Format, Ranks: b.Ranks,
		Source: b.source(), Comms: comms}}, nil
}

// sizes finds the sizes of all groups, and whether the calls have times.
func (b *builder) sizes(stages []stage) error {
	known := map[perrank.Group]int{}
	for i := range stages {
		for _, r := range stages[i].rows {
			g, ok := groups[r.group]
			if !ok {
				return lineError(r.line, fmt.Errorf("comm_group %q is not known", r.group))
			}
			call := r.kind != computation && r.kind != epochEnd
			b.measured = b.measured || call && r.elapsed >= 0
			if call && r.size > 0 && r.kind != send && r.kind != recv {
				known[g] = max(known[g], r.size)
			}
		}
	}
	b.Tensor = max(known[perrank.Tensor], 1)
	b.Expert = max(known[perrank.Expert], known[perrank.TensorExpert]/b.Tensor, b.options.Experts, 1)
	if b.Pipeline = len(stages); b.Pipeline == 1 {
		b.Pipeline = max(known[perrank.Pipeline], 1)
	}
	if err := b.count(stages, known); err != nil {
		return lineError(1, err)
	}
	if err := b.Validate(); err != nil {
		return lineError(1, err)
	}
	embeddings := func(s *stage) (n int) {
		for _, r := range s.rows {
			if groups[r.group] == perrank.Embedding {
				n++
			}
		}
		return n
	}
	b.halved = embeddings(&stages[0]) != embeddings(&stages[len(stages)-1])
	for i := range stages {
		if err := b.checkSizes(&stages[i]); err != nil {
			return err
		}
	}
	return nil
}

// count finds the number of ranks: what the file says, or the options, or what the groups give.
func (b *builder) count(stages []stage, known map[perrank.Group]int) error {
	for i := range stages {
		r := stages[i].ranks
		next := i*len(r) - 1
		behind := func(rank int) bool { next++; return rank == next }
		if len(stages) > 1 && (len(r) == 0 || len(r) != len(stages[0].ranks) ||
			slices.ContainsFunc(r, func(rank int) bool { return !behind(rank) })) {
			return fmt.Errorf(
				"stage %d of the pipeline has the ranks %s: as many as every stage are expected, behind those of the "+
					"stage before", i, r)
		}
		b.Ranks += len(r)
	}
	if b.Ranks == 0 {
		if err := b.options.CheckRanks("the file", known[perrank.Everyone]); err != nil {
			return err
		}
		b.Ranks = b.options.Ranks
	}
	if b.Ranks == 0 {
		b.Ranks = max(known[perrank.Everyone], known[perrank.Data]*b.Tensor*b.Pipeline)
	}
	switch {
	case b.Ranks < 1:
		return errors.New("the file does not say how many ranks there are: add --ranks N")
	case b.Ranks > workload.MaxRanks:
		return fmt.Errorf("%d ranks: at most %d are possible", b.Ranks, workload.MaxRanks)
	}
	return nil
}

// checkSizes compares the sizes of the lines with those that the groups have.
func (b *builder) checkSizes(s *stage) error {
	for _, r := range s.rows {
		if r.kind == computation || r.kind == epochEnd || r.kind == send || r.kind == recv {
			continue
		}
		g := groups[r.group]
		if g == perrank.Expert && r.size == 0 && b.Expert == 1 && b.options.Experts == 0 {
			return lineError(r.line, errors.New("no line says how many ranks an ep_group has: add --experts N"))
		}
		if size, _ := b.Shape(g); r.size > 0 && r.size != size {
			return lineError(r.line,
				fmt.Errorf(
					"%s has %d ranks here, and %d of %d GPUs with tensor parallel %d, pipeline parallel %d and expert "+
						"parallel %d",
					r.group, r.size, size, b.Ranks, b.Tensor, b.Pipeline, b.Expert))
		}
	}
	return nil
}

// row adds the operation of a line. All are on one stream, so each waits for the one before.
func (b *builder) row(r *row) error {
	switch r.kind {
	case epochEnd:
		b.add(workload.Op{Kind: workload.Step})
		return nil
	case computation:
		return b.computation(r)
	case send, recv:
		return b.sendRecv(r)
	}
	return b.collective(r)
}

func (b *builder) computation(r *row) error {
	if r.elapsed < 0 {
		b.untimed++
		return nil
	}
	nanos := r.elapsed
	if b.measured {
		nanos *= 1e6
	}
	if nanos > workload.MaxNanos {
		return fmt.Errorf("a computation of %g ns: must be at most %d", nanos, int64(workload.MaxNanos))
	}
	b.computes = true
	b.add(workload.Op{Kind: workload.Calc, Name: r.name, Nanos: int64(nanos + 0.5)})
	return nil
}

func (b *builder) collective(r *row) error {
	g := groups[r.group]
	size, stride := b.Shape(g)
	o := workload.Op{Kind: workload.Coll, Name: r.name, Comm: string(g)}
	if r.kind == barrier {
		o.Func, o.Count, o.Type = workload.AllReduce, 1, b.options.Type
	} else {
		var err error
		if o.Func, err = workload.ParseFunc(calls[r.kind]); err != nil {
			return fmt.Errorf("comm_type %q is not known", r.kind)
		}
		o.Count, o.Type = b.options.Elements(r.bytes, int(o.Func.Shares(size)))
	}
	if o.Func == workload.Reduce && r.dst >= 0 {
		o.Root = r.dst / stride % size
	}
	switch {
	case size == 1:
		b.singles++
		return nil
	case g == perrank.Embedding && b.halved:
		b.halves++
		return nil
	}
	if o.Func.Rooted() && (o.Func != workload.Reduce || r.dst < 0) {
		b.rootless++
	}
	b.used[g] = true
	b.add(o)
	return nil
}

// calls are the collectives. The others of NCCL have no name in AICB.
var calls = map[string]string{
	"all_reduce": "AllReduce", "broadcast": "Broadcast", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter",
	"reduce": "Reduce", "all_to_all": "AllToAll", "reduce_scatter_tensor": "ReduceScatter",
	"all_gather_into_tensor": "AllGather",
}

// sendRecv adds a message between pipeline stages. As in AICB, the first stage has nothing before it and the last
// nothing behind it.
func (b *builder) sendRecv(r *row) error {
	last := b.Pipeline - 1
	step, known := map[string]int{"send_prev": -1, "recv_prev": -1, "send_next": 1, "recv_next": 1}[r.additional]
	switch {
	case !known:
		return fmt.Errorf("%s with %q: send_prev, send_next, recv_prev or recv_next is expected", r.kind, r.additional)
	case b.Pipeline == 1:
		return fmt.Errorf(
			"%s to another pipeline stage, and the file has one stage: a file of all stages is needed, each part of "+
				"it with a line such as [ pp_stage0: [rank0, rank1] ]", r.kind)
	case step < 0 && b.stage == 0, step > 0 && b.stage == last:
		b.nobody++
		return nil
	}
	o := workload.Op{Kind: workload.Send, Name: r.name, Comm: string(perrank.Pipeline), Peer: b.stage + step}
	if r.additional[:4] == "recv" {
		o.Kind = workload.Recv
	}
	o.Count, o.Type = b.options.Elements(r.bytes, 1)
	b.used[perrank.Pipeline] = true
	b.add(o)
	return nil
}

func (b *builder) add(o workload.Op) {
	o.Ranks = b.ranks
	b.ops = append(b.ops, o)
}

// source says what the file does not.
func (b *builder) source() workload.Source {
	s := workload.Source{Missing: []string{"the type of the elements: " + b.options.Type + " is taken"}}
	missing, note := input.Sentences(&s.Missing), input.Counts(&s.Notes)
	missing(!b.computes, "no computation between the calls is known: they follow each other")
	missing(b.rootless > 0, "the root of %s: rank 0 of the group is taken", units.Count(b.rootless, "call"))
	missing(b.untimed > 0, "the time of %s: left out", units.Count(b.untimed, "computation"))
	missing(b.measured, "what the host did between the lines: the times of calls, which contain waiting, were not used")
	s.Notes = append(s.Notes,
		fmt.Sprintf("ranks are numbered by tensor (%d), data and expert (%d), then pipeline parallelism (%d)", b.Tensor,
			b.Expert, b.Pipeline))
	note(b.singles, "call", "left out, in a group of one rank")
	note(b.nobody, "message", "left out, before the first or behind the last pipeline stage")
	if b.halves > 0 {
		s.Notes = append(s.Notes, units.Count(b.halves, "call")+
			" of the first and the last pipeline stage: left out, only one of the two has them")
	}
	return s
}
