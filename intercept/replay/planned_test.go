// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// ringOfThree is a recording of an all-reduce of 6 elements on a ring of 3 ranks, on nodes of their own, by LL: each
// rank sends 4 messages, one every 100 ns. Message k of a rank is number k of its connection.
func ringOfThree() *messages.Trace {
	t := &messages.Trace{Ranks: []ledger.Info{{NCCL: 22203}}, Nodes: map[[2]int]int{}}
	call := messages.Call{Name: "AllReduce", Everyone: true}
	for r := range 3 {
		next := (r + 1) % 3
		t.Nodes[[2]int{0, r}] = r
		t.Tasks = append(t.Tasks, messages.Task{Owner: r, Rank: r, Ranks: 3, Func: "AllReduce", Algo: "Ring",
			Proto: "LL", Datatype: "float", Count: 6})
		call.Tasks = append(call.Tasks, r)
		t.Connections = append(t.Connections, messages.Connection{Flow: uint64(r), Sender: r, Receiver: next, Src: r,
			Dst: next, Order: uint64(r)})
		for k := range 4 {
			at := int64(1000 + 100*k)
			call.Messages = append(call.Messages, len(t.Messages))
			t.Messages = append(t.Messages, messages.Message{
				Flow: uint64(r), Number: uint64(k), Sender: r, Receiver: next, Src: r, Dst: next, Size: ringSizes[r][k],
				SendTask: r, ReceiveTask: next,
				HasSend: true, Sent: true, Posted: at, Complete: at + 60, HasReceive: true, Received: true,
				ReceivePosted: 500, Due: at + 50,
			})
		}
	}
	t.Calls = []messages.Call{call}
	return t
}

// ringSizes are the bytes of each rank's messages: the first chunk has 4 elements, in 2 lines of 16 bytes, the second
// one has 2, and the third none.
var ringSizes = [3][4]uint64{{0, 16, 32, 0}, {32, 0, 16, 32}, {16, 32, 0, 16}}

// waitsFor says whether a moment waits for another one.
func (c *Calls) waitsFor(waits, other int32) bool {
	return slices.Contains(c.waiting[c.first[other]:c.first[other+1]], waits)
}

// What a rank passes on waits for what it has received, but for empty messages, which the kernels of LL do not wait
// for.
func TestPlannedRing(t *testing.T) {
	tr := ringOfThree()
	c := NewCalls(tr, Waiting)
	if calls, byRules := c.ByRules(); calls != 1 || byRules != 0 {
		t.Fatalf("%d of %d calls by rules, want none of 1", byRules, calls)
	}
	for r := range 3 {
		for k := 1; k < 4; k++ {
			sent, before := 4*r+k, 4*((r+2)%3)+k-1
			if empty := tr.Messages[before].Size == 0; c.waitsFor(posted(sent), visible(before)) == empty {
				t.Errorf("message %d of rank %d waits for the one before it on the ring: %v, its size is %d", k, r,
					!empty, tr.Messages[before].Size)
			}
		}
	}
	if _, n := c.Rules(); n > 0 {
		t.Errorf("%d rules do not hold", n)
	}
}

// A recording that is not exactly what NCCL does in such a call is not known. Rules say what its messages wait for.
func TestNotPlanned(t *testing.T) {
	for name, change := range map[string]func(t *messages.Trace){
		"another size":      func(t *messages.Trace) { t.Messages[5].Size = 16 },
		"no version":        func(t *messages.Trace) { t.Ranks[0].NCCL = 0 },
		"another protocol":  func(t *messages.Trace) { changeTasks(t, func(x *messages.Task) { x.Proto = "Simple" }) },
		"another count":     func(t *messages.Trace) { changeTasks(t, func(x *messages.Task) { x.Count = 60 }) },
		"no algorithm":      func(t *messages.Trace) { changeTasks(t, func(x *messages.Task) { x.Algo = "" }) },
		"one rank too many": func(t *messages.Trace) { changeTasks(t, func(x *messages.Task) { x.Ranks = 4 }) },
		"a message less":    func(t *messages.Trace) { t.Calls[0].Messages = t.Calls[0].Messages[:11] },
		"a huge count":      func(t *messages.Trace) { changeTasks(t, func(x *messages.Task) { x.Count = 1 << 50 }) },
		"a huge rank count": func(t *messages.Trace) { changeTasks(t, func(x *messages.Task) { x.Ranks = 1 << 40 }) },
		"a bad rank":        func(t *messages.Trace) { t.Tasks[1].Rank = -1 },
	} {
		tr := ringOfThree()
		change(tr)
		if calls, byRules := NewCalls(tr, Waiting).ByRules(); calls != 1 || byRules != 1 {
			t.Errorf("%s: %d of %d calls by rules, want 1", name, byRules, calls)
		}
	}
}

