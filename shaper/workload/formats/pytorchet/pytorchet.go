// SPDX-License-Identifier: Apache-2.0

// Package pytorchet reads the execution traces of PyTorch (ExecutionTraceObserver), one file per rank. They say what
// was called in which order, and no times. Together with the traces of the profiler of the same run, they complete
// what these say about calls.
package pytorchet

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/kineto"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// Read reads execution traces. timed are the traces of the profiler of the same ranks, or none.
func Read(files, timed []input.File, o input.Options) (*workload.Workload, error) {
	var traces []*trace
	for i, f := range files {
		t, err := readTrace(f, o.Limit)
		if err != nil {
			return nil, err
		}
		t.number = rankOf(f.Name, i)
		traces = append(traces, t)
	}
	slices.SortStableFunc(traces, func(a, b *trace) int { return a.number - b.number })
	if len(timed) > 0 {
		return join(traces, timed, o)
	}
	j := &job{traces: traces, named: map[commKey]string{}, ranks: max(len(traces), o.Ranks)}
	if err := j.countRanks(o); err != nil {
		return nil, err
	}
	lists := make([][]workload.Op, len(traces))
	for i, t := range traces {
		var err error
		if lists[i], err = j.operations(i, t); err != nil {
			return nil, fmt.Errorf("%s: %w", t.file, err)
		}
	}
	return perrank.Workload(j.ranks, lists, j.comms.Comms, j.source()), nil
}

// lastNumber finds the rank in a file's name, such as dlrm_eg_3.json.
var lastNumber = regexp.MustCompile(`(\d+)\.json(\.gz)?$`)

// rankOf is the rank in the name of a file, else the place of the file among the others.
func rankOf(name string, place int) int {
	if m := lastNumber.FindStringSubmatch(filepath.Base(name)); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n
		}
	}
	return place
}

// join reads the traces of the profiler, and completes their calls by the execution traces.
func join(traces []*trace, timed []input.File, o input.Options) (*workload.Workload, error) {
	if len(timed) != len(traces) {
		return nil, fmt.Errorf("%s and %s: give one of each per rank", units.Count(len(traces), "execution trace"),
			units.Count(len(timed), "trace"))
	}
	next := 0 // kineto.Read takes ranks in order
	w, err := kineto.Read(timed, o, func(_ int, calls []kineto.Recorded) error {
		t := traces[next]
		next++
		return t.complete(calls)
	})
	if err != nil {
		return nil, err
	}
	w.Head.Source.Kind = "pytorchet"
	w.Head.Source.File = filepath.Base(traces[0].file) + ", " + w.Head.Source.File
	return w, nil
}

// complete puts what the execution trace knows into the calls of the profiler: the calls of the same record function,
// or, in older versions, the calls at the same place.
func (t *trace) complete(calls []kineto.Recorded) error {
	byFunction := map[int64]*record{}
	for i := range t.records {
		byFunction[t.records[i].function] = &t.records[i]
	}
	matched := 0
	for i := range calls {
		if r := byFunction[calls[i].Function]; r != nil && calls[i].Function >= 0 {
			matched++
			merge(calls[i].Call, &r.call)
		}
	}
	if matched > 0 {
		return nil
	}
	if len(calls) != len(t.records) {
		return fmt.Errorf("%s has %d calls of process groups and the profiler's trace %d: they are not of the same run",
			t.file, len(t.records), len(calls))
	}
	for i := range calls {
		merge(calls[i].Call, &t.records[i].call)
	}
	return nil
}

// merge replaces what the profiler said of a call by what the execution trace does, which has all in every version,
// but for the group and the peer.
func merge(to, from *pytorch.Call) {
	if from.Empty() && !from.IsWait() {
		return
	}
	group, peer := to.Group, to.Peer
	*to = *from
	if group.Ranks != nil || from.Group.Size == 0 {
		to.Group = group
	}
	if to.Peer < 0 {
		to.Peer = peer
	}
}

