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
	c := NewCalls(tr)
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
	if n := c.Odd(); n > 0 {
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
		if calls, byRules := NewCalls(tr).ByRules(); calls != 1 || byRules != 1 {
			t.Errorf("%s: %d of %d calls by rules, want 1", name, byRules, calls)
		}
	}
}

func changeTasks(t *messages.Trace, change func(x *messages.Task)) {
	for i := range t.Tasks {
		change(&t.Tasks[i])
	}
}
