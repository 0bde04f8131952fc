// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// written writes a workload and reads the nodes of each rank.
func written(t *testing.T, w *workload.Workload) (ranks [][]*node, groups map[string][]int) {
	t.Helper()
	var m memory
	if err := Write(w, m.create); err != nil {
		t.Fatal(err)
	}
	for i, name := range m.names {
		if strings.HasSuffix(name, GroupsEnding) {
			if err := json.Unmarshal([]byte(m.contents[i]), &groups); err != nil {
				t.Fatal(err)
			}
			continue
		}
		tr, err := readTrace(input.Bytes(name, []byte(m.contents[i])), i, nil)
		if err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, tr.nodes)
	}
	return ranks, groups
}

// everything is a workload of 8 ranks with all functions, groups of some ranks, messages, streams, waits and steps.
func everything() *workload.Workload {
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: 8, Comms: []workload.Comm{
		{Name: "all", Ranks: perrank.All(8)}, {Name: "tp", Ranks: workload.Ranks{0, 1, 2}},
		{Name: "tp", Ranks: workload.Ranks{5, 7, 6}},
		{Name: "one", Ranks: workload.Ranks{4}}, {Name: "pair", Ranks: workload.Ranks{3, 4}},
	}}}
	w.Ops = append(w.Ops, workload.Op{ID: 1, Kind: workload.Calc, Stream: "c", Nanos: 1400},
		workload.Op{Kind: workload.Wait})
	for _, f := range workload.Funcs() {
		for _, comm := range []string{"all", "tp", "one"} {
			o := workload.Op{Kind: workload.Coll, Comm: comm, Func: f, Count: 3 << 20, Type: "float32", Stream: comm}
			if f.Rooted() && comm != "one" {
				o.Root = 2
			}
			w.Ops = append(w.Ops, o)
		}
		w.Ops = append(w.Ops, workload.Op{Kind: workload.Step})
	}
	ring := workload.Op{Kind: workload.Group, Stream: "all", Ops: []workload.Op{
		{Kind: workload.Send, Comm: "all", Peer: 1, Relative: true, Count: 5, Type: "int8"},
		{Kind: workload.Recv, Comm: "all", Peer: -1, Relative: true, Count: 5, Type: "int8"},
		{Kind: workload.Send, Comm: "all", Relative: true, Count: 5, Type: "int8"}, // to itself
		{Kind: workload.Recv, Comm: "all", Relative: true, Count: 5, Type: "int8"},
	}}
	w.Ops = append(w.Ops, ring, workload.Op{Kind: workload.Wait},
		workload.Op{Kind: workload.Send, Comm: "pair", Peer: 1, Count: 0, Type: "int8", Ranks: workload.Ranks{3}},
		workload.Op{Kind: workload.Recv, Comm: "pair", Count: 0, Type: "int8", Ranks: workload.Ranks{4}},
		workload.Op{Kind: workload.Calc, Stream: "c", Nanos: 1400}, workload.Op{Kind: workload.Step})
	return w
}