// job is execution traces alone.
type job struct {
	traces   []*trace
	ranks    int
	comms    perrank.Registry
	named    map[commKey]string // the names that comms has given
	all      workload.Ranks
	foreign  []string
	singles  int
	unsized  int
	empty    int
	unequal  int
	everyone int // calls of groups of which nothing is known
	blocks   int // calls of groups whose ranks are taken
	cut      int // all-to-alls whose cut lists of parts are taken to go on with equal ones
	noPeers  int
	steps    bool
}

// countRanks finds the number of ranks.
func (j *job) countRanks(o input.Options) error {
	known := o.Ranks > 0 || len(j.traces) > 1
	counted := map[*int]bool{} // lists, by where they are in memory: calls share them
	for _, t := range j.traces {
		for _, r := range t.records {
			if g := &r.call.Group; g.Name == "default_pg" || g.Name == "0" { // all ranks
				if err := o.CheckRanks(t.file, max(g.Size, len(g.Ranks))); err != nil {
					return err
				}
			}
			size := max(r.call.Group.Size, len(r.call.InSplit))
			if list := r.call.Group.Ranks; len(list) > 0 && !counted[&list[0]] {
				counted[&list[0]] = true
				size = max(size, slices.Max(list)+1)
			}
			known = known || size > 0 && !r.call.IsWait()
			j.ranks = max(j.ranks, size)
		}
	}
	first := j.traces[0].file
	switch {
	case j.ranks > workload.MaxRanks:
		return fmt.Errorf("%s: a job of %d ranks; at most %d are possible", first, j.ranks, workload.MaxRanks)
	case !slices.ContainsFunc(j.traces, func(t *trace) bool { return len(t.records) > 0 }):
		return fmt.Errorf("%s: no call of a process group: record a distributed job", first)
	case !known:
		return fmt.Errorf("%s does not say how many ranks the job had: add --ranks N", first)
	case len(j.traces) == 1 && (o.OneForAll || j.ranks == 1), len(j.traces) == j.ranks:
		return nil
	}
	return fmt.Errorf("the job had %s, given: %s: give the files of all ranks, or of one rank",
		units.Count(j.ranks, "rank"), units.Count(len(j.traces), "file"))
}

// operations are the calls of a rank, one after the other.
func (j *job) operations(rank int, t *trace) (ops []workload.Op, err error) {
	step := 0
	for _, r := range t.records {
		for ; step < len(t.steps) && t.steps[step] < r.id; step++ {
			if len(ops) > 0 {
				ops = append(ops, workload.Op{Kind: workload.Step})
				j.steps = true
			}
		}
		if j.dropped(&r.call) {
			continue
		}
		comm, n, err := j.comm(rank, t, &r.call)
		if err != nil {
			return nil, err
		}
		if n == 1 {
			j.singles++
			continue
		}
		if r.call.CompleteParts(n) {
			j.cut++
		}
		op, unequal, err := r.call.Op(n)
		if err != nil {
			j.foreign = append(j.foreign, err.Error())
			continue
		}
		op.Comm = comm
		if unequal {
			if group := r.call.Exchange(op); group != nil && len(j.traces) > 1 {
				op = *group
			} else {
				j.unequal++
			}
		}
		if op.Kind == workload.Send || op.Kind == workload.Recv {
			if len(j.traces) == 1 {
				return nil, fmt.Errorf(
					"the ranks of a job with sends and receives do not do the same: give the traces of all ranks")
			}
			if op.Peer < 0 || op.Peer >= n {
				j.noPeers++
				continue
			}
		}
		op.Stream = "nccl0"
		ops = append(ops, op)
	}
	return append(ops, workload.Op{Kind: workload.Step}), nil
}

// dropped tells whether a call has nothing to play, and counts it unless it is one that moves nothing itself, such as
// a wait.
func (j *job) dropped(c *pytorch.Call) bool {
	switch {
	case c.Foreign():
		j.foreign = append(j.foreign, c.Unknown())
	case c.LacksSize():
		j.unsized++
	case c.Moves() && c.Empty():
		j.empty++
	}
	return c.Empty()
}