func changeTasks(t *messages.Trace, change func(x *messages.Task)) {
	for i := range t.Tasks {
		change(&t.Tasks[i])
	}
}

// gatherOnTwoNodes is a recording of an all-gather of 4 ranks by LL, with so many chunks of each. Its ring is 0, 1, 2, 3,
// and the first two ranks are on one node, the others on another one: the fabric sees what ranks 1 and 3 send.
func gatherOnTwoNodes(chunks int) *messages.Trace {
	const chunk = 32 << 10
	t := &messages.Trace{Ranks: []ledger.Info{{NCCL: 22907}}, Nodes: map[[2]int]int{}}
	call := messages.Call{Name: "AllGather", Everyone: true}
	for r := range 4 {
		t.Nodes[[2]int{0, r}] = r / 2
		t.Tasks = append(t.Tasks, messages.Task{Owner: r, Rank: r, Ranks: 4, Func: "AllGather", Algo: "Ring",
			Proto: "LL", Datatype: "int8", Count: uint64(chunks * chunk)})
		call.Tasks = append(call.Tasks, r)
	}
	for flow, r := range []int{1, 3} {
		next := (r + 1) % 4
		t.Connections = append(t.Connections, messages.Connection{Flow: uint64(flow), Sender: r, Receiver: next, Src: flow,
			Dst: 1 - flow, Order: uint64(flow)})
		for k := range 3 * chunks {
			at := int64(1000 + 100*k)
			call.Messages = append(call.Messages, len(t.Messages))
			t.Messages = append(t.Messages, messages.Message{
				Flow: uint64(flow), Number: uint64(k), Sender: r, Receiver: next, Src: flow, Dst: 1 - flow, Size: 2 * chunk,
				SendTask: r, ReceiveTask: next,
				HasSend: true, Sent: true, Posted: at, Complete: at + 60, HasReceive: true, Received: true,
				ReceivePosted: at - 10, Due: at + 50,
			})
		}
	}
	t.Calls = []messages.Call{call}
	return t
}

// Ranks of a node wait for what another one of them has received, and for its begin, although the fabric does not see
// what they send to each other.
func TestPlannedRingWithinNodes(t *testing.T) {
	c := NewCalls(gatherOnTwoNodes(1), Waiting)
	if calls, byRules := c.ByRules(); calls != 1 || byRules != 0 {
		t.Fatalf("%d of %d calls by rules, want none of 1", byRules, calls)
	}
	begin := func(rank int) int32 { return c.graph.begin(c.graph.partAt[rankKey{0, 0, rank}]) }
	// Messages 0 to 2 are of rank 1: its own data, those of rank 0, and those of rank 3.
	for name, tc := range map[string]struct {
		waits, other int32
		want         bool
	}{
		"its own data for the one before":      {posted(0), begin(0), false},
		"the next data for the one before":     {posted(1), begin(0), true},
		"the next data for the other node":     {posted(1), visible(3), false},
		"the last data for the other node":     {posted(2), visible(3), true},
		"the last data for more":               {posted(2), visible(4), false},
		"the end for what went round":          {c.graph.end(c.graph.partAt[rankKey{0, 0, 1}]), visible(4), true},
		"the end for what is not passed on":    {c.graph.end(c.graph.partAt[rankKey{0, 0, 1}]), visible(5), false},
		"the end of the one before for it all": {c.graph.end(c.graph.partAt[rankKey{0, 0, 0}]), visible(5), true},
	} {
		if got := c.waitsFor(tc.waits, tc.other); got != tc.want {
			t.Errorf("%s: waits is %v, want %v", name, got, tc.want)
		}
	}
	if _, n := c.Rules(); n > 0 {
		t.Errorf("%d rules do not hold", n)
	}
}

