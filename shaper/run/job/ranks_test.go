// SPDX-License-Identifier: Apache-2.0

package job

import "testing"

func TestRanks(t *testing.T) {
	large := map[int]int{}
	for rank := range 80 {
		large[rank] = rank / 8
	}
	for _, c := range []struct {
		nodes map[int]int
		want  string
	}{
		{map[int]int{0: 0, 1: 0, 2: 1, 3: 1}, "4 ranks on 2 nodes: node0 ranks 0-1, node1 ranks 2-3"},
		{map[int]int{0: 0, 1: 1}, "2 ranks on 2 nodes: node0 rank 0, node1 rank 1"},
		{map[int]int{0: 1, 1: 1}, "2 ranks on 1 node: node1 ranks 0-1"},
		{map[int]int{0: 0, 1: 1, 2: 0, 3: 1, 4: 0, 5: 0}, "6 ranks on 2 nodes: node0 ranks 0,2,4-5, node1 ranks 1,3"},
		{map[int]int{0: 0}, "1 rank on 1 node: node0 rank 0"},
		{large, "80 ranks on 10 nodes: node0 ranks 0-7, node1 ranks 8-15, node2 ranks 16-23, node3 ranks 24-31, " +
			"node4 ranks 32-39, node5 ranks 40-47, node6 ranks 48-55, …, node9 ranks 72-79"},
	} {
		if got := Ranks(c.nodes); got != c.want {
			t.Errorf("%v: got %q, want %q", c.nodes, got, c.want)
		}
	}
}
