// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// The software CUDA tells when each kernel was launched, began and ended on its stream, and when streams computed. So
// the workload has the streams of the job, and the host thread launches each call when the program did.

// hasKernels says whether the kernels of all calls are known, and have ended.
func (r *recorder) hasKernels() bool {
	tasks := 0
	for i := range r.trace.Kernels {
		if k := &r.trace.Kernels[i]; k.Ended > 0 {
			tasks += len(k.Tasks)
		}
	}
	return tasks == len(r.trace.Tasks)
}

// ran is what a stream of one rank ran, or the end of a step.
type ran struct {
	*messages.Kernel
	step bool // it ended at Launched
}

// timedPrograms are what each rank did.
func (r *recorder) timedPrograms() ([][]workload.Op, error) {
	calls, computations := make([][]ran, r.ranks), make([][]ran, r.ranks)
	r.start = -1
	for i := range r.trace.Kernels {
		k := &r.trace.Kernels[i]
		if k.Owner < 0 || k.Owner >= r.ranks || len(k.Tasks) == 0 && !k.IsComputation() {
			continue // a copy within the rank takes no time
		}
		if k.IsComputation() {
			computations[k.Owner] = append(computations[k.Owner], ran{Kernel: k})
		} else {
			calls[k.Owner] = append(calls[k.Owner], ran{Kernel: k})
		}
		first := k.Begun
		if k.Launched != 0 {
			first = k.Launched - r.o.HostCall
		}
		if r.start < 0 || first < r.start {
			r.start = first
		}
	}
	for rank := range calls {
		for _, s := range r.steps(rank) {
			calls[rank] = append(calls[rank], ran{Kernel: &messages.Kernel{Launched: s.at}, step: true})
		}
		slices.SortStableFunc(calls[rank], func(a, b ran) int { return cmp.Compare(a.Launched, b.Launched) })
	}
	if r.byRhythm() {
		if err := markRhythm(r, calls,
			func(p *program, k keys, x ran) beat { return beat{k.of(p, x.Tasks), x.Begun, x.Ended} },
			func(last ran) ran { return ran{Kernel: &messages.Kernel{Launched: last.Launched}, step: true} }); err != nil {
			return nil, err
		}
	}
	programs := make([][]workload.Op, r.ranks)
	for rank := range programs {
		p := &timed{program: program{recorder: r, before: r.start}, streams: map[int]*stream{},
			ends: map[int64]map[int]int{}}
		p.run(insert(calls[rank], computations[rank]))
		programs[rank] = p.ops
	}
	return programs, nil
}

// insert puts computations among calls, which are in the order of their launches: behind those that they come after on
// their stream, and before those that began when they had ended.
func insert(calls, computations []ran) []ran {
	slices.SortStableFunc(computations, func(a, b ran) int { return cmp.Compare(a.Begun, b.Begun) })
	at := make([][]ran, len(calls)+1)
	for _, c := range computations {
		place := slices.IndexFunc(calls, func(x ran) bool { return !x.step && x.Begun >= c.Ended })
		if place < 0 {
			place = len(calls)
		}
		for i := len(calls) - 1; i >= place; i-- {
			if x := calls[i]; !x.step && x.Stream == c.Stream && x.Ended <= c.Begun {
				place = i + 1
			}
		}
		at[place] = append(at[place], c)
	}
	out := make([]ran, 0, len(calls)+len(computations))
	for i := range at {
		out = append(out, at[i]...)
		if i < len(calls) {
			out = append(out, calls[i])
		}
	}
	return out
}

// timed is a program of which it is known when its operations ran.
type timed struct {
	program
	streams map[int]*stream
	ends    map[int64]map[int]int // by time, the id of the last operation that ended then on each stream
}

// stream is the calls on a stream so far.
type stream struct {
	name  string
	ended int64
}

func (p *timed) run(all []ran) {
	for i, x := range all {
		if x.step {
			p.advance(x.Launched)
			p.ops = append(p.ops, workload.Op{Kind: workload.Step})
			continue
		}
		s := p.streams[x.Stream]
		if s == nil {
			s = &stream{name: fmt.Sprintf("s%d", len(p.streams)), ended: p.start}
			p.streams[x.Stream] = s
		}
		after := p.gate(x.Kernel, s)
		if x.IsComputation() {
			// If nothing on the GPU began it, the program did, unless it has launched a later call before that.
			if i+1 == len(all) || all[i+1].IsComputation() || all[i+1].Launched >= x.Begun {
				if len(after) == 0 && x.Begun > s.ended {
					p.advance(x.Begun)
				}
			}
		} else {
			p.advance(x.Launched - p.o.HostCall)
			p.before = max(p.before, x.Launched)
		}
		p.fill(x.Kernel, s, &after)
		p.launch(x.Kernel, s, after)
	}
}

// advance lets the host thread go on until a time: it waits for the operations that have ended, and computes.
func (p *timed) advance(at int64) {
	if at <= p.before {
		return
	}
	free := at - p.before
	waited, ids := p.ended(at)
	calc := workload.Op{Kind: workload.Calc, Stream: host, Nanos: free}
	if len(ids) > 0 && waited > p.before {
		if at > waited {
			p.unsure++
		}
		if !p.o.NoWaits {
			p.add(workload.Op{Kind: workload.Wait, After: ids})
			calc.Nanos, calc.MaxNanos = at-waited, free
		}
	}
	if calc.Nanos > 0 {
		p.total++
		if calc.MaxNanos <= calc.Nanos {
			calc.MaxNanos = 0
		}
		p.add(workload.Op{Kind: workload.Wait, After: []int{p.add(calc)}})
	}
	p.before = at
}

// gate are the operations on other streams that ended when this one began: it waited for them, unless it began when it
// was launched, or when its stream was free.
func (p *timed) gate(k *messages.Kernel, s *stream) []int {
	if k.Begun == k.Launched || k.Begun == s.ended {
		return nil
	}
	return slices.Sorted(maps.Values(p.ends[k.Begun]))
}

// fill adds a computation before an operation that began later than all that is known to have held it up.
func (p *timed) fill(k *messages.Kernel, s *stream, after *[]int) {
	if gap := k.Begun - max(p.before, s.ended); gap > 0 && len(*after) == 0 {
		p.unknown++
		p.add(workload.Op{Kind: workload.Calc, Stream: s.name, Nanos: gap})
	}
}

// launch adds the operation.
func (p *timed) launch(k *messages.Kernel, s *stream, after []int) {
	op := workload.Op{Kind: workload.Calc, Nanos: k.Ended - k.Begun}
	comm := ""
	if !k.IsComputation() {
		op = p.op(k.Tasks)
		comm = p.comms[p.trace.Tasks[k.Tasks[0]].Comm]
	} else {
		p.total++
	}
	op.Stream, op.After = s.name, after
	id := p.add(op)
	p.open = append(p.open, open{id, comm, k.Ended})
	if p.ends[k.Ended] == nil {
		p.ends[k.Ended] = map[int]int{}
	}
	p.ends[k.Ended][k.Stream] = id
	s.ended = k.Ended
}
