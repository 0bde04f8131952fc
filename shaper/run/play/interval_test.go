// SPDX-License-Identifier: Apache-2.0

package play

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// A sentence says why there is an interval, and which time is that of which case.
func TestInterval(t *testing.T) {
	v := Interval{Shortest: 5 * time.Millisecond, Longest: 3 * time.Millisecond}
	if least, most := v.Bounds(); least != v.Longest || most != v.Shortest {
		t.Errorf("%v to %v", least, most)
	}
	const want = "The recording does not say whether 2 of 3 computations began only when the call before had ended: " +
		"5.000 ms if they did, 3.000 ms if not."
	if v.explain(recorded(t)); v.Reason != want {
		t.Errorf("%q", v.Reason)
	}
}

// recorded is a workload with a computation of two ranks of which there is an interval, and one with a time.
func recorded(t *testing.T) *workload.Index {
	t.Helper()
	w, err := workload.Read("f", strings.NewReader(`{"format":"ddlemu.workload/1","ranks":2,"source":{"kind":"ledger"}}
{"op":"calc","ns":1,"max_ns":2}
{"rank":1,"op":"calc","ns":5}
`))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	return ix
}
