// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/internal/queue"
)

// sorted orders nodes such that each comes after those that it depends on, by id where that leaves a choice.
// Dependencies on nodes that are not there do not count: converters drop nodes.
func sorted(nodes []*node) ([]*node, error) {
	byID := make(map[uint64]int, len(nodes))
	for i, n := range nodes {
		if _, twice := byID[n.id]; twice {
			return nil, fmt.Errorf("two nodes have the id %d", n.id)
		}
		byID[n.id] = i
	}
	after := make([][]int, len(nodes))
	for i, n := range nodes {
		slices.Sort(n.after)
		n.after = slices.Compact(n.after)
		for _, d := range n.after {
			if at, ok := byID[d]; ok {
				after[i] = append(after[i], at)
			}
		}
	}
	order, stuck := queue.Order(after, func(a, b int) bool { return nodes[a].id < nodes[b].id })
	if len(stuck) > 0 {
		at := nodes[stuck[0]]
		return nil, fmt.Errorf("nodes depend on each other in a circle, among or before node %d, %q", at.id, at.name)
	}
	out := make([]*node, len(order))
	for i, n := range order {
		out[i] = nodes[n]
	}
	return out, nil
}
