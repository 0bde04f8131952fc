// SPDX-License-Identifier: Apache-2.0

// Package pytorch knows how PyTorch names the calls of its process groups in traces.
package pytorch

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Call is a call of a process group, as PyTorch records it under record_param_comms.
type Call struct {
	Name              string // such as allreduce, _allgather_base, or wait
	DType             string // such as Float
	In, Out           int64  // elements that go in and come out on this rank
	InSplit, OutSplit []int64
	InCut, OutCut     bool  // the end of the split is left out: PyTorch writes 30 parts into the traces of its profiler
	Row               int64 // elements that a part of the split counts as one; 0 if not recorded
	PartsUnknown      bool  // the source does not say the parts of the all-to-all
	Group             Group
	Peer              int  // in the group, for send and recv; -1 if not recorded
	Unsized           bool // the source does not say In and Out
}

// Group is a process group.
type Group struct {
	Name  string
	Ranks workload.Ranks // nil if not recorded
	Size  int            // 0 if not recorded
}

// GroupName is the name of a group for people: the description, if it says more than the number.
func GroupName(name, desc string) string {
	switch desc {
	case "", "undefined", name:
		return name
	case "default_pg":
		return desc
	}
	return desc + "." + name
}

// MissingRanks says of which ranks of a job no file was given. What is the name of such a file.
func MissingRanks(ranks int, what string, given func(rank int) bool) error {
	var missing workload.Ranks
	for r := range ranks {
		if !given(r) {
			missing = append(missing, r)
		}
	}
	return fmt.Errorf("the job had %d ranks, and no %s is of %s: give the %[2]ss of all ranks, or of one rank, "+
		"which then stands for all (--spmd)", ranks, what, missing)
}

// Empty tells whether the call moves nothing between ranks: it waits, or starts a group of calls.
func (c *Call) Empty() bool {
	return !c.Moves() || c.In == 0 && c.Out == 0 && !c.IsBarrier()
}

// LacksSize tells whether the call would move something, and the source does not say how much.
func (c *Call) LacksSize() bool {
	return c.Unsized && c.In == 0 && c.Out == 0 && c.Moves() && !c.IsBarrier()
}

// Moves tells whether the call is a collective or a message that is known.
func (c *Call) Moves() bool {
	f, p2p := c.function()
	return f != "" || p2p != ""
}

// SetSizes sets the elements that go in and come out; negative ones are not known. The call is Unsized if neither the
// number that its count needs is known nor another one from which that follows. The name and the group must be set.
func (c *Call) SetSizes(in, out int64) {
	f, kind := c.function()
	ranks := int64(max(c.Group.Size, len(c.Group.Ranks)))
	switch {
	case f == workload.AllReduce || f == workload.Broadcast || f == workload.Reduce || kind != "":
		if in < 0 {
			in = out
		}
		if out < 0 {
			out = in
		}
	case f == workload.AllGather && in < 0 && ranks > 0 && out%ranks == 0:
		in = out / ranks
	case f == workload.ReduceScatter && out < 0 && ranks > 0 && in%ranks == 0:
		out = in / ranks
	}
	needs := []int64{in}
	switch {
	case f == workload.AllToAll:
		needs = []int64{in, out}
	case countsOut(f, kind):
		needs = []int64{out}
	}
	if c.Unsized = slices.Min(needs) < 0; c.Unsized {
		in, out = 0, 0
	}
	c.In, c.Out = max(in, 0), max(out, 0)
}

// Foreign tells whether the call has a name that is not known. Known are the names of collectives and messages, and
// the names of calls that move nothing themselves.
func (c *Call) Foreign() bool {
	return !c.Moves() && !slices.Contains([]string{"", "wait", "init", "coalesced"}, c.plainName())
}

// Unknown says that the collective is not known.
func (c *Call) Unknown() string { return fmt.Sprintf("%q: no such collective is known", c.Name) }

// IsAllToAll tells whether the call is an all-to-all.
func (c *Call) IsAllToAll() bool {
	f, _ := c.function()
	return f == workload.AllToAll
}

