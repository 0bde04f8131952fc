// SPDX-License-Identifier: Apache-2.0

package play

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

func TestWriteTimes(t *testing.T) {
	ix := index(t, `{"format":"ddlemu.workload/1","ranks":1}`, `{"op":"calc","ns":10,"name":"layer, first"}`,
		`{"op":"step"}`, `{"op":"calc","ns":10,"stream":"c"}`, `{"op":"wait"}`)
	r := &Result{Scale: 2, Facts: Facts{Workload: ix, plans: plansOf(t, ix)},
		spans: [][]bench.Span{{{Ready: 0, End: 20}, {Ready: 20, End: 40}, {Ready: 0, End: 4000}}}}
	var b strings.Builder
	if err := r.WriteTimes(&b); err != nil {
		t.Fatal(err)
	}
	want := `rank,step,line,op,name,stream,ready_us,end_us
0,1,2,calc,"layer, first",0,0.000,0.010
0,2,4,calc,calc,c,0.010,0.020
0,2,5,wait,wait,,0.000,2.000
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}
