// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// node is an operation of a rank that has not ended.
type node struct{ rank, call int32 }

// edge says what a node waits for, and why.
type edge struct {
	to  node
	why string
}

// maxEdges is how many of the ranks that a collective waits for are followed.
const maxEdges = 64

// explain finds out why ranks could not end. Nothing needs to be explained if all could.
func (r *run) explain() {
	for _, key := range r.openMeetings() {
		r.compare(key, r.meetings[key])
	}
	if len(r.findings) > 0 {
		return // what waits after a mismatch is no news
	}
	x := &explainer{run: r, state: map[node]int{}, cycles: map[int]bool{}, unmet: map[node][]edge{}}
	x.findUnmet()
	if len(r.findings) > 0 {
		return
	}
	for at := range r.ranks {
		k := &r.ranks[at]
		if int(k.host) < len(k.Calls) {
			x.walk(node{int32(at), k.host})
		}
		for s, list := range k.ByStream {
			if int(k.ended[s]) < len(list) {
				x.walk(node{int32(at), list[k.ended[s]]})
			}
		}
	}
}

// openMeetings are the collectives in which ranks wait for others.
func (r *run) openMeetings() []collKey {
	return slices.SortedFunc(maps.Keys(r.meetings),
		func(a, b collKey) int { return cmp.Or(cmp.Compare(a.comm, b.comm), cmp.Compare(a.n, b.n)) })
}

// explainer looks for cycles among the nodes.
type explainer struct {
	*run
	state  map[node]int // 1: on the path, 2: done
	cycles map[int]bool // by the first line: those that are found
	unmet  map[node][]edge
}

// step is a node on a path, with the edges that are not followed yet, and why it waits for the next step.
type step struct {
	node  node
	edges []edge
	why   string
}

// findUnmet finds for each part that has no partner the call of the peer that it waits for. If the peer never makes it,
// that is a finding.
func (x *explainer) findUnmet() {
	for _, key := range x.openMeetings() {
		x.unmetMeeting(key, x.meetings[key])
	}
	pairs := slices.SortedFunc(maps.Keys(x.pairs), func(a, b pairKey) int {
		return slices.Compare([]int32{a.comm, a.src, a.dst}, []int32{b.comm, b.src, b.dst})
	})
	for _, key := range pairs {
		for _, c := range slices.Concat(x.pairs[key].sends, x.pairs[key].recvs) {
			x.unmetPair(key, c)
		}
	}
}

// unmetMeeting finds the calls of the ranks that are not in a meeting yet.
func (x *explainer) unmetMeeting(key collKey, callers []caller) {
	here := map[int32]bool{}
	for _, c := range callers {
		here[c.rank] = true
	}
	comm := x.ix.Comms[key.comm]
	var never workload.Ranks
	var edges []edge
	for _, q := range comm.Ranks {
		if here[int32(q)] {
			continue
		}
		call, ok := x.nthColl(q, comm.Name, key.n)
		if !ok {
			never = append(never, q)
		} else if len(edges) < maxEdges {
			edges = append(edges,
				edge{node{int32(q), call}, fmt.Sprintf("waits for line %d of rank %d", x.ranks[q].line(call), q)})
		}
	}
	first := slices.MinFunc(callers, func(a, b caller) int { return int(a.rank - b.rank) })
	if slices.Sort(never); len(never) > 0 {
		there := len(slices.Collect(x.ranks[never[0]].collsOf(comm.Name)))
		x.add(Finding{
			Kind: Missing, Line: x.line(first), Ranks: never,
			Text: fmt.Sprintf("%s, %s of communicator %s, waits for %s, with only %s there", describe(first.op),
				nth(key), comm.Name, never.Text(), units.Count(there, "collective")),
		})
	}
	for _, c := range callers {
		n := node{c.rank, c.call}
		x.unmet[n] = append(x.unmet[n], edges...)
	}
}

// unmetPair finds the call of the peer that has the other half of a message.
func (x *explainer) unmetPair(key pairKey, c caller) {
	comm := x.ix.Comms[key.comm]
	want, peer, me := workload.Recv, key.dst, key.src
	if c.op.Kind == workload.Recv {
		want, peer, me = workload.Send, key.src, key.dst
	}
	q := comm.Ranks[peer]
	call, ok := x.nextMessage(q, comm, want, int(peer), int(me))
	if !ok {
		x.add(Finding{
			Kind: Missing, Line: x.line(c), Ranks: workload.Ranks{int(c.rank)},
			Text: fmt.Sprintf("%s on communicator %s waits for a %s of rank %d, which makes no other one",
				describe(c.op), comm.Name, want, q),
		})
		return
	}
	n := node{c.rank, c.call}
	x.unmet[n] = append(x.unmet[n],
		edge{node{int32(q), call}, fmt.Sprintf("waits for line %d of rank %d", x.ranks[q].line(call), q)})
}

// nameOf is the number of a communicator's name in the program, -1 if it does not use it.
func (k *rank) nameOf(comm string) int { return slices.Index(k.names, comm) }

