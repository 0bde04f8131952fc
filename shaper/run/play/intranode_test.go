// SPDX-License-Identifier: Apache-2.0

package play

import (
	"testing"

	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// What stays within a node is counted.
func TestInside(t *testing.T) {
	ix := index(t,
		`{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"},{"name":"dp","ranks":"0,2"},{"name":"dp","ranks":"1,3"},`+
			`{"name":"world","ranks":"0-3"},{"name":"one","ranks":"2"}]}`,
		`{"op":"coll","comm":"tp","func":"AllReduce","count":1000,"type":"float32"}`,        // twice 4 kB
		`{"op":"coll","comm":"tp","func":"AllReduce","count":0,"type":"float32"}`,           // nothing
		`{"op":"coll","comm":"dp","func":"AllReduce","count":7,"type":"float32"}`,           // between nodes
		`{"op":"coll","comm":"world","func":"AllGather","count":7,"type":"float32"}`,        // both
		`{"rank":2,"op":"coll","comm":"one","func":"AllReduce","count":7,"type":"float32"}`, // no communication
		`{"rank":0,"op":"send","comm":"world","peer":1,"count":500,"type":"int8"}`,          // 500 B
		`{"rank":1,"op":"recv","comm":"world","peer":0,"count":500,"type":"int8"}`,
		`{"rank":1,"op":"send","comm":"world","peer":2,"count":500,"type":"int8"}`,
		`{"rank":2,"op":"recv","comm":"world","peer":1,"count":500,"type":"int8"}`,
		`{"rank":3,"op":"group","ops":[{"op":"send","comm":"world","peer":3,"count":500,"type":"int8"},{"op":"recv","comm":"world","peer":3,"count":500,"type":"int8"}]}`,
	)
	plans := plansOf(t, ix)
	var spans [][]bench.Span
	for _, p := range plans {
		spans = append(spans, make([]bench.Span, len(p.items)))
	}
	f := Facts{Workload: ix, Node: func(rank int) int { return rank / 2 }}
	got := f.insideOf(meet(ix, plans, spans).all)
	if want := (Inside{Calls: 3, Bytes: 8500, Partly: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
