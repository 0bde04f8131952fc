// SPDX-License-Identifier: Apache-2.0

// Package recorded compares a job with the replay of its recording.
package recorded

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
)

// call is what a kernel of NCCL did on one rank.
type call struct {
	what         string
	begun, ended int64 // ns after the first call began on any rank
}

// Compare fails the test unless the ranks of both jobs made the same calls in the same order, and each of them began
// and ended at the same time, but for a share of the time since the first one. The replay has made other calls before,
// which connected its ranks.
func Compare(t *testing.T, trace, again string, share float64) {
	t.Helper()
	want := calls(t, trace, nil)
	got := calls(t, again, want)
	if len(want) != len(got) || len(want) == 0 {
		t.Fatalf("%d ranks recorded, %d played", len(want), len(got))
	}
	n := 0
	for rank := range want {
		if len(want[rank]) != len(got[rank]) {
			t.Errorf("rank %d: %d calls recorded, %d played", rank, len(want[rank]), len(got[rank]))
			continue
		}
		for i, w := range want[rank] {
			g := got[rank][i]
			if g.what != w.what || differ(g.begun, w.begun, share) || differ(g.ended, w.ended, share) {
				t.Errorf("rank %d: call %d is %s from %d to %d ns, recorded %s from %d to %d", rank, i, g.what, g.begun,
					g.ended, w.what, w.begun, w.ended)
				if n++; n == 10 {
					t.FailNow()
				}
			}
		}
	}
}

func differ(a, b int64, share float64) bool {
	return float64(max(a-b, b-a)) > share*float64(b)
}

// calls are the calls of each rank, in the order of their launches: all of them, or the last ones, as many as like has.
func calls(t *testing.T, folder string, like [][]call) [][]call {
	t.Helper()
	trace, err := messages.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]call, trace.Ranks[0].World)
	for i := range trace.Kernels {
		k := &trace.Kernels[i]
		if len(k.Tasks) == 0 {
			continue
		}
		var tasks []string
		for _, task := range k.Tasks {
			x := trace.Tasks[task]
			tasks = append(tasks, fmt.Sprintf("%s of %d, peer %d", x.Func, x.Count, x.Peer))
		}
		slices.Sort(tasks)
		out[k.Owner] = append(out[k.Owner], call{strings.Join(tasks, " + "), k.Begun, k.Ended})
	}
	first := int64(-1)
	for rank := range out {
		if like != nil && rank < len(like) {
			out[rank] = out[rank][max(0, len(out[rank])-len(like[rank])):]
		}
		for _, c := range out[rank] {
			if first < 0 || c.begun < first {
				first = c.begun
			}
		}
	}
	for _, of := range out {
		for i := range of {
			of[i].begun -= first
			of[i].ended -= first
		}
	}
	return out
}