// IsWait tells whether the call waits for others.
func (c *Call) IsWait() bool { return c.Name == "wait" }

// IsBarrier tells whether the call is a barrier.
func (c *Call) IsBarrier() bool { return strings.Contains(c.Name, "barrier") }

// plainName is the name in small letters, without the backend before it and without underscores.
func (c *Call) plainName() string {
	name := strings.TrimPrefix(strings.TrimPrefix(c.Name, "nccl:"), "gloo:")
	return strings.ReplaceAll(strings.ToLower(name), "_", "")
}

// function is the collective, or the kind of a message between two ranks.
func (c *Call) function() (workload.Func, workload.Kind) {
	name := c.plainName()
	for _, f := range []struct {
		prefix string
		f      workload.Func
		k      workload.Kind
	}{
		{"allreduce", workload.AllReduce, ""},
		{"barrier", workload.AllReduce, ""},
		{"allgather", workload.AllGather, ""},
		{"reducescatter", workload.ReduceScatter, ""},
		{"alltoall", workload.AllToAll, ""},
		{"broadcast", workload.Broadcast, ""},
		{"reduce", workload.Reduce, ""},
		{"gather", workload.Gather, ""},
		{"scatter", workload.Scatter, ""},
		{"send", "", workload.Send},
		{"recv", "", workload.Recv},
	} {
		if strings.HasPrefix(name, f.prefix) {
			return f.f, f.k
		}
	}
	return "", ""
}

// Rooted tells whether the call has a root, which PyTorch does not record.
func (c *Call) Rooted() bool {
	switch f, _ := c.function(); f {
	case workload.Broadcast, workload.Reduce, workload.Gather, workload.Scatter:
		return true
	}
	return false
}

// dtypes are NCCL's names of PyTorch's types, by c10's name, by C's name and by Python's name, which PARAM takes too.
var dtypes = map[string]string{
	"float": "float32", "double": "float64", "half": "float16", "c10::half": "float16", "bfloat16": "bfloat16",
	"c10::bfloat16": "bfloat16", "int": "int32", "long": "int64", "long int": "int64", "byte": "uint8", "char": "int8",
	"unsigned char": "uint8", "signed char": "int8", "bool": "uint8", "float8_e4m3fn": "float8e4m3",
	"float8_e5m2": "float8e5m2", "float8_e4m3fnuz": "float8e4m3", "float8_e5m2fnuz": "float8e5m2",
	"c10::float8_e4m3fn": "float8e4m3", "c10::float8_e5m2": "float8e5m2",
	"float16": "float16", "float32": "float32", "float64": "float64", "int8": "int8", "int32": "int32",
	"int64": "int64",
	"uint8": "uint8", "uint32": "uint32", "uint64": "uint64",
}

// twice are types of which NCCL moves two elements of another type for each.
var twice = map[string]string{
	"complexfloat": "float32", "c10::complex<float>": "float32", "complexdouble": "float64",
	"c10::complex<double>": "float64",
	"short":                "uint8", "int16": "uint8", "uint16": "uint8", "complexhalf": "float16",
}

// Op is the operation of the call, with the type and the count of NCCL's call, for a group of n ranks. unequal says
// that the parts of an all-to-all differ, or are not recorded, and that the mean stands for them.
func (c *Call) Op(n int) (op workload.Op, unequal bool, err error) {
	f, kind := c.function()
	if f == "" && kind == "" {
		return op, false, errors.New(c.Unknown())
	}
	elements := int64(1)
	typ, known := dtypes[strings.ToLower(c.DType)]
	if double, ok := twice[strings.ToLower(c.DType)]; ok {
		typ, known, elements = double, true, 2
	}
	if !known {
		return op, false, fmt.Errorf("%s of type %q: no such type is known", c.Name, c.DType)
	}
	op = workload.Op{Kind: workload.Coll, Func: f, Type: typ, Count: elements * c.count(f, kind)}
	if kind != "" {
		op.Kind, op.Peer = kind, c.Peer
	}
	switch {
	case c.IsBarrier():
		op.Count = 1
	case f == workload.AllToAll:
		op.Count = (elements*max(c.In, c.Out) + int64(n) - 1) / int64(n)
		unequal = c.PartsUnknown || op.Count*int64(n) != elements*c.In || !uniform(c.InSplit) || !uniform(c.OutSplit)
	}
	return op, unequal, nil
}

