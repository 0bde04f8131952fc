// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Between is what ranks did between their calls, where the recording does not say it.
type Between bool

const (
	// Waiting ranks compute only when a call has ended: a call begins as long after that as it was recorded.
	Waiting Between = false
	// Computing ranks compute during their calls too: a program makes a call as long after the one before as it was
	// recorded, unless it made it at the very moment when something ended. A call begins when it is made and its stream
	// is free.
	Computing Between = true
)

// op is what one stream of a rank did: its part of a call, or a computation that the software CUDA noted.
type op struct {
	part           int   // -1: a computation
	made           int64 // by the program
	begin, end     int64 // as recorded
	atBegin, atEnd int32 // nodes
	queue          queue
}

// queue is what runs one call after another: a stream, or a communicator if the stream is not known.
type queue struct {
	stream int
	comm   uint64
}

// rankOps are the operations of one rank of a job so far.
type rankOps struct {
	calls, computations []op // the last ones
	queued              map[queue]op
	made                int32 // the node at which the program made the last operation; -1: none yet
}

// mostOpen is how many calls, and how many computations, of a rank may be under way at once.
const mostOpen = 64

// ended are the operations that had ended last at a time: all that ended at the same moment.
func (r *rankOps) ended(at int64) (last []op) {
	for _, all := range [][]op{r.calls, r.computations} {
		for _, o := range all {
			switch {
			case o.end > at || len(last) > 0 && o.end < last[0].end:
			case len(last) > 0 && o.end == last[0].end:
				last = append(last, o)
			default:
				last = []op{o}
			}
		}
	}
	return last
}

// lastCall is the part of the call that had ended last at a time, -1 if none had.
func (r *rankOps) lastCall(at int64) int {
	last, end := -1, int64(0)
	for _, o := range r.calls {
		if o.end <= at && (last < 0 || o.end >= end) {
			last, end = o.part, o.end
		}
	}
	return last
}

func (r *rankOps) add(o op) {
	all := &r.calls
	if o.part < 0 {
		all = &r.computations
	}
	if *all = append(*all, o); len(*all) > mostOpen {
		*all = (*all)[len(*all)-mostOpen:]
	}
	r.queued[o.queue] = o
}

// newNode adds a moment of a job's rank that was recorded at a time.
func (g *graph) newNode(job int, at int64) int32 {
	g.at, g.jobs = append(g.at, at), append(g.jobs, job)
	return int32(len(g.at) - 1)
}

// opsOf are the operations of all ranks, by job and rank: calls in their order, and computations before the first call
// that began later.
func (g *graph) opsOf() map[[2]int][]op {
	t := g.trace
	computations, kernels := map[[2]int][]op{}, map[rankKey]int{}
	for i := range t.Kernels {
		k := &t.Kernels[i]
		key := [2]int{k.Job, k.Owner}
		switch {
		case k.IsComputation() && k.Ended >= k.Begun && k.Begun > 0:
			computations[key] = append(computations[key],
				op{part: -1, made: k.Begun, begin: k.Begun, end: k.Ended, queue: queue{stream: k.Stream}})
		case len(k.Tasks) > 0:
			kernels[rankKey{t.Tasks[k.Tasks[0]].Call, k.Job, k.Owner}] = i
		}
	}
	for _, all := range computations {
		slices.SortStableFunc(all, func(a, b op) int { return cmp.Compare(a.begin, b.begin) })
	}
	ops := map[[2]int][]op{}
	before := func(key [2]int, at int64) {
		for all := computations[key]; len(all) > 0 && all[0].begin < at; all = computations[key] {
			o := all[0]
			o.atBegin, o.atEnd = g.newNode(key[0], o.begin), g.newNode(key[0], o.end)
			ops[key], computations[key] = append(ops[key], o), all[1:]
		}
	}
	for k := range g.parts {
		p := &g.parts[k]
		key := [2]int{p.job, p.rank}
		before(key, p.begin)
		o := op{part: k, made: p.made, begin: p.begin, end: p.end, atBegin: g.begin(k), atEnd: g.end(k),
			queue: queue{stream: -1, comm: t.Calls[p.call].Comm}}
		if i, ok := kernels[rankKey{p.call, p.job, p.rank}]; ok {
			o.made, o.queue = min(t.Kernels[i].Launched, p.begin), queue{stream: t.Kernels[i].Stream}
		}
		ops[key] = append(ops[key], o)
	}
	for key := range computations {
		before(key, link.Never)
	}
	return ops
}

