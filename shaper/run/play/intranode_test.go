// SPDX-License-Identifier: Apache-2.0

package play

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// What stays within a node is counted, and a note says that it costs nothing.
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
	f := Facts{Workload: ix, Node: func(rank int) int { return rank / 2 }, CUDA: "soft",
		Fabric: &fabric.Fabric{Config: configs.Default()}}
	got := f.insideOf(meet(ix, plans, spans).all)
	if want := (Inside{Calls: 3, Bytes: 8500, Partly: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	r := &Result{Forecast: true, Facts: f, Inside: got}
	const want = "within nodes: 3 calls of 8.5 kB in all stay on one node, and a part of 1 other call: this takes no time here, because NVLink and PCIe are not emulated"
	if note := r.insideNote(); note != want {
		t.Errorf("%q", note)
	}
	one := &text{Result: r}
	if one.sourceNotes(); !strings.Contains(one.b.String(), want) {
		t.Errorf("%q", one.b.String())
	}
	for _, in := range []Inside{{}, {Partly: 2}, {Calls: 1, Bytes: 10}} {
		r.Inside = in
		t.Log(r.insideNote())
		if (r.insideNote() == "") != (in == Inside{}) {
			t.Errorf("%+v: %q", in, r.insideNote())
		}
	}
	if r.Facts.Fabric.Config.NodeTime = true; r.insideNote() != "" {
		t.Error("the model has the time of nodes")
	}
	r.Facts.Fabric.Config.NodeTime = false
	if r.Facts.CUDA = "gpu"; r.insideNote() != "" {
		t.Error("real GPUs carry what stays within a node")
	}
}
