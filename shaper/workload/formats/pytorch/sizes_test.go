// SPDX-License-Identifier: Apache-2.0

package pytorch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// The names are those of the annotations of PyTorch 1.10 to 2.9, and what their tensors are is what
// ProcessGroupNCCL.cpp (2.1) gives to collective().
func TestAnnotated(t *testing.T) {
	for name, want := range map[string]string{
		"nccl:all_reduce": "8 8", "nccl:all_reduce_barrier": "8 8", "nccl:all_reduce_sparse": "8 8",
		"nccl:allreduce_coalesced": "8 8",
		"nccl:broadcast":           "8 8", "nccl:_broadcast_oop": "8 8", "nccl:reduce": "8 8",
		"nccl:_reduce_oop": "8 8",
		"nccl:all_gather":  "8 -1", "nccl:_all_gather_base": "8 -1", "nccl:all_gather_into_tensor_coalesced": "8 -1",
		"nccl:reduce_scatter": "8 -1", "nccl:_reduce_scatter_base": "8 -1",
		"nccl:reduce_scatter_tensor_coalesced": "8 -1",
		"nccl:all_to_all":                      "8 -1", "nccl:gather": "8 -1", "nccl:scatter": "-1 8",
		"nccl:send 0->1": "8 -1",
		"nccl:recv 1<-0": "-1 8",
	} {
		c := Call{Name: name}
		in, out := c.Annotated(8)
		if got := fmt.Sprint(in, out); got != want || !c.Moves() {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"nccl:coalesced", "wait"} {
		if c := (Call{Name: name}); c.Moves() || c.Foreign() {
			t.Errorf("%s moves something, or is not known", name)
		}
	}
}

func TestGroupBySizes(t *testing.T) {
	for _, test := range []struct {
		name    string
		in, out int64
		want    int
	}{
		{"_allgather_base", 10, 40, 4}, {"_allgather_base", 10, 10, 1}, {"_allgather_base", 10, 45, 0},
		{"_allgather_base", 40, 10, 0},
		{"_allgather_base", 0, 10, 0}, {"_allgather_base", 10, -1, 0}, {"_allgather_base", 1, 1 << 40, 0},
		{"_reduce_scatter_base", 40, 10, 4}, {"_reduce_scatter_base", 10, 40, 0}, {"allreduce", 40, 10, 0},
		{"all_to_all", 10, 40, 0},
	} {
		c := Call{Name: test.name}
		if got := c.GroupBySizes(test.in, test.out); got != test.want {
			t.Errorf("%s of %d and %d: %d ranks, want %d", test.name, test.in, test.out, got, test.want)
		}
	}
}

// PyTorch writes for scatter what a rank gets as what goes in, and n times that as what comes out; an execution trace's
// tensors are what they are.
func TestScatter(t *testing.T) {
	for _, c := range []Call{{In: 5, Out: 20}, {In: 20, Out: 5}, {In: 0, Out: 5}} {
		c.Name, c.DType = "scatter", "Float"
		if op, _, err := c.Op(4); err != nil || op.Count != 5 {
			t.Errorf("%d and %d: count %d, %v", c.In, c.Out, op.Count, err)
		}
	}
}

func repeated(size string, n int) string { return strings.Repeat(size+", ", n) }

// Lists of more than 30 parts are cut. What follows for the rest is used, what is only likely is said, and the rest is
// unknown.
func TestCutParts(t *testing.T) {
	for name, test := range map[string]struct {
		in, out string
		n       int
		elems   int64
		row     int64
		taken   bool
		unequal bool
		last    int64 // of the parts that go in; -1: they stay cut
	}{
		"whole": {"[1, 2]", "[2, 1]", 2, 30, 0, false, true, 2},
		"equal": {"[" + repeated("3", 30) + "...]", "[" + repeated("3", 30) + "...]", 32, 3 * 32 * 7,
			0, true, false, 3},
		"equal as in older ones": {"[" + repeated("3", 30) + "..., ...]", "[" + repeated("3", 30) + "..., ...]", 32,
			3 * 32 * 7, 0, true, false, 3},
		"equal by the row": {"[" + repeated("3", 30) + "...]", "[" + repeated("3", 30) + "...]", 32, 3 * 32 * 7,
			7, true, false, 3},
		"not by the row": {"[" + repeated("3", 30) + "...]", "[" + repeated("3", 30) + "...]", 32,
			3 * 32 * 7 * 2, 7, false, true, -1},
		"not by the elements": {"[" + repeated("3", 30) + "...]", "[" + repeated("3", 30) + "...]", 32, 3*32*7 + 1,
			0, false, true, -1},
		"one is missing": {"[" + repeated("3", 30) + "...]", "[" + repeated("3", 30) + "...]", 31, 100 * 7, 7,
			false, true, 10},
		"nothing is missing": {"[" + repeated("3", 30) + "...]", "[" + repeated("3", 30) + "...]", 40, 90 * 7, 7,
			false, true, 0},
		"different": {"[1, " + repeated("3", 29) + "...]", "[" + repeated("3", 30) + "...]", 32,
			3 * 32 * 7, 0, false, true, -1},
		"zeros": {"[" + repeated("0", 30) + "...]", "[" + repeated("0", 30) + "...]", 32, 64, 0, false,
			true, -1},
		"one is whole": {"[" + repeated("3", 30) + "...]", "[" + repeated("3", 30) + "10]", 31, 100 * 7, 0,
			false, true, 10},
	} {
		c := Call{Name: "all_to_allv", DType: "Float", In: test.elems, Out: test.elems, Row: test.row}
		c.InSplit, c.InCut = ParseParts(test.in)
		c.OutSplit, c.OutCut = ParseParts(test.out)
		taken := c.CompleteParts(test.n)
		op, unequal, err := c.Op(test.n)
		last := int64(-1)
		if !c.InCut {
			last = c.InSplit[len(c.InSplit)-1]
		}
		if taken != test.taken || unequal != test.unequal || err != nil || last != test.last {
			t.Errorf("%s: taken %t, unequal %t, last part %d, %v", name, taken, unequal, last, err)
		}
		if group := c.Exchange(op); (group != nil) != (last >= 0) {
			t.Errorf("%s: parts %v", name, group)
		}
	}
}

// Where PyTorch writes no parts for one direction, these are equal.
func TestPartsOfOneDirection(t *testing.T) {
	c := Call{Name: "all_to_allv", DType: "Float", In: 8, Out: 8, OutSplit: []int64{3, 5}}
	op, unequal, _ := c.Op(2)
	group := c.Exchange(op)
	if group == nil || !unequal {
		t.Fatalf("%v, unequal %t", group, unequal)
	}
	var got []int64
	for _, o := range group.Ops {
		got = append(got, o.Count)
	}
	if !slices.Equal(got, []int64{4, 4, 3, 5}) {
		t.Errorf("%v", got)
	}
}

func TestEvenRanks(t *testing.T) {
	for _, test := range []struct {
		list string
		n    int64
		want string
	}{
		{"[0, 8, 16, ...]", 40, "0-312:8"}, {"[3, 4, ...]", 4, "3-6"}, {"[0, 8, 17, ...]", 40, ""},
		{"[0, 8, 16]", 40, ""}, {"[0, ...]", 40, ""},
		{"[0, 8, ...]", workload.MaxRanks, ""}, {"[8, 0, ...]", 4, ""}, {"[0, 1, ...]", 2, ""},
	} {
		if got := EvenRanks(test.list, test.n); got.String() != test.want {
			t.Errorf("%s of %d: %s, want %s", test.list, test.n, got, test.want)
		}
	}
}
