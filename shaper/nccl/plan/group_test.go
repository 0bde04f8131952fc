// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// The bins of NCCL's u32fpEncode with 2 bits of fraction.
func TestSizeBin(t *testing.T) {
	got := []int{}
	for _, kib := range []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 1 << 20, 1 << 30} {
		got = append(got, sizeBin(kib<<10))
	}
	if d := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 11, 12, 76, 76}, got); d != "" {
		t.Error(d)
	}
}

// Calls on which NCCL decides at once may use as many channels each as one call with all of their bytes.
func TestGroupLimits(t *testing.T) {
	var list []*Call
	for range 2 {
		d := decide(nccl.AllReduce, Ring, Simple, 4, 4, 40<<10) // a channel needs 32 KiB of a call
		list = append(list, newCall(t, &d, func(r int) int { return r }))
	}
	for name, lists := range map[string][][]*Call{"0 1, 2 3": {list}, "0, 1": {list[:1], list[1:]}} {
		all, err := GroupShares(lists)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, shares := range all {
			var channels []string
			for _, s := range shares {
				channels = append(channels, fmt.Sprint(s.channel))
			}
			got = append(got, strings.Join(channels, " "))
		}
		if text := strings.Join(got, ", "); text != name {
			t.Errorf("channels %s, want %s", text, name)
		}
	}
}

// NCCL runs the kinds of calls in the order of their largest one, those of a kind from the smallest to the largest, and
// decides at once on those of a kind that are less than four times as large as the smallest one.
func TestAggregates(t *testing.T) {
	const k = 1 << 10
	broadcast := func(d Decision, root int) Decision {
		d.Coll, d.Root = nccl.Broadcast, root
		return d
	}
	mixed := grouped(22203, 64*k, 16*k, 16*k, 512*k)
	mixed[0] = broadcast(mixed[0], 1)
	early, late := grouped(22203, 128*k, 64*k), grouped(22907, 128*k, 64*k)
	early[0], late[0] = broadcast(early[0], 3), broadcast(late[0], 3)
	roots := grouped(22907, 64*k, 16*k)
	roots[0], roots[1] = broadcast(roots[0], 0), broadcast(roots[1], 1)
	for name, tc := range map[string]struct {
		calls   []Decision
		classes string
		want    string
	}{
		"one":                       {grouped(22203, 8), "a", "[[0]]"},
		"within four times":         {grouped(22203, 300*k, 100*k, 390*k), "aaa", "[[1 0 2]]"},
		"four times and more":       {grouped(22203, 400*k, 100*k, 300*k), "aaa", "[[1 2] [0]]"},
		"equal ones in their turn":  {grouped(22203, 8, 8, 8), "aaa", "[[0 1 2]]"},
		"a bin has no order":        {grouped(22203, 9*k, 8*k), "aa", "[[0 1]]"},
		"types apart":               {grouped(22203, 8*k, 16*k, 8*k), "aba", "[[1] [0 2]]"},
		"types of one bin":          {grouped(22203, 8*k, 8*k), "ab", "[[1] [0]]"},
		"functions apart":           {mixed, "aaaa", "[[1 2] [3] [0]]"},
		"a broadcast of 2.22":       {early, "aa", "[[1] [0]]"},
		"2.29 adds broadcasts last": {late, "aa", "[[0] [1]]"},
		"broadcasts from two": {roots, "aa",
			"the model does not know groups of broadcasts from several roots with NCCL 2.29.7"},
	} {
		got, err := Aggregates(tc.calls, func(i int) string { return tc.classes[i : i+1] })
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != tc.want {
			t.Errorf("%s: %s, want %s", name, text, tc.want)
		}
	}
}