// ASTRA-sim ends at nodes that it does not know, at messages without bytes, and at groups that it does not find. It
// waits for ever for a message that does not come.
func TestWhatASTRAsimTakes(t *testing.T) {
	ranks, groups := written(t, everything())
	if d := cmp.Diff(map[string][]int{"1": {0, 1, 2}, "2": {5, 7, 6}}, groups); d != "" {
		t.Errorf("groups: %s", d)
	}
	sent, received := map[string]int64{}, map[string]int64{}
	calls := map[string]int{}
	for r, nodes := range ranks {
		for i, n := range nodes {
			if n.id != uint64(i) || slices.ContainsFunc(n.after, func(d uint64) bool { return d >= n.id }) {
				t.Fatalf("rank %d, node %d: id %d after %d: it must come after earlier ones", r, i, n.id, n.after)
			}
			src, dst, size := n.numbers[commSource], n.numbers[commDestination], n.numbers[commSize]
			if n.kind != computeNode && size <= 0 {
				t.Errorf("rank %d, node %d: %s of %d bytes", r, i, n.name, size)
			}
			message := fmt.Sprintf("%d>%d of %d, tag %d", src, dst, size, n.numbers[commTag])
			switch n.kind {
			case computeNode:
			case sendNode:
				sent[message]++
				if src != int64(r) {
					t.Errorf("rank %d sends %s", r, message)
				}
			case receiveNode:
				received[message]++
				if dst != int64(r) || src == dst {
					t.Errorf("rank %d receives %s", r, message)
				}
			case collectiveNode:
				group := groups[n.group]
				if n.group != "" && !slices.Contains(group, r) {
					t.Errorf("rank %d calls group %q, of %v", r, n.group, group)
				}
				calls[fmt.Sprint(functions[n.numbers[commType]], " ", len(group))] += int(size)
			default:
				t.Errorf("rank %d, node %d: type %d", r, i, n.kind)
			}
		}
	}
	if d := cmp.Diff(sent, received); d != "" {
		t.Errorf("messages that are sent, and received: %s", d)
	}
	const bytes = 12 << 20
	want := map[string]int{}
	for _, g := range []struct{ size, members, callers int }{{0, 8, 8}, {3, 3, 6}} {
		want[fmt.Sprint("AllReduce ", g.size)] = g.callers * bytes
		want[fmt.Sprint("AllGather ", g.size)] = g.callers * bytes
		want[fmt.Sprint("AllToAll ", g.size)] = g.callers * g.members * bytes
		want[fmt.Sprint("ReduceScatter ", g.size)] = g.callers * g.members * bytes
	}
	if d := cmp.Diff(want, calls); d != "" {
		t.Errorf("bytes of the inputs by function and group: %s", d)
	}
	// What all ranks get in a chain: everybody but its end sends all.
	total := int64(0)
	for message, n := range sent {
		var src, dst, size int64
		fmt.Sscanf(message, "%d>%d of %d", &src, &dst, &size)
		total += n * size
	}
	// 8 ranks and twice 3: a broadcast, a reduce, a gather and a scatter, then 8 messages of 5 bytes and one without
	// bytes.
	if want := int64(4*(7+2+2)*bytes + 8*5 + emptyBytes); total != want {
		t.Errorf("%d bytes are sent, want %d", total, want)
	}
}

// Durations in us add up, and an operation without a node keeps what it waits for.
func TestDurationsAndDependencies(t *testing.T) {
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: 1}, Ops: []workload.Op{
		{Kind: workload.Calc, Stream: "a", Nanos: 400, ID: 1}, {Kind: workload.Calc, Stream: "a", Nanos: 400},
		{Kind: workload.Calc, Stream: "a", Nanos: 400}, {Kind: workload.Calc, Stream: "b", Nanos: 7000},
		{Kind: workload.Coll, Stream: "n", Func: workload.AllReduce, Count: 1, Type: "int8", After: []int{1}, ID: 2},
		{Kind: workload.Calc, Stream: "b", After: []int{2}},
		{Kind: workload.Wait, After: []int{2}},
		{Kind: workload.Calc, Stream: "d"}, {Kind: workload.Calc, Stream: "d"},
		{Kind: workload.Wait},
		{Kind: workload.Calc, Stream: "n"},
	}}
	ranks, _ := written(t, w)
	var got []string
	for _, n := range ranks[0] {
		got = append(got, fmt.Sprint(n.micros, n.after))
	}
	want := []string{"0 []", "1 [0]", "0 [1]", "7 []", "0 [0 3]", "0 [0]", "0 [5]", "0 [0 2 4 6]"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Two large groups in a row do not write the square of their sizes, nor do many operations without a node.
func TestDependenciesAreFew(t *testing.T) {
	const n = 100
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: n}}
	var group workload.Op
	group.Kind = workload.Group
	for peer := 1; peer < n; peer++ {
		group.Ops = append(group.Ops, workload.Op{Kind: workload.Send, Peer: peer, Relative: true, Count: 1,
			Type: "int8"},
			workload.Op{Kind: workload.Recv, Peer: -peer, Relative: true, Count: 1, Type: "int8"})
	}
	w.Ops = append(w.Ops, group, group, workload.Op{Kind: workload.Step})
	for range 3000 {
		w.Ops = append(w.Ops, workload.Op{Kind: workload.Wait})
	}
	ranks, _ := written(t, w)
	for r, nodes := range ranks {
		edges := 0
		for _, node := range nodes {
			edges += len(node.after)
		}
		if edges > 3*4*n || len(nodes) > 2*2*n+5 {
			t.Errorf("rank %d: %d nodes with %d dependencies", r, len(nodes), edges)
		}
	}
}
