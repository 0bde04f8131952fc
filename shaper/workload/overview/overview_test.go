// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
)

const text = `{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"a","ranks":"0-1"},{"name":"a","ranks":"2-3"},{"name":"b","ranks":"0-3"}]}
{"id":1,"op":"calc","stream":"c","ns":10000}
{"id":2,"op":"coll","stream":"n","after":[1],"comm":"b","func":"AllGather","count":10,"type":"float32"}
{"op":"calc","stream":"c","ns":5,"max_ns":7,"rank":0}
{"id":3,"op":"coll","stream":"n","comm":"a","func":"AllReduce","count":10,"type":"float32"}
{"op":"wait","after":[3]}
{"op":"step"}
{"id":4,"op":"calc","stream":"c","ns":10000}
{"op":"coll","stream":"n","after":[4],"comm":"b","func":"AllGather","count":10,"type":"float32"}
{"op":"calc","stream":"c","ns":5,"max_ns":7,"rank":0}
{"op":"coll","stream":"n","comm":"a","func":"AllReduce","count":10,"type":"float32"}
{"op":"step"}
{"op":"group","rank":0,"ops":[{"op":"send","comm":"b","peer":3,"count":8,"type":"int8"},{"op":"recv","comm":"b","peer":-1,"relative":true,"count":4,"type":"int8"}]}
`

func index(t *testing.T) *workload.Index {
	t.Helper()
	w, err := workload.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

func TestOf(t *testing.T) {
	one := Range{1, 1}
	want := &Summary{
		Ranks: 4, Operations: 12, Programs: 2,
		Comms: []Comms{{"a", 2, 2, 2}, {"b", 1, 4, 4}},
		Steps: []Steps{
			{First: 1, Last: 2, Calc: Range{10000, 10005}, MaxCalc: Range{10000, 10007}, Calls: []Call{
				{"AllReduce", "a", one, Range{40, 40}, Range{40, 40}, 4},
				{"AllGather", "b", one, Range{160, 160}, Range{160, 160}, 4},
			}},
			{Calls: []Call{{"send", "b", one, Range{8, 8}, Range{8, 8}, 1},
				{"recv", "b", one, Range{4, 4}, Range{4, 4}, 1}}},
		},
	}
	if d := cmp.Diff(want, Of(index(t))); d != "" {
		t.Error(d)
	}
}

// The totals are those of all steps and communicators.
func TestTotals(t *testing.T) {
	const text = `{"format":"ddlemu.workload/1","ranks":3,"comms":[{"name":"a","ranks":"0-2"},{"name":"b","ranks":"0-1"}]}
{"op":"coll","comm":"a","func":"AllReduce","count":10,"type":"int8"}
{"op":"step"}
{"op":"coll","comm":"b","func":"AllReduce","count":5,"type":"int8"}
{"op":"coll","comm":"b","func":"AllGather","count":5,"type":"int8"}
{"op":"step"}
{"op":"coll","comm":"a","func":"AllReduce","count":7,"type":"int8"}
`
	w, err := workload.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	want := []Call{
		{Func: "AllReduce", Calls: Range{2, 3}, Bytes: Range{17, 22}, Size: Range{5, 10}, Ranks: 3},
		{Func: "AllGather", Calls: Range{1, 1}, Bytes: Range{10, 10}, Size: Range{10, 10}, Ranks: 2},
	}
	if d := cmp.Diff(want, Totals(ix)); d != "" {
		t.Error(d)
	}
}

func TestDraw(t *testing.T) {
	ix := index(t)
	got := Draw(ix, ix.Program(0), 100, false)
	want := &Picture{
		Ranks: workload.Ranks{0}, Columns: []string{"rank 0, c", "rank 0, n", "rank 0, 0"},
		Rows: []Row{
			{Cells: []string{"2 calc 10µs", "", ""}},
			{Cells: []string{"4 calc 5ns to 7ns", "3 AllGather 160 B b <- 2", ""}},
			{Cells: []string{"", "5 AllReduce 40 B a", ""}},
			{Mark: "6 host waits for 5"},
			{Mark: "7 end of step"},
			{Cells: []string{"8 calc 10µs", "", ""}},
			{Cells: []string{"10 calc 5ns to 7ns", "9 AllGather 160 B b <- 8", ""}},
			{Cells: []string{"", "11 AllReduce 40 B a", ""}},
			{Mark: "12 end of step"},
			{Cells: []string{"", "", "13 send 8 B to rank 3 + recv 4 B from rank 3"}},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := Draw(ix, ix.Program(1), 2, true); len(got.Rows) != 2 || got.More != 3 {
		t.Errorf("%+v", got)
	}
}

func TestDrawTogether(t *testing.T) {
	const text = `{"format":"ddlemu.workload/1","ranks":3}
{"rank":"0-1","op":"calc","ns":10}
{"rank":"0-1","op":"calc","ns":10}
{"rank":2,"op":"coll","func":"AllReduce","count":1,"type":"int8"}
{"rank":"0-1","op":"coll","func":"AllReduce","count":1,"type":"int8"}
{"rank":2,"op":"wait"}
{"op":"calc","ns":30}
{"op":"step"}
{"op":"calc","ns":40}
`
	w, err := workload.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	levels, err := check.Levels(context.Background(), ix)
	if err != nil {
		t.Fatal(err)
	}
	want := &Picture{
		Ranks: workload.Ranks{0, 2}, Columns: []string{"ranks 0-1, 0", "rank 2, host", "rank 2, 0"},
		Rows: []Row{
			{Cells: []string{"2 calc 10ns", "", ""}},
			{Cells: []string{"3 calc 10ns", "", ""}},
			{Cells: []string{"5 AllReduce 1 B world", "", "4 AllReduce 1 B world"}},
			{Cells: []string{"7 calc 30ns", "6 wait for all", ""}},
		},
		More: 1,
	}
	if d := cmp.Diff(want, DrawTogether(ix, levels, 4)); d != "" {
		t.Error(d)
	}
}

// A file with a communicator for each pair of ranks is not a page of rows.
func TestManyNames(t *testing.T) {
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: 30}}
	for r := 1; r < 30; r++ {
		name := "pair" + strings.Repeat("x", r)
		w.Head.Comms = append(w.Head.Comms, workload.Comm{Name: name, Ranks: workload.Ranks{0, r}})
		w.Ops = append(w.Ops, workload.Op{Kind: workload.Coll, Comm: name, Func: workload.AllReduce, Count: 4,
			Type: "int8"})
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	s := Of(ix)
	if d := cmp.Diff([]Comms{{"", 29, 2, 2}}, s.Comms); d != "" {
		t.Error(d)
	}
	want := []Call{{"AllReduce", "", Range{1, 29}, Range{4, 4 * 29}, Range{4, 4}, 30}}
	if d := cmp.Diff(want, s.Steps[0].Calls); d != "" {
		t.Error(d)
	}
}
