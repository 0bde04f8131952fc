// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/parallel"
)

func TestFirstRanks(t *testing.T) {
	for name, tc := range map[string]struct {
		n    int
		in   []string
		want []string
		note string
	}{
		"all": {4,
			[]string{`{"format":"ddlemu.workload/1","ranks":4}`,
				`{"op":"coll","func":"AllReduce","count":8,"type":"float32"}`},
			[]string{`{"op":"coll","func":"AllReduce","count":8,"type":"float32"}`}, ""},
		"world": {2,
			[]string{`{"format":"ddlemu.workload/1","ranks":4}`,
				`{"op":"coll","func":"AllReduce","count":8,"type":"float32"}`, `{"rank":"1-3","op":"calc","ns":5}`},
			[]string{`{"op":"coll","func":"AllReduce","count":8,"type":"float32"}`, `{"rank":1,"op":"calc","ns":5}`},
			"cut to the first 2 of 4 ranks"},
		"communicators": {3,
			[]string{
				`{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"},{"name":"dp","ranks":"2,0"}]}`,
				`{"id":1,"op":"coll","comm":"tp","func":"AllReduce","count":8,"type":"float32"}`,
				`{"op":"coll","comm":"dp","func":"Broadcast","count":8,"type":"float32","after":[1]}`},
			[]string{`{"rank":"0-1","id":1,"op":"coll","comm":"tp","func":"AllReduce","count":8,"type":"float32"}`,
				`{"rank":2,"id":1,"op":"calc"}`,
				`{"op":"coll","after":[1],"comm":"dp","func":"Broadcast","count":8,"type":"float32"}`},
			"dropped: 1 collective call of ranks that are alone"},
		"root": {2,
			[]string{`{"format":"ddlemu.workload/1","ranks":4}`,
				`{"op":"coll","func":"Reduce","root":3,"count":8,"type":"float32"}`},
			[]string{`{"op":"coll","func":"Reduce","count":8,"type":"float32"}`},
			"rank 0 of the communicator is the root of 2 calls"},
		"ring": {2, []string{`{"format":"ddlemu.workload/1","ranks":4}`,
			`{"op":"group","ops":[{"op":"send","count":1,"type":"int8","peer":1,"relative":true},{"op":"recv","count":1,"type":"int8","peer":-1,"relative":true}]}`},
			[]string{`{"rank":0,"op":"group","ops":[{"op":"send","count":1,"type":"int8","peer":1,"relative":true}]}`,
				`{"rank":1,"op":"group","ops":[{"op":"recv","count":1,"type":"int8","peer":-1,"relative":true}]}`},
			"2 sends and receives whose other rank is cut"},
		"to the last": {3, []string{`{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"x","ranks":"3,1,0,2"}]}`,
			`{"rank":2,"op":"send","count":1,"type":"int8","peer":-1,"relative":true}`,
			`{"rank":0,"op":"recv","count":1,"type":"int8","peer":3}`},
			[]string{`{"rank":2,"op":"send","count":1,"type":"int8","peer":-1,"relative":true}`,
				`{"rank":0,"op":"recv","count":1,"type":"int8","peer":2}`}, "cut to the first 3"},
	} {
		w, err := workload.Read("f", strings.NewReader(strings.Join(tc.in, "\n")+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ix, err := w.Index()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, err := FirstRanks(ix, tc.n)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var b bytes.Buffer
		if err := out.Write(&b); err != nil {
			t.Fatal(err)
		}
		head, ops, _ := strings.Cut(strings.TrimSpace(b.String()), "\n")
		if ops != strings.Join(tc.want, "\n") || !strings.Contains(head, tc.note) {
			t.Errorf("%s:\n%s\n%s\nwant %q\n%s", name, head, ops, tc.note, strings.Join(tc.want, "\n"))
		}
	}
}

// What is left of a job whose calls match does so too, and its ranks do what they did in the same order.
func TestFirstRanksMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := func(name string) int { return rapid.IntRange(1, 3).Draw(t, name) }
		g := parallel.GPT{Layers: 6, Hidden: 72, Heads: 6, Seq: 12, Vocab: 72, TP: few("tp"), PP: few("pp"),
			DP: few("dp"), MicroBatch: 1, Steps: 1, Type: "float16", GradType: "float32",
			Compute: parallel.Compute{Step: time.Millisecond}}
		g.Batch = g.DP * few("batches")
		g.SequenceParallel = rapid.Bool().Draw(t, "sequence parallel")
		w, err := g.Workload()
		if err != nil {
			t.Skip(err.Error())
		}
		ix, err := w.Index()
		if err != nil {
			t.Fatal(err)
		}
		if w.Head.Ranks < 2 {
			t.Skip("one rank")
		}
		n := rapid.IntRange(2, w.Head.Ranks).Draw(t, "ranks")
		out, err := FirstRanks(ix, n)
		if err != nil {
			t.Fatal(err)
		}
		after, err := out.Index()
		if err != nil {
			t.Fatal(err)
		}
		found, err := check.Run(t.Context(), after)
		if err != nil || len(found) > 0 {
			t.Fatalf("%v %v", err, found)
		}
	})
}