// nthColl is the call with the nth collective on a communicator, counted from 0.
func (r *run) nthColl(rank int, comm string, nth int32) (int32, bool) {
	k := &r.ranks[rank]
	if k.nameOf(comm) < 0 || r.exceeded() {
		return 0, false
	}
	r.steps += int(nth)
	for call := range k.collsOf(comm) {
		if nth--; nth < 0 {
			return call, true
		}
	}
	return 0, false
}

// collsOf are the calls with each collective on a communicator.
func (k *rank) collsOf(comm string) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		name := k.nameOf(comm)
		if name < 0 {
			return
		}
		for _, call := range k.calls[name] {
			for _, p := range k.parts[call] {
				if int(p.name) == name && p.op.Kind == workload.Coll && !yield(call) {
					return
				}
			}
		}
	}
}

// nextMessage is the first call, of those that do not execute yet, that sends to or receives from a peer.
func (r *run) nextMessage(rank int, comm workload.Comm, kind workload.Kind, me, peer int) (int32, bool) {
	k := &r.ranks[rank]
	name := k.nameOf(comm.Name)
	if name < 0 {
		return 0, false
	}
	for _, call := range k.calls[name][k.finished[name]:] {
		if r.steps += len(k.parts[call]); r.exceeded() {
			break
		}
		if k.executes(call) {
			continue
		}
		for _, p := range k.parts[call] {
			if int(p.name) == name && p.op.Kind == kind && p.op.PeerOf(me, len(comm.Ranks)) == peer {
				return call, true
			}
		}
	}
	return 0, false
}

// executes says whether a call has started and not ended.
func (k *rank) executes(call int32) bool {
	s := k.Calls[call].Stream
	return k.waiting[s] > 0 && k.ByStream[s][k.ended[s]] == call
}

// edges are what a node waits for.
func (x *explainer) edges(n node) (edges []edge) {
	k := &x.ranks[n.rank]
	waits := func(call int32, format string, args ...any) {
		edges = append(edges, edge{node{n.rank, call}, fmt.Sprintf(format, args...)})
	}
	c := &k.Calls[n.call]
	switch {
	case n.call > k.host:
		waits(k.host, "is not launched: the host thread waits in line %d", k.line(k.host))
		return edges
	case c.Stream < 0:
		for _, call := range x.unended(k, c) {
			waits(call, "waits for line %d", k.line(call))
		}
		return edges
	}
	if head := k.ByStream[c.Stream][k.ended[c.Stream]]; head != n.call {
		waits(head, "comes after line %d on stream %s", k.line(head), k.Streams[c.Stream])
		return edges
	}
	if k.executes(n.call) {
		return x.unmet[n]
	}
	for _, d := range k.After(c) {
		if k.ended[d.Stream] < d.Count {
			call := k.ByStream[d.Stream][d.Count-1]
			waits(call, "must come after line %d", k.line(call))
		}
	}
	for _, p := range k.parts[n.call] {
		if next := k.calls[p.name][k.finished[p.name]]; next != n.call {
			waits(next, "comes after line %d on communicator %s", k.line(next), k.names[p.name])
		}
	}
	return edges
}

// walk follows what a node waits for until it finds a cycle.
func (x *explainer) walk(from node) {
	if x.state[from] != 0 {
		return
	}
	x.state[from] = 1
	path := []step{{node: from, edges: x.edges(from)}}
	for len(path) > 0 {
		if x.steps++; x.exceeded() {
			return
		}
		last := &path[len(path)-1]
		if len(last.edges) == 0 {
			x.state[last.node] = 2
			path = path[:len(path)-1]
			continue
		}
		e := last.edges[0]
		last.edges, last.why = last.edges[1:], e.why
		switch x.state[e.to] {
		case 0:
			x.state[e.to] = 1
			path = append(path, step{node: e.to, edges: x.edges(e.to)})
		case 1:
			x.addCycle(path[slices.IndexFunc(path, func(s step) bool { return s.node == e.to }):])
		}
	}
}

// addCycle notes a cycle, unless one that begins with the same line is known.
func (x *explainer) addCycle(path []step) {
	first := 0
	for i, s := range path {
		if x.lineOf(s.node) < x.lineOf(path[first].node) {
			first = i
		}
	}
	path = slices.Concat(path[first:], path[:first])
	f := Finding{Kind: Cycle, Line: x.lineOf(path[0].node), Text: "these operations wait for each other"}
	if x.cycles[f.Line] {
		return
	}
	x.cycles[f.Line] = true
	for _, s := range path {
		k := &x.ranks[s.node.rank]
		if at := int(s.node.rank); !slices.Contains(f.Ranks, at) {
			f.Ranks = append(f.Ranks, at)
		}
		f.Chain = append(f.Chain, Wait{
			Rank: int(s.node.rank), Line: x.lineOf(s.node),
			Text: describe(&x.ix.Workload.Ops[k.Calls[s.node.call].Op]) + " " + s.why,
		})
	}
	x.add(f)
}

func (x *explainer) lineOf(n node) int { return x.ranks[n.rank].line(n.call) }
