// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

func levelsOf(t interface{ Fatal(...any) }, w *workload.Workload) ([][]int32, *workload.Index) {
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Levels(context.Background(), ix)
	if err != nil {
		t.Fatal(err)
	}
	return l, ix
}

// Rank 1 receives after three computations of rank 0, and what comes after that is below it.
func TestLevels(t *testing.T) {
	calc := func(rank int, stream string) workload.Op {
		return workload.Op{Ranks: workload.Ranks{rank}, Kind: workload.Calc, Stream: stream}
	}
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: 2}, Ops: []workload.Op{
		calc(0, "a"), calc(0, "a"), calc(0, "a"),
		{Ranks: workload.Ranks{0}, Kind: workload.Send, Stream: "a", Peer: 1, Type: "int8"},
		calc(1, "b"),
		{Ranks: workload.Ranks{1}, Kind: workload.Recv, Stream: "a", ID: 1, Type: "int8"},
		calc(1, "b"),
		{Ranks: workload.Ranks{1}, Kind: workload.Wait, After: []int{1}},
		calc(1, "c"),
	}}
	l, _ := levelsOf(t, w)
	if want := [][]int32{{0, 1, 2, 3}, {0, 3, 1, 4, 5}}; !slices.EqualFunc(l, want, slices.Equal) {
		t.Errorf("got %v, want %v", l, want)
	}
	// Calls on one communicator are one after the other, whatever their streams are.
	coll := func(stream string) workload.Op {
		return workload.Op{Kind: workload.Coll, Stream: stream, Func: workload.AllReduce, Count: 1, Type: "int8"}
	}
	calls := &workload.Workload{Head: w.Head, Ops: []workload.Op{coll("a"), coll("b"), coll("c")}}
	if l, _ := levelsOf(t, calls); !slices.Equal(l[0], []int32{0, 1, 2}) {
		t.Errorf("calls on one communicator have the levels %v", l[0])
	}
	w.Ops = w.Ops[:4]
	if l, _ := levelsOf(t, w); l != nil {
		t.Errorf("a send without a receive has levels: %v", l)
	}
}

// What comes after an operation is below it.
func TestLevelsGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, ix := levelsOf(t, workloadOf(drawCalls(t)))
		for rank := range l {
			p := ix.Program(rank)
			for i := range p.Calls {
				for _, after := range p.After(&p.Calls[i]) {
					if before := p.ByStream[after.Stream][after.Count-1]; l[rank][before] >= l[rank][i] {
						t.Fatalf("rank %d: call %d has level %d, and comes after %d with level %d", rank, i, l[rank][i],
							before, l[rank][before])
					}
				}
			}
			for _, list := range p.ByStream {
				if !slices.IsSortedFunc(list, func(a, b int32) int { return int(l[rank][a] - l[rank][b]) }) {
					t.Fatalf("rank %d: levels %v of the stream %v", rank, l[rank], list)
				}
			}
		}
	})
}
