// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

const head2 = `{"format":"ddlemu.workload/1","ranks":2}` + "\n"

// found are the findings of a file.
func found(t *testing.T, text string) []Finding {
	t.Helper()
	w, err := workload.Read("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return run1(t, w)
}

func run1(t interface{ Fatal(...any) }, w *workload.Workload) []Finding {
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Run(context.Background(), ix)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func text(f []Finding) string {
	var b strings.Builder
	for _, x := range f {
		fmt.Fprintf(&b, "%d %s ranks %s: %s\n", x.Line, x.Kind, x.Ranks, x.Text)
		for _, w := range x.Chain {
			fmt.Fprintf(&b, "  rank %d line %d: %s\n", w.Rank, w.Line, w.Text)
		}
	}
	return b.String()
}

func TestFindings(t *testing.T) {
	coll := func(fn string, more string) string {
		if !strings.Contains(more, "count") {
			more += `,"count":1`
		}
		return `{"op":"coll","func":"` + fn + `","type":"int8"` + more + "}\n"
	}
	message := func(kind string, rank, peer, count int, more string) string {
		return fmt.Sprintf(`{"op":"%s","rank":%d,"peer":%d,"count":%d,"type":"int8"%s}`+"\n", kind, rank, peer, count,
			more)
	}
	for name, test := range map[string]struct{ text, want string }{
		"nothing": {head2, ""},
		"all is well": {head2 + coll("AllReduce", `,"count":4`) + message("send", 0, 1, 4, "") +
			message("recv", 1, 0, 4, "") +
			`{"op":"wait"}` + "\n" + `{"op":"step"}`, ""},
		"nothing to reduce": {head2 + coll("AllReduce", `,"rank":0,"count":0`), ""},
		"sum is the default": {head2 + coll("AllReduce", `,"rank":0`) + coll("AllReduce", `,"rank":1,"redop":"sum"`),
			""},
		"another function": {head2 + coll("AllReduce", `,"rank":0,"count":4`) +
			coll("AllGather", `,"rank":1,"count":4`),
			"3 mismatch ranks 1: collective 1 of communicator world is AllGather of 4 int8 here, and AllReduce of 4 int8 for rank 0 in line 2\n"},
		"another root": {head2 + coll("Broadcast", `,"rank":0`) + coll("Broadcast", `,"rank":1,"root":1`),
			"3 mismatch ranks 1: collective 1 of communicator world is Broadcast of 1 int8, root 1 here, and Broadcast of 1 int8, root 0 for rank 0 in line 2\n"},
		"most are right": {`{"format":"ddlemu.workload/1","ranks":4}` + "\n" +
			coll("AllReduce", `,"rank":0,"count":4`) + coll("AllReduce", `,"rank":"1-3","count":5`),
			"2 mismatch ranks 0: collective 1 of communicator world is AllReduce of 4 int8 here, and AllReduce of 5 int8 for ranks 1-3 in line 3\n"},
		"never called": {head2 + coll("AllReduce", ``) + coll("AllReduce", `,"rank":0,"count":4`),
			"3 missing ranks 1: AllReduce of 4 int8, collective 2 of communicator world, waits for rank 1, with only 1 collective there\n"},
		"a meeting that never is complete shows its mismatch": {`{"format":"ddlemu.workload/1","ranks":3}` + "\n" +
			coll("AllReduce", `,"rank":0,"count":4`) + coll("AllReduce", `,"rank":1,"count":5`),
			"3 mismatch ranks 1: collective 1 of communicator world is AllReduce of 5 int8 here, and AllReduce of 4 int8 for rank 0 in line 2\n"},
		"no receive": {head2 + message("send", 0, 1, 4, ""),
			"2 missing ranks 0: send of 4 int8 to 1 on communicator world waits for a recv of rank 1, which makes no other one\n"},
		"another size": {head2 + message("send", 0, 1, 4, "") + message("recv", 1, 0, 5, ""),
			"3 mismatch ranks 1: recv of 5 int8 from 0 meets send of 4 int8 to 1 of rank 0 in line 2: 5 and 4 bytes\n"},
		"other streams": {head2 + message("send", 0, 1, 4, `,"stream":"a"`) +
			message("recv", 0, 1, 4, `,"stream":"b"`) + message("recv", 1, 0, 4, "") + message("send", 1, 0, 4, ""),
			""},
		"both send first": {head2 + message("send", 0, 1, 4, "") + message("recv", 0, 1, 4, "") +
			message("send", 1, 0, 4, "") + message("recv", 1, 0, 4, ""),
			"2 cycle ranks 0-1: these operations wait for each other\n" +
				"  rank 0 line 2: send of 4 int8 to 1 waits for line 5 of rank 1\n" +
				"  rank 1 line 5: recv of 4 int8 from 0 comes after line 4 on stream 0\n" +
				"  rank 1 line 4: send of 4 int8 to 0 waits for line 3 of rank 0\n" +
				"  rank 0 line 3: recv of 4 int8 from 1 comes after line 2 on stream 0\n"},
		"both send, in groups": {
			head2 +
				`{"op":"group","ops":[{"op":"send","peer":1,"relative":true,"count":4,"type":"int8"},{"op":"recv","peer":-1,"relative":true,"count":4,"type":"int8"}]}`, ""},
		"to itself": {head2 + message("send", 0, 0, 4, "") + message("recv", 0, 0, 4, ""),
			"2 cycle ranks 0: these operations wait for each other\n" +
				"  rank 0 line 2: send of 4 int8 to 0 waits for line 3 of rank 0\n" +
				"  rank 0 line 3: recv of 4 int8 from 0 comes after line 2 on stream 0\n"},
		"the host waits": {head2 + message("send", 0, 1, 4, `,"id":1,"stream":"a"`) +
			`{"op":"wait","rank":0,"after":[1]}` + "\n" + message("recv", 0, 1, 4, `,"stream":"b"`) +
			message("send", 1, 0, 4, "") + message("recv", 1, 0, 4, ""),
			"2 cycle ranks 0-1: these operations wait for each other\n" +
				"  rank 0 line 2: send of 4 int8 to 1 waits for line 6 of rank 1\n" +
				"  rank 1 line 6: recv of 4 int8 from 0 comes after line 5 on stream 0\n" +
				"  rank 1 line 5: send of 4 int8 to 0 waits for line 4 of rank 0\n" +
				"  rank 0 line 4: recv of 4 int8 from 1 is not launched: the host thread waits in line 3\n" +
				"  rank 0 line 3: wait waits for line 2\n"},
		"two communicators in two orders": {
			`{"format":"ddlemu.workload/1","ranks":2,"comms":[{"name":"a","ranks":"0-1"},{"name":"b","ranks":"0-1"}]}` +
				"\n" +
				coll("AllReduce", `,"comm":"a","rank":0`) + coll("AllReduce", `,"comm":"b"`) +
				coll("AllReduce", `,"comm":"a","rank":1`),
			"2 cycle ranks 0-1: these operations wait for each other\n" +
				"  rank 0 line 2: AllReduce of 1 int8 waits for line 4 of rank 1\n" +
				"  rank 1 line 4: AllReduce of 1 int8 comes after line 3 on stream 0\n" +
				"  rank 1 line 3: AllReduce of 1 int8 waits for line 3 of rank 0\n" +
				"  rank 0 line 3: AllReduce of 1 int8 comes after line 2 on stream 0\n"},
		"one communicator, two streams": {head2 + message("send", 0, 1, 4, `,"stream":"a"`) +
			coll("AllReduce", `,"rank":0,"stream":"b"`) +
			coll("AllReduce", `,"rank":1`) + message("recv", 1, 0, 4, ""),
			"2 cycle ranks 0-1: these operations wait for each other\n" +
				"  rank 0 line 2: send of 4 int8 to 1 waits for line 5 of rank 1\n" +
				"  rank 1 line 5: recv of 4 int8 from 0 comes after line 4 on stream 0\n" +
				"  rank 1 line 4: AllReduce of 1 int8 waits for line 3 of rank 0\n" +
				"  rank 0 line 3: AllReduce of 1 int8 comes after line 2 on communicator world\n"},
		"after, on a communicator of two streams": {head2 + message("send", 0, 1, 4, `,"id":1,"stream":"a"`) +
			message("send", 0, 1, 4, `,"stream":"b"`) + message("recv", 1, 0, 4, ``) +
			`{"op":"calc","rank":0,"id":2,"after":[1]}` + "\n" + `{"op":"calc","rank":0,"stream":"a","after":[2]}` +
			"\n" + message("recv", 1, 0, 4, ``), ""},
	} {
		if got := text(found(t, test.text)); got != test.want {
			t.Errorf("%s:\n got: %s\nwant: %s", name, got, test.want)
		}
	}
}

// call is an operation of one rank.
type call struct {
	rank int
	op   workload.Op
}

// drawCalls draws the calls of a job that works: they can be executed one after the other.
func drawCalls(t *rapid.T) (head workload.Head, calls []call) {
	head = workload.Head{Format: workload.Format, Ranks: 4, Comms: []workload.Comm{
		{Name: "world", Ranks: workload.Ranks{0, 1, 2, 3}}, {Name: "pair", Ranks: workload.Ranks{1, 0}},
		{Name: "pair", Ranks: workload.Ranks{2, 3}},
	}}
	stream := func() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "stream") }
	id := 0
	add := func(rank int, o workload.Op) {
		if o.Kind.HasStream() {
			id++
			o.ID, o.Stream = id, stream()
			for i, c := range calls {
				if c.rank == rank && c.op.ID > 0 && rapid.IntRange(0, 9).Draw(t, "after") == 0 {
					o.After = append(o.After, calls[i].op.ID)
				}
			}
		}
		calls = append(calls, call{rank, o})
	}
	for range rapid.IntRange(1, 12).Draw(t, "events") {
		comm := rapid.SampledFrom(head.Comms).Draw(t, "comm")
		count := rapid.Int64Range(1, 3).Draw(t, "count")
		switch rapid.IntRange(0, 4).Draw(t, "event") {
		case 0:
			fn := rapid.SampledFrom([]workload.Func{workload.AllReduce, workload.AllGather}).Draw(t, "func")
			for _, rank := range comm.Ranks {
				add(rank, workload.Op{Kind: workload.Coll, Comm: comm.Name, Func: fn, Count: count, Type: "int8"})
			}
		case 1:
			src := rapid.IntRange(0, len(comm.Ranks)-1).Draw(t, "src")
			dst := (src + rapid.IntRange(1, len(comm.Ranks)-1).Draw(t, "distance")) % len(comm.Ranks)
			add(comm.Ranks[src], workload.Op{Kind: workload.Send, Comm: comm.Name, Peer: dst, Count: count,
				Type: "int8"})
			add(comm.Ranks[dst], workload.Op{Kind: workload.Recv, Comm: comm.Name, Peer: src, Count: count,
				Type: "int8"})
		case 2:
			for _, rank := range comm.Ranks {
				add(rank, workload.Op{Kind: workload.Group, Ops: []workload.Op{
					{Kind: workload.Send, Comm: comm.Name, Peer: 1, Relative: true, Count: count, Type: "int8"},
					{Kind: workload.Recv, Comm: comm.Name, Peer: -1, Relative: true, Count: count, Type: "int8"},
				}})
			}
		case 3:
			add(rapid.IntRange(0, 3).Draw(t, "rank"), workload.Op{Kind: workload.Calc, Nanos: 1})
		case 4:
			add(rapid.IntRange(0, 3).Draw(t, "rank"), workload.Op{Kind: workload.Wait})
		}
	}
	return head, calls
}