// orderParts makes each operation of a rank begin after what it waited for: see Between.
func (g *graph) orderParts() {
	ends := g.endsOfCalls()
	known := make([]explanation, len(g.parts))
	ops := g.opsOf()
	g.opsEnd = int32(len(g.at))
	for _, key := range slices.SortedFunc(maps.Keys(ops), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		r := &rankOps{queued: map[queue]op{}, made: -1}
		for _, o := range ops[key] {
			last, made := r.ended(o.begin), int32(-1)
			before, isQueued := r.queued[o.queue]
			if isQueued && before.end == o.begin && o.part >= 0 {
				last = []op{before} // what else ended then was on other streams
			}
			if o.part < 0 && (len(last) == 0 || last[0].end < o.begin) {
				if others := ends[[2]int64{int64(key[0]), o.begin}]; len(others) > 0 {
					last = others // it waited for other ranks
				}
			}
			if o.part >= 0 || g.between == Computing {
				made, last = g.makeOp(key[0], r, o, last)
			}
			for _, l := range last {
				g.after(o.atBegin, l.atEnd)
				isQueued = isQueued && l.atEnd != before.atEnd
			}
			if isQueued {
				g.ifBefore(o.atBegin, before.atEnd)
			}
			g.after(o.atEnd, o.atBegin)
			if o.part >= 0 {
				known[o.part] = explanation{earlier: r.lastCall(o.begin), made: made,
					computed: slices.ContainsFunc(last, func(l op) bool { return l.part < 0 && l.end == o.begin })}
			}
			r.add(o)
		}
	}
	g.addBarriers(known)
}

// endsOfCalls are the calls that took time, by their jobs and the moments at which ranks ended them.
func (g *graph) endsOfCalls() map[[2]int64][]op {
	ends := map[[2]int64][]op{}
	for k := range g.parts {
		if p := &g.parts[k]; p.end > p.begin {
			at := [2]int64{int64(p.job), p.end}
			ends[at] = append(ends[at], op{part: k, end: p.end, atEnd: g.end(k)})
		}
	}
	return ends
}

// explanation explains a call's begin.
type explanation struct {
	earlier  int   // the call that the rank had ended last, -1 if there is none
	made     int32 // the moment at which the program made the call, -1 if it counts for nothing
	computed bool  // a computation ended at that moment
}

// makeOp adds the moment at which a program made an operation. last are the operations that had ended last when it
// began, and waits are those of them that it waited for: if ranks computed during their calls, they ended when it
// began.
func (g *graph) makeOp(job int, r *rankOps, o op, last []op) (made int32, waits []op) {
	computing := g.between == Computing
	if waits = last; computing && (len(last) > 0 && last[0].end == o.begin && o.begin > o.made || o.part < 0) {
		waits = slices.DeleteFunc(last, func(l op) bool { return l.end < o.begin })
	} else if computing {
		waits = nil
	}
	if o.part < 0 && len(waits) > 0 { // its stream began it
		return -1, waits
	}
	made = g.newNode(job, o.made)
	for _, l := range r.ended(o.made) {
		if l.end == o.made || !computing {
			g.ifBefore(made, l.atEnd)
		}
	}
	if r.made < 0 || g.at[r.made] <= o.made {
		if r.made >= 0 {
			g.ifBefore(made, r.made)
		}
		r.made = made
	}
	if computing {
		g.ifBefore(o.atBegin, made)
	}
	if o.part >= 0 {
		for _, i := range g.parts[o.part].opened {
			g.ifBefore(received(i), made) // NCCL's proxy knows of the call
		}
	}
	return made, waits
}
