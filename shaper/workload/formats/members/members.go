// SPDX-License-Identifier: Apache-2.0

// Package members makes a job of what the ranks of communicators recorded, each on its own: the profilers of NCCL write
// for each rank of each communicator the calls that they had room for. Calls belong together by the communicator, the
// function and the number among the calls of that function, which NCCL counts on each communicator.
package members

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// record is a recorded call. It is small; the operations that are made of it are not.
type record struct {
	op    *workload.Op // shared by equal calls
	seq   int64        // of a collective: its number among the calls of the function on the communicator
	at    int64        // when the host called, in ns of the process's clock
	group int32        // sends and receives in a row with one number are one group of calls
	drop  bool
}

// key is what tells the collectives of a communicator apart.
type key struct {
	f   workload.Func
	seq int64
}

func (c *record) key() key { return key{c.op.Func, c.seq} }

func (c *record) collective() bool { return c.op.Kind == workload.Coll }

// Member is a rank of a communicator.
type Member struct {
	Process string // names the process in the job, such as host:pid
	Comm    string // the communicator's id
	Rank    int    // in the communicator
	Size    int    // of the communicator; 0 if the source does not say
	calls   []record
	job     *Job
}

// Job is what was recorded.
type Job struct {
	// Timed says that the times of the calls are times on the host, so that the time between two is a computation.
	Timed bool
	// Missing and Notes are for the workload's source. Build adds to them.
	Missing, Notes []string
	// Limit limits the records, and the operations that Build makes.
	Limit *input.Limit

	members []*Member
	byKey   map[memberKey]*Member
	ops     map[opKey]*workload.Op
	calls   int
	world   int
	ranks   map[string][]int // of each process
}

type memberKey struct {
	process, comm string
	rank          int
}

type opKey struct {
	kind       workload.Kind
	f          workload.Func
	typ        string
	count      int64
	root, peer int
}

// Member returns the rank of a communicator with the id comm, in a process. It is made at the first call.
func (j *Job) Member(process, comm string, rank, size int) (*Member, error) {
	if rank < 0 || size < 0 || size > workload.MaxRanks || rank >= workload.MaxRanks || size > 0 && rank >= size {
		return nil, fmt.Errorf("rank %d of a communicator of %d ranks", rank, size)
	}
	k := memberKey{process, comm, rank}
	if m := j.byKey[k]; m != nil {
		if m.Size != size {
			return nil, fmt.Errorf("communicator %s has %d ranks and %d", comm, m.Size, size)
		}
		return m, nil
	}
	if j.byKey == nil {
		j.byKey, j.ops = map[memberKey]*Member{}, map[opKey]*workload.Op{}
	}
	m := &Member{Process: process, Comm: comm, Rank: rank, Size: size, job: j}
	j.byKey[k] = m
	j.members = append(j.members, m)
	return m, nil
}

// Calls is the number of recorded calls.
func (j *Job) Calls() int { return j.calls }

// Add adds a call: a collective with its number, or a send or receive with the number of its group. Calls are in the
// order of the record.
func (m *Member) Add(o *workload.Op, seq, at int64, group int32) error {
	j := m.job
	j.calls++
	if err := j.Limit.AddSmall(1); err != nil {
		return err
	}
	if err := j.Limit.Check(len(m.calls) + 1); err != nil {
		return err
	}
	k := opKey{o.Kind, o.Func, o.Type, o.Count, o.Root, o.Peer}
	shared := j.ops[k]
	if shared == nil {
		shared = new(*o)
		j.ops[k] = shared
	}
	m.calls = append(m.calls, record{op: shared, seq: seq, at: at, group: group})
	return nil
}

// Build makes the workload of the job, without its source's kind and file. file is for messages.
func (j *Job) Build(file string, o input.Options) (*workload.Workload, error) {
	comms := j.communicators()
	if err := j.sizes(file, comms, o); err != nil {
		return nil, err
	}
	if err := j.place(file, comms, o); err != nil {
		return nil, err
	}
	recorded := 0
	for _, ranks := range j.ranks {
		recorded += len(ranks)
	}
	alone := recorded == 1 && j.world > 1
	b := &builder{job: j, lists: make([][]entry, j.world)}
	for n, c := range comms {
		if err := b.add(file, fmt.Sprintf("comm%d", n), c, alone); err != nil {
			return nil, err
		}
	}
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: j.world, Comms: b.registry.Comms}}
	if err := b.operations(w, alone); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	input.Counts(&j.Notes)(b.jumps, "gap", "between two calls, more than two years by their times; taken as two years")
	if alone && slices.ContainsFunc(w.Ops,
		func(o workload.Op) bool { return o.Kind != workload.Coll && o.Kind != workload.Calc }) {
		return nil, fmt.Errorf(
			"%s: the ranks of a job with sends and receives do not do the same: give the files of all ranks", file)
	}
	if len(w.Ops) == 0 {
		return nil, fmt.Errorf("%s: no call that all ranks of its communicator have", file)
	}
	missing := input.Sentences(&j.Missing)
	missing(alone, "only one rank was recorded: all %d ranks are taken to do the same", j.world)
	missing(j.Timed, "when the data of a call was ready: the time between two calls of the host is a computation, and "+
		"what waits for a call is not known")
	missing(!j.Timed, "no computation between the calls is known: they follow each other on their communicators")
	w.Head.Source.Missing, w.Head.Source.Notes = j.Missing, j.Notes
	return w, nil
}

