// SPDX-License-Identifier: Apache-2.0

package parambasic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

func text(w *workload.Workload, rank int) string {
	var out []string
	for i := range w.Ops {
		o := &w.Ops[i]
		if len(o.Ranks) > 0 && o.Ranks.String() != fmt.Sprint(rank) {
			continue
		}
		line := fmt.Sprintf("%d:", o.ID)
		if o.Kind == workload.Calc {
			line += fmt.Sprintf("calc %d-%d", o.Nanos, o.MaxNanos)
		}
		for p := range o.Parts() {
			line += fmt.Sprintf(" %s%s %s %d %s", p.Func, p.Kind, p.Comm, p.Count, p.Type)
			if p.Kind != workload.Coll {
				line += fmt.Sprintf(" peer %d", p.Peer)
			} else if p.Func.Rooted() {
				line += fmt.Sprintf(" root %d", p.Root)
			}
		}
		if len(o.After) > 0 {
			line += fmt.Sprint(" after ", o.After)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// The files are PARAM's own: see testdata/README.md.
func TestRecorded(t *testing.T) {
	names, _ := filepath.Glob("testdata/*.json")
	w, err := Read(input.Paths(names), input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var comms []string
	for _, c := range w.Head.Comms {
		comms = append(comms, c.Name+" "+c.Ranks.String())
	}
	if got := strings.Join(comms, ", "); got != "pg0 0-3, pg1 0,2, pg1 1,3" {
		t.Errorf("communicators: %s", got)
	}
	var own []workload.Op
	for _, o := range w.Ops {
		if len(o.Ranks) == 0 || o.Ranks[0] == 1 || strings.Contains(","+o.Ranks.String()+",", ",1,") ||
			o.Ranks.String() == "0-3" {
			own = append(own, o)
		}
	}
	const want = `1: AllReducecoll pg0 1000 float32
2:calc 300000-0
3:calc 0-200000 after [1]
4: AllGathercoll pg1 600 float16 after [3]
5:calc 10000-0
6: ReduceScattercoll pg0 200 bfloat16 after [5]
7:calc 10000-0
8: Broadcastcoll pg1 50 int64 root 1 after [7]
9:calc 10000-0
10: send pg0 20 float32 peer 0 send pg0 20 float32 peer 1 send pg0 20 float32 peer 2 send pg0 20 float32 peer 3 recv pg0 10 float32 peer 0 recv pg0 20 float32 peer 1 recv pg0 30 float32 peer 2 recv pg0 40 float32 peer 3 after [9]
11:calc 10000-0
12: AllReducecoll pg0 1 float32 after [11]
13:calc 10000-0
14:calc 10000-0
15:calc 10000-0
16:calc 10000-0
17: send pg0 64 float32 peer 2 recv pg0 64 float32 peer 0 after [16]
18:calc 10000-0`
	for i := range own {
		own[i].Ranks = nil
	}
	if got := text(&workload.Workload{Ops: own}, 1); got != want {
		t.Errorf("rank 1:\n%s\nwant\n%s", got, want)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	if found, err := check.Run(t.Context(), ix); err != nil || len(found) > 0 {
		t.Errorf("%v %v", err, found)
	}
	for _, s := range []string{"the time of 4 computations", "the computation after 4 waits is between 0 and"} {
		if !strings.Contains(strings.Join(w.Head.Source.Missing, "\n"), s) {
			t.Errorf("missing %q, want %q", w.Head.Source.Missing, s)
		}
	}
}

func read(text string, ranks int) (*workload.Workload, error) {
	return Read([]input.File{input.Bytes("0.json", []byte(text))}, input.Options{OneForAll: true, Ranks: ranks})
}

func TestEntries(t *testing.T) {
	const sum = `{"comms": "AllReduce", "in_msg_size": 8, "out_msg_size": 8, "dtype": "Float", "world_size": 4}`
	for entries, want := range map[string]string{
		sum: "1: AllReducecoll world 8 float32",
		// sizes are of the tensors: what goes in and what comes out
		`{"comms": "all_gather", "in_msg_size": 8, "out_msg_size": 32, "dtype": "Half", "world_size": 4}`:        "1: AllGathercoll world 8 float16",
		`{"comms": "all_gather", "in_msg_size": 8, "out_msg_size": 32, "dtype": "float32", "world_size": 4}`:     "1: AllGathercoll world 8 float32",
		`{"comms": "reduce_scatter", "in_msg_size": 32, "out_msg_size": 8, "dtype": "Half", "world_size": 4}`:    "1: ReduceScattercoll world 8 float16",
		`{"comms": "all_to_all_single", "in_msg_size": 32, "out_msg_size": 32, "dtype": "int", "world_size": 4}`: "1: AllToAllcoll world 8 int32",
		`{"comms": "reduce", "in_msg_size": 8, "out_msg_size": 8, "dtype": "int", "world_size": 4, "root": 3}`:   "1: Reducecoll world 8 int32 root 3",
		`{"comms": "barrier", "world_size": 4}`: "1: AllReducecoll world 1 float32",
		// a list as the name of a request
		`{"comms": "all_reduce", "req": [5, false], "startTime_ns": 10, "in_msg_size": 8, "out_msg_size": 8, "dtype": "Float", "world_size": 4},
		 {"comms": "wait", "req": [5, false], "startTime_ns": 20}, {"comms": "barrier", "startTime_ns": 50}`: "1: AllReducecoll world 8 float32\n2:calc 10-0\n3:calc 0-30 after [1]\n4: AllReducecoll world 1 float32 after [3]",
	} {
		w, err := read("["+entries+"]", 0)
		if err != nil {
			t.Errorf("%s: %v", entries, err)
			continue
		}
		if got := text(w, 0); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", entries, got, want)
		}
	}
	// What is not understood is counted.
	w, err := read(`[`+sum+
		`, {"comms": "incast"}, {}, {"comms": "all_reduce", "in_msg_size": 0, "out_msg_size": 0, "dtype": "float"},
		{"comms": "all_reduce"}, {"comms": "all_reduce", "in_msg_size": 8, "dtype": "quark"}, {"comms": "broadcast", "in_msg_size": 8, "dtype": "int"}]`, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(append(w.Head.Source.Notes, w.Head.Source.Missing...), "\n")
	for _, want := range []string{`1 call: of "incast"`, "1 entry: neither comms nor compute",
		"with no element to move", "does not say what it moved", `type "quark"`, "the root of 1 call"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in:\n%s", want, all)
		}
	}
}

func TestRefused(t *testing.T) {
	const sum = `{"comms": "all_reduce", "in_msg_size": 8, "out_msg_size": 8, "dtype": "Float"%s}`
	entry := func(more string) string { return "[" + fmt.Sprintf(sum, more) + "]" }
	for text, want := range map[string]string{
		"[]":                            "add --ranks N",
		entry(""):                       "add --ranks N",
		entry(`, "world_size": -1`):     "world_size -1",
		entry(`, "world_size": 4`)[:40]: "the file ends in the middle: it was cut",
		entry(`, "world_size": "x"`):    "cannot unmarshal",
		entry(`, "world_size": 8, "pg_id": 1`) +
			"": "",
		`[{"comms": "init", "pg_id": 1, "global_ranks": [0, 0]}]`: "is there twice",
		`[{"comms": "init", "pg_id": 1, "global_ranks": [0, 7]}, ` + fmt.Sprintf(sum, `, "pg_id": 2, "world_size": 3`) +
			`]`: "the trace does not say which",
		`[{"comms": "send", "in_msg_size": 8, "out_msg_size": 8, "dtype": "int", "world_size": 2, "dst_rank": 1}]`: "give the traces of all ranks",
		`[{"comms": "wait", "world_size": 2}]`: "no call that is known",
	} {
		_, err := read(text, 0)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	two := []input.File{input.Path("testdata/0.json"), input.Path("testdata/1.json")}
	if _, err := Read(two, input.Options{OneForAll: true}); err == nil ||
		!strings.Contains(err.Error(), "the job had 4 ranks, given: 2 files") {
		t.Errorf("two of four: %v", err)
	}
	same := []input.File{input.Path("testdata/0.json"), input.Bytes("x0.json", []byte("[]"))}
	if _, err := Read(same, input.Options{}); err == nil ||
		!strings.Contains(err.Error(), "the name says rank 0, and so does another one") {
		t.Errorf("the same rank twice: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	data, err := os.ReadFile("testdata/1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(
		`[{"comms": "all_to_allv", "in_msg_size": 8, "out_msg_size": 8, "in_split": [4, 4], "out_split": [], "dtype": "Float", "world_size": 2}]`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read(text, 4)
		if err != nil || w.Head.Ranks > 1<<12 {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}
