// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"fmt"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/why"
)

// Few pairs of ranks are named; of many, the senders or the receivers, whichever are fewer.
func TestOccupants(t *testing.T) {
	pairs := func(from, to []int) (by []why.Share) {
		for _, f := range from {
			for _, r := range to {
				by = append(by, why.Share{Pair: why.Pair{From: fmt.Sprintf("rank %d", f), To: fmt.Sprintf("rank %d", r)},
					Ns: int64(f)})
			}
		}
		return by
	}
	for _, tc := range []struct {
		from, to []int
		want     string
	}{
		{[]int{1, 3}, []int{0}, "sent by rank 3 to rank 0 (75 %), rank 1 to rank 0 (25 %)"},
		{[]int{4, 6}, []int{0, 1, 2}, "sent by rank 6 (60 %), rank 4 (40 %) to 3 ranks"},
		{[]int{1, 2, 3, 4}, []int{0}, "sent to rank 0 (100 %) by 4 ranks"},
		{[]int{10, 20, 30, 20, 10, 10}, []int{0, 1, 2, 3, 4, 5, 6},
			"sent by rank 20 (40 %), rank 10 (30 %), rank 30 (30 %) to 7 ranks"},
		{[]int{1, 2, 3, 4, 5, 6}, []int{0, 1, 2, 3, 4, 5},
			"sent by rank 6 (29 %), rank 5 (24 %), rank 4 (19 %), rank 3 (14 %), 2 others (14 %) to 6 ranks"},
	} {
		if got := occupants(pairs(tc.from, tc.to)); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