// workloadOf makes a workload with one line for each call.
func workloadOf(head workload.Head, calls []call) *workload.Workload {
	w := &workload.Workload{Head: head}
	for _, c := range calls {
		c.op.Ranks = workload.Ranks{c.rank}
		w.Ops = append(w.Ops, c.op)
	}
	return w
}

func TestGoodWorkloads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head, calls := drawCalls(t)
		if f := run1(t, workloadOf(head, calls)); len(f) > 0 {
			t.Fatal(text(f))
		}
	})
}

// One wrong call is always found.
func TestMutations(t *testing.T) {
	isCall := func(o *workload.Op) bool { return o.Kind != workload.Calc && o.Kind != workload.Wait }
	rapid.Check(t, func(t *rapid.T) {
		head, calls := drawCalls(t)
		var those []int
		for i := range calls {
			if isCall(&calls[i].op) {
				those = append(those, i)
			}
		}
		if len(those) == 0 {
			return
		}
		at := rapid.SampledFrom(those).Draw(t, "which")
		o := &calls[at].op
		if o.Kind == workload.Group {
			o.Ops = slices.Clone(o.Ops)
			o = &o.Ops[rapid.IntRange(0, 1).Draw(t, "part")]
		}
		switch mutation := rapid.SampledFrom([]string{"drop", "count", "peer", "func", "swap"}).Draw(t,
			"mutation"); mutation {
		case "drop":
			dropped := calls[at].op.ID
			calls = slices.Delete(calls, at, at+1)
			for i := range calls {
				calls[i].op.After = slices.DeleteFunc(slices.Clone(calls[i].op.After),
					func(id int) bool { return id == dropped })
			}
		case "count":
			o.Count += 10
		case "peer":
			if o.Kind == workload.Coll {
				return
			}
			peers := 4
			if o.Comm == "pair" {
				peers = 2
			}
			place := slices.IndexFunc(head.Comms,
				func(c workload.Comm) bool { return c.Name == o.Comm && slices.Contains(c.Ranks, calls[at].rank) })
			me := slices.Index(head.Comms[place].Ranks, calls[at].rank)
			o.Peer, o.Relative = (o.PeerOf(me, peers)+1)%peers, false
		case "func":
			if o.Kind != workload.Coll {
				return
			}
			o.Func = workload.ReduceScatter
		case "swap": // with the next collective of the rank on the communicator
			next := slices.IndexFunc(calls[at+1:], func(c call) bool {
				return c.rank == calls[at].rank && c.op.Kind == workload.Coll && c.op.Comm == o.Comm
			})
			if o.Kind != workload.Coll || next < 0 {
				return
			}
			p := &calls[at+1+next].op
			if o.Func == p.Func && o.Count == p.Count {
				return
			}
			o.Func, p.Func, o.Count, p.Count = p.Func, o.Func, p.Count, o.Count
		}
		w := workloadOf(head, calls)
		f := run1(t, w)
		if len(f) == 0 {
			t.Fatal("the mutation was not found")
		}
		if f[0].Line < 2 || f[0].Line > len(w.Ops)+1 || len(f[0].Ranks) == 0 {
			t.Fatalf("no line or rank: %+v", f[0])
		}
	})
}