// comm is the communicator of a call, and the number of its ranks.
func (j *job) comm(rank int, t *trace, c *pytorch.Call) (string, int, error) {
	n := c.Group.Size
	if !c.Group.Known() {
		n = c.GroupBySizes(c.In, c.Out)
	}
	if c.Group.Name == "" && c.Group.Ranks == nil && n > 0 && j.ranks%n == 0 {
		c.Group.Size = n
		if n < j.ranks {
			c.Group.Name, c.Group.Ranks = fmt.Sprintf("group of %d", n), t.evenRanks(int64(rank/n*n), 1, int64(n))
			if n > 1 {
				j.blocks++
			}
		}
	}
	if !c.Group.Known() {
		j.everyone++
	}
	ranks := c.Group.Ranks
	if ranks == nil && (c.Group.Size == 0 || c.Group.Size == j.ranks) {
		if j.all == nil {
			j.all = perrank.All(j.ranks)
		}
		ranks = j.all
	}
	name := c.Group.Name
	if name == "" {
		name = workload.World
	}
	switch {
	case ranks == nil && c.Group.Size == 1, len(ranks) == 1:
		return "", 1, nil
	case ranks == nil:
		return "", 0, fmt.Errorf("the trace does not say which ranks are in process group %q, of %d ranks", name,
			c.Group.Size)
	}
	key := commKey{rank, name, &ranks[0], len(ranks)}
	known, ok := j.named[key]
	if !ok {
		if err := t.limit.List(len(ranks)); err != nil {
			return "", 0, err
		}
	}
	switch {
	case ok:
	case len(j.traces) == 1:
		var err error
		if known, err = j.comms.AddAlike(name, ranks, j.ranks); err != nil {
			return "", 0, err
		}
	case !slices.Contains(ranks, rank):
		return "", 0, fmt.Errorf("rank %d calls process group %q, of ranks %s", rank, name, ranks)
	default:
		known = j.comms.Add(name, ranks)
	}
	j.named[key] = known
	return known, len(ranks), nil
}

// commKey is a process group as a rank names it, with the place of its list in memory: calls share long lists.
type commKey struct {
	rank  int
	name  string
	first *int
	n     int
}

// source says what the traces do not.
func (j *job) source() workload.Source {
	s := workload.Source{Kind: "pytorchet", File: input.Title(j.traces[0].file, len(j.traces)), Missing: []string{
		"no computation between the calls is known: they follow each other; give the profiler's traces of the same " +
			"run too",
		"roots and reduction operators",
	}}
	missing, note := input.Sentences(&s.Missing), input.Counts(&s.Notes)
	missing(len(j.traces) == 1 && j.ranks > 1, "only one rank was recorded: all %d ranks are taken to do the same",
		j.ranks)
	missing(!j.steps, "steps: the whole trace is one")
	missing(j.everyone > 0, "the process group of %s: all %d ranks are taken", units.Count(j.everyone, "call"), j.ranks)
	missing(j.blocks > 0, "which ranks are in the process groups of which the size alone is known: ranks in a row are "+
		"taken (%s)", units.Count(j.blocks, "call"))
	note(j.singles, "call", "left out, in a group of one rank")
	note(j.empty, "call", "left out, with no element to move")
	note(j.unsized, "call", "left out, the trace does not say what it moved")
	note(j.unequal, "all-to-all", "the parts differ or are not recorded; the mean was taken")
	note(j.cut, "all-to-all", "the list of parts is cut; the parts that are shown are equal, and so are taken all")
	note(j.noPeers, "message", "left out, the peer is not recorded")
	var operator string
	var uncalled, nameless, unreadable, lists int
	for _, t := range j.traces {
		if n, name := t.uncalled(); n > 0 {
			uncalled, operator = uncalled+n, name
		}
		nameless, unreadable, lists = nameless+t.nameless, unreadable+t.unreadable, lists+t.groupLists
	}
	note(uncalled, "operator", "no call was recorded in it, such as "+operator)
	note(nameless, "call", "left out, the trace does not name it")
	note(unreadable, "node", "a field is of another type than expected")
	note(lists, "list", "of process groups, not understood")
	if n := len(j.foreign); n > 0 {
		note(n, "call", "left out, such as "+j.foreign[0])
	}
	return s
}
