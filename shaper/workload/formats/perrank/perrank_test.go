// SPDX-License-Identifier: Apache-2.0

package perrank_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank/perranktest"
)

func TestJoinAndSplit(t *testing.T) {
	comms := []workload.Comm{{Name: "tp", Ranks: workload.Ranks{0, 1}}, {Name: "tp", Ranks: workload.Ranks{2, 3}}}
	coll := workload.Op{ID: 2, Kind: workload.Coll, Comm: "tp", Func: workload.AllReduce, Count: 4, Type: "int8",
		After: []int{1}}
	group := workload.Op{Kind: workload.Group,
		Ops: []workload.Op{{Kind: workload.Send, Comm: "tp", Peer: 1, Count: 1, Type: "int8"}}}
	calc := func(ns int64) workload.Op { return workload.Op{ID: 1, Kind: workload.Calc, Nanos: ns} }
	twice := coll
	twice.ID = 3
	free := twice
	free.After = nil
	lists := [][]workload.Op{{calc(1), coll, group}, {calc(2), coll}, {calc(1), coll, twice}, {calc(1), coll, free}}
	ops := perrank.Join(lists, comms)
	var got []string
	for _, o := range ops {
		got = append(got, string(o.Kind)+" "+o.Ranks.String())
	}
	if text := strings.Join(got, ","); text != "calc 0,2-3,calc 1,coll ,group 0,coll 2,coll 3" {
		t.Errorf("joined: %s", text)
	}
	again, err := perranktest.Split(&workload.Workload{
		Head: workload.Head{Format: workload.Format, Ranks: 4, Comms: comms},
		Ops:  ops})
	if err != nil || cmp.Diff(lists, again) != "" {
		t.Errorf("split: %v %s", err, cmp.Diff(lists, again))
	}
}

func TestSplitResolvesPeersAndNames(t *testing.T) {
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: 3}, Ops: []workload.Op{
		{Kind: workload.Send, Peer: -1, Relative: true, Count: 1, Type: "int8"},
	}}
	lists, err := perranktest.Split(w)
	if err != nil || lists[0][0].Peer != 2 || lists[2][0].Peer != 1 || lists[1][0].Comm != workload.World ||
		lists[0][0].Relative {
		t.Errorf("%+v, %v", lists, err)
	}
	w.Ops[0].Comm, w.Ops[0].Ranks = "no", workload.Ranks{0}
	if _, err := perranktest.Split(w); err == nil || !strings.Contains(err.Error(), `"no" is no communicator`) {
		t.Errorf("a communicator that is not there: %v", err)
	}
}

func TestAlike(t *testing.T) {
	for _, test := range []struct {
		ranks string
		world int
		want  string
	}{
		{"2-3", 4, "0-1 2-3"},
		{"1,3", 4, "0,2 1,3"},
		{"0-3", 4, "0-3"},
		{"4,6", 8, "0,2 1,3 4,6 5,7"},
		{"0,1,3", 6, "evenly"},
		{"1", 2, "0 1"},
		{"0-2", 4, "do not divide"},
		{"1-2", 4, "do not divide"},
	} {
		ranks, err := workload.ParseRanks(test.ranks)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		comms, err := perrank.Alike("x", ranks, test.world)
		for _, c := range comms {
			got = append(got, c.Ranks.String())
		}
		if text := strings.Join(got, " "); err == nil && text != test.want || err != nil &&
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s of %d: %s, %v, want %s", test.ranks, test.world, text, err, test.want)
		}
	}
}

func TestInARow(t *testing.T) {
	if a, b, c := perrank.InARow(5, 2, 8), perrank.InARow(5, 8, 8), perrank.InARow(5, 3, 8); a.String() != "4-5" ||
		b.String() != "0-7" ||
		c != nil {
		t.Errorf("%s, %s, %s", a, b, c)
	}
}

func TestRegistry(t *testing.T) {
	var g perrank.Registry
	for _, test := range []struct{ name, ranks, want string }{
		{"a", "0-1", "a"}, {"a", "2-3", "a"}, {"a", "0-1", "a"}, {"a", "1-2", "a#2"}, {"a", "0-3", "a#3"},
		{"b", "0-3", "b"},
	} {
		ranks, _ := workload.ParseRanks(test.ranks)
		if got := g.Add(test.name, ranks); got != test.want {
			t.Errorf("%s %s is named %s, want %s", test.name, test.ranks, got, test.want)
		}
	}
	if len(g.Comms) != 5 {
		t.Errorf("%d communicators, want 5", len(g.Comms))
	}
	// Families of 100 000 ranks take no quadratic time.
	if name, err := g.AddAlike("big", workload.Ranks{0, 1}, 1<<17); err != nil || name != "big" {
		t.Errorf("%s, %v", name, err)
	}
}
