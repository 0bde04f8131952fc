// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// levels are how many operations each operation comes after.
type levels struct {
	of   [][]int32 // by rank and call
	host []int32   // by rank: that of its last Wait
}

// maxLevels is the maximum number of operations of all ranks of which levels are counted.
const maxLevels = 1 << 22

// Levels returns for each rank and each position in the calls of its program how many operations come before it, along
// the longest chain of operations that wait for each other. Calls that meet have one level. It returns nil if the
// calls do not match, or if there are very many.
func Levels(ctx context.Context, ix *workload.Index) ([][]int32, error) {
	sum := 0
	for _, p := range ix.Programs {
		sum += len(p.Ranks) * len(p.Calls)
	}
	if sum > maxLevels {
		return nil, nil
	}
	r, err := newRun(ix)
	if err != nil {
		return nil, err
	}
	r.levels = &levels{of: make([][]int32, len(r.ranks)), host: make([]int32, len(r.ranks))}
	for at := range r.ranks {
		r.levels.of[at] = make([]int32, len(r.ranks[at].Calls))
	}
	if err := r.play(ctx); err != nil {
		return nil, err
	}
	r.explain()
	if len(r.findings) > 0 {
		return nil, nil
	}
	return r.levels.of, nil
}

// take sets the level of a call that the host thread takes, if it is a Wait or Step: one more than the highest
// level of the calls that it waits for.
func (l *levels) take(at int32, k *rank) {
	c := &k.Calls[k.host]
	if c.Stream >= 0 {
		return
	}
	level := l.host[at]
	after := k.After(c)
	for _, d := range after {
		level = max(level, l.of[at][k.ByStream[d.Stream][d.Count-1]]+1)
	}
	if len(after) == 0 {
		for s := range k.ByStream {
			if n := k.ended[s]; n > 0 {
				level = max(level, l.of[at][k.ByStream[s][n-1]]+1)
			}
		}
	}
	l.of[at][k.host] = level
	if k.ops[c.Op].Kind == workload.Wait {
		l.host[at] = level + 1
	}
}

// start sets the level of a call that starts.
func (l *levels) start(at int32, k *rank, stream, call int32) {
	level := l.host[at]
	before := func(other int32) { level = max(level, l.of[at][other]+1) }
	if n := k.ended[stream]; n > 0 {
		before(k.ByStream[stream][n-1])
	}
	for _, d := range k.After(&k.Calls[call]) {
		before(k.ByStream[d.Stream][d.Count-1])
	}
	for _, p := range k.parts[call] {
		if next := k.finished[p.name]; next > 0 {
			before(k.calls[p.name][next-1])
		}
	}
	l.of[at][call] = level
}

// join gives calls that meet one level.
func (l *levels) join(callers []caller) {
	level := int32(0)
	for _, c := range callers {
		level = max(level, l.of[c.rank][c.call])
	}
	for _, c := range callers {
		l.of[c.rank][c.call] = level
	}
}
