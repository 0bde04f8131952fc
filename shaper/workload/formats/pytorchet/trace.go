// SPDX-License-Identifier: Apache-2.0

package pytorchet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// trace is the execution trace of one rank.
type trace struct {
	file    string
	limit   *input.Limit
	number  int
	records []record // in the order of the calls
	steps   []int64  // ids of the ProfilerStep nodes
	groups  map[string]pytorch.Group
	lists   map[[3]int64]workload.Ranks // by start, distance and number, one copy of each list
	tooMany error                       // of lists

	operators  map[int64]string // names of nodes c10d::..., by id
	parents    map[int64]bool   // ids of the nodes that records are in
	nameless   int              // records that do not name the call
	unreadable int              // nodes with a field of another type than expected
	groupLists int              // lists of process groups that were not understood
}

// record is a record_param_comms node.
type record struct {
	id, function int64
	call         pytorch.Call
}

// node is an element of nodes. Schema 1.0.1 has values, shapes and types beside each other, later ones in objects, and
// the rest in attrs.
type node struct {
	Name     string          `json:"name"`
	ID       int64           `json:"id"`
	Function int64           `json:"rf_id"`
	Inputs   json.RawMessage `json:"inputs"`
	Types    []string        `json:"input_types"`
	Outputs  json.RawMessage `json:"outputs"`
	Attrs    []attribute     `json:"attrs"`
	Parent   int64           `json:"parent"`    // in schema 1.0.1
	Ctrl     int64           `json:"ctrl_deps"` // since 1.0.3
}

type attribute struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

