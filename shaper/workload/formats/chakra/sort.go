// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// sorted orders nodes such that each comes after those that it depends on, by id where that leaves a choice. Dependencies on
// nodes that are not there do not count: converters drop nodes.
func sorted(nodes []*node) ([]*node, error) {
	byID := make(map[uint64]int, len(nodes))
	for i, n := range nodes {
		if _, twice := byID[n.id]; twice {
			return nil, fmt.Errorf("two nodes have the id %d", n.id)
		}
		byID[n.id] = i
	}
	waits := make([]int, len(nodes))
	followers := make([][]int, len(nodes))
	ready := &byNodeID{nodes: nodes}
	for i, n := range nodes {
		slices.Sort(n.after)
		n.after = slices.Compact(n.after)
		for _, d := range n.after {
			if at, ok := byID[d]; ok {
				waits[i]++
				followers[at] = append(followers[at], i)
			}
		}
		if waits[i] == 0 {
			heap.Push(ready, i)
		}
	}
	var order []*node
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int)
		order = append(order, nodes[i])
		for _, f := range followers[i] {
			if waits[f]--; waits[f] == 0 {
				heap.Push(ready, f)
			}
		}
	}
	if len(order) < len(nodes) {
		at := slices.IndexFunc(waits, func(n int) bool { return n > 0 })
		return nil, fmt.Errorf("nodes depend on each other in a circle, among or before node %d, %q", nodes[at].id, nodes[at].name)
	}
	return order, nil
}

// byNodeID is a heap of positions of nodes, by id.
type byNodeID struct {
	nodes []*node
	items []int
}

func (h *byNodeID) Len() int { return len(h.items) }
func (h *byNodeID) Less(i, j int) bool {
	return cmp.Less(h.nodes[h.items[i]].id, h.nodes[h.items[j]].id)
}
func (h *byNodeID) Swap(i, j int) { h.items[i], h.items[j] = h.items[j], h.items[i] }

// Push is for container/heap.
func (h *byNodeID) Push(x any) { h.items = append(h.items, x.(int)) }

// Pop is for container/heap.
func (h *byNodeID) Pop() any {
	last := h.items[len(h.items)-1]
	h.items = h.items[:len(h.items)-1]
	return last
}