// A moment waits once for another one.
func TestPlannedEdgesAreThereOnce(t *testing.T) {
	long := ringOfThree() // two calls, one after the other
	for i, m := range long.Messages[:len(long.Messages):len(long.Messages)] {
		m.Number += 4
		m.SendTask, m.ReceiveTask = m.SendTask+3, m.ReceiveTask+3
		for _, at := range []*int64{&m.Posted, &m.Complete, &m.ReceivePosted, &m.Due} {
			*at += 2000
		}
		long.Messages = append(long.Messages, m)
		long.Calls[0].Messages[i] = i
	}
	second := long.Calls[0]
	second.Tasks, second.Messages = []int{3, 4, 5}, nil
	for i := range 12 {
		second.Messages = append(second.Messages, 12+i)
	}
	long.Tasks = append(long.Tasks, long.Tasks...)
	long.Calls = append(long.Calls, second)
	for name, tr := range map[string]*messages.Trace{"ring": ringOfThree(), "two calls": long, "nodes": gatherOnTwoNodes(1),
		"more than a buffer holds": gatherOnTwoNodes(4)} {
		g := newGraph(tr, Prepare(tr), Waiting)
		if g.byRules > 0 {
			t.Errorf("%s: %d calls by rules", name, g.byRules)
		}
		seen := map[[2]int32]bool{}
		for i := range g.from {
			edge := [2]int32{g.from[i], g.to[i]}
			if seen[edge] {
				t.Errorf("%s: an edge is there twice: from %d of message %d to %d of message %d", name, edge[0]%4, edge[0]/4,
					edge[1]%4, edge[1]/4)
			}
			seen[edge] = true
		}
	}
}

// twoSends is a recording of two sends of 256 KiB from rank 0 to rank 1, which the program has launched at 1000 ns. Each
// has four messages, and a place for each.
func twoSends() *messages.Trace {
	t := &messages.Trace{Ranks: []ledger.Info{{NCCL: 22203}}, Nodes: map[[2]int]int{{0, 0}: 0, {0, 1}: 1},
		Connections: []messages.Connection{{Receiver: 1, Dst: 1}}}
	for c := range 2 {
		call := messages.Call{Name: "Send", Tasks: []int{2 * c, 2*c + 1}}
		for rank, function := range []string{"Send", "Recv"} {
			t.Tasks = append(t.Tasks, messages.Task{Owner: rank, Rank: rank, Peer: 1 - rank, Ranks: 2, Func: function,
				Datatype: "int8", Count: 256 << 10, Begun: 1000})
		}
		for k := range 4 {
			call.Messages = append(call.Messages, len(t.Messages))
			t.Messages = append(t.Messages, messages.Message{Number: uint64(4*c + k), Receiver: 1, Dst: 1, Size: 64 << 10,
				SendTask: 2 * c, ReceiveTask: 2*c + 1, Step: k,
				HasSend: true, Sent: true, Posted: int64(1000 + 400*c), Complete: int64(1100 + 400*c + 100*k),
				HasReceive: true, Received: true, ReceivePosted: int64(1000 + 350*c), Due: int64(1050 + 400*c + 100*k)})
		}
		t.Calls = append(t.Calls, call)
	}
	return t
}

// The proxies of sends and receives begin with a call when they are done with the one before: the receiver's, although
// its kernel has not begun.
func TestPlannedSends(t *testing.T) {
	c := NewCalls(twoSends(), Waiting)
	if calls, byRules := c.ByRules(); calls != 2 || byRules != 0 {
		t.Fatalf("%d of %d calls by rules, want none of 2", byRules, calls)
	}
	begin := func(call, rank int) int32 { return c.graph.begin(c.graph.partAt[rankKey{call, 0, rank}]) }
	for name, tc := range map[string]struct {
		waits, other int32
		want         bool
	}{
		"a send for the kernel":                  {posted(4), begin(1, 0), true},
		"a send for the one before":              {posted(4), complete(3), true},
		"a message of the same send":             {posted(1), complete(0), false},
		"a receive for the one before":           {received(4), visible(3), true},
		"a receive for its own kernel":           {received(4), begin(1, 1), false},
		"the sender's kernel for the last place": {begin(1, 0) + 1, complete(3), true},
		"the receiver's kernel for all":          {begin(1, 1) + 1, visible(7), true},
	} {
		if got := c.waitsFor(tc.waits, tc.other); got != tc.want {
			t.Errorf("%s: waits is %v, want %v", name, got, tc.want)
		}
	}
	if _, n := c.Rules(); n > 0 {
		t.Errorf("%d rules do not hold", n)
	}
	for name, change := range map[string]func(t *messages.Trace){
		"another size": func(t *messages.Trace) { t.Messages[5].Size = 4 << 10 },
		"another rank": func(t *messages.Trace) { t.Tasks[2].Peer = 0 },
		"two sends to one rank": func(t *messages.Trace) {
			t.Calls[1].Tasks = append(t.Calls[1].Tasks, len(t.Tasks))
			t.Tasks = append(t.Tasks, t.Tasks[2])
		},
	} {
		tr := twoSends()
		change(tr)
		if calls, byRules := NewCalls(tr, Waiting).ByRules(); calls != 2 || byRules != 1 {
			t.Errorf("%s: %d of %d calls by rules, want 1 of 2", name, byRules, calls)
		}
	}
}