func readTrace(f input.File, limit *input.Limit) (*trace, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	t := &trace{file: f.Name, limit: limit, groups: map[string]pytorch.Group{}, operators: map[int64]string{},
		lists: map[[3]int64]workload.Ranks{}, parents: map[int64]bool{}}
	j := in.JSON()
	found := false
	err = j.Object(func(key string) error {
		if key != "nodes" {
			return j.Skip()
		}
		found = true
		return j.Array(func() error { return t.readNode(j) })
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: no nodes: this is no execution trace", f.Name)
	}
	// A barrier makes an all-reduce, which has a record too.
	t.records = slices.DeleteFunc(t.records, func(r record) bool { return r.call.IsBarrier() && t.parents[r.id] })
	slices.SortFunc(t.records, func(a, b record) int { return cmp.Compare(a.id, b.id) })
	slices.Sort(t.steps)
	for i := range t.records {
		g := &t.records[i].call.Group
		if known, ok := t.groups[g.Name]; ok && g.Ranks == nil {
			*g = known
		}
	}
	return t, err
}

// uncalled counts the operators of c10d in which no call was recorded, and names one.
func (t *trace) uncalled() (n int, name string) {
	for id, operator := range t.operators {
		if !t.parents[id] {
			n, name = n+1, max(name, operator)
		}
	}
	return n, name
}

// readNode reads an element of nodes.
func (t *trace) readNode(j *input.JSON) error {
	var n node
	switch err := j.Decode(&n); {
	case input.IsWrongType(err):
		t.unreadable++
	case err != nil:
		return err
	}
	switch {
	case n.Name == "record_param_comms":
		if err := t.limit.Add(); err != nil {
			return err
		}
		r := record{id: n.ID, function: n.Function, call: t.call(&n)}
		for _, a := range n.Attrs {
			if a.Name == "rf_id" {
				_ = json.Unmarshal(a.Value, &r.function)
			}
		}
		if t.tooMany != nil {
			return t.tooMany
		}
		if r.call.Name == "" {
			t.nameless++
		}
		t.parents[max(n.Parent, n.Ctrl)] = true
		t.records = append(t.records, r)
	case strings.HasPrefix(n.Name, "c10d::") && n.Name != "c10d::barrier":
		if err := t.limit.Add(); err != nil {
			return err
		}
		t.operators[n.ID] = n.Name
	case strings.Contains(n.Name, "process_group:init"):
		t.readGroups(&n)
	case strings.HasPrefix(n.Name, "ProfilerStep#"):
		t.steps = append(t.steps, n.ID)
	}
	return nil
}

// values are the values of inputs or outputs, and their types.
func values(data json.RawMessage) (list []json.RawMessage, types []string) {
	var nested struct {
		Values []json.RawMessage `json:"values"`
		Types  []string          `json:"types"`
	}
	if json.Unmarshal(data, &nested) == nil {
		return nested.Values, nested.Types
	}
	_ = json.Unmarshal(data, &list)
	return list, nil
}

// readGroups reads the list of process groups.
func (t *trace) readGroups(n *node) {
	list, _ := values(n.Inputs)
	if len(list) == 0 {
		t.groupLists++
		return
	}
	var text string
	var groups []struct {
		Name  string `json:"pg_name"`
		Desc  string `json:"pg_desc"`
		Ranks []int  `json:"ranks"`
		Size  int    `json:"group_size"`
	}
	if json.Unmarshal(list[0], &text) != nil || json.Unmarshal([]byte(text), &groups) != nil {
		t.groupLists++
		return
	}
	for _, g := range groups {
		one := pytorch.Group{Name: pytorch.GroupName(g.Name, g.Desc), Size: g.Size}
		if len(g.Ranks) > 0 && slices.Min(g.Ranks) >= 0 && slices.Max(g.Ranks) < workload.MaxRanks {
			one.Ranks = g.Ranks
		}
		t.groups[one.Name] = one
	}
}

// call is the call that a node describes: by its attributes, else by its inputs.
func (t *trace) call(n *node) pytorch.Call {
	c := t.inputs(n)
	named := map[string]json.RawMessage{}
	for _, a := range n.Attrs {
		named[a.Name] = a.Value
	}
	text := func(name string) (s string) { _ = json.Unmarshal(named[name], &s); return s }
	number := func(name string, missing int64) int64 {
		v := missing
		if json.Unmarshal(named[name], &v) != nil {
			return missing
		}
		return v
	}
	if text("collective_name") == "" {
		return c
	}
	c.Name, c.DType = text("collective_name"), text("dtype")
	c.InSplit, c.InCut = pytorch.ParseParts(text("in_split_size"))
	c.OutSplit, c.OutCut = pytorch.ParseParts(text("out_split_size"))
	c.Group = pytorch.Group{Name: pytorch.GroupName(text("pg_name"), text("pg_desc")), Size: int(number("pg_size", 0))}
	c.Group.Ranks = t.evenRanks(number("global_rank_start", -1), number("global_rank_stride", 0), number("pg_size", 0))
	c.Peer = int(number("dst_rank", number("src_rank", -1)))
	c.SetSizes(number("in_msg_nelems", -1), number("out_msg_nelems", -1))
	return c
}

// inputs reads a call from the inputs of its node: the tensors, a number, the process group (a number, or its name and
// description), a number, the name of the call, and the parts that go in and come out. In schema 1.0.2 the size of the
// group follows (PyTorch 2.1); since 1.0.3, its first rank, the distance of its ranks and its size. Calls such as wait
// have no tensors.
func (t *trace) inputs(n *node) pytorch.Call {
	c := pytorch.Call{Peer: -1}
	list, types := values(n.Inputs)
	if types == nil {
		types = n.Types
	}
	at := slices.IndexFunc(list, func(v json.RawMessage) bool { return len(v) > 0 && v[0] == '"' })
	if at < 0 || json.Unmarshal(list[at], &c.Name) != nil {
		return c
	}
	for _, v := range list[:at] {
		var group []string
		if json.Unmarshal(v, &group) == nil && len(group) == 2 {
			c.Group.Name = pytorch.GroupName(group[0], group[1])
		}
	}
	if len(types) > 0 {
		_, dtype, _ := strings.Cut(types[0], "Tensor(")
		c.DType, _, _ = strings.Cut(dtype, ")")
	}
	in, out := int64(-1), int64(-1)
	if at > 0 {
		in = elements(list[0])
	}
	if outputs, _ := values(n.Outputs); len(outputs) > 0 {
		out = elements(outputs[0])
	}
	t.readPlace(&c, list[at+1:])
	c.SetSizes(in, out)
	return c
}

// readPlace reads what follows the name of a call: the parts, and the ranks of the group.
func (t *trace) readPlace(c *pytorch.Call, rest []json.RawMessage) {
	if len(rest) >= 2 {
		c.InSplit, c.InCut = pytorch.ParseParts(string(rest[0]))
		c.OutSplit, c.OutCut = pytorch.ParseParts(string(rest[1]))
	}
	if len(rest) == 3 && (json.Unmarshal(rest[2], &c.Group.Size) != nil || c.Group.Size < 0) {
		c.Group.Size = 0
	}
	if len(rest) >= 5 {
		var place [3]int64
		for i := range place {
			if json.Unmarshal(rest[2+i], &place[i]) != nil {
				return
			}
		}
		c.Group.Size = int(place[2])
		c.Group.Ranks = t.evenRanks(place[0], place[1], place[2])
	}
}

// evenRanks are n ranks from start on, stride apart; nil if they are none.
func (t *trace) evenRanks(start, stride, n int64) workload.Ranks {
	key := [3]int64{start, stride, n}
	known, ok := t.lists[key]
	if !ok {
		known = pytorch.ParseRanks("", start, stride, n)
		t.lists[key] = known
		if err := t.limit.List(len(known)); err != nil {
			t.tooMany = err
		}
	}
	return known
}

// elements is the number of elements of a tensor or of a list of them, -1 if one is not readable. A tensor is its id,
// its storage's id, an offset, the number of elements, the bytes of one, and the device.
func elements(v json.RawMessage) (sum int64) {
	var list []json.RawMessage
	if json.Unmarshal(v, &list) != nil {
		return -1
	}
	if len(list) == 0 {
		return 0
	}
	if list[0][0] != '[' {
		return ofTensor(list)
	}
	for _, one := range list {
		var tensor []json.RawMessage
		n := int64(-1)
		if json.Unmarshal(one, &tensor) == nil {
			n = ofTensor(tensor)
		}
		if n < 0 || sum > workload.MaxMessage {
			return -1
		}
		sum += n
	}
	return sum
}

func ofTensor(tensor []json.RawMessage) (n int64) {
	if len(tensor) < 5 || json.Unmarshal(tensor[3], &n) != nil || n < 0 || n > workload.MaxMessage {
		return -1
	}
	return n
}