// communicators groups the members by the communicator, in the order of their first calls; the members of one are in
// the order of their ranks.
func (j *Job) communicators() [][]*Member {
	var comms [][]*Member
	at := map[string]int{}
	for _, m := range j.members {
		n, ok := at[m.Comm]
		if !ok {
			n = len(comms)
			at[m.Comm] = n
			comms = append(comms, nil)
		}
		comms[n] = append(comms[n], m)
	}
	for _, c := range comms {
		slices.SortStableFunc(c, func(a, b *Member) int { return cmp.Compare(a.Rank, b.Rank) })
	}
	return comms
}

// sizes finds the sizes of the communicators and the number of ranks of the job.
func (j *Job) sizes(file string, comms [][]*Member, o input.Options) error {
	guessed := false
	for _, c := range comms {
		size := c[0].Size
		for i, m := range c {
			if m.Size != size {
				return fmt.Errorf("%s: communicator %s has %d ranks and %d: give the files of one job", file, m.Comm,
					size, m.Size)
			}
			if i > 0 && c[i-1].Rank == m.Rank {
				return fmt.Errorf(
					"%s: two processes, %s and %s, are rank %d of communicator %s: give the files of one job", file,
					c[i-1].Process, m.Process, m.Rank, m.Comm)
			}
		}
		if size == 0 {
			guessed = true
			size = c[len(c)-1].Rank + 1
		}
		j.world = max(j.world, size)
		for _, m := range c {
			m.Size = size
		}
	}
	if !guessed {
		return nil
	}
	// a process may have several GPUs
	one := len(j.processes()) == 1 && !slices.ContainsFunc(comms, func(c []*Member) bool { return len(c) > 1 })
	switch {
	case one && len(comms) > 1:
		return fmt.Errorf(
			"%s: one rank was recorded, on %d communicators, and not how many ranks each has: give the files of all "+
				"ranks", file, len(comms))
	case o.Ranks > 0 && o.Ranks < j.world:
		return fmt.Errorf("%s: --ranks %d, and there is a rank %d", file, o.Ranks, j.world-1)
	case o.Ranks > 0:
		for _, c := range comms {
			for _, m := range c {
				if m.Size == j.world {
					m.Size = o.Ranks
				}
			}
		}
		j.world = o.Ranks
	case one:
		return fmt.Errorf(
			"%s: the file of one rank does not say how many ranks the job had: add --ranks N, or give the files of "+
				"all ranks", file)
	default:
		j.Missing = append(j.Missing,
			fmt.Sprintf("how many ranks a communicator has: as many as have recorded calls, at most %d, are taken",
				j.world))
	}
	return nil
}

func (j *Job) processes() map[string]bool {
	out := map[string]bool{}
	for _, m := range j.members {
		out[m.Process] = true
	}
	return out
}

// place gives each process its ranks: those in the first communicator of all ranks.
func (j *Job) place(file string, comms [][]*Member, o input.Options) error {
	j.ranks = map[string][]int{}
	found := 0
	for _, c := range comms {
		if c[0].Size != j.world {
			continue
		}
		if found = len(c); found < j.world && !(found == 1 && o.OneForAll) {
			continue
		}
		for _, m := range c {
			j.ranks[m.Process] = append(j.ranks[m.Process], m.Rank)
		}
		return nil
	}
	if found == 1 {
		return fmt.Errorf("%s: the file is of one of %d ranks: give the files of all", file, j.world)
	}
	return fmt.Errorf(
		"%s: a communicator has %d ranks, and there are calls of %d of them: give the files of all ranks, or of one "+
			"alone",
		file, j.world, found)
}

// rankOf is the rank in the job of a member; -1 if it is not known, since its process has several.
func (j *Job) rankOf(m *Member) int {
	ranks := j.ranks[m.Process]
	switch {
	case len(ranks) == 1:
		return ranks[0]
	case m.Size == j.world && slices.Contains(ranks, m.Rank):
		return m.Rank
	}
	return -1
}
