// SPDX-License-Identifier: Apache-2.0

package play

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// index reads a workload.
func index(t *testing.T, lines ...string) *workload.Index {
	t.Helper()
	w, err := workload.Read("test", strings.NewReader(strings.Join(lines, "\n")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// tiny is two ranks with two streams, and two steps of which the second has no mark.
func tiny(t *testing.T) *workload.Index {
	return index(t,
		`{"format":"ddlemu.workload/1","ranks":2,"comms":[{"name":"a","ranks":"0-1"},{"name":"b","ranks":"1,0"}]}`,
		`{"op":"calc","ns":5,"stream":"c","id":1}`,
		`{"op":"coll","func":"AllReduce","comm":"a","count":4,"type":"float32","stream":"n","id":2,"after":[1]}`,
		`{"op":"calc","ns":6,"stream":"c","id":3,"after":[1]}`,
		`{"op":"wait","after":[2,3]}`,
		`{"op":"step"}`,
		`{"op":"coll","func":"AllReduce","comm":"a","count":4,"type":"float32","stream":"n","id":4}`,
		`{"op":"group","stream":"n","id":5,"ops":[{"op":"send","comm":"b","count":8,"type":"float16","peer":1,"relative":true},{"op":"recv","comm":"b","count":8,"type":"float16","peer":1,"relative":true}]}`,
		`{"op":"calc","ns":7,"stream":"c","after":[4,5]}`,
		`{"op":"wait"}`,
	)
}

// program is what a rank plays, without seeds.
func program(t *testing.T, p planner, rank int) (text []string, marks []int) {
	t.Helper()
	plan, err := p.plan(rank)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := plan.write(&b, nil, false); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		line, _, checked := strings.Cut(strings.TrimSuffix(line, "\n"), " check=")
		if checked {
			line += " CHECKED"
		}
		text = append(text, line)
	}
	return text, plan.marks
}

func TestPlan(t *testing.T) {
	const reduce = "comm=c0 coll=all_reduce type=float op=sum root=0 count=4"
	for name, tc := range map[string]struct {
		planner planner
		want    []string
		marks   []int
	}{
		"the file": {planner{steps: 2, check: checkLast}, []string{
			"calc stream=0 ns=5", "call stream=1 after=0 " + reduce, "calc stream=0 ns=6", "wait stream=-1 after=1,2",
			"call stream=1 " + reduce + " CHECKED", "group stream=1",
			"call comm=c1 coll=send type=half op=sum root=1 count=8 CHECKED",
			"call comm=c1 coll=recv type=half op=sum root=1 count=8 CHECKED", "end",
			"calc stream=0 after=5 ns=7", "wait stream=-1",
		}, []int{4, 8}},
		"its first step": {planner{steps: 1}, []string{
			"calc stream=0 ns=5", "call stream=1 after=0 " + reduce, "calc stream=0 ns=6", "wait stream=-1 after=1,2",
		}, []int{4}},
		"once more": {planner{steps: 3}, []string{
			"calc stream=0 ns=5", "call stream=1 after=0 " + reduce, "calc stream=0 ns=6", "wait stream=-1 after=1,2",
			"call stream=1 " + reduce, "group stream=1",
			"call comm=c1 coll=send type=half op=sum root=1 count=8",
			"call comm=c1 coll=recv type=half op=sum root=1 count=8", "end",
			"calc stream=0 after=5 ns=7", "wait stream=-1",
			"calc stream=0 ns=5", "call stream=1 after=8 " + reduce, "calc stream=0 ns=6", "wait stream=-1 after=9,10",
		}, []int{4, 8, 12}},
		"each call once": {planner{steps: 2, once: true}, []string{
			"call stream=1 " + reduce, "group stream=1",
			"call comm=c1 coll=send type=half op=sum root=1 count=8",
			"call comm=c1 coll=recv type=half op=sum root=1 count=8", "end",
		}, []int{1, 2}},
	} {
		tc.planner.ix = tiny(t)
		got, marks := program(t, tc.planner, 1) // rank 0 of b
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(tc.marks, marks); d != "" {
			t.Errorf("%s: marks (-want +got):\n%s", name, d)
		}
	}
}

// Both ends of a message, and all ranks of a collective, use one seed; different calls use different ones.
func TestSeeds(t *testing.T) {
	send := Call{Comm: 1, Kind: workload.Send, Count: 8, Type: "int8", From: 0, To: 1}
	receive := send
	receive.Kind = workload.Recv
	back := send
	back.From, back.To = 1, 0
	if send.seed() != receive.seed() || send.seed() == back.seed() || send.seed() < 0 {
		t.Errorf("seeds %d, %d, %d", send.seed(), receive.seed(), back.seed())
	}
}

func TestStepsOf(t *testing.T) {
	if n, err := StepsOf(tiny(t)); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	uneven := index(t, `{"format":"ddlemu.workload/1","ranks":2}`, `{"op":"calc","ns":1}`, `{"op":"step"}`,
		`{"op":"calc","ns":1,"rank":1}`)
	if _, err := StepsOf(uneven); err == nil || !strings.Contains(err.Error(), "rank 0 has 1 step, rank 1 has 2") {
		t.Errorf("%v", err)
	}
	idle := index(t, `{"format":"ddlemu.workload/1","ranks":3}`, `{"op":"calc","ns":1,"rank":"1-2"}`)
	if n, err := StepsOf(idle); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got, marks := program(t, planner{ix: idle, steps: 2}, 0); len(got)+len(marks) != 0 {
		t.Errorf("rank 0 plays %v", got)
	}
	if _, err := StepsOf(index(t, `{"format":"ddlemu.workload/1","ranks":2}`)); err == nil {
		t.Error("a workload without operations has steps")
	}
}

func TestBufferBytes(t *testing.T) {
	o := Options{Workload: tiny(t)}
	// On stream n the group has two calls of 16 bytes, on stream c there is none; input and output, on two ranks.
	if got := o.bufferBytes(); got != 2*2*32 {
		t.Errorf("%d bytes", got)
	}
	if got := smallest(tiny(t)); got != 16 {
		t.Errorf("the smallest call has %d bytes", got)
	}
}
