// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// program is a program with what the matching needs.
type program struct {
	*workload.Program
	ops []workload.Op // of the workload
	// names are the communicators' names that it uses, and calls the positions of its calls on each of them.
	names []string
	calls [][]int32
	// parts are the calls of NCCL of each operation.
	parts [][]part
}

// part is a call of NCCL.
type part struct {
	op   *workload.Op
	name int32 // in program.names
}

// rank is the state of a rank.
type rank struct {
	*program
	host     int32   // the next call that the host thread takes
	ended    []int32 // by stream: how many operations
	waiting  []int32 // by stream: the parts of its operation that have no partner yet, 0 if it does not execute
	finished []int32 // by name: how many operations on it have ended
	colls    []int32 // by name: how many collectives were begun
	queued   bool
}

// caller is a part that a rank executes.
type caller struct {
	rank, stream int32
	op           *workload.Op
	call         int32
}

// collKey is the nth collective of a communicator.
type collKey struct{ comm, n int32 }

// pairKey is the messages from one rank to another of a communicator.
type pairKey struct{ comm, src, dst int32 }

// pair is the sends and receives that have no partner yet: one of the two lists is empty.
type pair struct {
	sends, recvs []caller
}

// run is the state of the matching.
type run struct {
	ix       *workload.Index
	ranks    []rank
	queue    []int32              // ranks for which something has changed
	meetings map[collKey][]caller // that execute a collective already
	pairs    map[pairKey]*pair
	// broken are the communicators and pairs of which a difference was found: what comes after it is no news.
	broken      map[int32]bool
	brokenPairs map[pairKey]bool
	findings    []Finding
	levels      *levels // nil if nobody asks for them
	steps       int     // that were made
	waiting     int     // parts that have no partner yet
}

// exceeded says whether the matching costs more than it may.
func (r *run) exceeded() bool { return r.steps > maxSteps || r.waiting > maxWaiting }

func newRun(ix *workload.Index) (*run, error) {
	r := &run{
		ix: ix, meetings: map[collKey][]caller{}, pairs: map[pairKey]*pair{}, broken: map[int32]bool{},
		brokenPairs: map[pairKey]bool{},
		ranks:       make([]rank, ix.Workload.Head.Ranks),
	}
	state := 0
	for i := range ix.Programs {
		p := compile(ix, &ix.Programs[i])
		state += (len(p.Streams) + len(p.names)) * len(p.Ranks)
		if state > maxState {
			return nil, errTooLarge
		}
		for _, at := range p.Ranks {
			streams, names := make([]int32, 2*len(p.Streams)), make([]int32, 2*len(p.names))
			r.ranks[at] = rank{
				program: p, ended: streams[:len(p.Streams)], waiting: streams[len(p.Streams):],
				finished: names[:len(p.names)], colls: names[len(p.names):], queued: true,
			}
		}
	}
	for at := range r.ranks {
		r.queue = append(r.queue, int32(at))
	}
	return r, nil
}

// compile finds the calls of NCCL of a program.
func compile(ix *workload.Index, p *workload.Program) *program {
	c := &program{Program: p, ops: ix.Workload.Ops, parts: make([][]part, len(p.Calls))}
	number := map[int]int32{}
	for i := range p.Calls {
		for o := range ix.Workload.Ops[p.Calls[i].Op].Parts() {
			if o.Kind == workload.Coll && o.Count == 0 {
				continue // NCCL discards it before it looks for others
			}
			name := ix.NameOf(o.Comm)
			n, ok := number[name]
			if !ok {
				n = int32(len(c.names))
				number[name] = n
				c.names = append(c.names, ix.Names[name])
				c.calls = append(c.calls, nil)
			}
			c.parts[i] = append(c.parts[i], part{o, n})
			if calls := c.calls[n]; len(calls) == 0 || calls[len(calls)-1] != int32(i) {
				c.calls[n] = append(calls, int32(i))
			}
		}
	}
	return c
}

// play lets all ranks go on until none can.
func (r *run) play(ctx context.Context) error {
	for n := 0; len(r.queue) > 0; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at := r.queue[len(r.queue)-1]
		r.queue = r.queue[:len(r.queue)-1]
		r.ranks[at].queued = false
		for !r.exceeded() && (r.takeCalls(at) || r.startAll(at)) {
			continue
		}
		if r.exceeded() {
			return errTooLarge
		}
	}
	return nil
}

// takeCalls lets the host thread go on. It says whether it did.
func (r *run) takeCalls(at int32) bool {
	k := &r.ranks[at]
	before := k.host
	for int(k.host) < len(k.Calls) && r.hostGoesOn(k) {
		if r.levels != nil {
			r.levels.take(at, k)
		}
		k.host++
	}
	return k.host != before
}

