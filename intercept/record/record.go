// SPDX-License-Identifier: Apache-2.0

// Package record makes a workload of the ledgers of a job: what its ranks called and when. The time between two calls
// is computation, unless the rank may have waited for a call to end.
package record

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Options say how ledgers are read.
type Options struct {
	// NoWaits says that no rank waits for a call to end before it makes the next one. Otherwise a rank waits for every
	// call that had ended before it made its next one. Both give the recorded times on the recorded fabric. On a slower
	// one, the former can be too fast, and the latter too slow.
	NoWaits bool
	// Step is the name of the ranges (NVTX) that are the steps; "" for one step, Auto for those that the job shows.
	Step string
	// HostCall is what a launch took of the host's thread, in ns of the fabric's clock, if its nodes cost time: that is no
	// computation of the program.
	HostCall int64
}

// launched is a call as one rank made it: a collective, or sends and receives that it made as one group.
type launched struct {
	tasks []int // places in Trace.Tasks, in order
	at    int64 // when it was made; if it is known, when its kernel began
	// If it was held up by the call before on its stream: the earliest time at which the rank may have been ready for
	// it.
	least int64
	end   int64 // when the rank was done with it
	step  bool  // the end of a step: there is no call
}

// recorder makes the workload.
type recorder struct {
	trace *messages.Trace
	o     Options
	ranks int
	comms map[uint64]string
	out   workload.Workload
	start int64
	// unsure are the computations that a rank may have begun before the call before it had ended, or only then.
	unsure, total int
	untyped       int    // calls whose type is not known
	early         int    // calls that were planned before the call before on their communicator had ended
	unknown       int    // calls and computations of which it is not known what they waited for on their streams
	bounded       int    // calls that may have been ready before the one before on their stream had ended
	rhythm        string // what the rhythm of the calls is, if it gives the steps
	isTimed       bool   // it is known when each call began and ended on its stream
}

// Workload makes a workload of a trace of one job.
func Workload(t *messages.Trace, o Options) (*workload.Workload, error) {
	r := &recorder{trace: t, o: o, comms: map[uint64]string{}}
	if len(t.Jobs) != 1 {
		return nil, fmt.Errorf("there are ledgers of %d jobs: give the folder of one", len(t.Jobs))
	}
	if len(t.Tasks) == 0 {
		return nil, fmt.Errorf("the ledgers have no calls of NCCL")
	}
	if n := t.Overwritten; n > 0 {
		return nil, fmt.Errorf(
			"%s were overwritten because a ledger was full: record fewer steps, or make ledgers larger",
			units.Count(int(n), "record"))
	}
	if len(t.Cut) > 0 {
		return nil, fmt.Errorf("%s ends too early: a rank was killed?", t.Cut[0])
	}
	for i := range t.Calls {
		if c := &t.Calls[i]; !t.HasEnded(c) {
			return nil, fmt.Errorf("%s #%d never ended: the job failed, or it still runs; see `ddlemu pending`", c.Name,
				c.Seq)
		}
	}
	seen, ranks := map[uint32]bool{}, 0
	for _, info := range t.Ranks {
		seen[info.Rank] = true
		ranks = max(ranks, int(info.World), int(info.Rank)+1)
	}
	if len(seen) < ranks {
		return nil, fmt.Errorf("there are ledgers of %d of %d ranks", len(seen), ranks)
	}
	r.ranks = ranks
	if err := r.findComms(); err != nil {
		return nil, err
	}
	if err := r.addPrograms(); err != nil {
		return nil, err
	}
	r.out.Head.Format, r.out.Head.Ranks = workload.Format, ranks
	r.out.Head.Source = workload.Source{Kind: "ledger", Missing: r.missing()}
	if r.rhythm != "" {
		r.out.Head.Source.Notes = []string{r.rhythm}
	}
	return &r.out, nil
}

// addPrograms adds the operations of all ranks.
func (r *recorder) addPrograms() error {
	if r.isTimed = r.hasKernels(); r.isTimed {
		programs, err := r.timedPrograms()
		r.write(programs)
		return err
	}
	calls, err := r.launches()
	if err != nil {
		return err
	}
	programs := make([][]workload.Op, r.ranks)
	starts := r.startOf(calls)
	for rank := range calls {
		programs[rank] = r.program(calls[rank], starts[rank])
	}
	r.write(programs)
	return nil
}

