// SPDX-License-Identifier: Apache-2.0

package opcsv

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

func TestRead(t *testing.T) {
	text := "# a list\nop,count,root\nallreduce,1,-1\nbroadcast, 10 ,1\nall_gather,5,-1\nreduce_scatter,9,-1\nreduce,3,0\nbarrier,0,-1\nreduce,4,-1\n"
	w, err := Read(input.Bytes("x.csv", []byte(text)), input.Options{Ranks: 4, Type: "bfloat16"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	coll := func(f workload.Func, count int64, root int) workload.Op {
		return workload.Op{Kind: workload.Coll, Func: f, Count: count, Type: "bfloat16", Root: root}
	}
	want := []workload.Op{coll(workload.AllReduce, 1, 0), coll(workload.Broadcast, 10, 1),
		coll(workload.AllGather, 5, 0),
		coll(workload.ReduceScatter, 3, 0), coll(workload.Reduce, 3, 0), coll(workload.AllReduce, 1, 0),
		coll(workload.Reduce, 4, 0)}
	if d := cmp.Diff(want, w.Ops); d != "" {
		t.Error(d)
	}
	if len(w.Head.Source.Missing) != 2 ||
		!strings.HasPrefix(w.Head.Source.Missing[0], "no computation between the calls") {
		t.Errorf("missing: %q", w.Head.Source.Missing)
	}
	if got := strings.Join(w.Head.Source.Notes, ";"); got != "1 call: the root is not said (-1); rank 0 was taken" {
		t.Errorf("notes: %s", got)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "x.csv:1: no operation",
		"allreduce,1":             "x.csv:1: \"allreduce,1\" has 2 columns",
		"a\nb":                    "x.csv:1",
		"op,count,root\njump,1,0": `x.csv:2: "jump" is no collective`,
		"allreduce,x,0":           `count "x"`,
		"allreduce,-1,0":          `count "-1"`,
		"broadcast,1,2":           `root "2": a rank from 0 to 1`,
		"broadcast,1,-2":          `root "-2"`,
	} {
		if _, err := Read(input.Bytes("x.csv", []byte(text)), input.Options{Ranks: 2}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(input.Bytes("x.csv", []byte("allreduce,1,-1")), input.Options{}); err == nil ||
		!strings.Contains(err.Error(), "add --ranks N") {
		t.Errorf("without ranks: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("op,count,root\nallreduce,1,-1\nscatter,10,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Read(input.Bytes("x", []byte(text)), input.Options{Ranks: 3})
		if err != nil {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}
