// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// Recorded is a call of a process group in a trace.
type Recorded struct {
	Function int64 // the id of the record function; -1 if the trace has none
	Call     *pytorch.Call
}

// Enrich completes the calls of a rank, which are in the order of the host.
type Enrich func(rank int, calls []Recorded) error

// Read reads the traces of the ranks of a job, one file per rank, or the trace of one rank, which then stands for all.
// enrich may be nil.
func Read(files []input.File, o input.Options, enrich Enrich) (*workload.Workload, error) {
	j := &job{options: o, left: counts{blocks: map[int]int{}}}
	for _, f := range files {
		r, err := readRank(f, o.Limit)
		if err != nil {
			return nil, err
		}
		j.ranks = append(j.ranks, r)
	}
	if err := j.number(); err != nil {
		return nil, err
	}
	for _, r := range j.ranks {
		slices.SortFunc(r.operators,
			func(a, b operator) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
		if enrich != nil {
			if err := r.enrich(enrich); err != nil {
				return nil, err
			}
		}
	}
	said, err := j.findWorld()
	if err != nil {
		return nil, err
	}
	for _, r := range j.ranks {
		j.rows = append(j.rows, r.row(j.world, &j.left))
		r.records, r.kernels, r.launches, r.waits, r.computes = nil, nil, nil, nil, nil // they are in the row
	}
	if err := j.countRanks(said); err != nil {
		return nil, err
	}
	steps, err := j.commonSteps()
	if err != nil {
		return nil, err
	}
	return j.workload(steps)
}

// job is the traces of a job.
type job struct {
	options input.Options
	ranks   []*rank // by number
	rows    []*row  // of the same ranks
	world   int
	comms   perrank.Registry
	left    counts
}

// row is what a rank did, on its own clock.
type row struct {
	*rank
	all    []activity
	comm   []string // of each activity; "" if it is left out
	size   []int    // of the communicator
	lo, hi []int64
	points []anchor
}

// counts are of what a workload leaves out or does not know.
type counts struct {
	unknownKernels int      // nothing says what they moved
	unsizedCalls   int      // likewise
	emptyCalls     int      // they moved no element
	foreign        []string // why, of each call whose collective or type is not known
	annotated      int      // calls whose sizes are from annotations and operators
	everyone       int      // calls whose group is not known: all ranks are taken
	byStream       int      // calls whose group has the size of others on the stream

	singles, hostOnly, unequal, bounded, roots, outside, noPeers, cutParts int
	// calls of groups whose ranks are taken, by the size of the group
	blocks map[int]int
}

func (r *rank) enrich(enrich Enrich) error {
	calls, waits := merge(r.records)
	all := append(calls, waits...)
	slices.SortStableFunc(all, func(a, b record) int { return cmp.Compare(a.start, b.start) })
	var recorded []Recorded
	for i := range all {
		recorded = append(recorded, Recorded{all[i].function, &all[i].call})
	}
	if err := enrich(r.number, recorded); err != nil {
		return fmt.Errorf("%s: %w", r.file, err)
	}
	r.records = all
	for i := range r.records {
		rec := &r.records[i]
		// what enrich says has its sizes
		rec.annotation, rec.open = false, rec.open && rec.call.In == 0 && rec.call.Out == 0
	}
	return nil
}

// row finds the calls of a rank, when they were ready and the waits for them.
func (r *rank) row(world int, left *counts) *row {
	calls, waits := merge(r.records)
	r.complete(calls)
	w := &row{rank: r}
	w.all = activities(calls, r, world, left)
	w.lo, w.hi = ready(w.all, idle(r.hardware))
	slices.SortFunc(r.computes, func(a, b started) int { return cmp.Compare(a.correlation, b.correlation) })
	w.points = r.waitPoints(w.all, calls, waits)
	r.stepsOnGPU()
	w.comm, w.size = make([]string, len(w.all)), make([]int, len(w.all))
	return w
}

// number gives each trace its rank.
func (j *job) number() error {
	for i, r := range j.ranks {
		if r.number < 0 {
			r.number = i
		}
	}
	slices.SortStableFunc(j.ranks, func(a, b *rank) int { return cmp.Compare(a.number, b.number) })
	for i := 1; i < len(j.ranks); i++ {
		if a, b := j.ranks[i-1], j.ranks[i]; a.number == b.number {
			return fmt.Errorf("%s and %s are both of rank %d: give one file per rank", a.file, b.file, a.number)
		}
	}
	return nil
}

// findWorld finds the number of ranks, as far as the traces say it.
func (j *job) findWorld() (said bool, err error) {
	j.world = j.options.Ranks
	for _, r := range j.ranks {
		if err := j.options.CheckRanks(r.file, r.world); err != nil {
			return false, err
		}
	}
	group := func(g *pytorch.Group) {
		said = said || g.Size > 0 || len(g.Ranks) > 0
		j.world = max(j.world, g.Size)
		for _, r := range g.Ranks {
			j.world = max(j.world, r+1)
		}
	}
	for _, r := range j.ranks {
		j.world = max(j.world, r.world, r.number+1)
		said = said || r.world > 0
		for i := range r.records {
			group(&r.records[i].call.Group)
		}
		for i := range r.kernels {
			group(&r.kernels[i].call.Group)
		}
	}
	return said || j.options.Ranks > 0, nil
}

// countRanks refuses jobs of which ranks are missing, or of which nothing says how many there are.
func (j *job) countRanks(said bool) error {
	switch {
	case j.world > workload.MaxRanks:
		return fmt.Errorf("%s: a job of %d ranks; at most %d are possible", j.ranks[0].file, j.world, workload.MaxRanks)
	case !said && len(j.rows) == 1 && len(j.rows[0].all) > 0:
		return fmt.Errorf("%s does not say how many ranks the job had: add --ranks N", j.ranks[0].file)
	case len(j.rows) == j.world || len(j.rows) == 1 && j.options.OneForAll:
		return nil
	}
	return pytorch.MissingRanks(j.world, "trace",
		func(n int) bool { return slices.ContainsFunc(j.ranks, func(r *rank) bool { return r.number == n }) })
}

// commonSteps are the numbers of the steps that all ranks recorded, in order.
func (j *job) commonSteps() ([]int, error) {
	var common []int
	for i, r := range j.ranks {
		var own []int
		for _, s := range r.steps {
			if !slices.Contains(own, s.number) {
				own = append(own, s.number)
			}
		}
		if i == 0 {
			common = own
			continue
		}
		common = slices.DeleteFunc(common, func(n int) bool { return !slices.Contains(own, n) })
		if len(common) == 0 && len(own) > 0 {
			return nil, fmt.Errorf("%s and %s have no step in common", j.ranks[0].file, r.file)
		}
	}
	if len(common) == 0 && slices.ContainsFunc(j.rows, func(w *row) bool { return len(w.all) == 0 }) {
		err := fmt.Errorf(
			"%s: neither a step nor a call of a process group: record a distributed job with the profiler's schedule",
			j.ranks[0].file)
		if notes := j.exchangeNotes(); len(notes) > 0 {
			err = fmt.Errorf("%w; there are %s", err, notes[0])
		}
		return nil, err
	}
	return common, nil
}

// workload makes the workload of the steps.
func (j *job) workload(steps []int) (*workload.Workload, error) {
	for _, w := range j.rows {
		if err := j.resolve(w); err != nil {
			return nil, fmt.Errorf("%s: %w", w.file, err)
		}
	}
	if err := j.understood(); err != nil {
		return nil, err
	}
	j.completeParts()
	offsets := j.clocks()
	windows := make([][]int64, len(j.rows))
	earliest := int64(0)
	for i, w := range j.rows {
		windows[i] = w.window(steps)
		if t := windows[i][0] - offsets[i]; i == 0 || t < earliest {
			earliest = t
		}
	}
	forced := !slices.ContainsFunc(j.rows, func(w *row) bool { return len(w.points) > 0 })
	lists := make([][]workload.Op, len(j.rows))
	for i, w := range j.rows {
		list := anchors(w.lo, windows[i], w.points, forced)
		for _, a := range list {
			j.note(w, a)
		}
		j.left.outside += len(w.all)
		skew := windows[i][0] - offsets[i] - earliest
		if len(j.rows) == 1 {
			skew = -1
		}
		var failed error
		lists[i] = timeline(list, w.lo, w.hi, w.all, windows[i][0], skew, func(k int) []workload.Op {
			j.left.outside--
			ops, err := j.op(w, k)
			if failed == nil {
				failed = err // the same one follows for each call of the kind
			}
			return ops
		})
		if failed != nil {
			return nil, fmt.Errorf("%s: %w", w.file, failed)
		}
	}
	return perrank.Workload(j.world, lists, j.comms.Comms, j.source(len(steps), forced, j.waiting(offsets))), nil
}

// note counts why the time of a used anchor is uncertain.
func (j *job) note(w *row, a anchor) {
	if a.coll < 0 || w.comm[a.coll] == "" {
		return
	}
	if w.hi[a.coll] > w.lo[a.coll] {
		j.left.bounded++
	}
	if w.all[a.coll].hostOnly {
		j.left.hostOnly++
	}
	if w.all[a.coll].call.Rooted() {
		j.left.roots++
	}
}

// understood refuses a job that has calls between ranks of which none is understood: it is no job without
// communication.
func (j *job) understood() error {
	if j.world == 1 || len(j.comms.Comms) > 0 {
		return nil
	}
	file := j.ranks[0].file
	if n := len(j.left.foreign); n > 0 {
		return fmt.Errorf("%s has %s of NCCL and none is understood, such as %s", file,
			units.Count(n+j.left.unsizedCalls+j.left.unknownKernels, "call"), j.left.foreign[0])
	}
	if n := j.left.unsizedCalls + j.left.unknownKernels; n > 0 {
		return fmt.Errorf(
			"%s has %s of NCCL and says of none what it moved: record it with a newer PyTorch (since 2024 it notes "+
				"the sizes), or give the execution trace too", file, units.Count(n, "call"))
	}
	return nil
}

// resolve finds the communicator of each call.
func (j *job) resolve(w *row) (err error) {
	everyone := perrank.All(j.world)
	for i, a := range w.all {
		g := a.call.Group
		ranks := g.Ranks
		if ranks == nil && (g.Size == 0 || g.Size == j.world) {
			ranks = everyone
		}
		switch {
		case g.Size == 1 || len(ranks) == 1:
			j.left.singles++
			continue
		case ranks == nil && g.Name == "" && j.world%g.Size == 0:
			ranks = perrank.InARow(w.number, g.Size, j.world)
			g.Name = fmt.Sprintf("group of %d", g.Size)
			j.left.blocks[g.Size]++
		case ranks == nil:
			return fmt.Errorf("the trace does not say which ranks are in process group %q, of %d ranks", g.Name, g.Size)
		case !slices.Contains(ranks, w.number):
			return fmt.Errorf("rank %d calls process group %q, of ranks %s", w.number, g.Name, ranks)
		}
		w.size[i] = len(ranks)
		name := cmp.Or(g.Name, workload.World)
		if len(j.rows) > 1 {
			w.comm[i] = j.comms.Add(name, ranks)
		} else if w.comm[i], err = j.comms.AddAlike(name, ranks, j.world); err != nil {
			return err
		}
	}
	return nil
}

// op is the operation of the k-th call of a rank, none if it is left out.
func (j *job) op(w *row, k int) ([]workload.Op, error) {
	a := &w.all[k]
	if w.comm[k] == "" {
		return nil, nil
	}
	size := w.size[k]
	if a.cutParts {
		j.left.cutParts++
	}
	op, unequal, err := a.call.Op(size)
	if err != nil {
		j.left.foreign = append(j.left.foreign, err.Error())
		return nil, nil
	}
	op.Comm = w.comm[k]
	if op.Kind != workload.Coll {
		if len(j.rows) == 1 && j.world > 1 {
			return nil, errors.New(
				"the ranks of a job with sends and receives do not do the same: give the traces of all ranks")
		}
		if op.Peer < 0 || op.Peer >= size {
			j.left.noPeers++
			return nil, nil
		}
	}
	if unequal && len(j.rows) > 1 {
		if group := a.call.Exchange(op); group != nil {
			return []workload.Op{*group}, nil
		}
	}
	if unequal {
		j.left.unequal++
	}
	return []workload.Op{op}, nil
}
