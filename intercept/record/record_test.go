// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/rewrite"
)

// task is a call of a rank of a communicator of all of two ranks.
func task(rank int, f string, count uint64, begun int64, call int) messages.Task {
	return messages.Task{Owner: rank, Comm: 7, Func: f, Datatype: "float", Count: count, Ranks: 2, Rank: rank,
		Begun: begun, Call: call}
}

// trace has two ranks that reduce twice: from 1000 to 1500, and from 4000 to 4500. Rank 1 is 200 late at the first.
func trace() *messages.Trace {
	info := []ledger.Info{{FabricID: 7, Rank: 0, World: 2}, {FabricID: 7, Rank: 1, Node: 1, World: 2}}
	return &messages.Trace{
		Jobs: []string{"job"}, Ranks: info,
		Tasks: []messages.Task{
			task(0, "AllReduce", 8, 1000, 0), task(0, "AllReduce", 8, 4000, 1),
			task(1, "AllReduce", 8, 1200, 0), task(1, "AllReduce", 8, 4000, 1),
		},
		Calls: []messages.Call{{Ended: 1500}, {Ended: 4500}},
	}
}

// lines are the operations as a file has them.
func lines(t *testing.T, tr *messages.Trace, o Options) []string {
	t.Helper()
	w, err := Workload(tr, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Index(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := w.Write(&b); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(b.String()), "\n")
}

// A job that failed in a call is no workload: what it would have done is not known.
func TestUnfinishedCall(t *testing.T) {
	tr := trace()
	tr.Calls[1].Name, tr.Calls[1].Seq, tr.Calls[1].Messages = "AllReduce", 1, []int{0}
	tr.Messages = []messages.Message{{HasSend: true, Posted: 4100, SendTask: 1, ReceiveTask: -1, Channel: -1}}
	if _, err := Workload(tr, Options{}); err == nil || !strings.Contains(err.Error(), "AllReduce #1 never ended") {
		t.Error(err)
	}
}

func TestWorkload(t *testing.T) {
	const reduce = `"op":"coll","stream":"c0",%AFTER%"comm":"c0","func":"AllReduce","count":8,"type":"float32"}`
	after := func(text string) string { return strings.ReplaceAll(reduce, "%AFTER%", text) }
	for name, tc := range map[string]struct {
		change func(*messages.Trace)
		o      Options
		want   []string // after the head
		head   string   // in the head
	}{
		"a rank waits": {want: []string{
			`{"rank":0,"id":1,` + after(""),
			`{"rank":1,"id":1,"op":"calc","stream":"host","ns":200}`,
			`{"rank":0,"op":"wait","after":[1]}`,
			`{"rank":1,"id":2,` + after(`"after":[1],`),
			`{"rank":0,"id":3,"op":"calc","stream":"host","ns":2500,"max_ns":3000}`,
			`{"rank":1,"op":"wait","after":[2]}`,
			`{"rank":0,"id":4,` + after(`"after":[3],`),
			`{"rank":1,"id":4,"op":"calc","stream":"host","ns":2500,"max_ns":2800}`,
			`{"rank":1,"id":5,` + after(`"after":[4],`),
		}, head: "whether 2 of 3 computations between calls began only when a call before had ended: they wait for it"},
		"no rank waits": {o: Options{NoWaits: true}, change: func(tr *messages.Trace) { tr.Tasks[2].Begun = 1000 },
			want: []string{
				`{"rank":"0-1","id":1,` + after(""),
				`{"rank":"0-1","id":2,"op":"calc","stream":"host","ns":3000}`,
				`{"rank":"0-1","id":3,` + after(`"after":[2],`),
			}, head: "they do not wait for it"},
		"launched ahead": {change: func(tr *messages.Trace) {
			for i := range tr.Tasks {
				tr.Tasks[i].Begun = 1000
			}
		}, want: []string{`{"rank":"0-1","id":1,` + after(""), `{"rank":"0-1","id":2,` + after("")},
			head: "what ran on the stream before 2 calls"},
		"steps": {o: Options{Step: "train"}, change: func(tr *messages.Trace) {
			tr.Tasks = []messages.Task{tr.Tasks[0], task(1, "AllReduce", 8, 1000, 0)}
			for rank := range 2 {
				tr.Ranges = append(tr.Ranges,
					messages.Range{Owner: rank, Range: ledger.Range{Name: "train", Begun: 900, Ended: 1600}})
			}
		}, want: []string{`{"rank":"0-1","id":1,` + after(""), `{"rank":"0-1","op":"step"}`}},
		"bytes": {change: func(tr *messages.Trace) {
			tr.Tasks = []messages.Task{task(0, "Broadcast", 3, 1000, 0), task(1, "Broadcast", 3, 1000, 0)}
			for i := range tr.Tasks {
				tr.Tasks[i].Datatype, tr.Tasks[i].Peer = "", 1
			}
		},
			want: []string{
				`{"rank":"0-1","id":1,"op":"coll","stream":"c0","comm":"c0","func":"Broadcast","count":3,"type":"int8","root":1}`}, head: "the types of 2 calls: they are bytes"},
		"two ranks on a node": {change: func(tr *messages.Trace) {
			tr.Tasks = []messages.Task{tr.Tasks[0], tr.Tasks[2]}
			tr.Tasks[1].Begun, tr.Ranks[1].Node = 1000, 0
		}, want: []string{`{"rank":"0-1","id":1,` + after("")}, head: "waiting after that counts as computation"},
		"a send": {change: func(tr *messages.Trace) {
			tr.Tasks = []messages.Task{task(0, "Send", 3, 1000, 0), task(1, "Recv", 3, 1000, 0)}
			tr.Tasks[0].Peer = 1
		}, want: []string{
			`{"rank":0,"id":1,"op":"send","stream":"c0","comm":"c0","count":3,"type":"float32","peer":1}`,
			`{"rank":1,"id":1,"op":"recv","stream":"c0","comm":"c0","count":3,"type":"float32"}`,
		}},
	} {
		tr := trace()
		if tc.change != nil {
			tc.change(tr)
		}
		got := lines(t, tr, tc.o)
		if strings.Join(got[1:], "\n") != strings.Join(tc.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got[1:], "\n"), strings.Join(tc.want, "\n"))
		}
		if !strings.Contains(got[0], tc.head) {
			t.Errorf("%s: the head is %s, want %q", name, got[0], tc.head)
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*messages.Trace){
		"ledgers of 2 jobs":            func(tr *messages.Trace) { tr.Jobs = append(tr.Jobs, "other") },
		"no calls of NCCL":             func(tr *messages.Trace) { tr.Tasks = nil },
		"5 records were overwritten":   func(tr *messages.Trace) { tr.Overwritten = 5 },
		"x ends too early":             func(tr *messages.Trace) { tr.Cut = []string{"x"} },
		"ledgers of 1 of 2 ranks":      func(tr *messages.Trace) { tr.Ranks = tr.Ranks[:1] },
		"NCCL did not say":             func(tr *messages.Trace) { tr.Tasks[1].Ranks = 0 },
		"two communicators look alike": func(tr *messages.Trace) { tr.Tasks[3].Rank = 0 },
		"rank 2 of a communicator of 3": func(tr *messages.Trace) {
			tr.Tasks = tr.Tasks[:1]
			tr.Tasks[0].Ranks,
				tr.Tasks[0].Rank = 3, 0
		},
	} {
		tr := trace()
		change(tr)
		if _, err := Workload(tr, Options{}); err == nil || !strings.Contains(err.Error(), want) &&
			!strings.Contains(err.Error(), "rank 1 of a communicator of 3") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The longest case of a recording is what is recorded with NoWaits: a model that plays both has both of the files.
func TestLongestIsWithoutWaits(t *testing.T) {
	programs := func(w *workload.Workload) (out [][]string) {
		ix, err := w.Index()
		if err != nil {
			t.Fatal(err)
		}
		for rank := range 2 {
			var ops []string
			for _, op := range ix.OfRank(rank) {
				ops = append(ops, fmt.Sprint(op.Kind, op.Func, op.Count, op.Nanos, op.MaxNanos))
			}
			out = append(out, ops)
		}
		return out
	}
	waits, err := Workload(trace(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ix, err := waits.Index()
	if err != nil {
		t.Fatal(err)
	}
	none, err := Workload(trace(), Options{NoWaits: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(programs(none), programs(rewrite.Longest(ix))); diff != "" {
		t.Error(diff)
	}
}
