// SPDX-License-Identifier: Apache-2.0

package play

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Each call of a group gets the decision that NCCL's log has for it: for its list before 2.23, later for itself.
func TestAssignDecisions(t *testing.T) {
	a := Call{Kind: workload.Coll, Func: workload.AllGather, Count: 100, Type: "float32"}
	b := Call{Kind: workload.Coll, Func: workload.AllGather, Count: 50, Type: "float32"}
	c := Call{Kind: workload.Coll, Func: workload.AllReduce, Count: 10, Type: "int8", RedOp: "sum"}
	g := &callGroup{calls: []Call{a, b, c, c}}
	f := &Facts{Decided: map[Call]bench.Case{a: {Size: 800}, b: {Size: 400}, c: {Size: 10}}}
	lists := [][]int{{1, 0}, {2, 3}}
	old := func(bytes int64, algo string) nccllog.Decision {
		return nccllog.Decision{Bytes: bytes, Algo: algo, Count: 1}
	}
	named := func(name string, bytes int64, algo string, count int) nccllog.Decision {
		return nccllog.Decision{Func: name, Bytes: bytes, Algo: algo, Count: count}
	}
	for name, tc := range map[string]struct {
		lines []nccllog.Decision
		want  string // algorithms of the calls, "" for a refusal
	}{
		"2.22": {[]nccllog.Decision{old(1200, "Ring"), old(20, "Tree")}, "Ring Ring Tree Tree"},
		"2.29": {[]nccllog.Decision{named("AllGather", 200, "PAT", 1),
			named("AllGather", 400, "Ring", 1), named("AllReduce", 10, "Tree", 2)}, "Ring PAT Tree Tree"},
		"other sizes": {[]nccllog.Decision{old(1201, "Ring"), old(20, "Tree")}, ""},
		"another function": {[]nccllog.Decision{named("Broadcast", 200, "PAT", 1),
			named("AllGather", 400, "Ring", 1), named("AllReduce", 10, "Tree", 2)}, ""},
		"a line that is missing": {[]nccllog.Decision{old(1200, "Ring")}, ""},
		"a line too much":        {[]nccllog.Decision{old(1200, "Ring"), old(20, "Tree"), old(20, "Tree")}, ""},
		"no line":                {nil, ""},
	} {
		g.lines = tc.lines
		got, err := g.assign(f, lists)
		if tc.want == "" {
			if err == nil ||
				!strings.Contains(err.Error(), "NCCL's decisions on a group of 4 collectives are not known") {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		var algos []string
		for _, d := range got {
			algos = append(algos, d.Algo)
		}
		if d := cmp.Diff(tc.want, strings.Join(algos, " ")); err != nil || d != "" {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
}

// NCCL's kernels treat the minimum as a maximum, and the mean of integers as a sum that is divided.
func TestClass(t *testing.T) {
	class := func(f workload.Func, typ, op string) string {
		c := Call{Kind: workload.Coll, Func: f, Type: typ, RedOp: op}
		return c.class()
	}
	for _, same := range [][2]string{
		{class(workload.AllReduce, "float32", "min"), class(workload.AllReduce, "float32", "max")},
		{class(workload.AllGather, "float32", ""), class(workload.AllGather, "int8", "")},
		{class(workload.Reduce, "float8e4m3", "sum"), class(workload.Reduce, "float8e5m2", "sum")},
	} {
		if same[0] != same[1] {
			t.Errorf("%q is not %q", same[0], same[1])
		}
	}
	for _, differ := range [][2]string{
		{class(workload.AllReduce, "float32", "sum"), class(workload.AllReduce, "int32", "sum")},
		{class(workload.AllReduce, "float32", "sum"), class(workload.AllReduce, "float32", "avg")},
		{class(workload.AllReduce, "int32", "sum"), class(workload.AllReduce, "int32", "avg")},
	} {
		if differ[0] == differ[1] {
			t.Errorf("%q for both", differ[0])
		}
	}
}

// A call that is only made in groups has the choice of its group, and none if that is not known.
func TestChoiceInAGroup(t *testing.T) {
	ix := tiny(t)
	call := Call{Kind: workload.Coll, Func: workload.AllReduce, Count: 4, Type: "float32", RedOp: "sum"}
	g := &callGroup{calls: []Call{call, call}}
	f := &Facts{
		Workload: ix,
		Decided: map[Call]bench.Case{
			call: {Size: 16, Ranks: 2, Decision: &nccllog.Decision{Algo: "Ring", ChannelHi: 1}}},
		Groups: map[int32][]*callGroup{0: {g}}, alone: map[Call]bool{},
	}
	choice := func() string {
		c := Calls{Func: "AllReduce", Comm: ix.Comms[0].Name, Ranks: 2, Size: 16}
		f.choice(&c)
		return c.Algo
	}
	if got := choice(); got != "" {
		t.Errorf("%q, and the group is not decided", got)
	}
	g.decided = []nccllog.Decision{{Algo: "Tree"}, {Algo: "Tree"}}
	if got := choice(); got != "Tree" {
		t.Errorf("%q in a group", got)
	}
	f.alone[call] = true
	if got := choice(); got != "Ring" {
		t.Errorf("%q alone and in a group", got)
	}
}