// hostGoesOn says whether the host thread can take its next call: only Wait, which has no stream, makes it wait.
func (r *run) hostGoesOn(k *rank) bool {
	c := &k.Calls[k.host]
	r.steps++
	return c.Stream >= 0 || len(r.unended(k, c)) == 0
}

// unended are the operations that a Wait still waits for. Step has none.
func (r *run) unended(k *rank, c *workload.ProgramCall) (calls []int32) {
	after := k.After(c)
	r.steps += len(after) + len(k.ByStream)
	for _, d := range after {
		if k.ended[d.Stream] < d.Count {
			calls = append(calls, k.ByStream[d.Stream][d.Count-1])
		}
	}
	if len(after) > 0 || k.ops[c.Op].Kind != workload.Wait {
		return calls
	}
	for s, list := range k.ByStream {
		if n := int(k.ended[s]); n < len(list) && list[n] < k.host {
			calls = append(calls, list[n])
		}
	}
	return calls
}

// startAll starts the operations of a rank that can start. It says whether any did.
func (r *run) startAll(at int32) bool {
	k := &r.ranks[at]
	started := false
	r.steps += len(k.ByStream)
	for s, list := range k.ByStream {
		n := k.ended[s]
		if int(n) < len(list) && k.waiting[s] == 0 && list[n] < k.host && r.canStart(k, list[n]) {
			r.start(at, int32(s), list[n])
			started = true
		}
	}
	return started
}

// canStart says whether all that a call comes after has ended, besides its stream's.
func (r *run) canStart(k *rank, call int32) bool {
	after := k.After(&k.Calls[call])
	r.steps += len(after) + len(k.parts[call])
	for _, d := range after {
		if k.ended[d.Stream] < d.Count {
			return false
		}
	}
	for _, p := range k.parts[call] {
		if k.calls[p.name][k.finished[p.name]] != call {
			return false
		}
	}
	return true
}

// start executes a call. What needs no partner ends at once.
func (r *run) start(at, stream, call int32) {
	k := &r.ranks[at]
	if r.levels != nil {
		r.levels.start(at, k, stream, call)
	}
	k.waiting[stream] = int32(len(k.parts[call]))
	r.waiting += len(k.parts[call])
	if k.waiting[stream] == 0 {
		k.ended[stream]++
		return
	}
	for _, p := range k.parts[call] {
		place, _ := r.ix.Place(k.names[p.name], int(at))
		me := caller{at, stream, p.op, call}
		if p.op.Kind == workload.Coll {
			key := collKey{place.Comm, k.colls[p.name]}
			k.colls[p.name]++
			r.meet(key, me)
		} else {
			r.pair(place, me)
		}
	}
}

// meet lets a rank execute a collective. It ends when all of the communicator's ranks execute it.
func (r *run) meet(key collKey, me caller) {
	callers := append(r.meetings[key], me)
	if len(callers) < len(r.ix.Comms[key.comm].Ranks) {
		r.meetings[key] = callers
		return
	}
	delete(r.meetings, key)
	r.compare(key, callers)
	if r.levels != nil {
		r.levels.join(callers)
	}
	for _, c := range callers {
		r.partDone(c)
	}
}

// pair lets a rank send or receive. It ends when the peer executes the other half.
func (r *run) pair(place workload.Place, me caller) {
	peers := r.ix.Comms[place.Comm].Ranks
	peer := me.op.PeerOf(int(place.At), len(peers))
	key := pairKey{place.Comm, place.At, int32(peer)}
	if me.op.Kind == workload.Recv {
		key.src, key.dst = key.dst, key.src
	}
	p := r.pairs[key]
	if p == nil {
		p = &pair{}
		r.pairs[key] = p
	}
	mine, other := &p.sends, &p.recvs
	if me.op.Kind == workload.Recv {
		mine, other = other, mine
	}
	if len(*other) == 0 {
		*mine = append(*mine, me)
		return
	}
	you := (*other)[0]
	if *other = (*other)[1:]; len(*other) == 0 {
		delete(r.pairs, key)
	}
	r.compareSizes(key, me, you)
	if r.levels != nil {
		r.levels.join([]caller{me, you})
	}
	r.partDone(you)
	r.partDone(me)
}

// partDone ends a part of a call, and the call with its last part.
func (r *run) partDone(c caller) {
	k := &r.ranks[c.rank]
	k.waiting[c.stream]--
	r.waiting--
	if k.waiting[c.stream] > 0 {
		return
	}
	k.ended[c.stream]++
	for _, p := range k.parts[c.call] {
		if next := k.finished[p.name]; int(next) < len(k.calls[p.name]) && k.calls[p.name][next] == c.call {
			k.finished[p.name]++
		}
	}
	if !k.queued {
		k.queued = true
		r.queue = append(r.queue, c.rank)
	}
}