// missing are the things that a ledger does not say.
func (r *recorder) missing() []string {
	out := []string{"the reduction operators: they are sum"}
	if r.sharesNode() && !r.isTimed && !r.isAlone() {
		out = append(out,
			"when a rank was done with a call, if it gets the last data from a rank on its node: it is done with its "+
				"last message over the network, and waiting after that counts as computation")
	}
	if n := r.trace.Supposed; n > 0 {
		out = append(out,
			fmt.Sprintf("which ranks of a node are in which of %s of the same size: they are in the order of ranks",
				units.Count(n, "communicator")))
	}
	if r.untyped > 0 {
		out = append(out, fmt.Sprintf("the types of %s: they are bytes", units.Count(r.untyped, "call")))
	}
	if r.early > 0 {
		out = append(out,
			fmt.Sprintf(
				"what ran on the stream before %s, which were launched ahead: there is no computation before them",
				units.Count(r.early, "call")))
	}
	if r.isAlone() {
		out = append(out, r.missingAlone()...)
	}
	if r.unknown > 0 {
		out = append(out, fmt.Sprintf("what %s waited for on their streams: the streams compute until then",
			units.Count(r.unknown, "operation")))
	}
	if r.unsure > 0 {
		what := "they wait for it (ns), and max_ns is their time without; expect and replay give the times of both cases"
		if r.o.NoWaits {
			what = "they do not wait for it; without --no-waits the file has both cases"
		}
		out = append(out,
			fmt.Sprintf(
				"whether %d of %s between calls began only when a call before had ended: %s",
				r.unsure, units.Count(r.total, "computation"), what))
	}
	return out
}

// sharesNode says whether several ranks are on one node.
func (r *recorder) sharesNode() bool {
	seen := map[uint32]bool{}
	for _, info := range r.trace.Ranks {
		if seen[info.Node] {
			return true
		}
		seen[info.Node] = true
	}
	return false
}

// launches are what each rank made, in order.
func (r *recorder) launches() ([][]launched, error) {
	out := make([][]launched, r.ranks)
	r.start = r.trace.Tasks[0].Begun
	for i := range r.trace.Tasks {
		x := &r.trace.Tasks[i]
		if x.Owner < 0 || x.Owner >= r.ranks {
			return nil, fmt.Errorf("a call is of rank %d of %d", x.Owner, r.ranks)
		}
		r.start = min(r.start, x.Begun)
		of := out[x.Owner]
		if n := len(of) - 1; n >= 0 && r.trace.SameGroup(of[n].tasks[0], i) {
			of[n].tasks = append(of[n].tasks, i)
			continue
		}
		out[x.Owner] = append(of, launched{tasks: []int{i}, at: x.Begun})
	}
	ends := r.ends()
	for rank := range out {
		for i := range out[rank] {
			l := &out[rank][i]
			for _, task := range l.tasks {
				l.at, l.end = min(l.at, r.trace.Tasks[task].Begun), max(l.end, ends[task])
			}
			l.end = max(l.end, l.at)
		}
		r.useKernels(out[rank])
		out[rank] = append(out[rank], r.steps(rank)...)
		slices.SortStableFunc(out[rank], func(a, b launched) int { return cmp.Compare(a.at, b.at) })
	}
	if r.byRhythm() {
		return out, markRhythm(r, out,
			func(p *program, k keys, l launched) beat { return beat{k.of(p, l.tasks), l.at, l.end} },
			func(last launched) launched { return launched{at: last.at, end: last.at, step: true} })
	}
	return out, nil
}

// ends are when a rank was done with each task: when it could read its last message and had sent its last one. A rank
// whose messages all stay in its node is done when the call is.
func (r *recorder) ends() []int64 {
	t := r.trace
	ends := make([]int64, len(t.Tasks))
	for i := range t.Messages {
		m := &t.Messages[i]
		if m.ReceiveTask >= 0 && m.Received {
			ends[m.ReceiveTask] = max(ends[m.ReceiveTask], m.VisibleAt())
		}
		if m.SendTask >= 0 && m.HasSend {
			ends[m.SendTask] = max(ends[m.SendTask], m.Posted)
		}
	}
	for i := range ends {
		if x := &t.Tasks[i]; ends[i] == 0 {
			ends[i] = cmp.Or(x.KernelEnded, x.ProxyEnded)
		}
		if c := t.Tasks[i].Call; ends[i] == 0 && c >= 0 {
			ends[i] = t.Calls[c].Ended
		}
	}
	return ends
}

// steps are the ends of the ranges that are steps.
func (r *recorder) steps(rank int) (out []launched) {
	name := r.o.Step
	if name == "" || r.byRhythm() {
		return nil
	}
	if name == Auto {
		name = StepRange
	}
	for i := range r.trace.Ranges {
		if x := &r.trace.Ranges[i]; x.Owner == rank && x.Name == name && x.Ended > 0 {
			out = append(out, launched{at: x.Ended, end: x.Ended, step: true})
		}
	}
	return out
}
