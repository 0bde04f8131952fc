// SPDX-License-Identifier: Apache-2.0

package pytorch

import (
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// The counts are those of NCCL's calls: what a rank gives, or gets, or gives to each.
func TestOp(t *testing.T) {
	for _, test := range []struct {
		name, dtype string
		in, out     int64
		kind        workload.Kind
		f           workload.Func
		count       int64
		typ         string
	}{
		{"allreduce", "Float", 10, 10, workload.Coll, workload.AllReduce, 10, "float32"},
		{"allreduce_coalesced", "c10::BFloat16", 10, 10, workload.Coll, workload.AllReduce, 10, "bfloat16"},
		{"nccl:all_reduce", "float", 7, 7, workload.Coll, workload.AllReduce, 7, "float32"},
		{"_allgather_base", "Half", 10, 40, workload.Coll, workload.AllGather, 10, "float16"},
		{"_allgather_base", "float16", 10, 40, workload.Coll, workload.AllGather, 10, "float16"},
		{"_allgather_base", "int64", 10, 40, workload.Coll, workload.AllGather, 10, "int64"},
		{"_allgather_base", "int16", 10, 40, workload.Coll, workload.AllGather, 20, "uint8"},
		{"allgather_into_tensor_coalesced", "Byte", 10, 40, workload.Coll, workload.AllGather, 10, "uint8"},
		{"reduce_scatter_tensor_coalesced", "Double", 40, 10, workload.Coll, workload.ReduceScatter, 10, "float64"},
		{"_reduce_oop", "Int", 5, 5, workload.Coll, workload.Reduce, 5, "int32"},
		{"_broadcast_oop", "Bool", 5, 5, workload.Coll, workload.Broadcast, 5, "uint8"},
		{"all_to_all", "Long", 40, 40, workload.Coll, workload.AllToAll, 10, "int64"},
		{"gather", "Char", 5, 20, workload.Coll, workload.Gather, 5, "int8"},
		{"scatter", "Float8_e4m3fn", 20, 5, workload.Coll, workload.Scatter, 5, "float8e4m3"},
		{"allreduce", "ComplexFloat", 10, 10, workload.Coll, workload.AllReduce, 20, "float32"},
		{"all_reduce_barrier", "Float", 0, 0, workload.Coll, workload.AllReduce, 1, "float32"},
		{"send", "Float", 6, 0, workload.Send, "", 6, "float32"},
		{"nccl:recv 1<-0", "Float", 0, 6, workload.Recv, "", 6, "float32"},
	} {
		c := Call{Name: test.name, DType: test.dtype, In: test.in, Out: test.out}
		op, unequal, err := c.Op(4)
		if err != nil || unequal || op.Kind != test.kind || op.Func != test.f || op.Count != test.count ||
			op.Type != test.typ {
			t.Errorf("%s: %+v, %v, %v", test.name, op, unequal, err)
		}
		if c.Empty() {
			t.Errorf("%s counts as empty", test.name)
		}
	}
	for _, c := range []Call{{Name: "wait"}, {Name: "coalesced", In: 3}, {Name: "allreduce"}, {}} {
		if !c.Empty() {
			t.Errorf("%+v does not count as empty", c)
		}
	}
	for _, c := range []Call{{Name: "jump", DType: "Float", In: 1}, {Name: "allreduce", DType: "String", In: 1}} {
		if op, _, err := c.Op(2); err == nil {
			t.Errorf("%+v becomes %+v", c, op)
		}
	}
}

func TestUnequalParts(t *testing.T) {
	for _, test := range []struct {
		in, out  []int64
		n        int64
		unequal  bool
		exchange int // parts; 0: not possible
	}{
		{nil, nil, 40, false, 0},
		{nil, nil, 41, true, 0},
		{[]int64{1, 1, 1, 1}, []int64{1, 1, 1, 1}, 40, false, 8},
		{[]int64{1, 2, 0, 1}, []int64{1, 1, 1, 1}, 40, true, 7},
		{[]int64{1, 2, 0, 0}, []int64{1, 1, 1, 1}, 40, true, 0}, // 40 elements are no multiple of 3 parts
	} {
		c := Call{Name: "all_to_allv", DType: "Float", In: test.n, Out: test.n, InSplit: test.in, OutSplit: test.out}
		op, unequal, err := c.Op(4)
		if err != nil || unequal != test.unequal {
			t.Errorf("%v: %v %v", test.in, unequal, err)
		}
		group := c.Exchange(op)
		if parts := 0; group != nil {
			if parts = len(group.Ops); parts != test.exchange {
				t.Errorf("%v: %d parts", test.in, parts)
			}
		} else if test.exchange != 0 {
			t.Errorf("%v: no parts", test.in)
		}
	}
}

func TestLists(t *testing.T) {
	if got := ParseList("[0, 1,  5]"); !slices.Equal(got, []int64{0, 1, 5}) {
		t.Errorf("%v", got)
	}
	for _, text := range []string{"", "[]", "[0, 1, ..., 127]", "x"} {
		if got := ParseList(text); got != nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	// PyTorch leaves out the middle of long lists, and says where they begin and how far the ranks are apart.
	if got := ParseRanks("[0, 4, ..., 124]", 0, 4, 32); got.String() != "0-124:4" {
		t.Errorf("%s", got)
	}
	for _, bad := range [][3]int64{{-1, 1, 2}, {0, 0, 2}, {0, 1, 0}, {0, 1, workload.MaxRanks + 1}, {0, 1 << 62, 4}} {
		if got := ParseRanks("", bad[0], bad[1], bad[2]); got != nil {
			t.Errorf("%v: %d ranks", bad, len(got))
		}
	}
}