func uniform(parts []int64) bool {
	return !slices.ContainsFunc(parts, func(p int64) bool { return p != parts[0] })
}

// count is NCCL's count in elements, but for AllToAll. For scatter, PyTorch writes what a rank gets as what goes in,
// and n times that as what comes out; the root of an execution trace gives the whole.
func (c *Call) count(f workload.Func, kind workload.Kind) int64 {
	if f == workload.Scatter && c.In > 0 && c.Out > 0 {
		return min(c.In, c.Out)
	}
	if countsOut(f, kind) {
		return c.Out
	}
	return c.In
}

// countsOut tells whether NCCL's count is of what comes out, not of what goes in.
func countsOut(f workload.Func, kind workload.Kind) bool {
	return f == workload.ReduceScatter || f == workload.Scatter || kind == workload.Recv
}

// Exchange is an all-to-all with parts of different sizes, as a group of sends and receives; nil if the parts are not
// known.
func (c *Call) Exchange(op workload.Op) *workload.Op {
	n := max(len(c.InSplit), len(c.OutSplit))
	sends, receives := equalParts(c.InSplit, c.In, n), equalParts(c.OutSplit, c.Out, n)
	in, out := total(sends), total(receives)
	if c.PartsUnknown || c.InCut || c.OutCut || n == 0 || len(sends) != n || len(receives) != n ||
		in > 0 && c.In%in != 0 || out > 0 && c.Out%out != 0 {
		return nil
	}
	group := &workload.Op{Kind: workload.Group, Name: "all-to-all"}
	part := func(kind workload.Kind, peer int, count int64) {
		if count > 0 {
			group.Ops = append(group.Ops, workload.Op{Kind: kind, Comm: op.Comm, Type: op.Type, Peer: peer,
				Count: count})
		}
	}
	for peer, size := range sends {
		part(workload.Send, peer, size*(c.In/max(in, 1)))
	}
	for peer, size := range receives {
		part(workload.Recv, peer, size*(c.Out/max(out, 1)))
	}
	return group
}

// equalParts are the parts, or n equal ones if there are none, which is how PyTorch writes these.
func equalParts(parts []int64, elements int64, n int) []int64 {
	if len(parts) == 0 && n > 0 && elements%int64(n) == 0 {
		return slices.Repeat([]int64{elements / int64(n)}, n)
	}
	return parts
}

func total(parts []int64) (sum int64) {
	for _, p := range parts {
		sum += max(p, 0)
	}
	return sum
}

// ParseList reads a list of numbers such as "[0, 1]". It returns nil for an empty list, and for one of which PyTorch
// has left out the middle.
func ParseList(text string) []int64 {
	text = strings.Trim(strings.TrimSpace(text), "[]")
	if text == "" {
		return nil
	}
	var out []int64
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// ParseRanks reads the ranks of a group: the list if it is whole, else n ranks from start on, stride apart. Without
// either it returns nil.
func ParseRanks(list string, start, stride, n int64) workload.Ranks {
	var out workload.Ranks
	for _, r := range ParseList(list) {
		if r < 0 || r >= workload.MaxRanks {
			return nil
		}
		out = append(out, int(r))
	}
	if out != nil || start < 0 || stride < 1 || n < 1 || max(start, stride, n) > workload.MaxRanks ||
		start+stride*(n-1) >= workload.MaxRanks {
		return out
	}
	out = make(workload.Ranks, 0, n)
	for i := range n {
		out = append(out, int(start+stride*i))
	}
	return out
}