func TestInterrupted(t *testing.T) {
	w, err := workload.Read("f", strings.NewReader(head2))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, ix); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Ten thousand ranks need seconds.
func TestManyRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("many ranks take seconds")
	}
	const ranks = 10_000
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: ranks}}
	for r := 0; r < ranks; r += 8 {
		c := workload.Comm{Name: "tp"}
		for i := range 8 {
			c.Ranks = append(c.Ranks, r+i)
		}
		w.Head.Comms = append(w.Head.Comms, c)
	}
	for range 200 {
		w.Ops = append(w.Ops, workload.Op{Kind: workload.Calc, Nanos: 1},
			workload.Op{Kind: workload.Coll, Func: workload.AllReduce, Count: 1, Type: "int8"})
	}
	start := time.Now()
	if f := run1(t, w); len(f) > 0 {
		t.Fatal(text(f))
	}
	t.Logf("%d calls in %v", ranks*len(w.Ops), time.Since(start))
}

// A short file with very many streams or calls is refused before they take much memory.
func TestTooLarge(t *testing.T) {
	const recv = `{"op":"recv","count":1,"type":"int8","peer":1,"relative":true}`
	for name, text := range map[string]string{
		"many streams": `{"format":"ddlemu.workload/1","ranks":16384}` + "\n" + streams(600),
		"many that wait": `{"format":"ddlemu.workload/1","ranks":524289}` + "\n" + `{"op":"group","ops":[` + recv + "," +
			recv + "]}\n",
	} {
		w, err := workload.Read("f", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		ix, err := w.Index()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), ix); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func streams(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`{"op":"calc","ns":1,"stream":"s%d"}`+"\n", i)
	}
	return text
}
